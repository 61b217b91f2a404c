"""Which part of an encoder each weight is: by what its author says, by its name, by its shape."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod

from torch import Tensor

from conformance_tests.parameters.naming import BESIDE, NORM, common_owner, layer_prefix, role, stem_and_kind
from conformance_tests.parameters.plain_names import is_outside
from conformance_tests.parameters.shapes import (
    guesses,
    misnamed,
    numbered_from_zero,
    of_feed_forward,
    packed_gates,
    reversed_layers,
)
from conformance_tests.parameters.storage import Storage
from encoder_spec.notation import SpecificationError

ACROSS_HEADS = ("Q", "K", "V", "O")
"""The parts that may have an array for each head."""


PACKED = {"QKV": "QKV", "KV": "KV"}
"""The parts that hold several maps, each with their letters."""


@dataclass(frozen=True)
class Named:
    """A weight with what its name says: in which layer it is, whose it is, and which of its arrays.

    Arrays that differ in the number of a head alone are one, with several names.
    """

    names: tuple[str, ...]
    layer: str
    stem: str
    kind: str

    @property
    def is_bias(self) -> bool:
        """Whether it is added."""
        return self.kind in ("bias", "beta")


def heads_told(
    named: Sequence[Named], parts: Mapping[tuple[str, str], str], weights: Mapping[str, Tensor], width: int
) -> int:
    """The number of heads, if the queries have an array or an index for each; else 0."""
    for n in named:
        if parts[n.layer, n.stem] == "Q" and not n.is_bias:
            shape = weights[n.names[0]].shape
            if len(n.names) > 1:
                return len(n.names)
            if len(shape) == 3 and shape[-1] > 1:
                return shape[1] if shape[0] == width else shape[0]
    return 0


def packing(parts: Collection[str], storage: Storage) -> str:
    """How Q, K and V are stored together, in words."""
    if "QKV" not in parts:
        return ""
    return "packed head by head" if storage.by_head else f"packed in the order {', '.join(storage.order)}"


def survey(weights: Mapping[str, Tensor], stated: Mapping[str, str]) -> list[Named]:
    """Every weight with what its author or its name says of it."""
    said = list(stated_names(stated, weights))
    taken = {name for n in said for name in n.names}
    return said + gathered([parse(name, layer) for name, layer in in_layers(weights) if name not in taken])


def stated_names(stated: Mapping[str, str], weights: Mapping[str, Tensor]) -> Iterator[Named]:
    """The weights that the author names, with the canonical letter as their stem.

    Raises:
        SpecificationError: if there is no such parameter.
    """
    for letter, pattern in stated.items():
        pattern = pattern.removesuffix(".T")
        kind = "bias" if letter.startswith("b_") or letter.endswith(".beta") else "weight"
        kind = "transposed" if stated[letter].endswith(".T") else kind
        layers = list(range(len(weights))) if "{l}" in pattern else [0]
        names = [pattern.replace("{l}", str(l)) for l in layers]
        if names[0] not in weights:
            near = get_close_matches(names[0], list(weights), n=3, cutoff=0)
            raise SpecificationError(
                f"described: the encoder has no parameter {names[0]!r}, which is stated for {letter}; "
                f"near to it are {', '.join(near)}"
            )
        inside = letter.startswith(("W_", "b_", "norm_1", "norm_2")) and "patch" not in letter and "cls" not in letter
        for l, name in zip(layers, names, strict=True):
            if name in weights:
                yield Named((name,), f"layers.{l}." if inside else "", f"={letter}", kind)


def in_layers(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Every name with the canonical path of its layer, which is empty outside of layers.

    A module without numbered layers is one layer, but for what is known to stand outside.
    """
    prefix = layer_prefix(weights)
    layered = bool(prefix) or any(re.match(r"\d+\.", name) for name in weights)
    inside = re.compile(rf"^{re.escape(prefix)}\.?(\d+)\.")
    block = "" if layered else only_block(weights)
    for name in weights:
        found = inside.match(name) if layered else None
        if found:
            yield name, f"layers.{found[1]}."
        else:
            outside = layered or not name.startswith(block) or is_outside(name)
            yield name, "" if outside else "layers.0."


def only_block(weights: Mapping[str, Tensor]) -> str:
    """What stands before the names of the only layer's arrays, if its maps and two norms are in one module."""
    maps = [name for name, w in weights.items() if w.ndim > 1 and not is_outside(name)]
    owner = "".join(f"{part}." for part in common_owner(maps))
    normed = {name.rpartition(".")[0] for name in weights if name.startswith(owner) and re.search(NORM, name.lower())}
    return owner if len(maps) > 1 and len(normed) > 1 else ""


def parse(name: str, layer: str) -> Named:
    """What a name says, without the prefix that all layers share."""
    number = re.search(rf"(?:^|\.){layer.split('.')[1]}\.", name) if layer and re.search(r"\d", name) else None
    return Named((name,), layer, *stem_and_kind(name[number.end() :] if number else name))


