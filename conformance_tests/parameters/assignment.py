"""The assignment of arrays to parts: for each layer the one for which most evidence speaks.

What a name says, which shape an array has and beside what it stands are counted together, so that a part is known
by what the others are as well. The order of definition decides where nothing else does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from heapq import nlargest
from itertools import permutations, product
from math import prod
from typing import NamedTuple

from torch import Tensor

from conformance_tests.parameters.evidence import (
    ATTENTION,
    FEED_FORWARD,
    IN_LAYER,
    OUTSIDE,
    PACKED,
    SHAPE,
    TIE,
    Words,
    evidence,
    said,
    stands_outside,
)
from conformance_tests.parameters.names import FEWEST_MAPS, layers_of, numbers, words
from conformance_tests.parameters.storage import Storage, Take
from encoder_spec.notation import SpecificationError

SCALES = {"bias": ("weight",), "b": ("weight", "gate", "a"), "o": ("gate",)}
"""Words for what is added, each with the words for what it is added to."""

ORDINALS = ("first", "second", "third", "fourth")

LIKE = ("Q", "K", "V", "O", "norm_1", "norm_2")
"""Parts of one shape, told apart by the order of definition where nothing else does."""

ORDER = 1e-3
"""Weight of the order of definition."""


class Look(NamedTuple):
    """The look of an array: the words of its name, its shape, which array of its part it is, and what is stated."""

    words: Words
    shape: tuple[int, ...]
    kind: str
    stated: str


@dataclass(frozen=True)
class Array:
    """An array of one layer, or outside of layers: a weight, or the part of it that a layer has."""

    name: str
    take: Take
    shape: tuple[int, ...]
    layer: int | None
    words: Words
    kind: str
    stated: str = ""

    @property
    def look(self) -> Look:
        """The words, shape and kind that the array has in each layer."""
        return Look(self.words, self.shape, self.kind, self.stated)


@dataclass(frozen=True)
class Part:
    """A part of an encoder: its array, or one for each head, and the biases that are added."""

    arrays: tuple[Array, ...]
    biases: tuple[Array, ...]
    words: Words
    part: str = ""
    guessed: bool = False

    @property
    def first(self) -> Array:
        """Its array, that of its first head, or its bias where there is nothing else."""
        return (*self.arrays, *self.biases)[0]


def assigned(weights: Mapping[str, Tensor], storage: Storage, stated: Mapping[str, str]) -> tuple[list[Part], int]:
    """Return the parts that an author states, or for which most evidence speaks; and d_model.

    Raises:
        SpecificationError: if the author names a parameter that is not there.
    """
    arrays, numbered = arrays_of(weights)
    width = hidden_width(arrays)
    arrays = as_stated(stated, arrays)
    found = []
    for layer in dict.fromkeys(a.layer for a in arrays):
        parts = heads_joined(with_biases([a for a in arrays if a.layer == layer]))
        taken = frozenset(letter for p in parts if p.arrays for letter in letters(p.part))
        roles = (IN_LAYER if layer is not None else ()) + (() if layer is not None and numbered else OUTSIDE)
        open_parts = [p for p in parts if not p.part]
        seen = tuple(
            (p.words, p.first.shape, p.first.kind, bool(p.arrays), bool(p.biases)) for p in counted(open_parts)
        )
        best = best_parts(seen, width, storage.squares, storage.norms, taken, roles)
        found += [p for p in parts if p.part]
        found += [replace(p, part=part, guessed=guess) for p, (part, guess) in zip(open_parts, best, strict=True)]
    return found, width


def arrays_of(weights: Mapping[str, Tensor]) -> tuple[list[Array], bool]:
    """Return the arrays of each layer and of none; and whether a number, or an axis for the layers, tells the layer.

    Without either, all of them may be in a single layer or stand outside of it.
    """
    spoken = {name: words(name) for name in weights}
    inside = [name for name, w in weights.items() if w.ndim > 1 and not stands_outside(spoken[name])]
    stacked = sum(weights[n].ndim > 2 for n in inside) >= FEWEST_MAPS and len({len(weights[n]) for n in inside}) == 1
    layers = {} if stacked else layers_of(spoken, [name for name, w in weights.items() if as_map(w).ndim > 1])
    found = []
    for name, w in weights.items():
        kind = "kernel" if "kernel" in name.lower() else "weight"
        if stacked and name in inside:
            takes = [partial(of_layer, l) for l in range(len(w))]
            found += [Array(name, take, tuple(take(w).shape), l, spoken[name], kind) for l, take in enumerate(takes)]
        else:
            layer, left = layers.get(name, (None if layers or stacked else 0, spoken[name]))
            take = as_in_layer if name in layers else as_map
            found.append(Array(name, take, tuple(take(w).shape), layer, left, kind))
    return found, bool(layers or stacked)


def as_map(w: Tensor) -> Tensor:
    """Return an array without the axes of a convolution of size 1; a vector without the axes it is spread along."""
    while w.ndim > 2 and w.shape[-1] == 1:
        w = w.squeeze(-1)
    return w.reshape(-1) if w.ndim > 2 and w.numel() == w.shape[-1] else w


def as_in_layer(w: Tensor) -> Tensor:
    """Return an array of a layer, where (1, d) is a vector too: a map of one feature stands outside of the layers."""
    return w.reshape(-1) if w.ndim == 2 and len(w) == 1 else as_map(w)


def of_layer(layer: int, w: Tensor) -> Tensor:
    """Return the array of one layer."""
    return as_map(w[layer])


def hidden_width(arrays: Sequence[Array]) -> int:
    """Return d_model: the length of an axis in most maps of layers; of two such, that of more vectors."""
    inside = [a.shape for a in arrays if a.layer is not None]
    maps, vectors = [shape for shape in inside if len(shape) > 1], [shape for shape in inside if len(shape) == 1]
    sizes = {size for shape in maps or vectors for size in shape}
    return max(sizes, key=lambda s: (sum(s in shape for shape in maps), vectors.count((s,))), default=0)


def as_stated(stated: Mapping[str, str], arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays with what their author states of them.

    Raises:
        SpecificationError: if there is no such parameter.
    """
    found = list(arrays)
    names = [a.name for a in arrays]
    for letter, pattern in stated.items():
        name, turned = pattern.removesuffix(".T"), pattern.endswith(".T")
        meant = [name.replace("{l}", str(l)) for l in range(len(names) + 1)] if "{l}" in name else [name]
        places = [i for each in meant for i, own in enumerate(names) if own == each]
        if not places:
            near = ", ".join(get_close_matches(meant[0], dict.fromkeys(names), n=3, cutoff=0))
            raise SpecificationError(
                f"described: the encoder has no parameter {meant[0]!r}, which is stated for {letter}; "
                f"near to it are {near}"
            )
        part = letter.removeprefix("W_").removeprefix("b_").removesuffix(".gamma").removesuffix(".beta")
        is_bias = letter.startswith("b_") or letter.endswith(".beta")
        for layer, i in enumerate(places):
            kind = "bias" if is_bias else "transposed" if turned else found[i].kind
            found[i] = replace(found[i], stated=part, kind=kind, layer=layer if part in IN_LAYER else None)
    return found


