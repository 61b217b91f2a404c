"""Maps that an attention does without: what takes the place of a map is mapped by the identity.

Queries, keys or values may be what the attention reads; behind the identity they are read as others are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import Affine, affine, one_step
from conformance_tests.computation.attention import behind_functions, read_scores, read_values, softmax_argument
from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.rotation import turning
from conformance_tests.computation.walking import along_axis, is_even, through

IDENTITY = "identity"
"""The operation of the leaf that stands in the place of a map."""


def mapped(graph: Graph) -> Graph:
    """Return a graph in which attention reads maps of the stream alone; the same graph, if it does so already."""
    found: dict[int, list[Unmapped]] = {}
    for one in unmapped(graph):
        found.setdefault(one.product.number, []).append(one)
    return Mapping(graph, found).finish() if found else graph


class Unmapped(NamedTuple):
    """An operand of a product in attention that is the stream itself.

    Attributes:
        product: it.
        side: 0 for its rows, 1 for its columns.
        stream: what the maps beside it read.
        vectors: the entries of the stream that are read, features last.
        is_turned: whether the product reads them with the features first.
        factor: the number that multiplies them.
    """

    product: Value
    side: int
    stream: Value
    vectors: Tensor
    is_turned: bool
    factor: float


def unmapped(graph: Graph) -> Iterator[Unmapped]:
    """Yield what attention reads without a map."""
    for value in graph.values:
        argument = softmax_argument(graph, value) if value.depends else None
        scores = None if argument is None else read_scores(graph, *argument)
        averaged = None if scores is None else read_values(graph, value, scores)
        if scores is None or averaged is None:
            continue
        of_queries, of_values = int(averaged.queries is not scores.product.reads[0]), int(averaged.by_row)
        operands = (
            (scores.product, of_queries, averaged.queries, of_queries == 1),
            (scores.product, 1 - of_queries, averaged.keys, of_queries == 0),
            (averaged.product, of_values, averaged.values, of_values == 0),
        )
        maps = [map_of(graph, vectors) for _, _, vectors, _ in operands]
        if None not in maps:
            continue
        read = [graph.owner(one.at(0).arguments()) for one in maps if one is not None]
        # Where nothing is mapped, averages of the stream are taken as it is.
        streams = read or [graph.owner(averaged.values)]
        for (product, side, vectors, is_turned), one in zip(operands, maps, strict=True):
            found = None if one is not None else behind_factors(graph, vectors, streams)
            if found is not None:
                yield Unmapped(product, side, *found[:2], is_turned, found[2])


def map_of(graph: Graph, vectors: Tensor) -> Affine | None:
    """Return the map of which vectors are the result, a function of each entry of it, or what positions turn."""
    found = affine(graph, behind_functions(graph, vectors)[0])
    turned = turning(graph, vectors) if found is None else None
    return found if turned is None else affine(graph, turned.codes)


def behind_factors(graph: Graph, codes: Tensor, streams: Sequence[Value | None]) -> tuple[Value, Tensor, float] | None:
    """Return the stream whose entries these are, those entries, and the number that multiplies them."""
    factor = 1.0
    while (value := graph.owner(codes)) not in streams:
        step = None if value is None else one_step(graph, value)
        if step is None or step[2] is not None or not is_even(step[1]):
            return None
        codes, factor = through(step[0], codes), factor * float(step[1].reshape(-1)[0])
    return None if value is None else (value, codes, factor)


class Mapping(Replacing[list[Unmapped]]):
    """Builds the graph in which what attention reads without a map is mapped by the identity."""

    def replaced(self, value: Value, found: list[Unmapped]) -> Tensor:
        """See ``Replacing``: the same product, of maps by the identity."""
        reads = list(map(self.read, value.reads))
        for one in found:
            reads[one.side] = self._map_of(one)
        return self.add(value, tuple(reads), value.data, self.options(value))

    def _map_of(self, one: Unmapped) -> Tensor:
        """Add the map by the identity, and return its entries as the product reads them."""
        shape = one.stream.shape
        first = places(one.vectors[0, 0])
        axis = next((a for a in range(len(shape)) if not is_even(along_axis(first, shape, a))), len(shape) - 1)
        rows = self.now[one.stream.number].movedim(axis, -1)
        data = one.stream.data.movedim(axis, -1).reshape(1, -1, shape[axis])
        identity = torch.eye(shape[axis], dtype=data.dtype)[None]
        weights = self.add(one.product, (), identity, {}, operation=IDENTITY, depends=False, learned=False)
        reads = (rows.reshape(data.shape), weights)
        codes = self.add(one.product, reads, data, {})
        if one.factor != 1:
            about = {"operation": "mul", "kind": "elementwise"}
            codes = self.add(one.product, (codes, one.factor), data * one.factor, {}, **about)
        read = through(codes.reshape(rows.shape).movedim(-1, axis), one.vectors)
        return read.mT if one.is_turned else read
