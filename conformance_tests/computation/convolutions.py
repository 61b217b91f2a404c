"""Reading convolutions along time: the stem of an encoder of sounds, and positions that are heard around each place."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine
from conformance_tests.computation.feed_forward import leaves, linear, nearest_activation
from conformance_tests.computation.graph import PLACES, Graph, Value, places
from conformance_tests.computation.norm import CLOSE
from conformance_tests.computation.walking import along_axis, through, unchanged

WIDTH = 3
"""So many times each convolution of a stem reads."""


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


@dataclass(eq=False)
class Surroundings:
    """A convolution of a sequence that gives as many vectors as it reads: codes of its kernel (K, d_group, d_model).

    ``before`` is how many positions before its own each one reads; ``b`` are the codes of the bias, and ``activation``
    is the variant behind it, empty if it is another function.
    """

    W: Tensor
    b: Tensor | None
    before: int
    activation: str


def read_surroundings(graph: Graph, codes: Tensor, sequence: Tensor) -> Surroundings | None:
    """Return the convolution of a sequence that gives entries, with an activation behind it; None if none does.

    Args:
        graph: the computation.
        codes: the entries (B, n, d_model).
        sequence: those of the sequence, likewise.
    """
    maps: list[Affine] = []
    behind: list[Value] = []
    if codes.shape != sequence.shape or not leaves(graph, codes, maps, behind) or len(maps) != 1:
        return None
    product, *others = maps[0].products
    groups, M, d_group = product.shape
    width = codes.shape[-1]
    if others or groups * d_group != width or not maps[0].has_one_bias():
        return None
    at = places(maps[0].entries)
    group, row, column = at // (M * d_group), at // d_group % M, at % d_group
    of_group = torch.arange(width) // d_group
    if not torch.equal(group, of_group.expand_as(group)) or not torch.equal(row, row[..., :1].expand_as(row)):
        return None
    rows, columns = product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    order, before = surroundings_order(graph, rows[:, row[..., 0]], sequence)
    if order is None:
        return None
    kernel = columns[of_group, :, column[0, 0]][:, order].permute(1, 2, 0)
    bias = maps[0].bias[0, 0]
    name, _, off, _ = nearest_activation(graph.numbers(codes), [linear(graph, maps[0])])
    is_known = bool(behind) and off <= CLOSE
    return Surroundings(kernel, None if bool((bias == NONE).all()) else bias, before, name if is_known else "")


def surroundings_order(graph: Graph, rows: Tensor, sequence: Tensor) -> tuple[Tensor | None, int]:
    """Return the order (K, d_group) in which rows hold what lies around each position, and how much of it lies before.

    None if they hold anything else, such as other features than those of their group. A short sequence is not read
    as far as the kernel reaches: the order of those of its entries that read something is that of all.

    Args:
        graph: the computation.
        rows: the codes (groups, B, n, entries) of what is read for each position.
        sequence: those (B, n, d_model) of the sequence.
    """
    groups, B, n, entries = rows.shape
    d_group = sequence.shape[-1] // groups
    K = entries // d_group
    at = places_in(unchanged(graph, sequence), unmasked(graph, rows))
    mine = at != NONE
    if K * d_group != entries or not mine.any() or bool(graph.numbers(torch.where(mine, 0, rows)).any()):
        return None, 0
    sample, position, feature = (along_axis(at, sequence.shape, axis) for axis in range(sequence.ndim))
    read_at = position - torch.arange(n)[:, None]
    for order in (torch.arange(entries).reshape(d_group, K).T, torch.arange(entries).reshape(K, d_group)):
        k, i = torch.empty(entries, dtype=torch.long), torch.empty(entries, dtype=torch.long)
        k[order], i[order] = torch.arange(K)[:, None].expand(K, d_group), torch.arange(d_group).expand(K, d_group)
        before = int((k - read_at)[mine][0])
        lies = torch.arange(n)[:, None] + k - before
        is_inside = ((lies >= 0) & (lies < n)).expand_as(mine)
        expected = (
            torch.arange(B)[:, None, None],
            lies,
            torch.arange(groups)[:, None, None, None] * d_group + i,
        )
        got = zip((sample, position, feature), expected, strict=True)
        if torch.equal(mine, is_inside) and all(bool(((a == b) | ~mine).all()) for a, b in got):
            return order, before
    return None, 0


def unmasked(graph: Graph, rows: Tensor) -> Tensor:
    """Return what rows hold, before a mask has hidden parts of it; nothing is hidden in the call that is read."""
    read = [value for value in graph.owners(rows) if value.depends]
    if len(read) != 1:
        return rows
    return torch.where(rows >> PLACES == read[0].number, through(unchanged(graph, read[0].codes), rows), rows)


def places_in(sequence: Tensor, codes: Tensor) -> Tensor:
    """Return where in a sequence each of some entries stands, ``NONE`` for others."""
    known, order = sequence.reshape(-1).sort()
    found = torch.searchsorted(known, codes).clamp(max=len(known) - 1)
    return torch.where(known[found] == codes, order[found], NONE)
