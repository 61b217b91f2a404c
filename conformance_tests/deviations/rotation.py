"""Wrong rotary positions: other pairs, other angles, and what is turned."""

from collections.abc import Callable

import torch
from torch import Tensor

from conformance_tests.deviations import deviation, wrong_constants
from encoder_spec.rotation import (
    angles,
    axial,
    axial_interleaved,
    centred,
    columns_first,
    counted,
    halves,
    pairs,
    rows_first,
    stretched,
    unturned,
)

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
    (*SEEN, "ROT-13", "ROT-14", "ROT-15"),
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


AXIAL, ALTERNATING, INTERLEAVED = "rotation.axial", "rotation.axial_alternating", "rotation.axial_interleaved"
ON_IMAGES = (*(f"ROT-{number}" for number in (2, 5, 7, 9, 10, 11, 12, 13, 14, 15)), "ATT-3", "ATT-5", "ATT-6")

deviation(
    "rotary-positions-along-all-patches",
    (AXIAL, ALTERNATING, INTERLEAVED),
    ON_IMAGES,
    "commonly seen",
    definition="Patches are turned by their number in the sequence, class token included, instead of row and column.",
)(angles)
deviation(
    "rotary-axes-in-turn",
    (AXIAL, ALTERNATING),
    ON_IMAGES,
    "commonly seen",
    definition="Pairs tell rows and columns in turn, instead of one half of the pairs each.",
)(axial_interleaved)
deviation(
    "rotary-axes-in-halves",
    (ALTERNATING, INTERLEAVED),
    ON_IMAGES,
    "commonly seen",
    definition="Rows have one half of the pairs and columns the other, both with the same wavelengths.",
)(axial)
deviation(
    "rotary-columns-first",
    "rotation.rows_first",
    ON_IMAGES,
    "commonly seen",
    definition="Rows and columns are exchanged: the first pairs tell columns.",
)(columns_first)
deviation(
    "rotary-rows-first",
    "rotation.columns_first",
    ON_IMAGES,
    "commonly seen",
    definition="Rows and columns are exchanged: the first pairs tell rows.",
)(rows_first)
deviation(
    "rotary-coordinates-counted",
    ("rotation.stretched", "rotation.centred"),
    ON_IMAGES,
    "commonly seen",
    definition="Rows and columns are counted from 0, whatever the size of the image.",
)(counted)
deviation(
    "rotary-coordinates-centred",
    ("rotation.counted", "rotation.stretched"),
    ON_IMAGES,
    "commonly seen",
    definition="Coordinates lie in [−1, 1], times 2π, whatever the size of the image.",
)(centred)


@deviation("rotary-coordinates-of-corners", "rotation.centred", ON_IMAGES, "commonly seen")
def of_corners(q: Tensor, *, rows: int, columns: int) -> Tensor:
    """Coordinates reach from −1 to 1, both included, where those of the patches' centres belong."""
    y, x = (2 * torch.pi * torch.linspace(-1, 1, side, dtype=q.dtype) for side in (rows, columns))
    return torch.cat([q.new_zeros(q.shape[-2] - rows * columns, 2), torch.cartesian_prod(y, x)])


@deviation("rotary-class-token-in-the-corner", "rotation.centred", ON_IMAGES, "commonly seen")
def class_token_in_the_corner(q: Tensor, *, rows: int, columns: int) -> Tensor:
    """The class token and registers are turned like the first patch, where they are not to be turned."""
    first = q.shape[-2] - rows * columns
    patches = centred(q[..., first:, :], rows=rows, columns=columns)
    return torch.cat([patches[:1].expand(first, -1), patches])


@deviation("rotary-grid-lies-on-its-side", "rotation.stretched", ON_IMAGES, "commonly seen")
def on_its_side(q: Tensor, *, rows: int, columns: int, origin: float, reference: float) -> Tensor:
    """The number of rows and that of columns are exchanged, which is seen in images that are not square."""
    return stretched(q, rows=columns, columns=rows, origin=origin, reference=reference)


wrong_constants(
    "rotary-grid-counted-from-one",
    "Rows and columns are counted from 1, away from a class token at (0, 0).",
    ("rotation.counted", "rotation.stretched"),
    ON_IMAGES,
    "commonly seen",
    grid_origin=1.0,
)
wrong_constants(
    "rotary-base-of-long-inputs",
    "The base θ is 160000, that of ModernBERT's layers with full attention.",
    ANGLES,
    SEEN,
    "ggml-org/llama.cpp#18330",
    rotary_base=160000.0,
)
