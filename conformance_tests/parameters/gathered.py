"""Canonical parameters as an encoder's computation reads them: from which entries of its weights each is gathered."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from conformance_tests.computation.affine import of_weights
from conformance_tests.computation.graph import PLACES, Codes, Graph, Value, View, places, regular
from conformance_tests.computation.reading import packed
from conformance_tests.computation.shown import EncoderReading
from conformance_tests.parameters.mapping import ParameterMapping, Source


def gathered(found: EncoderReading, weights: Mapping[str, Tensor]) -> tuple[ParameterMapping, list[str]]:
    """Return the mapping that a computation shows, and what of it could not be gathered, in words.

    Args:
        found: the reading.
        weights: the encoder's arrays by its own names; two names of one array are one object.
    """
    sources: dict[str, Source] = {}
    made: dict[str, None] = {}
    for path, form in found.codes.forms.items():
        whole = view_in(found.graph, form, weights)
        source = source_of(found.graph, found.codes[path], weights) if whole is None else whole
        if source is not None and path in found.widths:
            source = replace(source, kept=None, width=found.widths[path])
        if source is None:
            made[path.rpartition(".")[2]] = None
        else:
            sources[path] = source
    unread = [f"its {', '.join(made)} {'is' if len(made) == 1 else 'are'} computed of other parameters"] if made else []
    for path, numbers in found.numbers.items():
        sources[path] = Source((), partial(torch.clone, numbers))
    used = {id(weights[name]) for source in sources.values() for name in source.names}
    unused = [name for name, array in weights.items() if id(array) not in used]
    reached = found.reached()
    ids = {id(weights[name]) for name in reached if name in weights}
    spare = tuple(name for name in unused if id(weights[name]) not in ids)
    tied = standing_twice(found.codes)
    heads = found.sizes["h"]
    return ParameterMapping(sources, tuple(unused), packing=packing(found), heads=heads, spare=spare, tied=tied), unread


def standing_twice(codes: Codes[str]) -> dict[str, str]:
    """Return the paths at which the entries of an earlier path stand once more, each with that one."""
    first: dict[Hashable, str] = {}
    found: dict[str, str] = {}
    for path, form in codes.forms.items():
        key = form if isinstance(form, View) else (tuple(form.shape), hash(form.contiguous().numpy().tobytes()))
        if first.setdefault(key, path) != path:
            found[path] = first[key]
    return found


def view_in(graph: Graph, form: Tensor | View, weights: Mapping[str, Tensor]) -> Source | None:
    """Return the view of an array of weights that codes are kept as; None if they are kept otherwise."""
    if not isinstance(form, View) or graph.values[form.number].name not in weights:
        return None
    return Source((graph.values[form.number].name,), partial(strided, form.shape, form))


def source_of(graph: Graph, codes: Tensor, weights: Mapping[str, Tensor]) -> Source | None:
    """Return where entries come from; None if they are not entries of weights, nor computed of such."""
    undone = of_weights(graph, codes)
    if undone is None:
        return computed_of(graph, codes, weights)
    entries = undone.entries
    owners = [v for v in graph.owners(entries) if v.number]  # 0 is the number 0, which stands in any array
    if owners and all(v.name in weights for v in owners):
        names, is_held = tuple(v.name for v in owners), entries >> PLACES > 0
        kept = None if bool(is_held.all()) else gather(entries[is_held].unique(), owners)
        return Source(names, gather(entries, owners), undone.times, undone.plus, kept)
    if any(v.learned for v in owners):
        return None
    return Source((), partial(torch.clone, graph.numbers(codes)))


def computed_of(graph: Graph, codes: Tensor, weights: Mapping[str, Tensor]) -> Source | None:
    """Return how entries are computed of weights; None if an operation is not known well enough to be repeated."""
    learned = [v for v in graph.ancestors(codes) if v.learned and v.operation == "parameter"]
    if not learned or not all(v.name in weights for v in learned):
        return None
    again = partial(recomputed, graph, codes, tuple(v.number for v in learned))
    want = graph.numbers(codes)
    try:
        got = again(*(v.data.double() for v in learned))
    except (AttributeError, TypeError, RuntimeError, IndexError):
        return None
    close = got.shape == want.shape and torch.allclose(got, want, rtol=REPEATED, atol=REPEATED)
    return Source(tuple(v.name for v in learned), again, is_computed=True) if close else None


REPEATED = 1e-10
"""How far weights that are computed again, in float64, may be from what they were, of order 1."""


def recomputed(graph: Graph, codes: Tensor, numbers: Sequence[int], *arrays: Tensor) -> Tensor:
    """Return entries as the graph computes them, of other numbers of its parameters.

    Args:
        graph: the computation.
        codes: the entries.
        numbers: those of the parameters' values.
        arrays: what stands in their places.
    """
    known = {number: array.reshape(-1) for number, array in zip(numbers, arrays, strict=True)}

    def entries(read: "Tensor | float") -> Tensor:
        if not isinstance(read, Tensor):
            return torch.tensor(read, dtype=torch.float64)
        found = torch.zeros(read.shape, dtype=torch.float64)
        for value in graph.owners(read):
            here = read >> PLACES == value.number
            found[here] = of(value)[places(read[here])]
        return found

    def of(value: Value) -> Tensor:
        if value.number not in known:
            known[value.number] = (repeated(value, entries) if value.learned else value.data.double()).reshape(-1)
        return known[value.number]

    return entries(codes)


def repeated(value: Value, entries: Callable[..., Tensor]) -> Tensor:
    """Return what an operation gives of other entries; torch's own names tell it."""
    reads = list(map(entries, value.reads))
    if value.operation == "product":
        return reads[0] @ reads[1]
    if value.kind == "reduction":
        return torch.as_tensor(getattr(torch, value.operation)(reads[0], dim=value.options["axes"]))
    if value.kind == "elementwise":
        return torch.as_tensor(getattr(torch, value.operation)(*reads))
    raise TypeError(f"{value.operation} is not repeated")


