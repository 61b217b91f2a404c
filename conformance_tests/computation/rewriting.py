"""Graphs made of other graphs, in which some values are put in another way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from conformance_tests.computation.graph import (
    PLACES,
    Codes,
    Graph,
    Operand,
    Reads,
    Unmade,
    Value,
    View,
    as_view,
    places,
)


class Translation:
    """The codes that a graph has for those of a former one.

    Attributes:
        former: the graph that is read.
        now: the codes that each value of the former graph has in the other one, in its shape.
    """

    def __init__(self, former: Graph) -> None:
        self.former = former
        self.now: Codes[int] = Codes()

    def view(self, view: View | None) -> View | None:
        """Return a view of a large leaf as it is now, if that leaf is kept as it was; else None."""
        now = None if view is None else self.now.forms[view.number]
        whole = None if view is None else self.former.values[view.number].whole
        if view is None or whole is None or not isinstance(now, View) or now != whole.renumbered(now.number):
            return None
        return view.renumbered(now.number)

    def __call__(self, codes: Tensor) -> Tensor:
        """Return the codes that entries of the former graph have."""
        view = self.view(as_view(codes))
        if view is not None:
            return view.codes
        owners = self.former.owners(codes)
        if len(owners) == 1:
            return self.now[owners[0].number].reshape(-1)[places(codes)]
        found = torch.empty_like(codes)
        for value in owners:
            here = codes >> PLACES == value.number
            found[here] = self.now[value.number].reshape(-1)[places(codes[here])]
        return found

    def chained(self, earlier: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return the translation of codes of a still earlier graph.

        It knows nothing of the graph that has it: what refers to each other stays in memory until nobody knows when.
        """
        return lambda codes: self(earlier(codes))


class Rewriting:
    """Builds a graph from a former one, in an order in which what is read comes first.

    Attributes:
        former: the graph that is read.
        graph: the graph that is built.
        translated: gives the codes that entries of the former graph have in the other one.
        now: those of each value of the former graph, in its shape.
    """

    def __init__(self, former: Graph) -> None:
        self.former = former
        self.graph = Graph()
        self.graph.is_complete = True
        self.translated = Translation(former)
        self.now = self.translated.now

    def read(self, operand: Any) -> Any:
        """Return an operand, or an option, as it is now."""
        if isinstance(operand, View):
            return self.translated.view(operand) or self.translated(operand.codes)
        return self.translated(operand) if isinstance(operand, Tensor) else operand

    def options(self, value: Value) -> dict[str, Any]:
        """Return the options of a value, with codes as they are now."""
        return {name: self.read(option) for name, option in value.options.items()}

    def keep(self, value: Value) -> Tensor | View:
        """Add a value as it is, and return its codes, those of a large leaf as a view."""
        return self._added(value, list(map(self.read, value.reads.forms)), value.given, self.options(value)).form

    def add(
        self, like: Value, reads: Sequence[Operand | View], data: Tensor, options: Mapping[str, Any], **other: Any
    ) -> Tensor:
        """Add a value that is like one of the former graph but for some attributes, and return its codes."""
        return self._added(like, reads, data, options, **other).codes

    def _added(
        self,
        like: Value,
        reads: Sequence[Operand | View],
        data: Tensor | Unmade,
        options: Mapping[str, Any],
        **other: Any,
    ) -> Value:
        number = len(self.graph.values)
        value = replace(like, number=number, reads=Reads(reads), given=data, options=options, **other)
        self.graph.values.append(value)
        return value

    def weights(self, like: Value, operation: str, reads: tuple[Tensor, Tensor | float], kind: str = "") -> Tensor:
        """Add what is computed of weights, and return its codes."""
        one, other = map(self.graph.numbers, reads)
        data = one @ other if operation == "product" else one * other if operation == "mul" else one + other
        learned = any(map(self.graph.learned, reads))
        about = {"operation": operation, "kind": kind, "depends": False, "learned": learned}
        return self.add(like, reads, data, {}, **about)

    def finish(self) -> Graph:
        """Return the graph, with the output and the parts of the former one."""
        former, graph = self.former, self.graph
        graph.output = self.translated(former.output)
        graph.parts = [(name, self.translated(codes)) for name, codes in former.parts]
        for number, line in former.disturbed.items():
            graph.disturbed |= {v.number: line for v in graph.owners(self.now[number])}
        graph._recorded, graph.rescaling = former.recorded, former.rescaling
        graph.translated = self.translated.chained(former.translated)
        return graph


Found = TypeVar("Found")


class Replacing(Rewriting, Generic[Found]):
    """Builds the graph in which some values are computed in another way, by what was found of each.

    Args:
        former: the graph that is read.
        found: what was found of the values to replace, by their numbers.
    """

    def __init__(self, former: Graph, found: Mapping[int, Found]) -> None:
        super().__init__(former)
        for value in former.values:
            one = found.get(value.number)
            self.now[value.number] = self.keep(value) if one is None else self.replaced(value, one)

    def replaced(self, value: Value, found: Found) -> Tensor | View:
        """Add what takes the place of a value, and return its entries in the shape of that."""
        raise NotImplementedError
