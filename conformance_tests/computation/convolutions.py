"""Reading the convolutional stem of an encoder of sounds: two convolutions of width 3, the second in steps of 2."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.computation.affine import Affine
from conformance_tests.computation.feed_forward import leaves, linear, nearest_activation
from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.norm import CLOSE
from conformance_tests.computation.walking import along_axis

WIDTH = 3
"""So many times each convolution reads."""


@dataclass(eq=False)
class Convolution:
    """A convolution along time: codes of its kernel (width, channels, features) and bias, and what it reads.

    ``activation`` is the variant behind it, empty if it is another function; ``step`` is how far it moves.
    """

    reads: Value
    W: Tensor
    b: Tensor | None
    step: int
    activation: str


def read_convolution(graph: Graph, codes: Tensor) -> Convolution | None:
    """Return the convolution, with an activation behind it, that gives entries; None if none does."""
    maps: list[Affine] = []
    behind: list[Value] = []
    if not leaves(graph, codes, maps, behind) or len(maps) != 1 or len(maps[0].products) != 1:
        return None
    product = maps[0].products[0]
    rows, columns = product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    read = [value for value in graph.owners(rows) if value.depends]
    if len(rows) > 1 or len(read) != 1 or len(read[0].shape) != len(("batch", "channels", "time")):
        return None
    order, step = kernel_order(graph, rows[0], read[0])
    if order is None:
        return None
    name, _, off, _ = nearest_activation(graph.numbers(codes), [linear(graph, maps[0])])
    kernel, bias = maps[0].map_and_bias()
    return Convolution(read[0], kernel[order], bias, step, name if behind and off <= CLOSE else "")


def kernel_order(graph: Graph, rows: Tensor, read: Value) -> tuple[Tensor | None, int]:
    """Return the order (width, channels) in which rows hold the channels of each time, and the step between rows.

    None if rows do not hold as many times around each of theirs, and zeros outside of the signal.
    """
    mine = (rows >= read.codes.min()) & (rows <= read.codes.max())
    whole = mine.all(dim=1).nonzero().flatten()
    if len(whole) < 2 or bool(graph.numbers(torch.where(mine, 0, rows)).any()):
        return None, 0
    for time in (2, 1):
        at = along_axis(places(rows), read.shape, time)
        channel = along_axis(places(rows), read.shape, 3 - time)
        first = at[whole[0]]
        times = first.unique()
        step = int(at[whole[1]].min() - first.min())
        if len(times) == WIDTH and int(times[-1] - times[0]) == WIDTH - 1 and step > 0:
            channels = read.shape[3 - time]
            order = ((first - times[0]) * channels + channel[whole[0]]).argsort()
            middle = at[whole] - step * (whole[:, None] % (len(rows) // read.shape[0])) + 1
            centred = bool((middle == (first - times[0])).all())
            return (order.reshape(WIDTH, channels), step) if centred else (None, 0)
    return None, 0
