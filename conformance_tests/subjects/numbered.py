"""Names for parameters from their paths, with the layers as numbered parts.

An attribute ``block1`` is a layer if it has parts; ``query_0``, ``fc1_0``, ``norm_0`` and so on beside ``query_1``,
``fc1_1``, ``norm_1`` are the parts of two layers. Flax's linen counts the parts of a class from 0 in the order in which
they are made: ``Dense_0`` is the outer one of ``Dense(d)(relu(Dense(f)(x)))``. Such a number does not identify a map,
but the first of two norms to be made is the first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[Any, ...]

COUNTED = re.compile(r"^(.*[A-Za-z])_?(\d+)$")
COUNTED_LAST = re.compile(r"^(\w*\w)_(\d+)$")
COUNTED_BY_LINEN = re.compile(r"^([A-Z]\w*[A-Za-z])_(\d+)$")

PARTS_OF_A_LAYER = 4
"""Least number of parts with the same numbers that make layers: an attention or its maps, two maps and a norm."""


def telling_names(shapes: Mapping[Path, Sequence[int]]) -> list[str]:
    """Return a name for the path of each array, given with its shape, in their order.

    Several paths that would have one name keep their own.
    """
    paths = list(shapes)
    prefixes = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    made = {prefix: made_name(prefix, prefixes, shapes) for prefix in prefixes}
    layers, split = layers_of(paths), parts_of_layers(prefixes)
    names = [".".join(name_parts(path, layers, split, made)) for path in paths]
    return [
        name if names.count(name) == 1 else ".".join(map(str, path)) for name, path in zip(names, paths, strict=True)
    ]


def layers_of(paths: Sequence[Path]) -> set[Path]:
    """Return the prefixes of paths that are layers: the outermost numbered parts that have parts with parts."""
    depths: dict[Path, int] = {}
    for path in paths:
        for end in range(1, len(path)):
            depths[path[:end]] = max(depths.get(path[:end], 0), len(path) - end)
    groups: dict[tuple[Path, str], list[Path]] = {}
    for prefix in depths:
        found = COUNTED.match(str(prefix[-1])) if isinstance(prefix[-1], str) else None
        if found:
            groups.setdefault((prefix[:-1], found[1]), []).append(prefix)
    found_layers = {
        prefix for same in groups.values() for prefix in same if depths[prefix] > (2 if len(same) == 1 else 1)
    }
    return {p for p in found_layers if not any(p[:end] in found_layers for end in range(1, len(p)))}


def parts_of_layers(prefixes: set[Path]) -> set[Path]:
    """Return the prefixes that are parts of layers and carry the layer's number after their own name."""
    numbers: dict[tuple[Path, str], set[int]] = {}
    for prefix in prefixes:
        found = COUNTED_LAST.match(str(prefix[-1])) if not COUNTED_BY_LINEN.match(str(prefix[-1])) else None
        if found:
            numbers.setdefault((prefix[:-1], found[1]), set()).add(int(found[2]))
    return set(beside_each_other(numbers))


def beside_each_other(numbers: Mapping[tuple[Path, str], set[int]]) -> Iterator[Path]:
    """Yield the prefixes among these whose numbers several others beside them have too."""
    for (parent, name), mine in numbers.items():
        same = [key for key, theirs in numbers.items() if key[0] == parent and theirs == mine]
        if len(mine) > 1 and len(same) >= PARTS_OF_A_LAYER:
            yield from ((*parent, f"{name}_{number}") for number in mine)


def made_name(prefix: Path, prefixes: set[Path], shapes: Mapping[Path, Sequence[int]]) -> str:
    """Return the name of a part that linen has counted; an empty one for any other part.

    The map that reads the width of the norms is the first of two, whichever was made first.
    """
    found = COUNTED_BY_LINEN.match(str(prefix[-1]))
    if not found:
        return ""
    kind, number, parent = found[1], int(found[2]), prefix[:-1]
    if (*parent, f"{kind}_1") not in prefixes:
        return kind
    if "Norm" in kind:
        return f"{kind}_{number + 1}"
    scales = {tuple(shape) for path, shape in shapes.items() if path[: len(parent)] == parent and path[-1] == "scale"}
    widths = {shape[-1] for shape in scales}
    rows, columns = kernel(prefix, shapes, axes=1 + max(map(len, scales), default=1))
    if rows != columns and len(widths) == 1:
        return "linear_1" if rows in widths else "linear_2" if columns in widths else f"{kind}_made{number}"
    return f"{kind}_made{number}"


def kernel(prefix: Path, shapes: Mapping[Path, Sequence[int]], axes: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a part's map; 0 and 0 if it has none with so many axes.

    A scan over the layers gives every array an axis for them, the scale of a norm as well.
    """
    shape = shapes.get((*prefix, "kernel"), ())
    return (shape[-2], shape[-1]) if len(shape) == axes else (0, 0)


def name_parts(path: Path, layers: set[Path], split: set[Path], made: Mapping[Path, str]) -> list[str]:
    """Return the parts of the name of one path."""
    parts: list[str] = []
    for end, part in enumerate(map(str, path), start=1):
        here = path[:end]
        if here in split and (found := COUNTED_LAST.match(part)):
            parts += ["layers", found[2], found[1]]
        elif here in layers and (found := COUNTED.match(part)):
            parts += [found[1], found[2]]
        else:
            parts.append(made[here] or part)
    return parts
