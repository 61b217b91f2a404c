"""Rotary positions, read from what is computed: each entry is the sum of two entries of one pair, times cos and ± sin.

It may be written with a rotated half, with neighbours, part by part or as a product of complex numbers. The two that
are added, and their factors, show the features of a pair and the angle by which it is turned. A position at which
nothing is added is turned by 0, as a class token before the patches of an image is.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE
from conformance_tests.computation.constants import NEAR, SAME, WITH_CONSTANT
from conformance_tests.computation.graph import COMPLEX, PLACES, Graph, Value, places
from encoder_spec.equation import variants
from encoder_spec.profiles import constant_word

ON_THE_CIRCLE = 1e-5
"""cos² + sin² of tables that were made in float32 differs from 1 by no more, a hundred times their rounding."""

DIGITS = 4
"""People write the base of the wavelengths with at most so many: 10000, 160000, 1e6 and others like these."""


@dataclass(frozen=True, eq=False)
class Turning:
    """Vectors (T, M, width) as they are before each position turns them.

    Attributes:
        codes: of their entries.
        angles: of each pair, in radians from −π to π (M, pairs).
        pairs: the features of each pair.
        factor: by what all is multiplied besides.
        is_rounded: whether cosines and sines are numbers of less than float64.
        mixes: by what each position multiplies its vector (M, width, width), where that is not a rotation; then there
            are neither angles nor pairs.
        is_by_head: whether each head does so in its own way, and all positions alike.
    """

    codes: Tensor
    angles: Tensor
    pairs: tuple[tuple[int, int], ...]
    factor: float
    is_rounded: bool
    mixes: Tensor | None = None
    is_by_head: bool = False

    @property
    def matrices(self) -> Tensor:
        """By what each position multiplies its vector (M, width, width)."""
        if self.mixes is not None:
            return self.mixes
        width = self.codes.shape[-1]
        found = torch.eye(width, dtype=torch.float64).expand(len(self.angles), width, width).clone()
        for phi, (one, other) in zip(self.angles.T, self.pairs, strict=True):
            found[:, one, one] = found[:, other, other] = phi.cos()
            found[:, other, one], found[:, one, other] = phi.sin(), -phi.sin()
        return self.factor * found

    def is_like(self, other: "Turning") -> bool:
        """Return whether other vectors are turned alike."""
        same = self.pairs == other.pairs and self.angles.shape == other.angles.shape
        return same and float(within_a_turn(self.angles - other.angles).abs().max()) <= ON_THE_CIRCLE


def tell_distances(queries: Tensor, keys: Tensor) -> bool:
    """Return whether products of queries and keys know where these stand by their distance alone.

    The matrices (M, width, width) may grow with the position, as their products with each other may then.
    """
    products = torch.einsum("jea,keb->jkab", queries, keys)
    products = products / products.norm(dim=(2, 3), keepdim=True)
    return float((products[1:, 1:] - products[:-1, :-1]).abs().max()) <= ON_THE_CIRCLE if len(products) > 1 else True


def within_a_turn(angles: Tensor) -> Tensor:
    """Return angles from −π to π."""
    return (angles + math.pi) % (2 * math.pi) - math.pi


class Sums(NamedTuple):
    """Entries as sums of up to two others, each times a number; the code of a second one that is not there is NONE."""

    entries: tuple[Tensor, Tensor]
    factors: tuple[Tensor, Tensor]

    def at(self, positions: Tensor) -> "Sums":
        """Return those at some positions, which stand along the second axis."""
        return Sums(*(tuple(x[:, positions] for x in both) for both in self))  # type: ignore[arg-type]


def turning(graph: Graph, codes: Tensor) -> Turning | None:
    """Return vectors (T, M, width) as they are before positions turn them, or mix their features in another way.

    None if no two features are added to each other, or all positions and heads do it alike.
    """
    found = sums(graph, codes)
    return None if found is None else rotated(found) or mixed(found)


def rotated(found: Sums) -> Turning | None:
    """Return vectors before the pairs of their features are turned; None if none is, or not by angles."""
    are_sums = found.entries[1] != NONE
    turned = alike_everywhere(are_sums.any(dim=-1))
    if turned is None or not turned.any():
        return None
    whole, found = found, found.at(turned)
    in_pairs = alike_everywhere(are_sums[:, turned])
    if in_pairs is None:
        return None
    pairs = list(turned_together(found, in_pairs.nonzero().flatten().tolist()))
    if 2 * len(pairs) != int(in_pairs.sum()):
        return None
    own, cos = found.entries[0].clone(), found.factors[0].clone()
    angles = []
    for one, other, sides in pairs:
        for feature, side in zip((one, other), sides, strict=True):
            own[..., feature] = found.entries[side][..., feature]
            cos[..., feature] = found.factors[side][..., feature]
        sine = -found.factors[1 - sides[0]][..., one]
        angle = torch.atan2(sine, cos[..., one])
        if is_exchanged(own[0, 0, one], own[0, 0, other]):
            own[..., [one, other]], angle = own[..., [other, one]], -angle
        angles.append(angle)
        cos[..., [one, other]] = torch.hypot(sine, cos[..., one])[..., None]
    of_turned = torch.stack(angles, dim=-1)
    factors = whole.factors[0].clone()
    factors[:, turned] = cos
    off = float((factors / factors.mean() - 1).abs().max())
    if not bool((of_turned == of_turned[:1]).all()) or off > ON_THE_CIRCLE:
        return None
    before, phi = whole.entries[0].clone(), of_turned.new_zeros(len(turned), len(pairs))
    before[:, turned], phi[turned] = own, of_turned[0]
    return Turning(before, phi, tuple((one, other) for one, other, _ in pairs), float(factors.mean()), off > SAME)


def is_exchanged(one: Tensor, other: Tensor) -> bool:
    """Return whether the entry behind the first feature of a pair stands behind the other one's where both come from.

    To exchange two features and turn them forward is to turn them backward and to exchange the results; and what
    queries and keys exchange alike does not show in their products.
    """
    return bool(one >> PLACES == other >> PLACES) and bool(one > other)


def mixed(found: Sums) -> Turning | None:
    """Return vectors before each position, or head, multiplies them by a matrix; None if all do so by the same one."""
    T, M, width = found.entries[0].shape
    if not bool((found.entries[1] != NONE).any()):
        return None
    read = torch.cat(found.entries, dim=-1).reshape(T * M, 2 * width)
    own = [row[row != NONE].unique() for row in read]
    if any(len(each) != width for each in own):
        return None
    before = torch.stack(own)
    columns = torch.searchsorted(before, read.clamp(min=0))
    columns = columns.where(read != NONE, torch.zeros_like(columns)).reshape(T, M, 2, width)
    factors = torch.stack(found.factors, dim=2) * (read.reshape(T, M, 2, width) != NONE)
    matrices = torch.zeros(T, M, width, width, dtype=torch.float64)
    for side in (0, 1):
        matrices.scatter_add_(-1, columns[:, :, side, :, None], factors[:, :, side, :, None])
    is_by_head, is_by_position = (not bool((matrices == first).all()) for first in (matrices[:1], matrices[:, :1]))
    if is_by_head == is_by_position:
        return None
    before, none = before.reshape(T, M, width), matrices.new_zeros(M, 0)
    return Turning(before, none, (), 1.0, is_rounded=False, mixes=matrices[0], is_by_head=is_by_head)


def alike_everywhere(holds: Tensor) -> Tensor | None:
    """Return for which features, the last axis, something holds; None if places differ in that."""
    flat = holds.flatten(0, -2)
    return flat[0] if bool((flat == flat[0]).all()) else None


def turned_together(found: Sums, features: Sequence[int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield two features that are sums of the same two entries, and which of its summands is each feature's own.

    With its own entry a feature is multiplied by the cosine, as its partner is, and with that of its partner by the
    sine, of which the signs differ.
    """
    of_first = [each[0, 0].tolist() for each in found.entries]
    waiting: dict[frozenset[int], int] = {}
    for feature in features:
        summands = frozenset(each[feature] for each in of_first)
        if summands not in waiting:
            waiting[summands] = feature
            continue
        one, other = waiting.pop(summands), feature
        for side in (0, 1):
            # What one feature owns is not what the other one owns.
            beside = 0 if of_first[0][other] != of_first[side][one] else 1
            cosines = found.factors[side][..., one], found.factors[beside][..., other]
            sines = found.factors[1 - side][..., one], found.factors[1 - beside][..., other]
            if is_close(*cosines) and is_close(sines[0], -sines[1]):
                yield one, other, (side, beside)
                break