def with_biases(arrays: Sequence[Array]) -> list[Part]:
    """Return the parts of a layer, each with the vector that shares its words and fits its width as its bias."""
    added = biases_among(tuple(a.look for a in arrays))
    parts = []
    for j, a in enumerate(arrays):
        alone = len(a.shape) == 1 and ("bias" in a.words or ("b" in a.words and "norm" not in a.words))
        if j in added:
            parts.append(Part((a,), (arrays[added[j]],), a.words, a.stated))
        elif j not in added.values():
            is_bias = a.kind == "bias" or (alone and not a.stated)
            parts.append(Part(() if is_bias else (a,), (a,) if is_bias else (), a.words, a.stated))
    return parts


@cache
def biases_among(arrays: tuple[Look, ...]) -> Mapping[int, int]:
    """Return which arrays of a layer are biases, by the place of what each is added to."""
    pairs = sorted(
        (more, abs(i - j), i, j)
        for (i, bias), (j, whole) in permutations(enumerate(arrays), 2)
        if (more := words_more(bias, whole)) is not None
    )
    added: dict[int, int] = {}
    for _, _, i, j in pairs:
        if added.keys().isdisjoint((i, j)) and not {i, j} & set(added.values()):
            added[j] = i
    return added


def words_more(bias: Look, whole: Look) -> int | None:
    """Return how many words an array has beside those of its bias; None if that cannot be its bias."""
    widths = (*whole.shape, prod(whole.shape[1:]), prod(whole.shape[:-1]))
    is_map = len(whole.shape) > len(bias.shape)
    if bias.stated or whole.kind == "bias" or not (prod(bias.shape) in widths if is_map else whole.shape == bias.shape):
        return None
    found = []
    for place, word in enumerate(bias.words):
        left = without(bias.words, place)
        scaled = [other for other, scale in enumerate(whole.words) if scale in SCALES.get(word, ())]
        # The letters a and b number norms, too, unless a number does.
        apart = [other for other in scaled if whole.words[other] != "a" or "".join(left[-1:]).isdigit()]
        if left in [without(whole.words, other) for other in apart] or (word in ("bias", "b") and left == whole.words):
            found.append(0)
        missing = set(whole.words) - set(left)
        some = left and set(left) <= set(whole.words) and missing.isdisjoint("qkv")
        if some and (word == "bias" or (word == "b" and is_map)):
            found.append(1 + len(whole.words) - len(left))
    return min(found, default=None) if is_map or len(bias.shape) == 1 else None


