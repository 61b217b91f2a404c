"""Reading feed-forward networks: a map over an elementwise function of one or two maps of the same value.

Code without the second map is read too, as what departs from the equations.
"""

import math
from dataclasses import dataclass, replace
from itertools import permutations

import torch
from torch import Tensor

from conformance_tests.computation.affine import NONE, Affine, affine
from conformance_tests.computation.constants import SAME, rounded_root
from conformance_tests.computation.graph import Graph, Value, View, with_compact
from conformance_tests.computation.norm import CLOSE, CLOSE_IN_FLOAT32, apart
from conformance_tests.computation.walking import read_side_by_side
from encoder_spec.equation import variants

MOST_OPERATIONS = 40
"""An activation by hand takes some ten operations, and each may be reached on several ways."""

NEAR_BY = 0.1
"""How far, in units of its norm, a function may be from the variant that it is taken for with another constant, or cut
off: GELU with a wrong constant is within 0.07, and ELU, softplus, ReLU² or a sine are 0.2 or more from all variants."""


@with_compact("W_1", "W_2", "W_G")
@dataclass(eq=False)
class FeedForward:
    """A feed-forward network: codes of its maps and biases, what it reads, and its activation.

    ``activation`` is the variant of its slot, empty if it is another function; ``resembles`` is then the variant that
    it is nearly, empty if there is none, and ``off`` how far it is from it. ``root`` is the number in it where one of
    ``ROOTS`` belongs, if that is written with some digits alone. Without a gate ``W_G`` is None, and without
    a second map ``W_2`` is. One that is ``absent`` gives 0: it stands where an encoder has none, and this says so in
    words. ``is_glu`` says that one map is multiplied by the logistic function of the other: the first gated unit
    (Dauphin et al. 2017), which the specification does not have. ``lam`` are the factors of its features in the
    residual sum, if it has such.
    """

    reads: Tensor
    gives: Value | None
    W_1: Tensor
    b_1: Tensor
    W_2: Tensor | None
    W_G: Tensor | None
    b_G: Tensor | None
    activation: str
    operations: tuple[str, ...]
    where: str = ""
    b_2: Tensor | None = None
    resembles: str = ""
    off: float = 0.0
    root: float | None = None
    is_glu: bool = False
    absent: str = ""
    lam: Tensor | None = None


def absent_network(width: int, says: str) -> FeedForward:
    """Return the network that gives 0, which an encoder without one has; ``says`` what is found of it."""
    nothing, none, zeros = torch.empty(0, dtype=torch.long), torch.full((1,), NONE), torch.zeros(width, 1).long()
    activation = next(iter(variants("activation")))  # of 0, each gives 0
    return FeedForward(nothing, None, zeros, none, zeros.mT, None, None, activation, (), absent=says)


def feed_forwards(graph: Graph) -> list[FeedForward]:
    """Return the feed-forward networks of a computation, in order of execution."""
    found = []
    for value in graph.values:
        if graph.is_map(value):
            network = read_feed_forward(graph, value)
            if network is not None:
                found.append(network)
    return found


def read_feed_forward(graph: Graph, product: Value) -> FeedForward | None:
    """Return the network whose second map a product is, if it is one."""
    rows, columns = product.reads[0], product.reads.forms[1]
    assert isinstance(rows, Tensor)
    assert isinstance(columns, Tensor | View)
    if len(rows) > 1 or any(value.kind != "elementwise" and not graph.is_map(value) for value in graph.owners(rows)):
        return None
    network = of_rows(graph, rows, product, columns[0] if isinstance(columns, Tensor) else columns.first())
    if network is not None and is_of_windows(network, product):
        return None  # a convolution with a map behind it
    return network


def is_of_windows(network: FeedForward, product: Value) -> bool:
    """Return whether a network reads entries several times over, as windows that overlap, and gives other vectors."""
    is_as_wide = network.reads.shape[-1] == product.shape[-1]
    return not is_as_wide and network.reads.unique().numel() < network.reads.numel()


def read_one_map(graph: Graph, value: Value, codes: Tensor) -> FeedForward | None:
    """Return the network of one map that gives vectors as wide as what it reads, with a function of it or without.

    Args:
        graph: the computation.
        value: what the network gives.
        codes: its entries, with the features last.
    """
    if not codes.ndim or codes.numel() != value.shape.numel():
        return None
    width = codes.shape[-1]
    network = of_rows(graph, codes.reshape(1, -1, width), value, None)
    is_one = network is not None and network.W_G is None and network.W_1.shape == (width, width)
    return network if is_one else None


