"""From an encoder's own parameters to the canonical ones.

Names say which part an array belongs to (``naming``); shapes say how it is stored. What
neither says, such as the order in which Q, K and V are packed, is left to experiment:
``mappings`` gives every reading, the customary one first. A mapping is linear, so that it
carries gradients as well as weights.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.naming import layer_prefix, role, stem_and_kind
from encoder_spec.equation import equations

Take = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Source:
    """Where a canonical parameter comes from: a weight, and what to take of it."""

    name: str
    take: Take


@dataclass(frozen=True)
class ParameterMapping:
    """The source of every canonical parameter found, and the names that none was found for."""

    sources: Mapping[str, Source]
    unmapped: tuple[str, ...]

    def canonical(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The subject's weights, or their gradients, by canonical path."""
        return {path: source.take(weights[source.name]) for path, source in self.sources.items()}

    def restricted(self, paths: Collection[str]) -> "ParameterMapping":
        """The same with these canonical paths alone; the others count as unmapped."""
        kept = {path: source for path, source in self.sources.items() if path in paths}
        names = {s.name for s in self.sources.values()} - {s.name for s in kept.values()}
        return ParameterMapping(kept, (*self.unmapped, *sorted(names)))

    def names_of(self, *letters: str) -> set[str]:
        """The subject's names for these canonical letters, in every layer."""
        return {s.name for path, s in self.sources.items() if path.rpartition(".")[2] in letters}


@dataclass(frozen=True)
class Storage:
    """How a family stores its maps, as far as names and shapes do not tell.

    ``order`` is that of the packed Q, K and V; ``by_head`` packs them head by head;
    ``turned`` stores square maps without a telling name as input × output.
    """

    order: str = "QKV"
    by_head: int = 0
    turned: bool = False


def mappings(weights: Mapping[str, Tensor], h: int | None = None) -> Iterator[ParameterMapping]:
    """Every reading of an encoder's parameters, the customary one first.

    Args:
        weights: the arrays by the subject's names.
        h: the number of heads, if it is known: for maps that are packed head by head.
    """
    canonical = canonical_names(weights)
    if not canonical.unmapped:
        yield canonical
        return
    yield by_names(weights, Storage())
    packed_maps = [n for n in weights if role(stem_and_kind(n)[0], in_layer=True, is_norm=False) == "QKV"]
    if packed_maps:
        yield from (by_names(weights, Storage(by_head=heads)) for heads in ([h] if h else []))
        yield from (by_names(weights, Storage(order)) for order in ("KQV", "VKQ", "QVK", "KVQ", "VQK"))
    yield by_names(weights, Storage(turned=True))


def canonical_names(weights: Mapping[str, Tensor]) -> ParameterMapping:
    """Map weights that carry the specification's own paths, such as ``layers.0.norm_1.gamma``."""
    letters = {letter for e in equations().values() for letter in e.parameters}
    path = re.compile(rf"^(layers\.\d+\.)?(norm_\w+\.)?({'|'.join(letters)})$")
    return ParameterMapping(
        {name: Source(name, torch.Tensor.contiguous) for name in weights if path.match(name)},
        tuple(name for name in weights if not path.match(name)),
    )


@dataclass(frozen=True)
class Named:
    """A weight with what its name says: in which layer it is, whose it is, and which of its arrays."""

    name: str
    layer: str
    stem: str
    kind: str

    @property
    def is_bias(self) -> bool:
        """Whether it is added."""
        return self.kind in ("bias", "beta")


def by_names(weights: Mapping[str, Tensor], storage: Storage) -> ParameterMapping:
    """Map weights by what their names say, and by shape where names say nothing."""
    named = [parse(name, layer) for name, layer in in_layers(weights)]
    width = hidden_width(weights)
    parts = parts_of(named, weights, width)
    sources: dict[str, Source] = {}
    unmapped = []
    for n in named:
        part = parts.get((n.layer, n.stem), "")
        letters = places(part, n, weights[n.name], width, storage)
        found = {n.layer + letter: Source(n.name, take) for letter, take in letters}
        if not found or found.keys() & sources.keys():
            unmapped.append(n.name)
        else:
            sources |= found
    return ParameterMapping(sources, tuple(unmapped))