def without(spoken: Words, place: int) -> Words:
    """Return words but for the one at a place."""
    return spoken[:place] + spoken[place + 1 :]


def heads_joined(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with the arrays of all heads as one, where a number alone tells those of Q, K, V or O apart."""
    groups: dict[tuple[Words, tuple[int, ...]], dict[int, Part]] = {}
    for part in parts:
        if len({"q", "k", "v"} & set(part.words) or {"o"} & set(part.words)) == 1:
            for number, _, pattern in numbers(part.words):
                groups.setdefault((pattern, part.first.shape), {})[number] = part
    heads = {len(same) for (pattern, _), same in groups.items() if "o" not in pattern} - {1}
    joined: dict[Part, Part] = {}
    for (pattern, _), same in groups.items():
        if len(same) in heads:
            ordered = [same[number] for number in sorted(same)]
            arrays, biases = [a for p in ordered for a in p.arrays], [b for p in ordered for b in p.biases]
            whole = Part(tuple(arrays), tuple(biases), tuple(word for word in pattern if word != "#"), ordered[0].part)
            joined |= dict.fromkeys(ordered, whole)
    return list(dict.fromkeys(joined.get(part, part) for part in parts))


def counted(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts with ``first``, ``second`` … in the place of numbers that tell parts of a kind apart.

    The least is the first, from 0 on or from 1 on, with gaps or without. A number alone is what it says.
    """
    found: dict[tuple[Words, int], set[int]] = {}
    for part in parts:
        for number, _, pattern in numbers(part.words):
            found.setdefault((pattern, len(part.first.shape)), set()).add(number)
    for part in parts:
        spoken = list(part.words)
        for number, place, pattern in numbers(part.words):
            same = sorted(found[pattern, len(part.first.shape)])
            rank = same.index(number) if len(same) > 1 else number - 1
            spoken[place] = ORDINALS[rank] if rank >= 0 and max(rank + 1, len(same)) <= len(ORDINALS) else ""
        yield replace(part, words=tuple(word for word in spoken if word))


def letters(part: str) -> Sequence[str]:
    """Return the single parts that one holds: three, if it holds Q, K and V; none, if it is none."""
    return PACKED.get(part, (part,) if part else ())


@cache
def best_parts(
    seen: tuple[tuple[Words, tuple[int, ...], str, bool, bool], ...],
    width: int,
    squares: str,
    norms: str,
    taken: frozenset[str],
    roles: tuple[str, ...],
) -> tuple[tuple[str, bool], ...]:
    """Return for each array which part it is, and whether that is a guess, so that most evidence speaks for the whole.

    Args:
        seen: the words, the shape and the kind of each, whether it is more than a bias, and whether it has one.
        width: d_model.
        squares: the order in which square maps are defined that nothing else tells apart.
        norms: the order in which norms are defined that nothing else tells apart.
        taken: the parts that are known already.
        roles: the parts that there may be.
    """
    wholes = [i for i, (_, _, _, has_array, _) in enumerate(seen) if has_array]
    order = (*squares, "1", "1G", "G", "2", *(f"norm_{place}" for place in norms))
    most, best = -1.0, [("", False)] * len(wholes)
    sizes = [size for i in wholes for size in seen[i][1] if len(seen[i][1]) > 1]
    likely = sorted({*sizes, width}, key=lambda size: (size == width, -sizes.count(size)))
    for inner, turned, gates in product(likely, (False, True), ((), ("G",))):
        open_roles = [role for role in roles if role != "G" or gates]
        rows = []
        for i in wholes:
            spoken, shape, kind, _, has_bias = seen[i]
            usual = shape[::-1] if turned or kind == "kernel" else shape
            rows.append(evidence(spoken, usual, open_roles, width, inner, has_bias=has_bias))
        total, found = most_evidence(rows, order, taken)
        named = {part for part, _ in found}
        # A gate stands beside the map that it gates.
        if total > most + TIE / 2 and ("1" in named or "G" not in named):
            most, best = total, found
    parts = dict(zip(wholes, best, strict=True))
    # A bias alone belongs to a map that has none.
    shifted = frozenset(letter for i, (part, _) in parts.items() if seen[i][4] for letter in letters(part))
    alone = [i for i in range(len(seen)) if i not in parts]
    of_maps = {*ATTENTION, *FEED_FORWARD} & set(roles)
    rows = [{part: weight for part, weight in said(seen[i][0]).items() if part in of_maps} for i in alone]
    parts |= zip(alone, most_evidence(rows, (), shifted)[1], strict=True)
    return tuple(parts[i] for i in range(len(seen)))


def most_evidence(
    rows: Sequence[Mapping[str, float]], order: Sequence[str], taken: frozenset[str]
) -> tuple[float, list[tuple[str, bool]]]:
    """Return the assignment of parts to rows with most evidence: its sum, and each part with whether it is a guess.

    It is one if no word speaks for it, or if as much evidence speaks for exchanging it with another.
    """
    roles = {part for row in rows for part in row}
    # No more rows can matter to a part than there are parts.
    kept = {part: nlargest(len(roles), range(len(rows)), key=lambda i: rows[i].get(part, 0.0)) for part in roles}
    # By the parts that are taken: the best way to take them.
    ways: dict[frozenset[str], tuple[float, dict[int, str]]] = {taken: (0.0, {})}
    for i, row in enumerate(rows):
        for held, (total, way) in list(ways.items()):
            for part in row:
                if i in kept[part] and held.isdisjoint(letters(part)):
                    late = i / len(rows) - order.index(part) / len(order) if part in order else 0.0
                    more, after = total + row[part] - ORDER * late**2, held.union(letters(part))
                    if more > ways.get(after, (0.0, {}))[0]:
                        ways[after] = more, way | {i: part}
    total, way = max(ways.values(), key=lambda one: one[0])
    parts = [way.get(i, "") for i in range(len(rows))]
    guesses = []
    for i, mine in enumerate(parts):
        gains = [
            rows[i].get(other, -1.0) + rows[j].get(mine, -1.0) - rows[i][mine] - rows[j][other]
            for j, other in enumerate(parts)
            if {mine, other} <= set(LIKE) and j != i
        ]
        guesses.append(mine in LIKE and (rows[i][mine] <= SHAPE or max(gains, default=-1.0) > -TIE))
    return total, list(zip(parts, guesses, strict=True))
