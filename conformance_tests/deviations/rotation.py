"""Wrong rotary positions: other pairs, other angles, and what is turned."""

from collections.abc import Callable

import torch
from torch import Tensor

from conformance_tests.deviations import deviation, wrong_constants
from encoder_spec.rotation import angles, halves, pairs, unturned

HALVES, PAIRS, NONE, ANGLES = "rotation.halves", "rotation.pairs", "rotation.none", "rotation.angles"
TURNED = (HALVES, PAIRS)
SEEN = ("ROT-1", "ROT-2", "ROT-5", "ATT-3", "ATT-5", "ATT-6")

F = Callable[..., Tensor]

deviation(
    "rotation-in-pairs",
    HALVES,
    SEEN,
    "huggingface/pytorch-image-models#2692",
    definition="Neighbouring features are turned as pairs, instead of one of each half.",
)(pairs)
deviation(
    "rotation-in-halves",
    PAIRS,
    SEEN,
    "huggingface/pytorch-image-models#2692",
    definition="A feature of each half is turned as one pair, instead of neighbours.",
)(halves)
deviation(
    "rotation-missing",
    TURNED,
    SEEN,
    "commonly seen",
    definition="Queries and keys are not turned: nothing tells their positions.",
)(unturned)


@deviation("rotation-backwards", HALVES, SEEN, "commonly seen")
def backwards(x: Tensor, *, angles: F) -> Tensor:
    """Pairs are turned the other way round, so that the distance has the other sign."""
    return halves(x, angles=lambda given: -angles(given))


@deviation("rotation-backwards-in-pairs", PAIRS, SEEN)
def backwards_in_pairs(x: Tensor, *, angles: F) -> Tensor:
    """Pairs are turned the other way round, so that the distance has the other sign."""
    return pairs(x, angles=lambda given: -angles(given))


@deviation("rotation-without-its-sign", HALVES, SEEN, "commonly seen")
def without_sign(x: Tensor, *, angles: F) -> Tensor:
    """The halves are exchanged without a change of sign, which turns nothing."""
    phi = angles(x)
    half = phi.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = phi.cos().to(x), phi.sin().to(x)
    return torch.cat([a * cos + b * sin, b * cos + a * sin, rest], dim=-1)


@deviation("rotation-of-halves-by-angles-of-pairs", HALVES, SEEN, "commonly seen")
def of_mixed(x: Tensor, *, angles: F) -> Tensor:
    """The angles are repeated for neighbours, and the partner is in the other half: both conventions at once."""
    phi = angles(x).repeat_interleave(2, dim=-1)
    r = phi.shape[-1]
    turned, rest = x[..., :r], x[..., r:]
    exchanged = torch.cat([-turned[..., r // 2 :], turned[..., : r // 2]], dim=-1)
    return torch.cat([turned * phi.cos().to(x) + exchanged * phi.sin().to(x), rest], dim=-1)


@deviation("rotation-of-the-keys-alone", TURNED, (*SEEN, "ENC-17"), "commonly seen", place="attention")
def of_keys_alone(
    Q: Tensor, K: Tensor, V: Tensor, keep: Tensor, *, rotation: F, scores: F, mask: F, weights: F, dropout: F, values: F
) -> Tensor:
    """The keys are turned, and the queries are not."""
    return values(dropout(weights(mask(scores(Q, rotation(K)), keep))), V)


@deviation("rotation-of-the-values-too", TURNED, (*SEEN, "ATT-10", "ENC-17"), "commonly seen", place="attention")
def of_values_too(
    Q: Tensor, K: Tensor, V: Tensor, keep: Tensor, *, rotation: F, scores: F, mask: F, weights: F, dropout: F, values: F
) -> Tensor:
    """The values are turned as well."""
    return values(dropout(weights(mask(scores(rotation(Q), rotation(K)), keep))), rotation(V))


ADDED = ("ROT-6", "ATT-3", "ATT-6")

deviation(
    "queries-and-keys-rotated",
    NONE,
    ADDED,
    "commonly seen",
    definition="Queries and keys are turned by their position (RoPE), each feature with its partner in the other half.",
)(halves)
deviation(
    "queries-and-keys-rotated-in-pairs",
    NONE,
    ADDED,
    "commonly seen",
    definition="Queries and keys are turned by their position (RoPE), each feature with its neighbour.",
)(pairs)


@deviation("rotary-exponent-halved", ANGLES, SEEN, "commonly seen")
def exponent_halved(x: Tensor, *, theta: float, fraction: float) -> Tensor:
    """The exponent is i/r instead of 2i/r: the wavelengths grow half as fast."""
    return angles(x, theta=theta**0.5, fraction=fraction)


@deviation("rotary-exponent-doubled", ANGLES, SEEN, "commonly seen")
def exponent_doubled(x: Tensor, *, theta: float, fraction: float) -> Tensor:
    """The index is doubled twice, 4i/r instead of 2i/r."""
    return angles(x, theta=theta**2, fraction=fraction)


@deviation("rotary-angles-in-bfloat16", ANGLES, (*SEEN, "ENC-18"), "commonly seen")
def in_bfloat16(x: Tensor, *, theta: float, fraction: float) -> Tensor:
    """Angles are kept in bfloat16, which tells no two positions beyond 256 apart."""
    return angles(x, theta=theta, fraction=fraction).bfloat16().double()


@deviation("rotary-positions-from-the-end", ANGLES, SEEN)
def positions_from_the_end(x: Tensor, *, theta: float, fraction: float) -> Tensor:
    """Positions are counted from the end of the sequence."""
    return angles(x, theta=theta, fraction=fraction).flip(0)


wrong_constants(
    "rotary-base-of-long-inputs",
    "The base θ is 160000, that of ModernBERT's layers with full attention.",
    ANGLES,
    SEEN,
    "ggml-org/llama.cpp#18330",
    rotary_base=160000.0,
)
