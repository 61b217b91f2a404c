"""Products of two sums, in the place of the sum of products that belongs there: (Σ qᵢ)(Σ kⱼ) for Σ qᵢ kᵢ.

An einsum with two letters for one axis computes such. The product is read as the one that was meant, and marked.
"""

from torch import Tensor

from conformance_tests.computation.graph import Graph, Operand, Value, places
from conformance_tests.computation.rewriting import Rewriting

APART = "apart"
"""The option of a product whose factors are summed before they are multiplied."""


def joined_sums(graph: Graph) -> Graph:
    """Return a graph in which products of two sums are read as sums of products; the same graph, if it has none."""
    found = {value.number: sides for value in graph.values if (sides := summands(graph, value)) is not None}
    return Joining(graph, found).finish() if found else graph


def summands(graph: Graph, product: Value) -> tuple[Tensor, Tensor] | None:
    """Return what is summed in rows (T, M, K) and in columns (T, K, N) of a product of two sums; None of another."""
    if product.operation != "product" or not all(map(graph.depends, product.reads)) or product.arrays[0].shape[-1] > 1:
        return None
    rows, columns = (terms_of(graph, codes) for codes in (product.arrays[0][..., 0], product.arrays[1][:, 0]))
    if rows is None or columns is None or rows.shape[-1] != columns.shape[-1]:
        return None
    return rows, columns.mT


def terms_of(graph: Graph, codes: Tensor) -> Tensor | None:
    """Return the terms of which entries are the sums, along a last axis; None if they are no such sums."""
    value = graph.owner(codes)
    if value is None or value.operation != "sum" or len(value.options["axes"]) != 1:
        return None
    read = value.arrays[0].movedim(value.options["axes"][0], -1)
    return read.reshape(-1, read.shape[-1])[places(codes)]


class Joining(Rewriting):
    """Builds the graph in which products of sums are those of their terms."""

    def __init__(self, former: Graph, found: dict[int, tuple[Tensor, Tensor]]) -> None:
        super().__init__(former)
        for value in former.values:
            if value.number in found:
                reads: tuple[Operand, ...] = tuple(map(self.translated, found[value.number]))
                self.now[value.number] = self.add(value, reads, value.data, {APART: True})
            else:
                self.now[value.number] = self.keep(value)
