"""Scores of all heads that share their keys, as one product: its rows are the queries of these heads.

Keys without an axis of heads, as in multi-query attention, let the heads' queries stand below one another. Each head is
then read as a product by itself, which the same keys, or values, belong to.
"""

from torch import Tensor

from conformance_tests.computation.attention import read_scores, softmax_argument
from conformance_tests.computation.graph import Graph, Value
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.walking import is_of_data


def heads_apart(graph: Graph) -> Graph:
    """Return a graph in which each head has separate products; the same graph, if none holds more than one."""
    products = [value for value in graph.values if is_of_data(graph, value)]
    if not any(many_times(value.shape[1], value.shape[2]) for value in products):
        return graph  # the usual case is told without reading
    found: dict[int, int] = {}
    for value in graph.values:
        argument = softmax_argument(graph, value) if value.depends else None
        scores = None if argument is None else read_scores(graph, argument[0])
        if scores is None or not many_times(*scores.product.shape[1:]):
            continue
        _, rows, keys = scores.product.shape
        found[scores.product.number] = rows // keys
        averages = (p for p in products if p.number > value.number and value in graph.ancestors(p.arrays[0]))
        product = next(averages, None)
        if product is not None and product.arrays[0].shape[1:] == (rows, keys):
            found[product.number] = rows // keys
    return HeadsApart(graph, found).finish() if found else graph


def many_times(rows: int, keys: int) -> bool:
    """Return whether there are several times as many rows as keys, as heads over one sequence have."""
    return rows > keys > 1 and rows % keys == 0


class HeadsApart(Replacing[int]):
    """Builds the graph in which the rows of so many heads are products by themselves."""

    def replaced(self, value: Value, found: int) -> Tensor:
        """See ``Replacing``: entries stand in the same order, whether an axis of heads is written or not."""
        rows, columns = map(self.translated, value.arrays)
        T, M, K = rows.shape
        apart = (rows.reshape(T * found, M // found, K), columns.repeat_interleave(found, 0))
        data = value.data.reshape(T * found, M // found, -1)
        return self.add(value, apart, data, self.options(value)).reshape(value.shape)
