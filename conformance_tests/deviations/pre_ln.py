"""Wrong orders of sublayer, residual and norm where Pre-LN is due."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import deviation

PRE = "layer.pre_ln"

F: TypeAlias = Callable[..., Tensor]


@deviation("pre-ln-residual-from-normed", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17"), "pytorch/pytorch#61165")
def pre_normed_residual(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The normed input is added to a sublayer's output, not the input before the norm."""
    x = norm_1(x)
    x = norm_2(residual_1(x, multihead(x, keep)))
    return residual_2(x, ffn(x))


@deviation("pre-ln-attention-residual-missing", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17"), "commonly seen")
def pre_attention_alone(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_2: F
) -> Tensor:
    """The attention's input is not added to its output."""
    x = multihead(norm_1(x), keep)
    return residual_2(x, ffn(norm_2(x)))


@deviation("pre-ln-ffn-residual-missing", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17"), "commonly seen")
def pre_ffn_alone(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F) -> Tensor:
    """The feed-forward network's input is not added to its output."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return ffn(norm_2(x))


@deviation("pre-ln-ffn-residual-from-layer-input", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17"), "JanSchm/CapMarket#8")
def pre_far_residual(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer's input is added to the output of the feed-forward network, not the sum before it."""
    y = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, ffn(norm_2(y)))


@deviation("pre-ln-norms-on-either-side", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17"))
def pre_sandwich(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """Each sublayer's output is normed as well as its input, by the same norm."""
    x = residual_1(x, norm_1(multihead(norm_1(x), keep)))
    return residual_2(x, norm_2(ffn(norm_2(x))))


@deviation("pre-ln-one-norm", PRE, ("LAYER-4", "ENC-17"), "bentrevett/pytorch-seq2seq#100")
def pre_one_norm(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, residual_1: F, residual_2: F) -> Tensor:
    """Both sublayers of a layer share one norm."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, ffn(norm_1(x)))


@deviation("pre-ln-first-norm-twice", PRE, ("LAYER-4", "ENC-8", "NORM-3", "NORM-10"), "ml-explore/mlx#1636")
def pre_first_norm_twice(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The first norm serves both sublayers; the second one is never called."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, ffn(norm_1(x)))


@deviation("pre-ln-norms-exchanged", PRE, ("LAYER-4", "NORM-3", "NORM-10"))
def pre_exchanged(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The two norms of a layer stand in each other's place."""
    x = residual_1(x, multihead(norm_2(x), keep))
    return residual_2(x, ffn(norm_1(x)))


@deviation("pre-ln-ffn-first", PRE, "LAYER-4")
def pre_ffn_first(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The feed-forward network precedes the attention."""
    x = residual_2(x, ffn(norm_2(x)))
    return residual_1(x, multihead(norm_1(x), keep))


@deviation("pre-ln-attention-missing", PRE, ("LAYER-4", "ENC-8", "ENC-11"))
def pre_no_attention(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer has no attention."""
    return residual_2(x, ffn(norm_2(residual_1(x, norm_1(x)))))


@deviation("pre-ln-ffn-missing", PRE, ("LAYER-4", "ENC-8", "RES-1"))
def pre_no_ffn(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer has no feed-forward network."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return residual_2(x, norm_2(x))


@deviation("pre-ln-second-sublayer-post-ln", PRE, "LAYER-4")
def pre_half(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The attention is Pre-LN, the feed-forward network Post-LN."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return norm_2(residual_2(x, ffn(x)))


@deviation("pre-ln-sum-normed", PRE, ("LAYER-4", "ENC-2"))
def pre_sum_normed(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer's output is normed by its first norm once more."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return norm_1(residual_2(x, ffn(norm_2(x))))


@deviation("pre-ln-mask-not-handed-on", PRE, ("LAYER-4", "MASK-1", "MASK-2"), "keras-team/keras-hub#2220")
def pre_unmasked(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer does not hand its mask on to the attention."""
    x = residual_1(x, multihead(norm_1(x), torch.ones_like(keep)))
    return residual_2(x, ffn(norm_2(x)))


@deviation("pre-ln-attention-detached", PRE, ("LAYER-4", "ENC-9", "ENC-10", "ENC-8"))
def pre_detached(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """No gradient flows through the attention of a layer."""
    x = residual_1(x, multihead(norm_1(x), keep).detach())
    return residual_2(x, ffn(norm_2(x)))


@deviation("pre-ln-sums-divided-by-root-two", PRE, ("LAYER-4", "RES-1", "RES-3", "ENC-17", "ENC-2"), "commonly seen")
def pre_root_two(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The residual sums are divided by √2."""
    x = residual_1(x, multihead(norm_1(x), keep)) * 0.5**0.5
    return residual_2(x, ffn(norm_2(x))) * 0.5**0.5


BARE = "layer.pre_ln_bare"


@deviation("pre-ln-bare-ffn-unnormed", BARE, ("LAYER-5", "ENC-8"))
def bare_unnormed(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_2: F, residual_1: F, residual_2: F) -> Tensor:
    """The feed-forward network reads the sum without a norm, too."""
    x = residual_1(x, multihead(x, keep))
    return residual_2(x, ffn(x))


@deviation("pre-ln-bare-second-norm-behind", BARE, "LAYER-5")
def bare_behind(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_2: F, residual_1: F, residual_2: F) -> Tensor:
    """The second norm follows the feed-forward network, instead of standing before it."""
    x = residual_1(x, multihead(x, keep))
    return norm_2(residual_2(x, ffn(x)))
