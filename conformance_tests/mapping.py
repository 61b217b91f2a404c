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

from conformance_tests.naming import layer_prefix, role
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
    parts = {role(name.rpartition(".layers.")[2], in_layer=True)[0] for name in weights}
    if "QKV" in parts:
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


def by_names(weights: Mapping[str, Tensor], storage: Storage) -> ParameterMapping:
    """Map weights by what their names say."""
    prefix = layer_prefix(weights)
    layer = re.compile(rf"^{re.escape(prefix)}\.?(\d+)\.(.+)$" if prefix or numbered(weights) else r"(?!)")
    width = hidden_width(weights)
    sources: dict[str, Source] = {}
    unmapped = []
    for name, array in weights.items():
        inside = layer.match(name)
        part, kind = role(inside[2], True) if inside else role(name, False)
        path = f"layers.{inside[1]}." if inside else ""
        if not part and not inside and not layer.match("0.x") and not prefix:
            part, kind = role(name, True)
            path = "layers.0."
        found = {path + letter: Source(name, take) for letter, take in places(part, kind, array, width, storage)}
        if not found or found.keys() & sources.keys():
            unmapped.append(name)
        else:
            sources |= found
    return ParameterMapping(sources, tuple(unmapped))


def numbered(weights: Mapping[str, Tensor]) -> bool:
    """Whether names begin with a number, as those of a bare list of layers do."""
    return any(re.match(r"\d+\.", name) for name in weights)


def hidden_width(weights: Mapping[str, Tensor]) -> int:
    """d_model: the length of the norms' parameters, which every layer has."""
    lengths = [w.numel() for name, w in weights.items() if re.search(r"norm|ln", name.lower()) and w.ndim == 1]
    return max(set(lengths), key=lengths.count, default=0)


def places(part: str, kind: str, array: Tensor, width: int, storage: Storage) -> Sequence[tuple[str, Take]]:
    """The canonical letters that an array holds, below its layer, and how to take each."""
    is_bias = kind in ("bias", "beta")
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
    return [(f"b_{part}", torch.flatten)] if is_bias else [(f"W_{part}", oriented(part, kind, array, width, storage))]


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
        reads_width = part != "2" and not (part == "O" and columns == width)
        as_stored = (rows == width) if reads_width else (columns == width)
    else:
        as_stored = kind == "kernel" or storage.turned
    return torch.Tensor.contiguous if as_stored else lambda w: w.mT
