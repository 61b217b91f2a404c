"""What the shapes of arrays tell of the parts of an encoder, where names say nothing or mislead."""

import re
from collections.abc import Mapping, Sequence
from math import prod

from torch import Tensor

from conformance_tests.storage import Storage

Stem = tuple[str, str]
"""The layer that a name speaks of, and the part in plain words."""


def misnamed(parts: Mapping[Stem, str], shapes: Mapping[Stem, Sequence[int]]) -> list[Stem]:
    """Square maps with the name of one of the feed-forward network, beside a map without a name that has its shape."""
    oblong = {
        key[0]
        for key, part in parts.items()
        if not part and len(shapes.get(key, ())) == 2 and len(set(shapes[key])) == 2
    }
    return [
        key
        for key, part in parts.items()
        if part in ("1", "2", "G") and key[0] in oblong and len(shapes.get(key, ())) == 2 and len(set(shapes[key])) == 1
    ]


def reversed_layers(parts: Mapping[Stem, str], shapes: Mapping[Stem, Sequence[int]], width: int) -> set[str]:
    """The layers in which a map known by name is stored input × output."""
    given = {"1": 0, "QKV": 0, "2": 1}
    return {
        key[0]
        for key, part in parts.items()
        if part in given and len(set(shape := shapes.get(key, ()))) == 2 and shape[given[part]] == width
    }


def packed_gates(parts: Mapping[Stem, str], shapes: Mapping[Stem, Sequence[int]], width: int) -> list[Stem]:
    """The first maps of feed-forward networks that give twice what the second ones read: gate and value in one."""
    inner = {
        (key[0], part): prod(shapes[key]) // width
        for key, part in parts.items()
        if part in ("1", "2", "G") and width in shapes.get(key, ())
    }
    doubled = {layer for layer, part in inner if part == "1" and inner[layer, part] == 2 * inner.get((layer, "2"), 0)}
    return [key for key, part in parts.items() if part == "1" and key[0] in doubled and (key[0], "G") not in inner]


def guesses(shape: Sequence[int], is_norm: bool, width: int, storage: Storage) -> Sequence[str]:
    """What an array inside a layer may be, by its shape alone; maps are stored output × input."""
    if is_norm:
        return [f"norm_{place}" for place in storage.norms]
    if len(shape) != 2:
        return ()
    if shape[0] == shape[1]:
        return storage.squares
    return ("1", "G") if shape[1] == width else ("2",) if shape[0] == width else ()


def hidden_width(weights: Mapping[str, Tensor]) -> int:
    """d_model: the length of the norms' parameters, or else what most maps have for an axis."""
    lengths = [w.numel() for name, w in weights.items() if re.search(r"norm|ln", name.lower()) and w.ndim == 1]
    lengths = lengths or [size for w in weights.values() if w.ndim > 1 for size in set(w.shape)]
    return max(set(lengths), key=lengths.count, default=0)