def is_close(one: Tensor, other: Tensor) -> bool:
    """Return whether factors are the same ones, up to what tables in float32 round."""
    return torch.allclose(one, other, rtol=0, atol=ON_THE_CIRCLE)


def sums(graph: Graph, codes: Tensor) -> Sums | None:
    """Return entries as sums of two others; None if more than two add up somewhere.

    Followed are multiplications by what is not learned, and sums of two values that depend on the input: a bias ends
    the walk, and what has one is what is turned.
    """
    entries = [codes.reshape(-1).clone(), torch.full((codes.numel(),), NONE)]
    factors = [torch.ones(codes.numel(), dtype=torch.float64) for _ in entries]
    waiting = True
    while waiting:
        waiting = False
        for side in (0, 1):
            for value in graph.owners(entries[side][entries[side] != NONE]):
                step = summands(graph, value)
                if not step:
                    continue
                waiting = True
                here = entries[side] >> PLACES == value.number
                if len(step) > 1 and bool((entries[1 - side][here] != NONE).any()):
                    return None
                at, known = places(entries[side][here]), factors[side][here]
                for which, (read, factor) in zip((side, 1 - side), step, strict=False):
                    entries[which][here] = read.reshape(-1)[at]
                    factors[which][here] = known * (factor.reshape(-1)[at] if factor.ndim else factor)
    return Sums(*(tuple(x.reshape(codes.shape) for x in both) for both in (entries, factors)))  # type: ignore[arg-type]