def gathered(named: Sequence[Named]) -> list[Named]:
    """The same with the arrays of all heads as one, where they differ in a number alone."""
    groups: dict[tuple[str, str, str], list[Named]] = {}
    for n in named:
        groups.setdefault((n.layer, re.sub(r"[._]?\d+", "#", n.stem), n.kind), []).append(n)
    found: list[Named] = []
    for (layer, stem, kind), same in groups.items():
        whole = stem.replace("#", "")
        told = {role(n.stem, in_layer=True, is_norm=False) for n in same} - {""}
        if len(same) > 1 and layer and role(whole, in_layer=True, is_norm=False) in ACROSS_HEADS and len(told) <= 1:
            ordered = sorted(same, key=lambda n: [int(number) for number in re.findall(r"\d+", n.stem)])
            found.append(Named(tuple(name for n in ordered for name in n.names), layer, whole, kind))
        else:
            found.extend(same)
    return found


def parts_of(
    named: Sequence[Named], weights: Mapping[str, Tensor], width: int, storage: Storage
) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]]]:
    """The part that each stem names, by layer and stem; and which of them neither name nor shape tells.

    Stems that say nothing are told by shape: a vector is a norm, a square map one of attention, a map
    from d_model to another width the first of the feed-forward network. Several of one shape are taken
    in the order in which ``storage`` has them.
    """
    shapes = {(n.layer, n.stem): weights[n.names[0]].shape for n in named if not n.is_bias}
    # The norm of factorised embeddings has another width than all others.
    norms = {
        key
        for key, shape in shapes.items()
        if len(shape) == 1 and (shape[0] == width or (not key[0] and re.search(NORM, key[1])))
    }
    parts = {
        key: stated_part(key[1]) or role(key[1], in_layer=bool(key[0]), is_norm=key in norms)
        for key in dict.fromkeys((n.layer, n.stem) for n in named)
    }
    for key in [key for key, part in parts.items() if part == "norm_2"]:
        # Of two norms that both sound like the second one, the first to be defined is the first.
        named_so = [other for other, part in parts.items() if part.startswith("norm") and other[0] == key[0]]
        if len(named_so) > 1 and named_so[0] == key and "norm_1" not in (parts[other] for other in named_so):
            parts[key] = "norm_1"
    sizes = {(n.layer, n.stem): len(n.names) * weights[n.names[0]].numel() for n in named if not n.is_bias}
    told_by_others = numbered_from_zero(norms) | of_feed_forward(parts, sizes)
    parts |= {key: part for key, part in told_by_others.items() if not stated_part(key[1])}
    for key in misnamed(parts, shapes):
        parts[key] = ""
    parts |= norms_outside(parts, named, shapes, width)
    guessed, turned = set(), reversed_layers(parts, shapes, width)
    for key, part in parts.items():
        if part or not key[0] or key not in shapes or "relative" in key[1]:
            continue
        taken = {letter for (layer, _), p in parts.items() if layer == key[0] for letter in (p, *PACKED.get(p, ""))}
        shape = shapes[key][::-1] if key[0] in turned else shapes[key]
        left = [p for p in guesses(shape, key in norms, width, storage) if p not in taken]
        if left:
            parts[key] = left[0]
            # The only array of its shape needs no guess.
            guessed |= {key} if left[0] in ACROSS_HEADS or key in norms else set()
    for key in packed_gates(parts, shapes, width):
        parts[key] = "1G"
    for (layer, stem), part in parts.items():
        # Gate and first map have the same shape; what has another one is a gate of something else.
        first = [shapes[key] for key, other in parts.items() if key[0] == layer and other == "1" and key in shapes]
        if part == "G" and [shapes.get((layer, stem))] != first:
            parts[layer, stem] = ""
    return parts, guessed


def norms_outside(
    parts: Mapping[tuple[str, str], str],
    named: Sequence[Named],
    shapes: Mapping[tuple[str, str], Sequence[int]],
    width: int,
) -> dict[tuple[str, str], str]:
    """The norms outside of the layers that a shape tells.

    One whose name says nothing, not even of a part on top, with both vectors of a norm, stands behind the layers if
    none else does; what has another width than the layers stands before them.
    """
    shifted = {(n.layer, n.stem) for n in named if not n.layer and n.is_bias and len(n.names) == 1}
    silent = [key for key in shifted if not parts[key] and not BESIDE.search(key[1])]
    unknown = [key for key in silent if tuple(shapes.get(key, ())) == (width,)]
    found = {unknown[0]: "norm_final"} if len(unknown) == 1 and "norm_final" not in parts.values() else {}
    final = [key for key, part in parts.items() if part == "norm_final"]
    # A vector may be stored with axes of length 1 around it, and a norm may have a single number.
    narrow = [key for key in final if prod(shapes.get(key, ())) not in (1, width)]
    return found | dict.fromkeys(narrow, "norm_embedding")


def stated_part(stem: str) -> str:
    """The part that an author's canonical letter speaks of; nothing for a name."""
    if not stem.startswith("="):
        return ""
    return re.sub(r"^[Wb]_", "", stem[1:]).removesuffix(".gamma").removesuffix(".beta")
