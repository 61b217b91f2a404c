"""Chapter 8, first half: the residual connection."""

import math
from collections.abc import Mapping

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


POST_LN: Mapping[str, str] = {"layer": "post-ln"}
"""The order of norms with which DeepNorm was published: elsewhere nothing scales the stream down again."""


def alpha(N: int) -> float:
    """Return the weight of the stream in an encoder of N layers alone."""
    return math.pow(2 * N, 0.25)


def alpha_with_decoder(N: int, M: int) -> float:
    """Return the weight of the stream in an encoder of N layers whose output a decoder of M layers reads."""
    return 0.81 * math.pow(N**4 * M, 0.0625)


@requirement(
    "RES-5",
    "Of independent terms of variance 1 the sublayer's input has the share √(2N)/(1 + √(2N)) of the sum's variance; "
    "a sum without weights leaves it one half.",
    algebraic=True,
)
@requirement("RES-4", "The sublayer's own input is added to its output with weight (2N)^¼, in both sublayers.")
@equation("residual.deepnorm", slot="residual", to_be_declared=True, but_beside=POST_LN)
def deepnorm(
    x: Float[Tensor, "*axes d_model"], sublayer: Float[Tensor, "*axes d_model"], *, N: int
) -> Float[Tensor, "*axes d_model"]:
    r"""Residual connection of DeepNorm. Wang et al. 2022a (DeepNet), figure 2 and §4.1: an encoder alone.

    $$ y = \alpha \, x + \mathrm{Sublayer}(x), \qquad \alpha = (2N)^{1/4} $$

    A norm follows: DeepNorm is Post-LN. The deeper the encoder, the less a single sublayer changes the stream. In
    training W_V, W_O, W_1 and W_2 start smaller, divided by (8N)^¼, which does not change what is computed.

    Undefined: nothing. (Beside another order of norms this is a defect, and has to be declared.)
    """
    return alpha(N) * x + sublayer


@requirement(
    "RES-6", "The sublayer's own input is added to its output with weight 0.81 (N⁴M)^(1/16), in both sublayers."
)
@equation("residual.deepnorm_with_decoder", slot="residual", to_be_declared=True, but_beside=POST_LN)
def deepnorm_with_decoder(
    x: Float[Tensor, "*axes d_model"], sublayer: Float[Tensor, "*axes d_model"], *, N: int, M: int
) -> Float[Tensor, "*axes d_model"]:
    r"""Residual connection of DeepNorm before a decoder. Wang et al. 2022a (DeepNet), figure 2 and §4.1.

    $$ y = \alpha \, x + \mathrm{Sublayer}(x), \qquad \alpha = 0.81 \, (N^4 M)^{1/16} $$

    M is the number of the decoder's layers, which no parameter of the encoder shows.

    Undefined: nothing. (Beside another order of norms this is a defect, and has to be declared.)
    """
    return alpha_with_decoder(N, M) * x + sublayer