def summands(graph: Graph, value: Value) -> list[tuple[Tensor, Tensor]]:
    """Return the one or two arrays of data that an operation adds up, each with its factor; nothing if it does not."""
    if value.kind != "elementwise":
        return []
    data = [i for i, read in enumerate(value.reads) if graph.depends(read)]
    arrays = [read for i in data if isinstance(read := value.reads[i], Tensor)]
    one = torch.ones((), dtype=torch.float64)
    if value.operation == "neg":
        return [(arrays[0], -one)]
    if value.operation in ("add", "sub") and len(arrays) == len(value.reads) == 2:
        return [(arrays[0], one), (arrays[1], one if value.operation == "add" else -one)]
    if value.operation in ("mul", "div") and len(arrays) == 1 and len(value.reads) == 2:
        other = value.reads[1 - data[0]]
        if graph.learned(other) or (value.operation == "div" and data[0] == 1):
            return []
        factor = graph.numbers(other)
        return [(arrays[0], factor if value.operation == "mul" else 1 / factor)]
    return []


class Wavelengths(NamedTuple):
    """The turning of pairs by positions: its choices by name; and what is odd about it, in words.

    ``omega`` are the frequencies as the encoder has them; if ``is_kept``, those of the base, but rounded. Where angles
    are rounded in another way, it ``is_rounded``. What is ``odd`` may be right, and what is ``wrong`` is not.
    """

    choices: Mapping[str, str | float] = MappingProxyType({})
    omega: Tensor | None = None
    is_kept: bool = False
    is_rounded: bool = False
    odd: str = ""
    wrong: str = ""


