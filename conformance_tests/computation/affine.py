"""Entries that are those of a product with weights, up to a number and something added: Q = (X W_Q + b_Q) / 2."""

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.graph import PLACES, Graph, Operand, Value, View, places

NONE = -1
"""In the place of a code: nothing is there."""


@dataclass(frozen=True)
class Affine:
    """Entries, in any arrangement, each of which is scale · (row · column) + times · bias.

    Attributes:
        graph: what they belong to.
        entries: codes of the products' entries, in the arrangement asked for.
        scale: the factor of each.
        bias: codes of what is added to each, ``NONE`` where nothing is.
        times: the factor of what is added.
    """

    graph: Graph
    entries: Tensor
    scale: Tensor
    bias: Tensor
    times: Tensor

    @property
    def products(self) -> list[Value]:
        """The products whose entries these are."""
        return self.graph.owners(self.entries)

    def factor(self) -> float | None:
        """Return the number that scales all of them; None if there are several, or if a bias has another one."""
        one = float(self.scale.reshape(-1)[0])
        biased = self.bias != NONE
        same = torch.equal(self.scale, torch.full_like(self.scale, one))
        return one if same and bool((self.times[biased] == one).all()) else None

    def has_one_bias(self) -> bool:
        """Return whether what is added to a column is the same in every row: positions differ from row to row."""
        added = self.bias.reshape(-1)
        if bool((added == NONE).all()):
            return True
        _, column = self.columns().reshape(-1).unique(return_inverse=True)
        of_column = torch.full((int(column.max()) + 1,), NONE)
        of_column[column] = added
        return torch.equal(of_column[column], added)

    def at(self, *index: int | slice | EllipsisType) -> "Affine":
        """Return some of the entries: rows and weights of all of them would take a map's size times their number."""
        taken = (x[index] for x in (self.entries, self.scale, self.bias, self.times))
        return Affine(self.graph, *taken)

    def map_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """Return the codes of the weights (K, N) of the one product of which these are all entries, and of its bias."""
        columns = self.products[0].reads[1]
        assert isinstance(columns, Tensor)
        return columns[0], self.bias_by_column()

    def bias_by_column(self) -> Tensor | None:
        """Return the codes of what is added to each column of the one product of which these are all entries."""
        if bool((self.bias == NONE).all()):
            return None
        mine, columns = self.columns().reshape(-1), self.products[0].reads.forms[1]
        assert not isinstance(columns, float)
        whole = entries_at(columns, 0, 0, torch.arange(columns.shape[2]))
        first = torch.stack([(mine == code).nonzero()[0, 0] for code in whole])
        return self.bias.reshape(-1)[first]

    def rows(self) -> Tensor:
        """Return a code for the row of each entry: that of the first entry of what it multiplies."""
        return self._of_product(lambda product, t, m, _: product.reads[0][t, m, 0])

    def columns(self) -> Tensor:
        """Return a code for the column of each entry: that of the first entry of the weights that it multiplies."""
        return self._of_product(lambda product, t, _, c: entries_at(product.reads.forms[1], t, 0, c))

    def weights(self) -> Tensor:
        """Return the codes of the columns: a last axis for what they multiply."""

        def of_columns(product: Value, t: Tensor, _: Tensor, c: Tensor) -> Tensor:
            columns = product.reads.forms[1]
            assert not isinstance(columns, float)
            return entries_at(columns, t[:, None], torch.arange(columns.shape[1]), c[:, None])

        return self._of_product(of_columns)

    def arguments(self) -> Tensor:
        """Return the codes of the rows: a last axis for what is multiplied."""
        return self._of_product(lambda product, t, m, _: product.reads[0][t, m])

    def _of_product(self, take: Callable[..., Tensor]) -> Tensor:
        flat = self.entries.reshape(-1)
        found: Tensor | None = None
        for product in self.products:
            here = flat >> PLACES == product.number
            _, M, N = product.shape
            at = places(flat[here])
            taken = take(product, at // (M * N), at // N % M, at % N)
            if found is None:
                found = torch.full((len(flat), *taken.shape[1:]), NONE)
            if found.shape[1:] != taken.shape[1:]:
                raise ValueError("products with rows of several widths")
            found[here] = taken
        assert found is not None
        return found.reshape(*self.entries.shape, *found.shape[1:])


def entries_at(codes: Operand | View, *index: Tensor | int) -> Tensor:
    """Return the codes at places along all axes, which are broadcast with each other."""
    assert not isinstance(codes, float)
    return codes.at(*index) if isinstance(codes, View) else codes[index]


def affine(graph: Graph, codes: Tensor) -> Affine | None:
    """Return entries as those of products with weights; None if they are something else."""
    entries = codes.reshape(-1).clone()
    scale = torch.ones(entries.shape, dtype=torch.float64)
    bias, times = torch.full_like(entries, NONE), torch.ones_like(scale)
    while True:
        others = [v for v in graph.owners(entries) if v.operation != "product"]
        if not others:
            break
        for value in others:
            step = one_step(graph, value)
            if step is None:
                return None
            followed, factor, added, sign = step
            here = entries >> PLACES == value.number
            at = places(entries[here])
            if isinstance(added, Tensor):
                if bool((bias[here] != NONE).any()):
                    return None
                bias[here] = added.reshape(-1)[at]
                times[here] = scale[here] * sign
            entries[here] = followed.reshape(-1)[at]
            scale[here] *= factor.reshape(-1)[at] if factor.ndim else factor
    if not all(map(graph.is_map, graph.owners(entries))):
        return None
    shape = codes.shape
    return Affine(graph, entries.reshape(shape), scale.reshape(shape), bias.reshape(shape), times.reshape(shape))


Step = tuple[Tensor, Tensor, Operand | None, float]
"""The effect of an elementwise operation: entries that it passes on, their factor, what it adds to them, its sign."""

ONE = torch.ones((), dtype=torch.float64)


def one_step(graph: Graph, value: Value) -> Step | None:
    """Return what an operation does to the one array of data that it reads; None if it is not affine in it."""
    if value.kind != "elementwise":
        return None
    data = [i for i, read in enumerate(value.reads) if graph.depends(read)]
    if len(data) != 1:
        return None
    which = data[0]
    followed = value.reads[which]
    assert isinstance(followed, Tensor)
    if value.operation == "neg":
        return followed, -ONE, None, 1.0
    if len(value.reads) < 2 or value.operation not in ("add", "sub", "mul", "div", "rsub"):
        return None
    other = value.reads[1 - which]
    subtracted = {"sub": 1, "rsub": 0}.get(value.operation)
    if value.operation in ("add", "sub", "rsub"):
        added = other if isinstance(other, Tensor) or other else None
        if added is not None and not isinstance(added, Tensor):
            return None
        return followed, -ONE if which == subtracted else ONE, added, -1.0 if subtracted == 1 - which else 1.0
    if graph.learned(other) or (value.operation == "div" and which == 1):
        return None
    factor = graph.numbers(other)
    return followed, factor if value.operation == "mul" else 1 / factor, None, 1.0


class OfWeights(NamedTuple):
    """Entries that are ``times`` those of leaves and a number: γ = 1 + w, W = w / √K."""

    entries: Tensor
    times: float
    plus: float


def of_weights(graph: Graph, codes: Tensor) -> OfWeights | None:
    """Return the entries of leaves that these entries are, up to numbers; None if they are computed otherwise."""
    times, plus = 1.0, 0.0
    while any(v.reads and v.learned for v in graph.owners(codes)):
        value = graph.owner(codes)
        if value is None or value.kind != "elementwise" or value.operation not in ("add", "mul", "div"):
            return None
        parts = [read for read in value.reads if isinstance(read, Tensor) and graph.learned(read)]
        others = [read for read in value.reads if not (isinstance(read, Tensor) and graph.learned(read))]
        if len(parts) != 1 or len(others) != 1 or (value.operation == "div" and others[0] is value.reads[0]):
            return None
        number = graph.numbers(others[0])
        if number.unique().numel() != 1:
            return None
        one = float(number.reshape(-1)[0])
        if value.operation == "add":
            plus += times * one
        else:
            times *= one if value.operation == "mul" else 1 / one
        codes = parts[0].reshape(-1)[places(codes)]
    return OfWeights(codes, times, plus)
