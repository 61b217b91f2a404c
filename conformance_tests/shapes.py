"""What the shapes of arrays tell of the parts of an encoder, where names say nothing or mislead."""

import re
from collections.abc import Mapping, Sequence

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
        if part in ("1", "2") and key[0] in oblong and len(shapes.get(key, ())) == 2 and len(set(shapes[key])) == 1
    ]


def reversed_layers(parts: Mapping[Stem, str], shapes: Mapping[Stem, Sequence[int]], width: int) -> set[str]:
    """The layers in which a map known by name is stored input × output."""
    given = {"1": 0, "QKV": 0, "2": 1}
    return {
        key[0]
        for key, part in parts.items()
        if part in given and len(set(shape := shapes.get(key, ()))) == 2 and shape[given[part]] == width
    }


def packed_gates(parts: Mapping[Stem, str], shapes: Mapping[Stem, Sequence[int]]) -> list[Stem]:
    """The first maps of feed-forward networks that give twice what the second ones read: gate and value in one."""
    oblong = {(key[0], part): (key, sorted(shapes[key])) for key, part in parts.items() if len(shapes.get(key, ())) == 2}
    found = []
    for (layer, part), (key, sizes) in oblong.items():
        second = oblong.get((layer, "2"))
        if part == "1" and second and (layer, "G") not in oblong and sum(sizes) - sum(second[1]) in second[1]:
            found.append(key)
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
