"""A computation as it would plainly be written: each loop, each sum of maps and each map of a map is one operation."""

from conformance_tests.computation.composed import composed
from conformance_tests.computation.graph import Graph
from conformance_tests.computation.loops import rolled
from conformance_tests.computation.normalised import normalised
from conformance_tests.computation.sums import summed
from conformance_tests.computation.sums_apart import joined_sums
from conformance_tests.computation.unmapped import mapped


def plain(graph: Graph) -> Graph:
    """Return the graph of the same computation that is read."""
    return mapped(composed(summed(normalised(joined_sums(rolled(graph))))))
