"""Maps of one value that are added up: x W + s (x A) B = x (W + s A B), as where one of low rank adapts another."""

from functools import reduce
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.graph import Graph, Value
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.sums import is_map

MOST_BEHIND_ONE_ANOTHER = 2
"""So many maps are followed: a map of low rank is two."""


def with_added_maps(graph: Graph) -> Graph:
    """Return a graph in which maps of one value that are added up are one map; the same graph, without any."""
    while found := {v.number: maps for v in graph.values if (maps := added_maps(graph, v)) is not None}:
        graph = Adding(graph, found).finish()
    return graph


class Added(NamedTuple):
    """A map with a bias, and the maps behind one another, the last one first, whose result is added to it."""

    first: Affine
    others: list[Affine]


class Adding(Replacing[Added]):
    """Builds the graph in which a sum of maps of one value is one map of it."""

    def replaced(self, value: Value, found: Added) -> Tensor:
        """See ``Replacing``: the map that a sum is, and the bias."""
        W, last, *before = (self._weights_of(each) for each in (found.first, *found.others))
        added = reduce(lambda inner, outer: self.weights(value, "product", (outer, inner)), before, last)
        factor = prod(each.factor() or 0.0 for each in found.others)
        if factor != 1:
            added = self.weights(value, "mul", (added, factor), "elementwise")
        W = self.weights(value, "add", (W, added), "elementwise")
        rows = self.translated(found.first.at(..., 0).arguments().flatten(0, -2))[None]
        about = {"operation": "product", "kind": ""}
        data = self.graph.numbers(rows) @ self.graph.numbers(W)
        codes = self.add(value, (rows, W), data, {}, **about).reshape(value.shape)
        if bool((found.first.bias == NONE).any()):
            return codes
        about = {"operation": "add", "kind": "elementwise"}
        return self.add(value, (codes, self.translated(found.first.bias)), value.data, {}, **about)

    def _weights_of(self, found: Affine) -> Tensor:
        """Return the codes (1, K, N) of the weights of a map."""
        return self.translated(found.at(*(0,) * (found.entries.ndim - 1)).weights().mT)[None]


def added_maps(graph: Graph, value: Value) -> Added | None:
    """Return the maps of one value that an operation adds up; None if it adds up something else."""
    if value.operation != "add" or len(value.arrays) != 2 or not all(map(graph.depends, value.arrays)):
        return None
    for one, other in (value.arrays, value.arrays[::-1]):
        first = whole_map(graph, one)
        if first is None or first.factor() != 1 or bool((first.bias == NONE).any()) != bool((first.bias == NONE).all()):
            continue
        reads, others = first.at(..., 0).arguments(), list[Affine]()
        codes = other
        while len(others) < MOST_BEHIND_ONE_ANOTHER and (each := whole_map(graph, codes)) is not None:
            if bool((each.bias != NONE).any()):
                break
            others.append(each)
            codes = each.at(..., 0).arguments()
            if codes.shape == reads.shape and torch.equal(codes, reads):
                return Added(first, others)
    return None


def whole_map(graph: Graph, codes: Tensor) -> Affine | None:
    """Return entries as those of one map, features last, of each row of what it reads; None if they are not."""
    found = affine(graph, codes) if codes.ndim > 1 else None
    if found is None or len(found.products) != 1 or not found.factor():
        return None
    return found if is_map(found) else None
