"""Maps of maps: what two maps behind one another compute is one map, whose weights are the product of theirs.

Queries, keys and values may be mapped twice, as around an attention that has maps already; so may its results, and
what enters the first layer. A map of what is looked up looks up the rows of a mapped table.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.feed_forward import feed_forwards
from conformance_tests.computation.graph import Graph, Value, View, places
from conformance_tests.computation.rewriting import Rewriting
from conformance_tests.computation.walking import constant_along, is_of_data, unchanged


def composed(graph: Graph) -> Graph:
    """Return a graph in which a map of a map is one map, and a map of a look-up is one look-up.

    Only maps in attention and behind the input are composed. A graph without any is returned as it is.
    """
    maps = {v.number: found for v in graph.values if (found := map_before(graph, v)) is not None}
    if maps:
        # What a feed-forward network ends in is not composed with the map of another part.
        ends = {n.gives.number for n in feed_forwards(graph) if n.gives is not None and n.operations}
        maps = {number: found for number, found in maps.items() if ends.isdisjoint(p.number for p in found.products)}
    look_ups = {v.number: of_rows for v in graph.values if (of_rows := look_up_before(graph, v)) is not None}
    return Composing(graph, maps, look_ups).finish() if maps or look_ups else graph


def map_before(graph: Graph, product: Value) -> Affine | None:
    """Return what a map reads as a map itself, if both stand between a stream and attention, or behind the input.

    None if they do not. Maps of the same value whose results stand side by side are one map.
    """
    if not graph.is_map(product):
        return None
    rows = product.reads[0]
    assert isinstance(rows, Tensor)
    found = affine(graph, rows[0]) if len(rows) == 1 else None
    if found is None or found.factor() is None or not found.has_one_bias():
        return None
    columns, of_rows = found.columns(), found.rows()
    is_whole = bool((columns == columns[:1]).all()) and bool((of_rows == of_rows[:, :1]).all())
    by = {reader.number for inner in found.products for reader in readers_of_map(graph, inner)}
    if not is_whole or by != {product.number}:
        return None
    reads = found.products[0].reads[0]
    assert isinstance(reads, Tensor)
    owners = graph.owners(reads)
    behind_attention = all(is_of_data(graph, value) for value in owners)
    behind_input = all(value.operation == "argument" for value in owners)
    readers = list(readers_of_map(graph, product))
    before_attention = bool(readers) and all(is_of_data(graph, reader) for reader in readers)
    return found if behind_attention or before_attention or behind_input else None


def look_up_before(graph: Graph, product: Value) -> Value | None:
    """Return the look-up of tokens whose rows a map reads, if positions or segments are added to what it gives.

    None for other maps. One that nothing is added to widens the embeddings, which the specification has.
    """
    if not graph.is_map(product):
        return None
    rows = product.reads[0]
    assert isinstance(rows, Tensor)
    found = graph.owner(rows)
    if found is None or found.operation != "look-up" or found.options.get("axis") not in (0, None) or len(rows) > 1:
        return None
    index = graph.owner(unchanged(graph, found.arrays[-1]))
    is_of_ids = found.arrays[0].ndim == 2 and index is not None and index.operation == "argument"
    is_whole = torch.equal(rows.flatten(), found.codes.flatten())
    return found if is_of_ids and is_whole and is_summand(graph, product) else None


def is_summand(graph: Graph, product: Value) -> bool:
    """Return whether what a map gives is one of several summands: positions are added to it, or segments."""
    waiting = [product]
    while waiting:
        value = waiting.pop()
        for reader in graph.readers(value):
            others = [read for read in reader.arrays if graph.owner(read) is not value]
            if reader.operation != "add" or len(others) != 1:
                continue
            if not graph.depends(others[0]):
                if not is_bias(others[0]):
                    return True
                waiting.append(reader)
            elif product not in graph.ancestors(others[0]):
                return True
    return False


def is_bias(codes: Tensor) -> bool:
    """Return whether weights that are added are the same at all positions of all sequences."""
    return constant_along(codes.reshape(-1, codes.shape[-1]), 0)


def readers_of_map(graph: Graph, product: Value) -> Iterator[Value]:
    """Yield what reads the result of a map, behind its bias and its scale."""
    waiting = [product]
    while waiting:
        for reader in graph.readers(waiting.pop()):
            if reader.kind == "elementwise" and sum(map(graph.depends, reader.reads)) == 1:
                waiting.append(reader)
            else:
                yield reader


class Composing(Rewriting):
    """Builds the graph in which maps of maps are one map each, with one bias, and maps of look-ups are look-ups."""

    def __init__(self, former: Graph, maps: dict[int, Affine], look_ups: dict[int, Value]) -> None:
        super().__init__(former)
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._looked_up: set[int] = set()
        for value in former.values:
            if value.number in maps:
                self.now[value.number] = self._mapped(value, maps[value.number])
            elif value.number in look_ups:
                self.now[value.number] = self._look_up(value, look_ups[value.number])
            else:
                self.now[value.number] = self._with_one_bias(value)

    def _mapped(self, outer: Value, inner: Affine) -> Tensor:
        """Add the map that two are, and its bias: (x A + a) B = x A B + a B."""
        B, factor = self.read(outer.reads[1]), inner.factor()
        if factor is not None and factor != 1:
            B = self.weights(outer, "mul", (B, factor), "elementwise")
        A = self.translated(inner.at(0).weights().mT)[None]
        rows = self.translated(inner.at(slice(None), 0).arguments())[None]
        W = self.weights(outer, "product", (A, B))
        numbers = self.graph.numbers(rows) @ self.graph.numbers(W)
        codes = self.add(outer, (rows, W), numbers, {})
        biased = inner.bias[0] != NONE
        if not bool(biased.any()):
            return codes
        a = self.translated(torch.where(biased, inner.bias[0], 0))[None, None]
        bias = self.weights(outer, "product", (a, B)).expand_as(codes)
        found = self.add(outer, (codes, bias), outer.data, {}, operation="add", kind="elementwise")
        self._sums[len(self.graph.values) - 1] = codes, bias
        return found

    def _look_up(self, product: Value, of_rows: Value) -> Tensor:
        """Add the look-up in a mapped table that a map of a look-up is."""
        W = self.read(product.reads[1])
        E, *index = map(self.read, of_rows.arrays)
        return self._rows_of(product, self.weights(product, "product", (E[None], W))[0], index[-1])

    def _rows_of(self, like: Value, table: Tensor, index: Tensor) -> Tensor:
        """Add a look-up in a table, whose result stands in the place of a former value."""
        shape = (*index.shape, table.shape[-1])
        about = {"operation": "look-up", "kind": ""}
        codes = self.add(like, (table, index), like.data.reshape(shape), {"axis": 0}, **about)
        self._looked_up.add(len(self.graph.values) - 1)
        return codes.reshape(like.shape)

    def _with_one_bias(self, value: Value) -> Tensor | View:
        """Add a value; where it adds weights to a map of a map with a bias, both biases are one.

        What is added to all rows of a mapped table that are looked up is added to the table.
        """
        reads = tuple(map(self.read, value.reads))
        data = [read for read in reads if self.graph.depends(read)]
        beside = [read for read in reads if isinstance(read, Tensor) and not self.graph.depends(read)]
        owner = self.graph.owner(data[0]) if len(data) == 1 and value.operation == "add" and beside else None
        if owner is not None and owner.number in self._looked_up and is_bias(beside[0]):
            table, index = owner.arrays
            bias = beside[0].reshape(-1, beside[0].shape[-1])[:1]
            both = self.weights(value, "add", (table, bias.expand_as(table)), "elementwise")
            return self._rows_of(value, both, index)
        if owner is None or owner.number not in self._sums:
            return self.keep(value)
        codes, bias = (each.reshape(-1)[places(data[0])] for each in self._sums[owner.number])
        pairs, place = torch.stack([bias.reshape(-1), beside[0].reshape(-1)]).unique(dim=1, return_inverse=True)
        both = self.weights(value, "add", (pairs[0], pairs[1]), "elementwise")[place].reshape(bias.shape)
        return self.add(value, (codes, both), value.data, {})
