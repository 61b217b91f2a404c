"""A computation in its customary form: each loop, sum of maps and map of maps is one operation."""

from conformance_tests.computation.added_maps import with_added_maps
from conformance_tests.computation.composed import composed
from conformance_tests.computation.graph import Graph
from conformance_tests.computation.heads_in_rows import heads_apart
from conformance_tests.computation.loops import rolled
from conformance_tests.computation.normalised import normalised
from conformance_tests.computation.permuted import put_in_order
from conformance_tests.computation.repeated import computed_once
from conformance_tests.computation.replaced_by_itself import left_as_they_are
from conformance_tests.computation.rescaled import rescaled
from conformance_tests.computation.sums import summed
from conformance_tests.computation.sums_apart import joined_sums
from conformance_tests.computation.unmapped import mapped

PASSES = (
    put_in_order,
    left_as_they_are,
    rolled,
    computed_once,
    rescaled,
    joined_sums,
    normalised,
    with_added_maps,
    summed,
    composed,
    mapped,
    heads_apart,
)
"""Rows in another order are put in order first, as all others read rows. Then come loops, since all others know
products and sums alone, and missing maps last: then all others are there."""


def plain(graph: Graph) -> Graph:
    """Return the graph of the same computation in the form that is read."""
    graph.is_complete = True
    for rewritten in PASSES:
        graph = rewritten(graph)
    return graph
