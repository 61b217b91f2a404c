"""Wrong residual connections."""

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.residual import alpha, alpha_with_decoder, deepnorm, deepnorm_with_decoder, residual

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


deviation(
    "residual-weighed-by-depth",
    RESIDUAL,
    "RES-1",
    "commonly seen",
    definition="The input of a sublayer is multiplied by (2N)^¼ before the sum, as in DeepNorm.",
)(deepnorm)


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


DEEPNORM, WITH_DECODER = "residual.deepnorm", "residual.deepnorm_with_decoder"
WEIGHED = (DEEPNORM, WITH_DECODER)
WEIGHT = ("RES-4", "RES-6")

deviation(
    "deepnorm-forgotten",
    WEIGHED,
    WEIGHT,
    "commonly seen",
    definition="The input of a sublayer is added with weight 1, where that of DeepNorm belongs.",
)(residual)
deviation(
    "deepnorm-forgotten-behind-attention",
    WEIGHED,
    WEIGHT,
    place="residual_1",
    definition="The attention's input is added with weight 1, the feed-forward network's alone with that of DeepNorm.",
)(residual)
deviation(
    "deepnorm-forgotten-behind-ffn",
    WEIGHED,
    WEIGHT,
    place="residual_2",
    definition="The feed-forward network's input is added with weight 1, the attention's alone with that of DeepNorm.",
)(residual)
deviation(
    "deepnorm-without-decoder",
    WITH_DECODER,
    "RES-6",
    definition="The weight of the input is that of an encoder alone, though a decoder reads the output.",
)(deepnorm)
deviation(
    "deepnorm-with-a-decoder",
    DEEPNORM,
    "RES-4",
    definition="The weight of the input is that of an encoder before a decoder, though there is no decoder.",
)(deepnorm_with_decoder)


@deviation("deepnorm-square-root", DEEPNORM, "RES-4")
def square_root(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The weight of the input is the square root of 2N, not the fourth root."""
    return (2 * N) ** 0.5 * x + sublayer


@deviation("deepnorm-of-half-the-depth", DEEPNORM, "RES-4")
def of_half_the_depth(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The weight of the input is N^¼: it counts layers, where sublayers are to be counted."""
    return N**0.25 * x + sublayer


@deviation("deepnorm-of-twelve-layers", DEEPNORM, "RES-4")
def of_twelve_layers(x: Tensor, sublayer: Tensor) -> Tensor:
    """The weight of the input is that of twelve layers, however many there are."""
    return alpha(12) * x + sublayer


@deviation("deepnorm-of-a-decoder", DEEPNORM, "RES-4")
def of_a_decoder(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The weight of the input is (3N)^¼, which belongs to a decoder beside an encoder."""
    return (3 * N) ** 0.25 * x + sublayer


@deviation("deepnorm-of-the-sublayer", DEEPNORM, "RES-4")
def of_the_sublayer(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The output of a sublayer is multiplied by (2N)^¼, and not its input."""
    return x + alpha(N) * sublayer


@deviation("deepnorm-with-beta", DEEPNORM, "RES-4")
def with_beta(x: Tensor, sublayer: Tensor, *, N: int) -> Tensor:
    """The output of a sublayer is multiplied by (8N)^(−¼), which belongs to the initial weights alone."""
    return alpha(N) * x + (8 * N) ** -0.25 * sublayer


@deviation("deepnorm-with-decoder-exchanged", WITH_DECODER, "RES-6")
def exchanged(x: Tensor, sublayer: Tensor, *, N: int, M: int) -> Tensor:
    """The depths of encoder and decoder stand in each other's place: 0.81 (NM⁴)^(1/16)."""
    return alpha_with_decoder(M, N) * x + sublayer


@deviation("deepnorm-with-decoder-constant-of-beta", WITH_DECODER, "RES-6")
def constant_of_beta(x: Tensor, sublayer: Tensor, *, N: int, M: int) -> Tensor:
    """The constant before the root is 0.87, which belongs to the initial weights, and not 0.81."""
    return alpha_with_decoder(N, M) * 0.87 / 0.81 * x + sublayer