def wavelengths(found: Turning, width: int, grid: tuple[int, int] | None = None) -> Wavelengths:
    """Return how a turning turns heads of this width; the last positions may be patches in a grid."""
    number = len(found.pairs)
    halves, neighbours = ([(i, number + i) for i in range(number)], [(2 * i, 2 * i + 1) for i in range(number)])
    order = sorted(range(number), key=lambda i: found.pairs[i])
    pairs = [found.pairs[i] for i in order]
    variant = "halves" if pairs == halves else "pairs" if pairs == neighbours else ""
    if not variant:
        return Wavelengths(odd="its pairs of features are neither neighbours nor one of each half")
    angles = found.angles[:, order]
    read = along_a_sequence(angles)
    if read.omega is None and grid is not None:
        read = in_a_grid(angles, grid)
    is_whole = number == (width // 2 if read.choices.get("angles") == "geometric" else width // 4 * 2)
    fraction = 1.0 if is_whole else 2 * number / width
    choices = {"rotation": variant, **read.choices, "rotary_fraction": fraction}
    return read._replace(choices=choices, is_rounded=read.is_rounded or found.is_rounded)


def along_a_sequence(angles: Tensor) -> Wavelengths:
    """Return how angles (n, pairs) grow from position to position, from whichever number these are counted."""
    number = angles.shape[1]
    m = torch.arange(len(angles), dtype=torch.float64)
    angles = within_a_turn(angles - angles[:1])
    omega = angles[min(1, len(m) - 1)]
    if float(within_a_turn(angles - m[:, None] * omega).abs().max()) > ON_THE_CIRCLE * len(m):
        # Products of what they turn know more than the distance.
        nearest: dict[str, str | float] = {"angles": "geometric", "rotary_base": USUAL_BASE}
        return Wavelengths(nearest, wrong="turned by angles that do not grow evenly with the position")
    is_reversed = bool((omega < 0).all())
    omega = -omega if is_reversed else omega
    if bool((omega <= 0).any()) or abs(float(omega[0]) - 1) > ON_THE_CIRCLE:
        return Wavelengths(odd="the first pair is not turned by 1 from position to position")
    base = as_written(float(omega[-1]) ** (-number / (number - 1))) if number > 1 else USUAL_BASE
    exact = base ** (-torch.arange(number, dtype=torch.float64) / number)
    apart = float((omega / exact - 1).abs().max())
    if apart > ON_THE_CIRCLE:
        return Wavelengths(odd="its wavelengths are not the powers of one base")
    wrong = "turned the other way round" if is_reversed else ""
    return Wavelengths({"angles": "geometric", "rotary_base": base}, omega, apart > SAME, wrong=wrong)


def in_a_grid(angles: Tensor, grid: tuple[int, int]) -> Wavelengths:
    """Return how angles (n, pairs) tell rows and columns of patches, which stand last."""
    first = len(angles) - prod(grid)
    if first < 0 or angles.shape[1] % 2 or max(grid) == 1:
        return Wavelengths(odd="its angles do not grow evenly with the position")
    if bool((angles[:first].abs() > ON_THE_CIRCLE).any()):
        return Wavelengths(odd="what stands beside the patches of the image is turned, or does not stand before them")
    fitting = (fitted(angles, grid, *variant) for variant in product(UNITS, SHARES, ORDERS))
    odd = Wavelengths(odd="its angles are not multiples of row and column, each by the powers of one base")
    return next((read for read in fitting if read is not None), odd)


def fitted(angles: Tensor, grid: tuple[int, int], unit: str, share: str, order: str) -> Wavelengths | None:
    """Return angles (n, pairs) as those of three equations, with the numbers that they tell; None if they are not.

    Args:
        angles: of all positions.
        grid: rows and columns of the patches, which stand last.
        unit: the variant of the coordinates.
        share: that of the angles: which pairs, and which wavelengths, either axis has.
        order: that of the axes.
    """
    told = numbers_told(angles, grid, unit, share, order)
    if told is None:
        return None
    base = told.pop("theta")
    q = angles.new_zeros(1, 1, len(angles), 2 * angles.shape[1])
    counted = variants("coordinates")[unit].function(q, rows=grid[0], columns=grid[1], **told)
    places = variants("axes")[order].function(counted)
    placed = {"coordinates": lambda _: places, "axes": lambda in_order: in_order}
    want = variants("angles")[share].function(q, theta=base, fraction=1.0, **placed)
    if apart(angles, want) > ON_THE_CIRCLE:
        return None
    choices: dict[str, str | float] = {"angles": share, "axes": order, "coordinates": unit, "rotary_base": base}
    choices |= {constant_word(name): number for name, number in told.items()}
    if apart(angles, want) <= SAME:
        return Wavelengths(choices)
    omega = torch.stack([frequencies(angles, want, places[:, i], pairs_of(i, share, angles.shape[1])) for i in (0, 1)])
    is_kept = apart(angles, WITH_CONSTANT[share].function(omega, q, **placed)) <= SAME
    return Wavelengths(choices, omega, is_kept, not is_kept)


def numbers_told(angles: Tensor, grid: tuple[int, int], unit: str, share: str, order: str) -> dict[str, float] | None:
    """Return the constants of angles and coordinates by their letters, as the longer axis tells them if any can.

    The slowest pair tells the base: it does not turn by more than half a turn from patch to patch.
    """
    rows, columns = grid
    patches = angles[-rows * columns :].unflatten(0, grid)
    along, places = (patches[0], columns) if columns > rows else (patches[:, 0], rows)
    is_second = (columns > rows) == (order == "rows-first")
    along = along[:, pairs_of(int(is_second), share, angles.shape[1])]
    powers = torch.arange(along.shape[1], dtype=torch.float64) / along.shape[1]
    if share == "axial-alternating" and is_second:
        powers += 1 / angles.shape[1]
    steps, last = within_a_turn(along[1] - along[0]), float(powers[-1])
    if float(steps[-1]) <= 0:
        return None
    told: dict[str, float] = {}
    if unit == "stretched":
        told["theta"], told["reference"] = stretching(steps, powers, places)
        step = told["reference"] / places
    else:
        step = 1.0 if unit == "counted" else 4 * math.pi / places
        told["theta"] = as_written(float(steps[-1] / step) ** (-1 / last)) if last else USUAL_BASE
    if not (0 < told["theta"] < math.inf and 0 < step * places < FARTHEST):
        return None
    if unit != "centred":
        told["origin"] = max(0.0, round(float(along[0, -1]) / step * told["theta"] ** last, DIGITS))
    return told


def pairs_of(which: int, share: str, number: int) -> slice:
    """Return which of a number of pairs tell the first axis, 0, or the second one, 1."""
    half = number // 2
    return slice(which, None, 2) if share == "axial-interleaved" else slice(which * half, (which + 1) * half)


def frequencies(angles: Tensor, near: Tensor, places: Tensor, pairs: slice) -> Tensor:
    """Return by what some pairs turn per unit of a coordinate (n): it shows in most digits where that is largest.

    Args:
        angles: of all pairs (n, pairs), from −π to π.
        near: nearly these, with whole turns.
        places: the coordinate.
        pairs: those that tell it.
    """
    farthest = int(places.abs().argmax())
    off = within_a_turn(angles[farthest, pairs] - near[farthest, pairs])
    return (near[farthest, pairs] + off) / places[farthest]


def apart(angles: Tensor, want: Tensor) -> float:
    """Return how far angles are from others up to whole turns, in units of the largest of these, but at least 1."""
    return float(within_a_turn(angles - want).abs().max()) / max(1.0, float(want.abs().max()))


def stretching(steps: Tensor, powers: Tensor, places: int) -> tuple[float, float]:
    """Return the base, and to how many places an axis of so many is stretched, by its angles from place to place.

    All but the slowest may be whole turns more. Where few pairs leave open how many, the number of places is a whole
    one. Both are 0 where no base fits.
    """
    if len(steps) == 1:
        return USUAL_BASE, as_written(float(steps[0]) * USUAL_BASE ** float(powers[0]) * places)
    likely = []
    for slowest, fastest in filter(None, (unwound(steps.tolist(), turns) for turns in range(MOST_TURNS))):
        base = as_written((fastest / slowest) ** (1 / float(powers[-1] - powers[0])))
        likely.append((base, as_written(slowest * base ** float(powers[-1]) * places)))
    whole = [each for each in likely if each[1] == round(each[1])]
    return next(iter(whole + likely), (0.0, 0.0))


def unwound(steps: Sequence[float], turns: int) -> tuple[float, float] | None:
    """Return the angles of the slowest and of the fastest pair, with the whole turns that belong to the fastest.

    Each is as many times the next one as that is times the one after it; None if none of them fit.

    Args:
        steps: the angles, within a turn, from the fastest to the slowest.
        turns: whole turns to be added to the second slowest.
    """
    slower, faster = steps[-1], steps[-2] + 2 * math.pi * turns
    for step in reversed(steps[:-2]):
        if not 0 < faster < FARTHEST:
            return None
        expected = faster**2 / slower
        slower, faster = faster, expected + math.remainder(step - expected, 2 * math.pi)
    return (steps[-1], faster) if 0 < faster < FARTHEST else None


MOST_TURNS = 4
"""Fewer whole turns than that are tried for the second slowest pair, from patch to patch."""

FARTHEST = 10000.0
"""Coordinates are smaller: float32 has three decimals of so many radians."""

USUAL_BASE = 10000.0
"""The base where a single pair tells none."""

UNITS = ("counted", "centred", "stretched")
"""Variants of the coordinates, the simplest first: those that are counted are a case of those that are stretched."""

SHARES = ("axial", "axial-alternating", "axial-interleaved")
"""Variants of the angles of patches."""

ORDERS = ("rows-first", "columns-first")
"""Variants of the axes."""


def as_written(base: float) -> float:
    """Return a base as people write it, if it is near to that.

    It is a power of the last wavelength, up to its square, and a table in float32 rounds that already.
    """
    if not 0 < base < math.inf:
        return base
    written = float(f"{base:.{DIGITS}g}")
    return written if abs(written / base - 1) < 10 * NEAR else base


NUMBERS_OF_A_MASK = 2
"""A mask and its opposite lie on the circle as well, and turn nothing; a table of angles has more different numbers."""


def rotation(graph: Graph) -> str:
    """Return how an encoder turns vectors by angles; empty if it turns none.

    Complex numbers are taken for a rotation. In real arithmetic one is told by two factors of the same shape whose
    squares add up to 1 everywhere.
    """
    factors: dict[torch.Size, list[tuple[Value, Tensor]]] = {}
    for value in graph.ancestors(graph.output):
        if value.depends and value.operation.startswith(COMPLEX):
            return f"it computes with complex numbers{value.where}"
        if value.depends and value.operation == "mul":
            for operand in value.arrays:
                if not graph.depends(operand) and not graph.learned(operand):
                    factors.setdefault(value.shape, []).append((value, graph.numbers(operand)))
    for alike in factors.values():
        for (value, one), (_, other) in combinations(alike, 2):
            is_circle = torch.allclose(one.square() + other.square(), torch.ones_like(one), atol=ON_THE_CIRCLE)
            if is_circle and one.abs().unique().numel() > NUMBERS_OF_A_MASK:
                return f"it turns vectors by angles, as rotary positions do{value.where}"
    return ""
