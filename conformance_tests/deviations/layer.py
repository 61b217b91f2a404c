"""Wrong orders of sublayer, residual and norm where Post-LN is due; for other orders see the files named below."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import deviation, further_layers, pre_ln
from encoder_spec import layer

__all__ = ["further_layers", "pre_ln"]

POST, PRE = "layer.post_ln", "layer.pre_ln"

F: TypeAlias = Callable[..., Tensor]

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "layer-pre-ln",
    POST,
    "LAYER-1",
    "harvardnlp/annotated-transformer#13",
    definition="The layers are Pre-LN: each sublayer reads the normed input.",
)(layer.pre_ln)
deviation(
    "layer-post-ln",
    PRE,
    "LAYER-4",
    "commonly seen",
    definition="The layers are Post-LN: a norm follows each residual sum.",
)(layer.post_ln)

deviation(
    "post-ln-norm-before-sum",
    POST,
    ("LAYER-1", "RES-1", "RES-4"),
    "lucidrains/vit-pytorch#244",
    definition="Each sublayer's output is normed before the residual sum, which is not normed.",
)(layer.res_post_ln)
deviation(
    "pre-ln-norm-behind-sublayer",
    PRE,
    "LAYER-4",
    "lucidrains/vit-pytorch#244",
    definition="Each sublayer reads its input as it is, and its output is normed before the residual sum.",
)(layer.res_post_ln)
deviation(
    "pre-ln-parallel-sublayers",
    PRE,
    "LAYER-4",
    "commonly seen",
    definition="Both sublayers read the layer's input, each through its norm.",
)(layer.parallel_two_norms)

# Where Post-LN is due --------------------------------------------------------------------


@deviation("post-ln-attention-residual-missing", POST, ("LAYER-1", "RES-1", "RES-4"), "commonly seen")
def post_attention_alone(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_2: F
) -> Tensor:
    """The attention's input is not added to its output."""
    x = norm_1(multihead(x, keep))
    return norm_2(residual_2(x, ffn(x)))


@deviation("post-ln-ffn-residual-missing", POST, ("LAYER-1", "RES-1", "RES-4"), "commonly seen")
def post_ffn_alone(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F) -> Tensor:
    """The feed-forward network's input is not added to its output."""
    x = norm_1(residual_1(x, multihead(x, keep)))
    return norm_2(ffn(x))


@deviation("post-ln-ffn-residual-from-layer-input", POST, ("LAYER-1", "RES-1", "RES-4"), "JanSchm/CapMarket#8")
def post_far_residual(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer's input is added to the output of the feed-forward network, not the network's."""
    y = norm_1(residual_1(x, multihead(x, keep)))
    return norm_2(residual_2(x, ffn(y)))


@deviation("post-ln-one-norm", POST, ("LAYER-1", "LAYER-3", "ENC-17"), "bentrevett/pytorch-seq2seq#100")
def post_one_norm(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, residual_1: F, residual_2: F) -> Tensor:
    """Both sublayers of a layer share one norm."""
    x = norm_1(residual_1(x, multihead(x, keep)))
    return norm_1(residual_2(x, ffn(x)))


@deviation("post-ln-first-norm-twice", POST, ("LAYER-1", "ENC-8", "NORM-3"), "ml-explore/mlx#1636")
def post_first_norm_twice(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The first norm serves both sublayers; the second one is never called."""
    x = norm_1(residual_1(x, multihead(x, keep)))
    return norm_1(residual_2(x, ffn(x)))


@deviation("post-ln-norms-exchanged", POST, ("LAYER-1", "NORM-3"))
def post_exchanged(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The two norms of a layer stand in each other's place."""
    x = norm_2(residual_1(x, multihead(x, keep)))
    return norm_1(residual_2(x, ffn(x)))


@deviation("post-ln-ffn-first", POST, "LAYER-1")
def post_ffn_first(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The feed-forward network precedes the attention."""
    x = norm_2(residual_2(x, ffn(x)))
    return norm_1(residual_1(x, multihead(x, keep)))


@deviation("post-ln-parallel-sublayers", POST, ("LAYER-1", "ENC-8"))
def post_parallel(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """Both sublayers read the layer's input, and one norm follows the sum of the three."""
    return norm_1(residual_2(residual_1(x, multihead(x, keep)), ffn(x)))


@deviation("post-ln-attention-missing", POST, ("LAYER-1", "ENC-8", "ENC-11"))
def post_no_attention(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_2: F) -> Tensor:
    """The layer has no attention: its feed-forward network comes at once."""
    return norm_2(residual_2(x, ffn(norm_1(x))))


@deviation("post-ln-ffn-missing", POST, ("LAYER-1", "ENC-8"))
def post_no_ffn(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F) -> Tensor:
    """The layer has no feed-forward network."""
    return norm_2(norm_1(residual_1(x, multihead(x, keep))))


@deviation("post-ln-first-sublayer-pre-ln", POST, "LAYER-1")
def post_half(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The attention is Pre-LN, the feed-forward network Post-LN."""
    x = residual_1(x, multihead(norm_1(x), keep))
    return norm_2(residual_2(x, ffn(x)))


@deviation("post-ln-ffn-reads-attention", POST, "LAYER-1", "commonly seen")
def post_ffn_reads_attention(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The feed-forward network reads the attention's output without residual and norm."""
    y = multihead(x, keep)
    return norm_2(residual_2(norm_1(residual_1(x, y)), ffn(y)))


@deviation("post-ln-layer-residual", POST, ("LAYER-1", "ENC-2"))
def post_outer_residual(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer's input is added to its output once more."""
    y = norm_1(residual_1(x, multihead(x, keep)))
    return residual_2(x, norm_2(residual_2(y, ffn(y))))


@deviation("post-ln-mask-not-handed-on", POST, ("LAYER-1", "MASK-1", "MASK-2"), "keras-team/keras-hub#2220")
def post_unmasked(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """The layer does not hand its mask on to the attention."""
    x = norm_1(residual_1(x, multihead(x, torch.ones_like(keep))))
    return norm_2(residual_2(x, ffn(x)))


@deviation("post-ln-attention-detached", POST, ("LAYER-1", "ENC-9", "ENC-10", "ENC-8"))
def post_detached(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual_1: F, residual_2: F
) -> Tensor:
    """No gradient flows through the attention of a layer."""
    x = norm_1(residual_1(x, multihead(x, keep).detach()))
    return norm_2(residual_2(x, ffn(x)))
