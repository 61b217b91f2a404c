"""Scores to which products with vectors of distances are added: those of the queries, or of the keys, or both.

The vectors are learned, and positions choose among them: a row of a table, or a map of one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, affine
from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.masks import MATRIX
from conformance_tests.computation.norm import Norm, read_norm
from conformance_tests.computation.walking import is_even, through


class Term(NamedTuple):
    """Products of queries, or of keys, with learned vectors, which are added to the scores.

    Attributes:
        product: it has them; what depends on the input is among its rows.
        entries: codes of those that are added, one for each score.
        times: the number that multiplies them.
    """

    product: Value
    entries: Tensor
    times: float


def terms_of(graph: Graph, codes: Tensor, times: float = 1.0) -> list[Term] | None:
    """Return the products of which entries are the sum; None if they are something else."""
    value = graph.owner(codes)
    if value is None:
        return None
    if value.operation == "product":
        return [Term(value, codes, times)] if graph.is_map(value) and graph.learned(value.reads[1]) else None
    data = [i for i, read in enumerate(value.reads) if graph.depends(read)]
    if value.operation in ("add", "sub") and len(data) == len(value.reads) == 2:
        signs = (1, -1 if value.operation == "sub" else 1)
        found = [terms_of(graph, through(value.arrays[i], codes), times * sign) for i, sign in enumerate(signs)]
        return None if found[0] is None or found[1] is None else found[0] + found[1]
    if value.operation in ("mul", "div") and len(data) == 1 and len(value.reads) == 2:
        other = value.reads[1 - data[0]]
        number = graph.numbers(other)
        if graph.learned(other) or not is_even(number) or (value.operation == "div" and data[0] == 1):
            return None
        one = float(number.reshape(-1)[0])
        followed = value.reads[data[0]]
        assert isinstance(followed, Tensor)
        return terms_of(graph, through(followed, codes), times * one if value.operation == "mul" else times / one)
    return None


@dataclass(frozen=True, eq=False)
class OfDistances:
    """Vectors of distances that queries or keys are multiplied with, beside each other.

    Attributes:
        of: ``"queries"`` or ``"keys"``.
        scale: the number that multiplies the products of these, as the scores have them.
        table: codes of the table of which a row is chosen.
        rows: the row for each query and key (n, n).
        norm: that of the rows, if they have one.
        maps: codes of the map of the rows in each head, (width, d_k), and of its bias (d_k); None if there is none.
    """

    of: str
    scale: float
    table: Tensor
    rows: Tensor
    norm: Norm | None
    maps: list[tuple[Tensor, Tensor]] | None


class Scored(NamedTuple):
    """Vectors (T, n, d_k) of queries or keys, and which of them (T · n) each score is made of."""

    vectors: Tensor
    which: Tensor


def of_distances(
    graph: Graph, term: Term, sides: Mapping[str, Scored], heads: Tensor, pairs: Tensor
) -> OfDistances | None:
    """Return what a term of the scores adds to them; None if it is not told by table and distance.

    Args:
        graph: the computation.
        term: it.
        sides: queries and keys.
        heads: the head of each score.
        pairs: the number of its query and key, j · n + k.
    """
    rows, columns = term.product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    _, M, N = term.product.shape
    at = places(term.entries).reshape(-1)
    factors = {name: number_between(graph, rows.flatten(0, 1), at // N, of) for name, of in sides.items()}
    side, factor = next(((name, f) for name, f in factors.items() if f is not None), ("", 0.0))
    vectors = columns.mT.flatten(0, 1)
    column = first_alike(vectors)[at // (M * N) * N + at % N]
    number = int(pairs.max()) + 1
    of_heads = [one_of_each(column[heads == i], pairs[heads == i], number) for i in range(int(heads.max()) + 1)]
    chosen = [None if each is None else rows_of_table(graph, vectors[each]) for each in of_heads]
    first, *others = chosen
    if not side or first is None or not all(other is not None and other.is_like(first) for other in others):
        return None
    maps = [(each.W, each.b) for each in chosen if each is not None and each.W is not None and each.b is not None]
    n = math.isqrt(number)
    return OfDistances(side, term.times * factor, first.table.codes, first.rows.reshape(n, n), first.norm, maps or None)


def first_alike(vectors: Tensor) -> Tensor:
    """Return for each of some vectors the number of one that has the same entries, the same for all of these."""
    _, group = vectors[:, 0].unique(return_inverse=True)
    first = torch.empty(int(group.max()) + 1, dtype=torch.long)
    first[group] = torch.arange(len(group))
    alike = first[group]
    return alike if torch.equal(vectors[alike], vectors) else torch.arange(len(vectors))


def one_of_each(values: Tensor, keys: Tensor, number: int) -> Tensor | None:
    """Return the one value that goes with each key below a number; None if a key has several, or none."""
    found = torch.full((number,), NONE)
    found[keys] = values
    return found if torch.equal(found[keys], values) and bool((found != NONE).all()) else None


def number_between(graph: Graph, rows: Tensor, row: Tensor, of: Scored) -> float | None:
    """Return the number by which rows are a multiple of the vectors that scores are made of; None if they are others.

    Args:
        graph: the computation.
        rows: those (rows, K) of a product.
        row: which of them stands in it for each score.
        of: what the scores are made of.
    """
    vectors = of.vectors.flatten(0, 1)
    mine = one_of_each(first_alike(rows)[row], of.which, len(vectors))
    if mine is None:
        return None
    if torch.equal(rows[mine], vectors):
        return 1.0
    one, other = affine(graph, rows[mine]), affine(graph, vectors)
    if one is None or other is None or not torch.equal(one.entries, other.entries):
        return None
    factors = one.factor(), other.factor()
    return factors[0] / factors[1] if torch.equal(one.bias, other.bias) and factors[0] and factors[1] else None


class Chosen(NamedTuple):
    """Vectors as rows of a table, which may be normed, and then mapped by ``W`` (width, d_k) with the bias ``b``."""

    table: Value
    rows: Tensor
    norm: Norm | None
    W: Tensor | None
    b: Tensor | None

    def is_like(self, other: "Chosen") -> bool:
        """Return whether they are the same rows of the same table as others, whatever maps them."""
        ends = [None if one.norm is None else one.norm.value for one in (self, other)]
        is_same_way = ends[0] is ends[1] and (self.W is None) == (other.W is None)
        return is_same_way and self.table is other.table and torch.equal(self.rows, other.rows)


def rows_of_table(graph: Graph, vectors: Tensor) -> Chosen | None:
    """Return the table of which learned vectors (pairs, d_k) are made, a row of each; None if they are not."""
    W, b = None, torch.full(vectors.shape[1:], NONE)
    value = graph.owner(vectors)
    if value is not None and value.operation == "add":
        reads = [through(read, vectors) for read in value.arrays]
        products = [read for read in reads if all(v.operation == "product" for v in graph.owners(read))]
        added = [read[0] for read in reads if torch.equal(read, read[:1].expand_as(read))]
        if len(products) != 1 or len(added) != 1:
            return None
        vectors, b = products[0], added[0]
        value = graph.owner(vectors)
        if value is None:
            return None
    if value is not None and value.operation == "product":
        mapped, columns = value.reads
        assert isinstance(mapped, Tensor)
        assert isinstance(columns, Tensor)
        _, M, N = value.shape
        at = places(vectors)
        row, column = at // N, at % N
        if not torch.equal(column, column[:1].expand_as(column)) or not torch.equal(row, row[:, :1].expand_as(row)):
            return None
        W = columns[int(row[0, 0]) // M][:, column[0]]
        vectors = mapped.flatten(0, 1)[row[:, 0]]
        value = graph.owner(vectors)
    norm = None if value is None else read_norm(graph, value)
    if norm is not None and norm.form:
        vectors = through(norm.reads, vectors)
        value = graph.owner(vectors)
    if value is None or value.operation != "parameter" or len(value.shape) != MATRIX:
        return None
    width = value.shape[1]
    at = places(vectors)
    is_whole = vectors.shape[1] == width and torch.equal(at % width, torch.arange(width).expand_as(at))
    return Chosen(value, at[:, 0] // width, norm, W, b) if is_whole else None