def of_rows(graph: Graph, rows: Tensor, gives: Value, W_2: Tensor | View | None) -> FeedForward | None:
    """Return the network whose second map reads these rows (1, M, d_ff), or that ends with them."""
    found: list[Affine] = []
    behind: list[Value] = []
    if not leaves(graph, rows, found, behind) or not found or len(found) > 2:
        return None
    first = [f.columns() for f in found]
    if any(not bool((c == c[:, :1]).all()) for c in first):
        return None
    try:
        reads = found[0].at(slice(None), slice(None), 0).arguments()
        if any(not torch.equal(f.rows(), found[0].rows()) for f in found[1:]):
            return None
    except ValueError:
        return None
    numbers = [linear(graph, f) for f in found]
    name, order, off, is_near = nearest_activation(graph.numbers(rows), numbers)
    operations = tuple(dict.fromkeys(value.operation for value in reversed(behind)))
    # Some code computes its activation in float32, whatever it is given.
    close = CLOSE if all(value.dtype is torch.float64 for value in behind) else CLOSE_IN_FLOAT32
    found = [found[i] for i in order]
    gate = found[1] if len(found) > 1 else None
    root = rounded_root(name, graph.numbers(rows), [numbers[i] for i in order]) if SAME < off < NEAR_BY else None
    return FeedForward(
        reads[0],
        gives,
        found[0].at(0, 0).weights().mT,
        found[0].bias[0, 0],
        W_2,  # type: ignore[arg-type]  # a view is kept as such, and written down where it is read
        None if gate is None else gate.at(0, 0).weights().mT,
        None if gate is None else gate.bias[0, 0],
        name if off <= close or root else "",
        operations,
        max(graph.owners(rows), key=lambda value: value.number).where,
        resembles=name if is_near else next(filter(variants("activation").__contains__, operations), ""),
        off=off if is_near else math.inf,
        root=root,
        is_glu=any(
            apart(one.sigmoid() * other, graph.numbers(rows)) <= close for one, other in permutations(numbers, 2)
        ),
    )


def leaves(graph: Graph, codes: Tensor, found: list[Affine], behind: list[Value]) -> bool:
    """Collect the maps behind entries, and the elementwise operations; return whether there is nothing else."""
    here = affine(graph, codes)
    if here is not None and here.factor() is not None:
        if not any(torch.equal(here.entries, other.entries) for other in found):
            found.append(unscaled(here))
        return True
    read = read_side_by_side(graph, codes)
    if read is None or len(behind) > MOST_OPERATIONS:
        return False
    behind += graph.owners(codes)
    data = [each for each in read if graph.depends(each)]
    return bool(data) and all(leaves(graph, each, found, behind) for each in data)


def unscaled(found: Affine) -> Affine:
    """Return a map without the number that multiplies it, which is part of the activation behind it: x/2 in GELU."""
    one = torch.ones_like(found.scale)
    return replace(found, scale=one, times=one)


def linear(graph: Graph, found: Affine) -> Tensor:
    """Return the numbers of affine entries."""
    biased = found.bias != NONE
    bias = torch.where(biased, graph.numbers(found.bias.clamp(min=0)), 0.0)
    return found.scale * graph.numbers(found.entries) + found.times * bias


def nearest_activation(value: Tensor, maps: list[Tensor]) -> tuple[str, list[int], float, bool]:
    """Return the activation nearest to a value, the maps in order, the largest difference, and whether it is near.

    The activated map comes first, then its gate.
    """
    tried: list[tuple[float, int, float, str, list[int]]] = []
    size = float(value.norm().clamp(min=torch.finfo(value.dtype).tiny))
    for order in [[0]] if len(maps) == 1 else [[0, 1], [1, 0]]:
        gate = maps[order[1]] if len(order) > 1 else 1.0
        for name, equation in variants("activation").items():
            given = equation.function(maps[order[0]]) * gate
            tried.append((float((given - value).norm()) / size, len(tried), apart(given, value), name, order))
    relative, _, off, name, order = min(tried)
    return name, order, off, relative < NEAR_BY