def gather(entries: Tensor, owners: Sequence[Value]) -> Callable[..., Tensor]:
    """Return the function that takes these entries of whole arrays: a view of a single one, where that is possible."""
    view = view_by_heads(entries)
    if view is not None:
        return partial(strided, entries.shape, view)
    starts: dict[int, int] = {}
    end = 0
    for value in owners:
        starts[value.number] = end
        end += value.shape.numel()
    flat = torch.full_like(entries, end)  # behind all arrays stands the 0 of entries that no array holds
    for value in owners:
        here = entries >> PLACES == value.number
        flat[here] = places(entries[here]) + starts[value.number]
    return partial(taken, flat)


def view_by_heads(entries: Tensor) -> View | None:
    """Return the view that has these entries; None if there is none. The last axis may be two: heads, and entries."""
    last = entries.shape[-1]
    widths = (last, *(k for k in range(1, last) if last % k == 0))
    views = (regular(entries.reshape(*entries.shape[:-1], last // width, width)) for width in widths)
    return next((view for view in views if view is not None), None)


def strided(shape: torch.Size, view: View, array: Tensor) -> Tensor:
    """Return a view of an array, which may itself be a part of a larger one, as gradients of what is joined are."""
    whole = array.contiguous()
    return whole.as_strided(view.shape, view.strides, whole.storage_offset() + view.offset).reshape(shape)


def taken(flat: Tensor, *arrays: Tensor) -> Tensor:
    """Return entries of several arrays, numbered through, with a 0 behind them."""
    return torch.cat([*(a.reshape(-1) for a in arrays), arrays[0].new_zeros(1)])[flat]


def packing(found: EncoderReading) -> str:
    """Return how queries, keys and values are stored together, in words; nothing if they are not."""
    maps = [found.codes[f"layers.0.W_{letter}"] for letter in "QKV"]
    if not packed(found):
        return ""
    first = {letter: places(codes[0]) for letter, codes in zip("QKV", maps, strict=True)}
    order = sorted(first, key=lambda letter: int(first[letter].min()))
    apart = all(int(first[a].max()) < int(first[b].min()) for a, b in pairwise(order))
    return f"packed in the order {', '.join(order)}" if apart else "packed head by head"
