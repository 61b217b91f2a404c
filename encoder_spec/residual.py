"""Chapter 8, first half: the residual connection."""

from jaxtyping import Float
from torch import Tensor

from encoder_spec.equation import equation, requirement


@requirement(
    "RES-2", "The Jacobian is I + J, with J that of the sublayer: where J vanishes, I is left.", algebraic=True
)
@requirement("RES-1", "The sublayer's own input is added to its output, with weight 1.")
@equation("residual", slot="residual", variant="sum")
def residual(
    x: Float[Tensor, "*axes d_model"], sublayer: Float[Tensor, "*axes d_model"]
) -> Float[Tensor, "*axes d_model"]:
    r"""Residual connection. He et al. 2015, eq. (1); Vaswani et al. 2017, §3.1; S0 §4, S1 §5, S2 §3.2, S3 §3, S4 §4.2.

    $$ y = x + \mathrm{Sublayer}(x), \qquad \frac{\partial y}{\partial x} = I + J $$

    Both terms have the same shape, which is why every sublayer keeps the width.

    Undefined: nothing.
    """
    return x + sublayer


@requirement("RES-3", "Each feature of the sublayer's output has its own learned factor; the input has none.")
@equation("residual.scaled", slot="residual", variant="scaled")
def scaled(
    x: Float[Tensor, "*axes d_model"], sublayer: Float[Tensor, "*axes d_model"], *, lam: Float[Tensor, "d_model"]
) -> Float[Tensor, "*axes d_model"]:
    r"""Residual connection with LayerScale. Touvron et al. 2021 (CaiT), eq. (4).

    $$ y = x + \lambda \odot \mathrm{Sublayer}(x) $$

    Each sublayer of each layer has its own λ. It starts near 0, so that a deep stack begins as the identity.

    Undefined: nothing.
    """
    return x + lam * sublayer