def in_layers(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Every name with the canonical path of its layer, which is empty outside of layers.

    A module without numbered layers is one layer, but for what is known to stand outside.
    """
    prefix = layer_prefix(weights)
    layered = bool(prefix) or any(re.match(r"\d+\.", name) for name in weights)
    inside = re.compile(rf"^{re.escape(prefix)}\.?(\d+)\.")
    for name in weights:
        found = inside.match(name) if layered else None
        if found:
            yield name, f"layers.{found[1]}."
        else:
            outside = layered or role(stem_and_kind(name)[0], in_layer=False, is_norm=False)
            yield name, "" if outside else "layers.0."


def parse(name: str, layer: str) -> Named:
    """What a name says, without the prefix that all layers share."""
    number = re.search(rf"(?:^|\.){layer.split('.')[1]}\.", name) if layer and re.search(r"\d", name) else None
    return Named(name, layer, *stem_and_kind(name[number.end() :] if number else name))


def parts_of(named: Sequence[Named], weights: Mapping[str, Tensor], width: int) -> dict[tuple[str, str], str]:
    """The part that each stem names, by layer and stem.

    Stems that say nothing are told by shape: the first vector that is left is the first norm, a map
    from d_model to another width the first of the feed-forward network.
    """
    shapes = {(n.layer, n.stem): weights[n.name].shape for n in named if not n.is_bias}
    norms = {key for key, shape in shapes.items() if len(shape) == 1 and shape[0] == width}
    parts = {
        key: role(key[1], in_layer=bool(key[0]), is_norm=key in norms)
        for key in dict.fromkeys((n.layer, n.stem) for n in named)
    }
    for key, part in parts.items():
        if part or not key[0] or key not in shapes:
            continue
        taken = {p for (layer, _), p in parts.items() if layer == key[0]}
        left = [p for p in guesses(shapes[key], key in norms, width) if p not in taken]
        parts[key] = left[0] if left else ""
    return parts


def guesses(shape: Sequence[int], is_norm: bool, width: int) -> Sequence[str]:
    """What an array inside a layer may be, by its shape alone; maps are stored output × input."""
    if is_norm:
        return ("norm_1", "norm_2")
    if len(shape) != 2 or shape[0] == shape[1]:
        return ()
    return ("1",) if shape[1] == width else ("2",) if shape[0] == width else ()


def hidden_width(weights: Mapping[str, Tensor]) -> int:
    """d_model: the length of the norms' parameters, which every layer has."""
    lengths = [w.numel() for name, w in weights.items() if re.search(r"norm|ln", name.lower()) and w.ndim == 1]
    return max(set(lengths), key=lengths.count, default=0)


def places(part: str, named: Named, array: Tensor, width: int, storage: Storage) -> Sequence[tuple[str, Take]]:
    """The canonical letters that an array holds, below its layer, and how to take each."""
    is_bias = named.is_bias
    if part.startswith("norm"):
        return [(f"{part}.{'beta' if is_bias else 'gamma'}", torch.Tensor.contiguous)]
    if part in ("E", "P", "E_seg"):
        return [(part, lambda w: w.reshape(-1, w.shape[-1]))]
    if part == "x_cls":
        return [(part, torch.flatten)]
    if part == "patch":
        return [("b_patch", torch.flatten)] if is_bias else [("W_patch", lambda w: w.flatten(1).mT)]
    if part in ("QKV", "KV"):
        letters = storage.order if part == "QKV" else part
        return [
            (f"{'b' if is_bias else 'W'}_{letter}", packed(place, len(letters), storage, is_bias, width))
            for place, letter in enumerate(letters)
        ]
    if not part or (array.ndim < 2 and not is_bias):
        return []  # a vector with the name of a map is something else: a gate by channel, say
    return (
        [(f"b_{part}", torch.flatten)]
        if is_bias
        else [(f"W_{part}", oriented(part, named.kind, array, width, storage))]
    )


def packed(place: int, parts: int, storage: Storage, is_bias: bool, width: int) -> Take:
    """Take one of the maps that are stored side by side, along the output."""

    def take(w: Tensor) -> Tensor:
        rows = w if is_bias or (w.shape[-1] == width and w.shape[0] != width) else w.mT
        if storage.by_head:
            rows = rows.unflatten(0, (storage.by_head, parts, -1))[:, place].flatten(0, 1)
        else:
            rows = rows.chunk(parts)[place]
        return rows if is_bias else rows.mT

    return take


def oriented(part: str, kind: str, array: Tensor, width: int, storage: Storage) -> Take:
    """Take a map as input × output.

    Kernels are stored so; weights the other way round, unless their shape says otherwise. Kernels
    with an axis for the heads have it beside the entries of one head.
    """
    if array.ndim == 3:
        return lambda w: w.flatten(0, 1) if part == "O" else w.flatten(1)
    rows, columns = array.shape if array.ndim == 2 else (0, 0)
    if rows != columns:
        # W_2 and W_O give the hidden width, all others read it.
        as_stored = (columns if part in ("2", "O") else rows) == width
    else:
        as_stored = kind == "kernel" or storage.turned
    return torch.Tensor.contiguous if as_stored else lambda w: w.mT
