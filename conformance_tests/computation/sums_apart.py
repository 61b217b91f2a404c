"""Products of two sums, in the place of the sum of products that belongs there: (Σ qᵢ)(Σ kⱼ) for Σ qᵢ kᵢ.

An einsum with two letters for one axis computes such. The product is read as the one that was meant, and marked.
"""

from math import prod
from typing import NamedTuple

from torch import Tensor

from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.walking import constant_along

APART = "apart"
"""The option of a product whose factors are summed before they are multiplied."""


def joined_sums(graph: Graph) -> Graph:
    """Return a graph in which products of two sums are read as sums of products; the same graph, if it has none."""
    found = {value.number: product for value in graph.values if (product := product_of_sums(graph, value)) is not None}
    return Joining(graph, found).finish() if found else graph


class Product(NamedTuple):
    """Rows (T, M, K) and columns (T, K, N), and the axes of the result in the order of T, M and N."""

    rows: Tensor
    columns: Tensor
    axes: tuple[int, ...]


def product_of_sums(graph: Graph, value: Value) -> Product | None:
    """Return the product that was meant by a product of two sums; None of another value."""
    if value.operation not in ("product", "mul"):
        return None
    factors = [[graph.values[number] for number in graph.owning(read)] for read in value.forms]
    are_sums = (len(of) == 1 and of[0].operation == "sum" and of[0].depends for of in factors)
    if len(factors) != 2 or not all(are_sums):
        return None
    if value.operation == "product" and value.arrays[0].shape[-1] > 1:
        return None
    one, other = (read.expand_as(value.data) for read in value.arrays)
    axes = range(len(value.shape))
    along_one, along_other = ({a for a in axes if not constant_along(read, a)} for read in (one, other))
    of_one, of_other = along_one - along_other, along_other - along_one
    if not of_one or not of_other:
        return None
    order = tuple(sorted(axes, key=lambda axis: (axis in of_one) + 2 * (axis in of_other)))
    M, N = (prod(value.shape[axis] for axis in mine) for mine in (of_one, of_other))
    rows, columns = (read.permute(order).reshape(-1, M, N) for read in (one, other))
    terms = [terms_of(graph, codes) for codes in (rows[..., 0], columns[:, 0])]
    if terms[0] is None or terms[1] is None or terms[0].shape[-1] != terms[1].shape[-1]:
        return None
    return Product(terms[0], terms[1].mT, order)


def terms_of(graph: Graph, codes: Tensor) -> Tensor | None:
    """Return the terms of which entries are the sums, along a last axis; None of others."""
    value = graph.owner(codes)
    if value is None or value.operation != "sum" or len(value.options["axes"]) != 1:
        return None
    read = value.arrays[0].movedim(value.options["axes"][0], -1)
    return read.reshape(-1, read.shape[-1])[places(codes)]


class Joining(Replacing[Product]):
    """Builds the graph in which products of sums are those of their terms."""

    def replaced(self, value: Value, found: Product) -> Tensor:
        """See ``Replacing``: the product of the terms, with the numbers of the product of their sums."""
        shape = [value.shape[axis] for axis in found.axes]
        rows, columns = map(self.translated, found[:2])
        data = value.data.permute(found.axes).reshape(len(rows), rows.shape[1], columns.shape[2])
        about = {"operation": "product", "kind": ""}
        codes = self.add(value, (rows, columns), data, {APART: True}, **about)
        back = sorted(range(len(shape)), key=found.axes.__getitem__)
        return codes.reshape(shape).permute(back)
