"""Wrong orders of sublayer, residual and norm where results are normed, or sublayers stand in parallel."""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec import layer

RES_POST, SANDWICH = "layer.res_post_ln", "layer.sandwich_ln"
PARALLEL, TWO_NORMS = "layer.parallel", "layer.parallel_two_norms"

F: TypeAlias = Callable[..., Tensor]

# Normed results ----------------------------------------------------------------------------

deviation(
    "res-post-ln-sum-normed",
    RES_POST,
    "LAYER-6",
    definition="The layers are Post-LN: the sum is normed, and not what is added to it.",
)(layer.post_ln)


@deviation("sandwich-inner-norms-exchanged", SANDWICH, "LAYER-7")
def norms_by_their_names(
    x: Tensor,
    keep: Tensor,
    *,
    multihead: F,
    ffn: F,
    norm_1: F,
    norm_2: F,
    norm_attention: F,
    norm_ffn: F,
    residual_1: F,
    residual_2: F,
) -> Tensor:
    """The norms behind the attention and before the network are exchanged; ``post_attention_layernorm`` invites it."""
    x = residual_1(x, norm_2(multihead(norm_1(x), keep)))
    return residual_2(x, norm_ffn(ffn(norm_attention(x))))


@deviation("sandwich-results-not-normed", SANDWICH, ("LAYER-7", "ENC-8"))
def results_not_normed(
    x: Tensor,
    keep: Tensor,
    *,
    multihead: F,
    ffn: F,
    norm_1: F,
    norm_2: F,
    norm_attention: F,
    norm_ffn: F,
    residual_1: F,
    residual_2: F,
) -> Tensor:
    """The outputs of the sublayers are added without a norm: the layers are Pre-LN, and two norms are never called."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, ffn(norm_2(x)))


@deviation("sandwich-sums-normed", SANDWICH, "LAYER-7")
def sums_normed(
    x: Tensor,
    keep: Tensor,
    *,
    multihead: F,
    ffn: F,
    norm_1: F,
    norm_2: F,
    norm_attention: F,
    norm_ffn: F,
    residual_1: F,
    residual_2: F,
) -> Tensor:
    """The second norm of each sublayer is that of the sum, and not of what is added."""
    x = norm_attention(residual_1(x, multihead(norm_1(x), keep)))
    return norm_ffn(residual_2(x, ffn(norm_2(x))))


# In parallel -------------------------------------------------------------------------------


@deviation("parallel-in-turn", PARALLEL, "LAYER-8")
def in_turn(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, residual_1: F, residual_2: F) -> Tensor:
    """The network reads the sum with what the attention gives, through the norm of both."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, ffn(norm_1(x)))


@deviation("parallel-ffn-unnormed", PARALLEL, "LAYER-8")
def ffn_unnormed(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, residual_1: F, residual_2: F) -> Tensor:
    """The network reads the layer's input without its norm."""
    return residual_2(residual_1(x, multihead(norm_1(x), keep)), ffn(x))


@deviation("parallel-sum-from-normed", PARALLEL, "LAYER-8")
def from_normed(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, residual_1: F, residual_2: F) -> Tensor:
    """The normed input is added to what the sublayers give, and not the input."""
    y = norm_1(x)
    return residual_2(residual_1(y, multihead(y, keep)), ffn(y))


deviation(
    "two-parallel-sublayers-in-turn",
    TWO_NORMS,
    "LAYER-9",
    definition="The layers are Pre-LN: the network reads the sum with what the attention gives.",
)(layer.pre_ln)


@deviation("two-parallel-sublayers-with-one-norm", TWO_NORMS, ("LAYER-9", "ENC-8"))
def one_norm(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The first norm serves both sublayers; the second one is never called."""
    y = norm_1(x)
    return residual_2(residual_1(x, multihead(y, keep)), ffn(y))
