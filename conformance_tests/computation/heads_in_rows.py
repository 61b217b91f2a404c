"""Scores of all heads that share their keys, as one product: its rows are the queries of these heads.

Keys without an axis of heads, as in multi-query attention, let the heads' queries stand below one another or alternate.
Each head is then read as a product by itself, which the same keys, or values, belong to.
"""

import torch
from torch import Tensor

from conformance_tests.computation.affine import affine
from conformance_tests.computation.attention import Scores, back_to, read_scores, softmax_argument
from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.rewriting import Replacing
from conformance_tests.computation.walking import is_of_data, through


def heads_apart(graph: Graph) -> Graph:
    """Return a graph in which each head has separate products; the same graph, if none holds more than one."""
    products = [value for value in graph.values if is_of_data(graph, value)]
    if not any(many_times(value.shape[1], value.shape[2]) for value in products):
        return graph  # the usual case is told without reading
    found: dict[int, Tensor] = {}
    for value in graph.values:
        argument = softmax_argument(graph, value) if value.depends else None
        scores = None if argument is None else read_scores(graph, *argument)
        if scores is None or not many_times(*scores.product.shape[1:]):
            continue
        _, rows, keys = scores.product.shape
        found[scores.product.number] = by_heads = rows_by_heads(graph, scores.product)
        averages = (p for p in products if p.number > value.number and value in graph.ancestors(p.arrays[0]))
        product = next(averages, None)
        if product is not None and product.arrays[0].shape[1:] == (rows, keys):
            found[product.number] = rows_like_those(graph, product, value, scores, by_heads)
    return HeadsApart(graph, found).finish() if found else graph


def many_times(rows: int, keys: int) -> bool:
    """Return whether there are several times as many rows as keys, as heads over one sequence have."""
    return rows > keys > 1 and rows % keys == 0


def rows_by_heads(graph: Graph, product: Value) -> Tensor:
    """Return the rows of a product of scores, one line for each head, by the maps that they come from."""
    _, rows, keys = product.shape
    below = torch.arange(rows).reshape(-1, keys)
    codes = product.arrays[0][0, :, 0]
    while (found := affine(graph, codes)) is None:
        # Positions may turn queries, and norms divide them: what stands first is what they do it to.
        value = graph.owner(codes)
        read = None if value is None else next((r for r in value.arrays if graph.depends(r)), None)
        if value is None or read is None or value.kind != "elementwise":
            return below
        codes = through(read, codes)
    alternating = torch.arange(rows).reshape(keys, -1).T
    columns = found.columns()[alternating]
    return alternating if bool((columns == columns[:, :1]).all()) else below


def rows_like_those(graph: Graph, product: Value, weights: Value, scores: Scores, by_heads: Tensor) -> Tensor:
    """Return the rows of the product that reads the weights, in the order in which those of the scores are given."""
    behind = back_to(graph, product.arrays[0][0, :, 0], weights)
    if behind is None:
        return by_heads
    _, rows, keys = scores.product.shape
    of_scores = places(through(scores.entries, behind)) // keys % rows
    place = torch.empty(rows, dtype=torch.long)
    place[by_heads.reshape(-1)] = torch.arange(rows)
    return place[of_scores].argsort().reshape(by_heads.shape)


class HeadsApart(Replacing[Tensor]):
    """Builds the graph in which the rows of each head, given for every product, are a product by themselves."""

    def replaced(self, value: Value, found: Tensor) -> Tensor:
        """See ``Replacing``: entries stand where they did, whether an axis of heads is written or not."""
        rows, columns = map(self.translated, value.arrays)
        T, M, K = rows.shape
        order = found.reshape(-1)
        h = len(found)
        apart = (rows[:, order].reshape(T * h, M // h, K), columns.repeat_interleave(h, 0))
        codes = self.add(value, apart, value.data[:, order].reshape(T * h, M // h, -1), self.options(value))
        return codes.reshape(value.shape)[:, order.argsort()]
