"""Scores that know of distances, and lengths at which something changes: right elsewhere, and not these equations.

Rotary positions, linear biases, windows and scales that grow with the length have no parameters: nothing but
what they compute tells of them. What begins at some length shows beyond it alone.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from conformance_tests.deviations.masks import LEAKING, MASK
from conformance_tests.deviations.position import LEARNED, SINUSOIDAL, pairs, waves

SCALED = "attention.scores"

START_OVER = 16
"""The length at which what is made for short inputs ends."""


def distances(n: int) -> Tensor:
    """|j − k| for every pair of positions."""
    pos = torch.arange(n)
    return (pos[:, None] - pos).abs()


def rotated(X: Tensor, side_by_side: bool) -> Tensor:
    """Every pair of features turned by pos / 10000^(2i/d): neighbours, or one of each half."""
    d = X.shape[-1] // 2 * 2
    exponents = 2 * torch.arange(d // 2, dtype=torch.float64) / d
    angles = torch.arange(X.shape[-2], dtype=torch.float64)[:, None] / 10000**exponents
    cos, sin = angles.cos().to(X), angles.sin().to(X)
    a, b = (X[..., :d:2], X[..., 1:d:2]) if side_by_side else X[..., :d].chunk(2, dim=-1)
    turned = (a * cos - b * sin, a * sin + b * cos)
    joined = torch.stack(turned, dim=-1).flatten(-2) if side_by_side else torch.cat(turned, dim=-1)
    return torch.cat([joined, X[..., d:]], dim=-1)


@deviation("queries-and-keys-rotated", SCALED, ("ATT-3", "ATT-6"), "commonly seen")
def of_rotated_halves(Q: Tensor, K: Tensor) -> Tensor:
    """Queries and keys are rotated by their position (RoPE), each feature with its partner in the other half."""
    return rotated(Q, False) @ rotated(K, False).mT / math.sqrt(Q.shape[-1])


@deviation("queries-and-keys-rotated-in-pairs", SCALED, ("ATT-3", "ATT-6"), "commonly seen")
def of_rotated_pairs(Q: Tensor, K: Tensor) -> Tensor:
    """Queries and keys are rotated by their position (RoPE), each feature with its neighbour."""
    return rotated(Q, True) @ rotated(K, True).mT / math.sqrt(Q.shape[-1])


@deviation("scores-with-linear-bias", SCALED, ("ATT-3", "ATT-6"), "commonly seen")
def with_linear_bias(Q: Tensor, K: Tensor) -> Tensor:
    """The scores fall with the distance (ALiBi), by 2^(−8/h), 2^(−16/h), … from head to head."""
    n, h = Q.shape[-2], Q.shape[-3]
    slopes = 2.0 ** (-8 * torch.arange(1, h + 1, dtype=torch.float64) / h)
    return Q @ K.mT / math.sqrt(Q.shape[-1]) - (slopes[:, None, None] * distances(n)).to(Q)


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
