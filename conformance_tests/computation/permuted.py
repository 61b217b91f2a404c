"""Rows in another order, which a call works out from its arguments, as one that sorts its batch by length does.

The call that is recorded shows this order, and rows in another order are the same rows. What puts them back leaves
each in its place.
"""

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Value
from conformance_tests.computation.rewriting import Replacing


def put_in_order(graph: Graph) -> Graph:
    """Return a graph in which rows in another order are those rows; the same graph, if none are in another."""
    orders = {value.number: order for value in graph.values if (order := order_of_rows(graph, value)) is not None}
    return InOrder(graph, orders).finish() if orders else graph


def order_of_rows(graph: Graph, value: Value) -> Tensor | None:
    """Return the order in which a look-up takes each row of data once; None if it is another operation."""
    if value.operation != "look-up" or value.options.get("axis") != 0 or len(value.arrays) != len(("rows", "index")):
        return None
    rows, index = value.arrays
    if not graph.depends(rows) or index.ndim != 1 or value.shape != rows.shape:
        return None
    order = graph.numbers(index).long()
    return order if torch.equal(order.sort().values, torch.arange(len(rows))) else None


class InOrder(Replacing[Tensor]):
    """Builds the graph in which rows in another order are those of the value that is read."""

    def replaced(self, value: Value, found: Tensor) -> Tensor:
        """See ``Replacing``."""
        return self.translated(value.arrays[0][found])
