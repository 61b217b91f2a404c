"""Chapter 8, second half: dropout, whose randomness is a slot of its own."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("DROP-6", "In evaluation dropout is the identity: what reads a value behind it reads the value itself.")
@requirement("DROP-1", "In evaluation repeated calls give equal outputs.")
@equation("dropout.identity", slot="dropout", variant="none")
def identity(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Dropout in evaluation. Srivastava et al. 2014, §4, in its inverted form; S2 §3.5.

    $$ \mathrm{Dropout}(x) = x $$

    Undefined: nothing.
    """
    return x


@requirement(
    "DROP-4", "In a layer it acts in three places: weights, inside the FFN, and each sublayer's output before the sum."
)
@requirement("DROP-3", "Its expectation is the identity: E[Dropout(x)] = x.", algebraic=True)
@requirement("DROP-2", "Kept entries are divided by 1 − P_drop, dropped ones are 0.")
@equation("dropout", slot="dropout", variant="inverted")
def dropout(x: Float[Tensor, "*axes"], *, P_drop: float, noise: Callable[..., Tensor]) -> Float[Tensor, "*axes"]:
    r"""Inverted dropout. Srivastava et al. 2014, §4; Vaswani et al. 2017, §5.4; S2 §3.5, S3 §7.

    $$ \mathrm{Dropout}(x) = \frac{m \odot x}{1 - P_\text{drop}}, \qquad m = [u \ge P_\text{drop}] $$

    0 ≤ P_drop < 1; u is the noise.

    Undefined: nothing.
    """
    demand(0 <= P_drop < 1, f"dropout: P_drop must lie in [0, 1), but is {P_drop}")
    m = noise(x) >= P_drop
    return m * x / (1 - P_drop)


@requirement("DROP-5", "The noise is drawn anew for every entry and every call, uniformly from [0, 1).")
@equation("dropout.noise", slot="noise", variant="uniform")
def noise(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Noise. Srivastava et al. 2014, §4.

    $$ u \sim \mathcal{U}[0, 1)^{\text{shape}(x)} $$

    Drawn from torch's generator, so that ``torch.manual_seed`` reproduces it.

    Undefined: nothing.
    """
    return torch.rand_like(x)
