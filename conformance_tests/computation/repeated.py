"""Operations that are run again on the same entries: what they give is one value, however often it is computed."""

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Value, View
from conformance_tests.computation.rewriting import Rewriting


def computed_once(graph: Graph) -> Graph:
    """Return a graph in which nothing is computed twice; the same graph, if it computes nothing so."""
    seen = Seen(graph)
    return Once(graph).finish() if any(seen.earlier(value) is not None for value in graph.values) else graph


class Seen:
    """The values of a graph that have been met, each once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._alike: defaultdict[Hashable, list[Value]] = defaultdict(list)

    def earlier(self, value: Value) -> Value | None:
        """Return the value that is the same and was met before; None of another one, which is then remembered.

        Random numbers, and weights alone, are not looked at.
        """
        if not value.depends or len(value.reads) == 0:
            return None
        owners = (self.graph.owning(read) if isinstance(read, Tensor | View) else read for read in value.reads.forms)
        before = self._alike[value.operation, value.shape, *owners]
        found = next((other for other in before if is_same(value, other)), None)
        if found is None:
            before.append(value)
        return found


class Once(Rewriting):
    """Builds the graph in which what is computed again is what was computed before."""

    def __init__(self, former: Graph) -> None:
        super().__init__(former)
        seen = Seen(self.graph)
        for value in former.values:
            self.now[value.number] = self.keep(value)
            earlier = seen.earlier(self.graph.values[-1])
            if earlier is not None:
                self.graph.values.pop()
                self.now[value.number] = earlier.codes


def is_same(one: Value, other: Value) -> bool:
    """Return whether two operations of one kind read the same entries in the same way."""
    both = zip((*one.reads.forms, *one.options.values()), (*other.reads.forms, *other.options.values()), strict=True)
    return one.options.keys() == other.options.keys() and all(are_equal(a, b) for a, b in both)


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two operands, or two options, are equal."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return not isinstance(one, Tensor) and not isinstance(other, Tensor) and bool(one == other)
