"""Images that are rescaled by constants before anything else, as from 0 … 255 to -1 … 1: these are what is read."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Reads, Rescaling, Value
from conformance_tests.computation.walking import constant_along

IMAGES = 4
"""The number of axes of a batch of images. Vectors that are rescaled may be embeddings times √d, which have a slot."""

TAKEN = {"sub": 1, "rsub": 0}
"""The place of what is taken away in a subtraction."""


def rescaled(graph: Graph) -> Graph:
    """Return a graph that begins with rescaled images; the same graph, if nothing rescales its input."""
    given = next((v for v in graph.values if v.operation == "argument" and len(v.shape) == IMAGES), None)
    if given is None:
        return graph
    last, factor, offset = given, torch.ones_like(given.data), torch.zeros_like(given.data)
    for value, place, number in steps(graph, given):
        if value.operation in ("mul", "div"):
            by = number if value.operation == "mul" else 1 / number
            factor, offset = factor * by, offset * by
        elif value.operation == "add":
            offset = offset + number
        else:
            sign = -1.0 if place == TAKEN[value.operation] else 1.0
            factor, offset = sign * factor, sign * (offset - number)
        last = value
    if last is given or not bool(factor.all()) or not (is_by_channel(factor) and is_by_channel(offset)):
        return graph
    # Nothing reads the images any more, and what they become is given.
    before = replace(given, operation="constant", name="", depends=False)
    found = graph.with_values([before, replace(last, operation="argument", reads=Reads(()), kind="", name=given.name)])
    found.rescaling = Rescaling(narrowed(factor), narrowed(offset))
    return found


def steps(graph: Graph, given: Value) -> Iterator[tuple[Value, int, Tensor]]:
    """Yield the operations with constants by which a value changes before anything else reads it.

    With each come the place of the value among what it reads, and the constant.
    """
    here = given
    while len(readers := graph.readers(here)) == 1:
        value = readers[0]
        if value.operation not in ("add", "sub", "rsub", "mul", "div") or len(value.reads) != 2:
            return
        mine = [isinstance(read, Tensor) and torch.equal(read, here.codes) for read in value.reads]
        if mine.count(True) != 1 or (value.operation == "div" and mine[1]):
            return
        place = mine.index(True)
        other = value.reads[1 - place]
        if graph.depends(other) or graph.learned(other):
            return
        yield value, place, graph.numbers(other)
        here = value


def is_by_channel(numbers: Tensor) -> bool:
    """Return whether numbers differ along one axis at most, and not along that of the batch."""
    varying = [axis for axis in range(numbers.ndim) if not constant_along(numbers, axis)]
    return len(varying) < 2 and 0 not in varying


def narrowed(numbers: Tensor) -> Tensor:
    """Return numbers with one entry along each axis on which they do not differ."""
    for axis in range(numbers.ndim):
        if constant_along(numbers, axis):
            numbers = numbers.narrow(axis, 0, 1)
    return numbers
