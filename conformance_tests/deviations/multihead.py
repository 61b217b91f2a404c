"""Wrong heads: split, merged or projected another way."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation, ranks
from encoder_spec.multihead import output_without_bias

__all__ = ["ranks"]

F = Callable[..., Tensor]

SPLIT, GROUPS, MERGE = "multihead.split", "multihead.groups", "multihead.concat"
AFFINE, LINEAR, MULTIHEAD = "multihead.output", "multihead.output_without_bias", "multihead"


@deviation(
    "heads-split-without-transpose",
    SPLIT,
    ("MH-1", "ATT-3", "MH-7", "ROT-2", "ROT-5"),
    ("reczoo/FuxiCTR#30", "hyunwoongko/transformer#15"),
)
def split_by_view(X: Tensor, *, h: int) -> Tensor:
    """(B, n, h·d) is viewed as (B, h, n, d), so that heads mix positions."""
    return X.reshape(X.shape[0], h, X.shape[1], -1)


@deviation(
    "heads-interleaved", SPLIT, ("MH-1", "ATT-3", "ATT-5", "ATT-14", "ATT-24", "ROT-2", "ROT-5"), "commonly seen"
)
def interleaved(X: Tensor, *, h: int) -> Tensor:
    """Head i holds every h-th column instead of a block of them."""
    return X.unflatten(-1, (-1, h)).movedim(-1, -3)


@deviation("first-head-alone", SPLIT, ("MH-1", "ATT-3", "ATT-5", "ATT-14", "ATT-24", "ROT-2", "ROT-5"))
def first_head(X: Tensor, *, h: int) -> Tensor:
    """Every head gets the columns of the first."""
    heads = X.unflatten(-1, (h, -1)).transpose(-2, -3)
    return heads[:, :1].expand_as(heads)


@deviation(
    "heads-across-the-batch", SPLIT, ("MH-1", "ATT-3", "ENC-5"), "gazelle93/Transformer-Various-Positional-Encoding#1"
)
def across_the_batch(X: Tensor, *, h: int) -> Tensor:
    """Heads and samples are exchanged: (h, B, …) is read as (B, h, …)."""
    heads = X.unflatten(-1, (h, -1)).movedim(-2, 0)
    return heads.reshape(X.shape[0], h, *heads.shape[2:])


@deviation("grouped-queries-without-output-map", "multihead.grouped", ("ENC-17", "MH-11"))
def without_output_map(
    X: Tensor, keep: Tensor, *, projections: F, split: F, groups: F, attention: F, merge: F
) -> Tensor:
    """The heads stand side by side, and no map follows."""
    Q, K, V = projections(X)
    return merge(attention(split(Q), groups(K), groups(V), keep))


@deviation("groups-in-turn", GROUPS, ("MH-9", "ATT-3", "ROT-2"), "commonly seen")
def in_turn(X: Tensor, *, h: int, g: int) -> Tensor:
    """Head i reads key and value head i mod g: they are repeated as a whole, not each for its neighbours."""
    return X.unflatten(-1, (g, -1)).transpose(-2, -3)[:, torch.arange(h) % g]


@deviation("first-group-alone", GROUPS, ("MH-9", "ATT-3", "ROT-2"))
def first_group(X: Tensor, *, h: int, g: int) -> Tensor:
    """Every head reads the first head of keys and values."""
    return X.unflatten(-1, (g, -1)).transpose(-2, -3)[:, :1].expand(-1, h, -1, -1)


@deviation(
    "heads-merged-without-transpose", MERGE, "MH-3", ("jsbaan/transformer-from-scratch#6", "meta-pytorch/opacus#825")
)
def merged_by_view(heads: Tensor) -> Tensor:
    """(B, h, n, d) is viewed as (B, n, h·d), so that positions mix heads."""
    return heads.reshape(heads.shape[0], heads.shape[-2], -1)


@deviation("heads-averaged", MERGE, "MH-3")
def averaged(heads: Tensor) -> Tensor:
    """Each head is replaced by the average of all heads."""
    return heads.mean(-3, keepdim=True).expand_as(heads).transpose(-2, -3).flatten(-2)


@deviation(
    "heads-merged-across-the-batch", MERGE, ("MH-3", "ENC-5"), "gazelle93/Transformer-Various-Positional-Encoding#1"
)
def merged_across_the_batch(heads: Tensor) -> Tensor:
    """(B, h, n, d) is read as (h, B, n, d) when the heads are merged."""
    B, h, n, d = heads.shape
    return heads.reshape(h, B, n, d).movedim(0, -2).flatten(-2)


@deviation("last-head-dropped", MERGE, "MH-3")
def last_head_dropped(heads: Tensor) -> Tensor:
    """The last head is left out: its place holds zeros."""
    kept = torch.cat([heads[:, :-1], 0 * heads[:, -1:]], dim=1)
    return kept.transpose(-2, -3).flatten(-2)


deviation(
    "output-without-bias",
    AFFINE,
    ("ENC-17", "MH-4", "MH-8"),
    "commonly seen",
    definition="The output projection has no bias.",
)(output_without_bias)


@deviation("output-before-projection", AFFINE, ("MH-4", "RES-1"), "ethen8181/machine-learning#13")
def before_projection(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]) -> Tensor:
    """The value before the output projection is returned."""
    return C


@deviation("linear-output-before-projection", LINEAR, ("MH-5", "RES-1"), "ethen8181/machine-learning#13")
def before_linear_projection(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"]) -> Tensor:
    """The value before the output projection, which has no bias, is returned."""
    return C


@deviation("output-absent", (AFFINE, LINEAR), ("ENC-17", "MH-8"), ("Kyubyong/transformer#117", "d2l-ai/d2l-en#439"))
def absent(C: Tensor) -> Tensor:
    """There is no output projection: the heads, side by side, are the result."""
    return C


@deviation("output-transposed", AFFINE, "MH-4", "commonly seen")
def output_transposed(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]) -> Tensor:
    """The heads are multiplied by W_Oᵀ."""
    return C @ W_O.mT + b_O


@deviation("linear-output-transposed", LINEAR, "MH-5", "commonly seen")
def linear_output_transposed(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"]) -> Tensor:
    """The heads are multiplied by W_Oᵀ, without a bias."""
    return C @ W_O.mT


@deviation("output-bias-for-each-head", AFFINE, "MH-4")
def bias_for_each_head(
    C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"], h: int
) -> Tensor:
    """The bias is added once for each head."""
    return C @ W_O + h * b_O


@deviation("output-bias-forgotten", AFFINE, ("MH-4", "ENC-8"))
def bias_forgotten(C: Tensor, *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]) -> Tensor:
    """The bias of the output projection exists and is never added."""
    return C @ W_O


@deviation("heads-not-split", MULTIHEAD, ("ATT-3", "MH-1", "ENC-2"), "commonly seen")
def not_split(
    X: Tensor,
    keep: Tensor,
    *,
    projections: Callable[..., tuple[Tensor, Tensor, Tensor]],
    split: Callable[..., Tensor],
    attention: Callable[..., Tensor],
    merge: Callable[..., Tensor],
    output: Callable[..., Tensor],
) -> Tensor:
    """One head of the whole width stands in for all heads."""
    Q, K, V = projections(X)
    return output(attention(Q[:, None], K[:, None], V[:, None], keep)[:, 0])
