"""Scores that know of distances, and lengths at which something changes: right elsewhere, and not these equations.

Linear biases, windows and scales that grow with the length have no parameters: nothing but what they compute tells
of them. What begins at some length shows beyond it alone.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from conformance_tests.deviations.masks import LEAKING, MASK
from conformance_tests.deviations.position import LEARNED, SINUSOIDAL, pairs, waves
from encoder_spec.attention import alibi, slopes, unbiased

SCALED = "attention.scores"

START_OVER = 16
"""The length at which what is made for short inputs ends."""


def distances(n: int) -> Tensor:
    """|j − k| for every pair of positions."""
    pos = torch.arange(n)
    return (pos[:, None] - pos).abs()


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


@deviation("scores-grow-with-length", SCALED, ("ATT-3", "ATT-6"), "commonly seen")
def grow_with_length(Q: Tensor, K: Tensor) -> Tensor:
    """Of more than 16 positions the scores are multiplied by log n / log 16."""
    scaled = Q @ K.mT / math.sqrt(Q.shape[-1])
    return scaled * max(1.0, math.log(Q.shape[-2]) / math.log(START_OVER))


@deviation("attention-within-a-window", MASK, LEAKING, "commonly seen")
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
