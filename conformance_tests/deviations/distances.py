"""Scores that know of distances, and lengths at which something changes: right elsewhere, and not these equations.

Linear biases, windows and scales that grow with the length have no parameters: nothing but what they compute tells
of them. What begins at some length shows beyond it alone.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import LateTurns, deviation, enter, wrong_constants
from conformance_tests.deviations.masks import LEAKING, MASK
from conformance_tests.deviations.position import LEARNED, SINUSOIDAL, pairs, waves
from encoder_spec.attention import (
    alibi,
    bucketed,
    buckets,
    by_distance,
    causal_reach,
    global_reach,
    local_reach,
    row_of_distance,
    row_of_places,
    scores,
    scores_disentangled,
    scores_relative_keys,
    slopes,
    unbiased,
)

SCALED = "attention.scores"

START_OVER = 16
"""The length at which what is made for short inputs ends."""


def distances(n: int) -> Tensor:
    """|j − k| for every pair of positions."""
    pos = torch.arange(n)
    return (pos[:, None] - pos).abs()


F = Callable[..., Tensor]
Table = Float[Tensor, "buckets h"]


def without_table(S: Tensor, *, R: Table, farthest: float) -> Tensor:
    """Return the scores as they are, whatever the table holds."""
    return S


UNBIASED, ALIBI = "attention.unbiased", "attention.alibi"
BIASED = ("ATT-16", "ATT-6")

deviation(
    "scores-with-linear-bias",
    UNBIASED,
    ("ATT-15", "ATT-6"),
    "commonly seen",
    definition="The scores fall with the distance (ALiBi), by 2^(−8/h), 2^(−16/h), … from head to head.",
)(alibi)
deviation(
    "linear-bias-missing",
    ALIBI,
    BIASED,
    "ggml-org/llama.cpp#6826",
    definition="The scores do not fall with the distance: nothing tells positions.",
)(unbiased)


@deviation("linear-bias-rises", ALIBI, BIASED, "commonly seen")
def rises(S: Tensor) -> Tensor:
    """The scores rise with the distance."""
    return 2 * S - alibi(S)


@deviation("linear-bias-one-sided", ALIBI, BIASED, "commonly seen")
def one_sided(S: Tensor) -> Tensor:
    """The scores fall for keys before the query, and rise for those behind it, as without a causal mask they do."""
    pos = torch.arange(S.shape[-1], dtype=S.dtype)
    return S + slopes(S.shape[1]).to(S)[:, None, None] * (pos - pos[:, None])


@deviation("linear-bias-with-one-slope", ALIBI, BIASED)
def one_slope(S: Tensor) -> Tensor:
    """All heads have the slope of the first one."""
    return S - float(slopes(S.shape[1])[0]) * distances(S.shape[-1]).to(S)


@deviation("linear-bias-of-halved-slopes", ALIBI, BIASED, "commonly seen")
def halved_slopes(S: Tensor) -> Tensor:
    """The slopes are 1/2, 1/4, 1/8, … whatever the number of heads, those of eight."""
    own = 2.0 ** -torch.arange(1, S.shape[1] + 1, dtype=torch.float64)
    return S - (own[:, None, None] * distances(S.shape[-1])).to(S)


BUCKETED = "attention.bucketed"
IN_BUCKETS = ("ATT-18", "ATT-6", "ENC-18")

deviation(
    "relative-positions-missing",
    BUCKETED,
    IN_BUCKETS,
    "commonly seen",
    definition="No relative positions are added to the scores: nothing tells positions.",
)(without_table)


@deviation("relative-positions-exchanged", BUCKETED, IN_BUCKETS, "commonly seen")
def exchanged(S: Tensor, *, R: Table, farthest: float) -> Tensor:
    """Keys before the query have the rows of those behind it: the distance is taken the other way round."""
    return bucketed(S.mT, R=R, farthest=farthest).mT


@deviation("relative-positions-of-a-decoder", BUCKETED, IN_BUCKETS, "commonly seen")
def of_a_decoder(S: Tensor, *, R: Table, farthest: float) -> Tensor:
    """All rows are for keys before the query, and every key behind it has the first one."""
    rows = buckets(S.shape[-1], 2 * len(R), farthest).tril()
    return S + R[rows].permute(2, 0, 1)


wrong_constants(
    "relative-positions-up-to-64",
    "Distances from 64 on share the last row, where 128 belongs: the rows for far keys begin too early.",
    BUCKETED,
    IN_BUCKETS,
    "commonly seen",
    max_distance=64.0,
)

BY_DISTANCE, BY_GRID = "attention.by_distance", "attention.by_grid"
IN_ROWS, ON_GRID = ("ATT-21", "ATT-6", "ENC-18"), ("ATT-22", "ATT-6")


@deviation("distances-missing", BY_DISTANCE, IN_ROWS, "commonly seen")
def without_rows(S: Tensor, *, R: Table) -> Tensor:
    """The table of distances is not read: nothing tells positions."""
    return S


@deviation("distances-without-sides", BY_DISTANCE, IN_ROWS, "commonly seen")
def without_sides(S: Tensor, *, R: Table) -> Tensor:
    """Keys before the query have the rows of those as far behind it."""
    rows = row_of_distance(S.shape[-1], len(R))
    return S + R[rows.maximum(rows.mT)].permute(2, 0, 1)


@deviation("distances-wrapped", BY_DISTANCE, IN_ROWS, "commonly seen")
def wrapped(S: Tensor, *, R: Table) -> Tensor:
    """Keys farther away than the table tells have the rows of its other end, as negative numbers of rows do."""
    pos = torch.arange(S.shape[-1])
    return S + R[(len(R) // 2 + pos - pos[:, None]) % len(R)].permute(2, 0, 1)


@deviation("grid-distances-missing", BY_GRID, ON_GRID, "commonly seen")
def without_grid(S: Tensor, *, R: Table, rows: int, columns: int) -> Tensor:
    """The table of places is not read: nothing tells where patches lie."""
    return S


deviation(
    "grid-distances-along-the-sequence",
    BY_GRID,
    ON_GRID,
    "commonly seen",
    definition="The rows of the table tell how far patches lie apart in the sequence, not along rows and columns.",
)(by_distance)


@deviation("grid-distances-share-rows", BY_GRID, ON_GRID, "commonly seen")
def sharing_rows(S: Tensor, *, R: Table, rows: int, columns: int) -> Tensor:
    """Rows are counted in steps of the image's width, where twice that width less one belongs: places share entries."""
    read = row_of_places(S.shape[-1], rows, columns)
    of_patches, wide = (2 * rows - 1) * (2 * columns - 1), 2 * columns - 1
    shared = torch.where(read < of_patches, read // wide * columns + read % wide, read)
    return S + R[shared].permute(2, 0, 1)


RELATIVE_KEYS, DISENTANGLED = "attention.scores_relative_keys", "attention.scores_disentangled"
OF_RELATIVE_KEYS, OF_THREE_TERMS = ("ATT-23", "ATT-6", "ENC-18"), ("ATT-24", "ATT-6", "ENC-18")

Keys = Float[Tensor, "buckets d_k"]
Vectors = Float[Tensor, "buckets d_model"]
Map = Float[Tensor, "d_model hd_k"]
Bias = Float[Tensor, "hd_k"]


@deviation("relative-keys-missing", RELATIVE_KEYS, OF_RELATIVE_KEYS, "commonly seen")
def without_relative_keys(Q: Tensor, K: Tensor, *, D: Keys) -> Tensor:
    """The table of relative keys is not read: nothing tells positions."""
    return scores(Q, K)


@deviation("relative-keys-not-scaled", RELATIVE_KEYS, OF_RELATIVE_KEYS, "commonly seen")
def relative_keys_unscaled(Q: Tensor, K: Tensor, *, D: Keys) -> Tensor:
    """The products with relative keys are not divided by √d_k, as those with the other keys are."""
    return scores(Q, K) + math.sqrt(Q.shape[-1]) * (scores_relative_keys(Q, K, D=D) - scores(Q, K))


@deviation("relative-keys-of-the-keys", RELATIVE_KEYS, OF_RELATIVE_KEYS)
def relative_keys_of_keys(Q: Tensor, K: Tensor, *, D: Keys) -> Tensor:
    """Keys are multiplied with the relative keys, where queries belong."""
    return scores_relative_keys(K, Q, D=D).mT


@deviation("relative-keys-without-sides", RELATIVE_KEYS, OF_RELATIVE_KEYS, "commonly seen")
def relative_keys_without_sides(Q: Tensor, K: Tensor, *, D: Keys) -> Tensor:
    """Keys before the query have the relative keys of those as far behind it."""
    return scores_relative_keys(Q, K, D=torch.cat([D[len(D) // 2 + 1 :].flip(0), D[len(D) // 2 :]]))


@deviation("disentangled-scores-scaled-as-one-term", DISENTANGLED, OF_THREE_TERMS, "commonly seen")
def as_one_term(
    Q: Tensor, K: Tensor, *, D: Vectors, W_Q: Map, W_K: Map, b_Q: Bias, b_K: Bias, farthest: float, norm_D: F
) -> Tensor:
    """The sum of three terms is divided by √d_k, where √(3 d_k) belongs."""
    own = scores_disentangled(Q, K, D=D, W_Q=W_Q, W_K=W_K, b_Q=b_Q, b_K=b_K, farthest=farthest, norm_D=norm_D)
    return math.sqrt(3) * own


@deviation("disentangled-queries-of-the-other-side", DISENTANGLED, OF_THREE_TERMS, "nntrainer/nntrainer#3982")
def of_the_other_side(
    Q: Tensor, K: Tensor, *, D: Vectors, W_Q: Map, W_K: Map, b_Q: Bias, b_K: Bias, farthest: float, norm_D: F
) -> Tensor:
    """A key is multiplied with the query of k − j, where that of j − k belongs, as in the keys of distances."""
    own = partial(scores_disentangled, D=D, W_Q=0 * W_Q, b_Q=0 * b_Q, farthest=farthest, norm_D=norm_D)
    of_queries, of_keys = own(Q, K, W_K=W_K, b_K=b_K), own(K, Q, W_K=W_Q, b_K=b_Q).mT
    return of_queries + of_keys - Q @ K.mT / math.sqrt(3 * Q.shape[-1])


@deviation("disentangled-without-queries-of-distances", DISENTANGLED, OF_THREE_TERMS, "commonly seen")
def without_queries_of_distances(
    Q: Tensor, K: Tensor, *, D: Vectors, W_Q: Map, W_K: Map, b_Q: Bias, b_K: Bias, farthest: float, norm_D: F
) -> Tensor:
    """The products of keys with the queries of distances are left out."""
    own = scores_disentangled
    return own(Q, K, D=D, W_Q=0 * W_Q, W_K=W_K, b_Q=0 * b_Q, b_K=b_K, farthest=farthest, norm_D=norm_D)


@deviation("disentangled-distances-not-normed", DISENTANGLED, (*OF_THREE_TERMS, "ENC-17"), "commonly seen")
def distances_not_normed(
    Q: Tensor, K: Tensor, *, D: Vectors, W_Q: Map, W_K: Map, b_Q: Bias, b_K: Bias, farthest: float
) -> Tensor:
    """The table of distances is mapped as it is, without a norm."""
    own = scores_disentangled
    return own(Q, K, D=D, W_Q=W_Q, W_K=W_K, b_Q=b_Q, b_K=b_K, farthest=farthest, norm_D=lambda table: table)


wrong_constants(
    "disentangled-distances-up-to-128",
    "Distances from 128 on share the last row, where 512 belongs, as if that were as long as the longest input.",
    DISENTANGLED,
    OF_THREE_TERMS,
    "NVIDIA/TensorRT#3370",
    max_distance=128.0,
)

GLOBAL, LOCAL, CAUSAL = "attention.global_reach", "attention.local_reach", "attention.causal_reach"
WITHIN = ("MASK-10", "ATT-6", "ENC-18")

deviation(
    "mask-causal",
    GLOBAL,
    ("MASK-9", "ENC-11", "ATT-6"),
    ("huggingface/transformers#42820", "NVIDIA-NeMo/Automodel#1349"),
    definition="No query reads a later key, as in a decoder.",
)(causal_reach)
deviation(
    "window-missing",
    LOCAL,
    WITHIN,
    "commonly seen",
    definition="Every query reads every key, where a window belongs.",
)(global_reach)


deviation(
    "causal-mask-missing",
    CAUSAL,
    ("MASK-11", "ATT-6", "ENC-2"),
    "commonly seen",
    definition="Every query reads every key, where later ones are to be hidden.",
)(global_reach)


@deviation("window-one-sided", LOCAL, WITHIN, "commonly seen")
def one_sided_window(S: Tensor, *, window: float) -> Tensor:
    """The window ends at the query: keys behind it are not read."""
    return causal_reach(local_reach(S, window=window))


@deviation("window-off-by-one", LOCAL, WITHIN, "commonly seen")
def narrow_window(S: Tensor, *, window: float) -> Tensor:
    """The farthest key of either side is left out: distances are compared with < in the place of ≤."""
    return local_reach(S, window=window - 2)


@deviation("window-to-either-side", LOCAL, WITHIN, "commonly seen")
def wide_window(S: Tensor, *, window: float) -> Tensor:
    """The whole width lies to either side, instead of half of it."""
    return local_reach(S, window=2 * window)


for late, word, threads in (
    (1, "one layer", ()),
    (2, "two layers", ("keras-team/keras-hub#2518", "ggml-org/llama.cpp#18330")),
):
    enter(
        LateTurns(
            f"turns-late-by-{word.replace(' ', '-')}",
            f"The layers that take turns do so {word} too late: others are global, or have another base θ.",
            (GLOBAL, LOCAL),
            ("ROT-1", "ROT-2", *WITHIN, "ENC-2"),
            {},
            threads,
            late=late,
        )
    )


@deviation("scores-grow-with-length", SCALED, ("ATT-3", "ATT-6", "ENC-18"), "commonly seen")
def grow_with_length(Q: Tensor, K: Tensor) -> Tensor:
    """Of more than 16 positions the scores are multiplied by log n / log 16."""
    scaled = Q @ K.mT / math.sqrt(Q.shape[-1])
    return scaled * max(1.0, math.log(Q.shape[-2]) / math.log(START_OVER))


@deviation("attention-within-a-window", MASK, (*LEAKING, "ENC-18"), "commonly seen")
def within_a_window(S: Tensor, keep: Tensor) -> Tensor:
    """Each position reads 16 others to either side alone."""
    near = distances(S.shape[-1]) <= START_OVER
    return S.masked_fill(~(keep[:, None] & near), -torch.inf)


@deviation("keys-in-full-chunks-alone", MASK, ("ENC-18", *LEAKING), "fla-org/flash-linear-attention#906")
def in_full_chunks(S: Tensor, keep: Tensor) -> Tensor:
    """Keys behind the last full chunk of 16 are read by none."""
    n = S.shape[-1]
    return S.masked_fill(~(keep[:, None] & (torch.arange(n) < (n // START_OVER * START_OVER or n))), -torch.inf)


@deviation("position-starts-over", SINUSOIDAL, "POS-1")
def starts_over(X: Tensor) -> Tensor:
    """After 16 positions the vectors start over."""
    return waves(X, pairs(X))[torch.arange(X.shape[-2]) % START_OVER]


@deviation("learned-position-starts-over", LEARNED, ("POS-7", "EMB-7", "EMB-8", "EMB-11"))
def learned_starts_over(X: Tensor, *, P: Float[Tensor, "max_len d_model"]) -> Tensor:
    """After 16 positions the rows of the table are read from the first one on."""
    return P[torch.arange(X.shape[-2]) % START_OVER]
