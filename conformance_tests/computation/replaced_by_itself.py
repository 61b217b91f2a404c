"""Entries that a number replaces only where they are that number already: nothing changes.

Where any entry of a row is another number the row is kept, as layers do that recognise padding by its content.
"""

from typing import NamedTuple

from torch import Tensor

from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.walking import through


def left_as_they_are(graph: Graph) -> Graph:
    """Return a graph without such replacements; the same graph, if there are none."""
    found = {value.number: kept for value in graph.values if (kept := kept_by(graph, value)) is not None}
    return LeftAsTheyAre(graph, found).finish() if found else graph


class Compared(NamedTuple):
    """Entries (…, K) of which it is asked whether any of the last axis is not a number."""

    entries: Tensor
    number: float


def kept_by(graph: Graph, value: Value) -> Tensor | None:
    """Return the entries that a choice gives either way; None of another operation, or if they may be replaced."""
    if value.operation != "where" or len(value.reads) != len(("condition", "kept", "instead")):
        return None
    condition, kept, instead = value.reads
    if not isinstance(condition, Tensor) or not isinstance(kept, Tensor) or not graph.depends(kept):
        return None
    compared = compared_by(graph, condition)
    if compared is None or number_of(graph, instead) != compared.number:
        return None
    return kept if bool((compared.entries == kept[..., None]).any(-1).all()) else None


def compared_by(graph: Graph, condition: Tensor) -> Compared | None:
    """Return the entries that each entry of a condition compares with one number; None if it is another condition."""
    asked = graph.owner(condition)
    if asked is None or (asked.kind, asked.operation) != ("reduction", "any"):
        return None
    read, axes = asked.arrays[0], asked.options["axes"]
    differs = graph.owner(read)
    if differs is None or differs.operation != "ne" or not isinstance(differs.reads[0], Tensor):
        return None
    number = number_of(graph, differs.reads[1])
    if number is None:
        return None
    others = [axis for axis in range(read.ndim) if axis not in axes]
    rows = through(differs.reads[0], read).permute(*others, *axes).flatten(len(others)).flatten(end_dim=-2)
    return Compared(rows[places(condition)], number)


def number_of(graph: Graph, operand: Tensor | float) -> float | None:
    """Return the only number in an operand that does not depend on the arguments, and is not learned; else None."""
    if not isinstance(operand, Tensor):
        return float(operand)
    if graph.depends(operand) or graph.learned(operand):
        return None
    numbers = graph.numbers(operand).unique()
    return float(numbers) if numbers.numel() == 1 else None


class LeftAsTheyAre(Replacing[Tensor]):
    """Builds the graph in which such a choice is what it gives."""

    def replaced(self, value: Value, found: Tensor) -> Tensor:  # noqa: ARG002
        """See ``Replacing``."""
        return self.translated(found)
