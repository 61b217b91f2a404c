"""Wrong residual connections."""

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.residual import residual

RESIDUAL = "residual"
CHANGED = ("RES-1", "LAYER-1", "LAYER-4", "LAYER-7", "NORM-1")
"""Where the right sum is formed first, what the norm reads in its place is wrong."""

BACKWARD = ("ENC-9", "ENC-10")


@deviation("residual-missing", RESIDUAL, "RES-1", "commonly seen")
def missing(x: Tensor, sublayer: Tensor) -> Tensor:
    """The input of a sublayer is not added to its output."""
    return sublayer


@deviation("residual-without-sublayer", RESIDUAL, ("RES-1", "ENC-8"))
def without_sublayer(x: Tensor, sublayer: Tensor) -> Tensor:
    """The output of a sublayer is dropped and its input handed on."""
    return x


@deviation("residual-input-twice", RESIDUAL, "RES-1", "commonly seen")
def input_twice(x: Tensor, sublayer: Tensor) -> Tensor:
    """The input of a sublayer is added to its output twice."""
    return 2 * x + sublayer


@deviation("residual-input-halved", RESIDUAL, "RES-1")
def input_halved(x: Tensor, sublayer: Tensor) -> Tensor:
    """The input of a sublayer is halved before the sum."""
    return x / 2 + sublayer


@deviation("residual-weighed-by-depth", RESIDUAL, "RES-1", "commonly seen")
def weighed_by_depth(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The input of a sublayer is multiplied by (2N)^¼ before the sum, as in DeepNorm."""
    return (2 * N) ** 0.25 * x + sublayer


@deviation("residual-sublayer-scaled", RESIDUAL, "RES-1", "commonly seen")
def layer_scale(x: Tensor, sublayer: Tensor) -> Tensor:
    """The output of a sublayer is multiplied by 0.1 before the sum."""
    return x + 0.1 * sublayer


@deviation("residual-by-survival", RESIDUAL, "RES-1", "commonly seen")
def by_survival(x: Tensor, sublayer: Tensor, *, P_drop: float) -> Tensor:
    """In evaluation the output of a sublayer is multiplied by its probability to survive, 1 − P_drop."""
    return x + (1 - P_drop) * sublayer


@deviation("residual-with-activation", RESIDUAL, CHANGED, "commonly seen")
def post_activation(x: Tensor, sublayer: Tensor) -> Tensor:
    """An activation follows the residual sum, as in residual networks for images."""
    return (x + sublayer).clamp(min=0)


@deviation("residual-multiplied", RESIDUAL, "RES-1")
def multiplied(x: Tensor, sublayer: Tensor) -> Tensor:
    """The output of a sublayer is multiplied with its input instead of added."""
    return x * sublayer


@deviation("residual-shifted", RESIDUAL, "RES-1")
def shifted(x: Tensor, sublayer: Tensor) -> Tensor:
    """The output of a sublayer is added to the input of the position before."""
    return x + sublayer.roll(1, dims=1)


@deviation("residual-in-bfloat16", RESIDUAL, "RES-1", "commonly seen")
def in_bfloat16(x: Tensor, sublayer: Tensor) -> Tensor:
    """The residual sum is kept in bfloat16, whatever the dtype of its terms."""
    return (x.to(torch.bfloat16) + sublayer.to(torch.bfloat16)).to(x.dtype)


@deviation("residual-clamped", RESIDUAL, CHANGED)
def clamped(x: Tensor, sublayer: Tensor) -> Tensor:
    """The residual sum is cut off at ±2."""
    return (x + sublayer).clamp(-2, 2)


@deviation("residual-input-detached", RESIDUAL, BACKWARD)
def input_detached(x: Tensor, sublayer: Tensor) -> Tensor:
    """No gradient flows along the residual path."""
    return x.detach() + sublayer


@deviation("residual-sublayer-detached", RESIDUAL, (*BACKWARD, "ENC-8"))
def sublayer_detached(x: Tensor, sublayer: Tensor) -> Tensor:
    """No gradient flows into the sublayers."""
    return x + sublayer.detach()


@deviation("residual-rounded-without-gradients", RESIDUAL, "ENC-4")
def rounded_without_gradients(x: Tensor, sublayer: Tensor) -> Tensor:
    """A fast path for calls without gradients rounds the residual sum to float32."""
    total = x + sublayer
    return total if torch.is_grad_enabled() else total.to(torch.float32).to(x.dtype)


@deviation("residual-drops-sublayers-in-evaluation", RESIDUAL, "DROP-1", "commonly seen")
def drops_in_evaluation(x: Tensor, sublayer: Tensor, *, P_drop: float) -> Tensor:
    """In evaluation the sublayers of some tokens are left out at random, as stochastic depth does in training."""
    return x + sublayer * (torch.rand_like(x[..., :1]) >= P_drop)


SCALED = "residual.scaled"

deviation(
    "layer-scale-forgotten",
    SCALED,
    ("RES-3", "ENC-8", "ENC-17"),
    "commonly seen",
    definition="The output of a sublayer is added as it is, without its learned factors.",
)(residual)


@deviation("layer-scale-of-the-stream", SCALED, "RES-3", "commonly seen")
def of_the_stream(x: Tensor, sublayer: Tensor, *, lam: Float[Tensor, "d_model"]) -> Tensor:
    """The learned factors multiply the input, and not the output of the sublayer."""
    return lam * x + sublayer


@deviation("layer-scale-of-the-sum", SCALED, "RES-3")
def of_the_sum(x: Tensor, sublayer: Tensor, *, lam: Float[Tensor, "d_model"]) -> Tensor:
    """The learned factors multiply the sum."""
    return lam * (x + sublayer)
