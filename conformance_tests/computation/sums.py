"""Sums of maps: what several maps of parts add up to is one map of all parts, Σ xᵢ Wᵢ = [x₁ … xₕ] [W₁; …; Wₕ].

Heads may go through their own rows of the output map each, and a feed-forward network may be computed in slices.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.graph import Graph, Value
from conformance_tests.computation.rewriting import Rewriting
from conformance_tests.computation.walking import is_of_data

MOST_PARTS = 64
"""So many summands are looked at: the heads of the largest encoders are fewer."""


def summed(graph: Graph) -> Graph:
    """Return a graph in which a sum of maps is one map; the same graph, if there is none in it."""
    return Summing(graph).finish() if any(map(may_be_sum, graph.values)) else graph


def may_be_sum(value: Value) -> bool:
    """Return whether an operation adds up entries."""
    return value.depends and value.operation in ("add", "sum")


class Sum(NamedTuple):
    """Summands with entries of one map each, features last, and the bias that is added to all of them."""

    maps: Sequence[Affine]
    bias: Tensor


class Summing(Rewriting):
    """Builds the graph in which each sum of maps is one map."""

    def __init__(self, former: Graph) -> None:
        super().__init__(former)
        for value in former.values:
            codes = self.keep(value)
            found = sum_of_maps(self.graph, self.graph.values[-1]) if may_be_sum(value) else None
            self.now[value.number] = codes if found is None else self._one_map(value, found)

    def _one_map(self, value: Value, found: Sum) -> Tensor:
        """Add the map that a sum is, and its bias; return the codes of the sum."""
        N = value.shape[-1]
        rows = torch.cat([each.at(..., 0).arguments().reshape(value.shape.numel() // N, -1) for each in found.maps], -1)
        firsts = (each.at(*(0,) * (len(value.shape) - 1)) for each in found.maps)
        columns = torch.cat([first.weights().mT for first in firsts])
        is_biased = bool((found.bias != NONE).any())
        data = value.data - self.graph.numbers(found.bias) if is_biased else value.data
        data = data.reshape(1, -1, N)
        about = {"operation": "product", "kind": ""}
        codes = self.add(value, (rows[None], columns[None]), data, {}, **about).reshape(value.shape)
        if is_biased:
            about = {"operation": "add", "kind": "elementwise"}
            codes = self.add(value, (codes, found.bias), value.data, {}, **about)
        return codes


def sum_of_maps(graph: Graph, value: Value) -> Sum | None:
    """Return the maps of parts that an operation adds up; None if it adds up something else.

    The parts are all results of heads, or all inner features, that are computed of one value.
    """
    parts = list(summands(value))
    if not 1 < len(parts) <= MOST_PARTS or len(value.shape) < 2:
        return None
    maps: list[Affine] = []
    bias = torch.full(value.shape, NONE)
    for codes in parts:
        found = affine(graph, codes)
        if found is None or len(found.products) != 1 or found.factor() != 1 or not is_map(found):
            return None
        if bool((found.bias != NONE).any()):
            if bool((bias != NONE).any()) or bool((found.bias == NONE).any()):
                return None
            bias = found.bias
        maps.append(found)
    first, *others = (part_of_sublayer(graph, found.products[0]) for found in maps)
    return Sum(maps, bias) if first is not None and all(other == first for other in others) else None


def summands(value: Value) -> Iterator[Tensor]:
    """Yield the entries that an operation adds up, in the shape of its result."""
    if value.operation == "add" and len(value.arrays) == 2:
        yield from value.arrays
    elif value.operation == "sum" and len(value.options["axes"]) == 1:
        read, axis = value.arrays[0], value.options["axes"][0]
        if read.shape[axis] <= MOST_PARTS and prod(value.shape) * read.shape[axis] == read.numel():
            yield from (part.reshape(value.shape) for part in read.unbind(axis))


def is_map(found: Affine) -> bool:
    """Return whether the features of all positions, last, are made by the same columns, of the same entries each."""
    rows, columns = found.rows(), found.columns().reshape(-1, found.entries.shape[-1])
    return bool((rows == rows[..., :1]).all()) and bool((columns == columns[:1]).all())


def part_of_sublayer(graph: Graph, product: Value) -> tuple[bool, frozenset[int]] | None:
    """Return whether what a map reads are results of heads, and which values the maps before it read.

    None if no map stands before it within a sublayer.
    """
    waiting = graph.owners(product.arrays[0])
    is_of_heads = all(is_of_data(graph, value) for value in waiting)
    read: set[int] = set()
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value.number in seen or not value.depends or value.operation == "argument":
            continue
        seen.add(value.number)
        if value.operation == "product" and not graph.depends(value.reads[1]):
            read.update(v.number for v in graph.owners(value.arrays[0]))
        elif value.kind or value.operation in ("product", "softmax", "log-softmax"):
            waiting += [v for codes in value.arrays for v in graph.owners(codes)]
        else:
            return None
    return (is_of_heads, frozenset(read)) if read else None
