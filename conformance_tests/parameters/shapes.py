"""What the shapes of arrays tell of the parts of an encoder, where names say nothing or mislead."""

import re
from collections.abc import Collection, Mapping, Sequence
from math import prod

from torch import Tensor

from conformance_tests.parameters.storage import Storage

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


def numbered_from_zero(norms: Collection[Stem]) -> dict[Stem, str]:
    """The parts of norms that are numbered 0 and 1: of those numbered 1 and 2 the names tell them."""
    pairs = [((layer, stem), (layer, f"{stem[:-1]}1")) for layer, stem in norms if layer and stem.endswith("0")]
    both = [(first, second) for first, second in pairs if second in norms]
    return {key: part for pair in both for key, part in zip(pair, ("norm_1", "norm_2"), strict=True)}


def of_feed_forward(parts: Mapping[Stem, str], sizes: Mapping[Stem, int]) -> dict[Stem, str]:
    """The maps of the feed-forward network among those whose names are words for maps of attention.

    Beside Q, K and V there is no array of all three, and W_O has as many entries as the map of queries or values.
    """
    found: dict[Stem, str] = {}
    for layer in {layer for layer, _ in parts if layer}:
        here = {key: part for key, part in parts.items() if key[0] == layer and key in sizes}
        told = set(here.values())
        if {"Q", "K", "V"} <= told and "1" not in told:
            found |= {key: "1" for key, part in here.items() if part == "QKV"}
        entries = {sizes[key] // len(part) for key, part in here.items() if part in ("Q", "V", "QKV")}
        if entries and "2" not in told:
            found |= {key: "2" for key, part in here.items() if part == "O" and sizes[key] not in entries}
    return found


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
