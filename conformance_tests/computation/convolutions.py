"""Reading convolutions along time: the stem of an encoder of sounds, and positions that are heard around each place."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.feed_forward import leaves, linear, nearest_activation
from conformance_tests.computation.graph import BATCH_NORM, PLACES, Graph, Value, places
from conformance_tests.computation.norm import CLOSE, apart, ingredients
from conformance_tests.computation.walking import along_axis, through, unchanged
from encoder_spec.equation import variants

MOST_BEHIND = 40
"""An activation and a norm by hand take some twenty operations; so many values behind a result are looked at."""

NORMS = ("layer-norm", "rms-norm", BATCH_NORM)
"""Operations that norm; the last one has sets of entries of any shape."""

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
    operations: list[Value] = []
    if not leaves(graph, codes, maps, operations) or len(maps) != 1 or len(maps[0].products) != 1:
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
    return Convolution(read[0], kernel[order], bias, step, name if operations and off <= CLOSE else "")


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
    operations: list[Value] = []
    if codes.shape != sequence.shape or not leaves(graph, codes, maps, operations) or len(maps) != 1:
        return None
    read = surrounded(graph, maps[0], sequence)
    if read is None:
        return None
    kernel, bias, before = read
    name, _, off, _ = nearest_activation(graph.numbers(codes), [linear(graph, maps[0])])
    is_known = bool(operations) and off <= CLOSE
    return Surroundings(kernel, bias, before, name if is_known else "")


def surrounded(graph: Graph, z: Affine, sequence: Tensor) -> tuple[Tensor, Tensor | None, int] | None:
    """Return kernel, bias and reach of the convolution of a sequence that gives entries (B, n, d_model), if one does.

    Args:
        graph: the computation.
        z: the entries.
        sequence: those of the sequence.
    """
    product, *others = z.products
    groups, M, d_group = product.shape
    width = z.entries.shape[-1]
    if others or not z.has_one_bias():
        return None
    rows, columns = product.reads
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor)
    if d_group == width and bool((columns == columns[:1]).all()):
        # One group, whose sequences are multiplied one by one.
        rows, columns, groups, M = rows.flatten(0, 1)[None], columns[:1], 1, groups * M
    if groups * d_group != width:
        return None
    at = places(z.entries)
    group, row, column = at // (M * d_group), at // d_group % M, at % d_group
    of_group = torch.arange(width) // d_group
    if not torch.equal(group, of_group.expand_as(group)) or not torch.equal(row, row[..., :1].expand_as(row)):
        return None
    order, before = surroundings_order(graph, rows[:, row[..., 0]], sequence)
    if order is None:
        return None
    kernel = columns[of_group, :, column[0, 0]][:, order].permute(1, 2, 0)
    bias = z.bias[0, 0]
    return kernel, None if bool((bias == NONE).all()) else bias, before


@dataclass(eq=False)
class Stacked:
    """Convolutions of a sequence, one behind the other, with a norm without parameters and GELU behind each.

    Codes of the kernels (J, K, d_group, d_model) and biases (J, d_model), how many positions before its own each one
    reads, and ε.
    """

    W: Tensor
    b: Tensor | None
    before: int
    eps: float


MOST_STACKED = 32
"""So many convolutions of positions are read one behind the other; data2vec has five."""

OneOfStack = tuple[Tensor, Tensor, Tensor | None, int, float]
"""One convolution of a stack: its input, codes of kernel and bias, how many earlier positions it reads, and ε."""


def read_stacked(graph: Graph, codes: Tensor, sequence: Tensor) -> Stacked | None:
    """Return the convolutions, one behind the other, that make entries of a sequence; None if others do.

    Args:
        graph: the computation.
        codes: the entries (B, n, d_model).
        sequence: those of the sequence, likewise.
    """
    found: list[OneOfStack] = []
    reads = codes
    while reads is not sequence:
        one = read_one_of_stack(graph, reads, sequence)
        if codes.shape != sequence.shape or len(found) == MOST_STACKED or one is None:
            return None
        found.insert(0, one)
        reads = one[0]
    _, kernels, biases, reaches, epsilons = zip(*found, strict=True)
    alike = len({W.shape for W in kernels}) == len(set(reaches)) == len(set(epsilons)) == 1
    if not alike or len({b is None for b in biases}) > 1:
        return None
    return Stacked(torch.stack(kernels), None if biases[0] is None else torch.stack(biases), reaches[0], epsilons[0])


def read_one_of_stack(graph: Graph, codes: Tensor, sequence: Tensor) -> OneOfStack | None:
    """Return the convolution, with a norm without parameters and GELU behind it, that gives entries."""
    seen = list(entries_behind(graph, codes))
    normed, activation = before_activation(graph, seen, graph.numbers(codes)) if seen else (codes, "")
    for z_codes in seen[1:] if activation == "gelu" else ():
        z = affine(graph, z_codes)
        if z is None or z.factor() != 1 or len(z.products) != 1:
            continue
        rows = z.products[0].reads[0]
        assert isinstance(rows, Tensor)
        value = next((v for v in graph.owners(rows) if v.depends), None)
        before = [] if value is None or value.codes.ndim != sequence.ndim else [value.codes, value.codes.mT]
        eps = epsilon_between(graph, normed, z_codes)
        for reads in (sequence, *(turned for turned in before if turned.shape == sequence.shape)):
            read = None if eps is None else surrounded(graph, z, reads)
            if read is not None and eps is not None:
                return reads, *read, eps
    return None


def epsilon_between(graph: Graph, normed: Tensor, z: Tensor) -> float | None:
    """Return ε of the norm of features without parameters that leads from some entries to others; None of none."""
    gammas, betas, numbers = weights_between(graph, normed, z)
    x, y = graph.numbers(z), graph.numbers(normed)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    fits = (eps for eps in (*numbers, 0.0) if apart(centred / torch.sqrt(variance + eps), y) <= CLOSE)
    return None if gammas or betas else next(fits, None)


def entries_behind(graph: Graph, codes: Tensor) -> Iterator[Tensor]:
    """Yield entries, and those from which operations on single entries or norms make them, in the same arrangement."""
    waiting, seen = [codes], set[tuple[int, int]]()
    while waiting and len(seen) < MOST_BEHIND:
        here = waiting.pop(0)
        value = graph.owner(here)
        mark = int(here.reshape(-1)[0]), int(here.reshape(-1)[-1])
        if value is None or mark in seen:
            continue
        seen.add(mark)
        yield here
        if value.kind == "elementwise":
            waiting += [through(read, here) for read in value.arrays if graph.depends(read)]
        elif value.operation in NORMS and value.arrays[0].shape == value.shape:
            waiting.append(through(value.arrays[0], here))


def before_activation(graph: Graph, seen: list[Tensor], wanted: Tensor) -> tuple[Tensor, str]:
    """Return the entries of which an activation makes what is wanted, and its name; the first entries without one."""
    known = variants("activation")
    names = ["gelu", *(name for name in known if name not in ("gelu", "identity"))]
    for name in names:
        for codes in seen[1:]:
            given = graph.numbers(codes)
            if given.shape == wanted.shape and apart(known[name].function(given), wanted) <= CLOSE:
                return codes, name
    return seen[0], ""


def weights_between(graph: Graph, normed: Tensor, z: Tensor) -> tuple[list[Tensor], list[Tensor], list[float]]:
    """Return what each channel is multiplied by between a convolution and what is activated, and what is added to it.

    With these come the numbers that may be ε. Only weights that are the same at every time count.
    """
    value, target = graph.owner(normed), graph.owner(z)
    assert value is not None
    assert target is not None
    gammas: list[Tensor] = []
    betas: list[Tensor] = []
    numbers: list[float] = []
    for here in entries_behind(graph, normed):
        at = graph.owner(here)
        if at is None or at is target or torch.equal(here, z):
            continue
        if at.operation in NORMS:
            numbers.append(float(at.options["eps"]))
            for held, letter in ((gammas, "gamma"), (betas, "beta")):
                if at.options[letter] is not None and at.options[letter].shape == here.shape[2:]:
                    held.append(at.options[letter])
        if at.kind != "elementwise":
            continue
        for read in at.arrays:
            if graph.depends(read) or not graph.learned(read):
                continue
            of_each = through(read.broadcast_to(at.shape), here)
            if bool((of_each == of_each[:1, :1]).all()):
                {"mul": gammas, "add": betas}.get(at.operation, []).append(of_each[0, 0])
    written = ingredients(graph, value, (target,))[2] if value.kind == "elementwise" else []
    return gammas, betas, list(dict.fromkeys([*numbers, *written]))


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
