"""Following entries through elementwise operations, backwards."""

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from conformance_tests.computation.graph import PLACES, Graph, Value, places


def is_of_data(graph: Graph, value: Value) -> bool:
    """Return whether a value is a product of two arrays of data: scores, or averages."""
    return value.operation == "product" and all(map(graph.depends, value.reads.forms))


def first_argument(graph: Graph) -> Value | None:
    """Return the first argument of the call."""
    return next((v for v in graph.values if v.operation == "argument"), None)


def through(operand: Tensor, codes: Tensor) -> Tensor:
    """Return what stands in an operand where these entries of the result stand, in their arrangement."""
    return operand.reshape(-1)[places(codes)]


def read_side_by_side(graph: Graph, codes: Tensor) -> list[Tensor] | None:
    """Return what the operation on each entry that gave these reads, in their arrangement; None if none did.

    The same operation on several arrays whose entries stand side by side is one operation.
    """
    owners = graph.owners(codes)
    kinds = {(v.kind, v.operation, tuple(r if not isinstance(r, Tensor) else None for r in v.reads)) for v in owners}
    if len(kinds) != 1 or owners[0].kind != "elementwise":
        return None
    found = [torch.empty_like(codes) for _ in owners[0].arrays]
    for value in owners:
        here = codes >> PLACES == value.number
        for whole, read in zip(found, value.arrays, strict=True):
            whole[here] = through(read, codes[here])
    return found


def is_one_array(graph: Graph, one: Tensor, other: Tensor) -> bool:
    """Return whether entries made of weights are the same, or made anew of the same ones by the same operations."""
    if torch.equal(one, other):
        return True
    if one.shape != other.shape:
        return False
    if not (graph.learned(one) or graph.learned(other)):
        return torch.equal(graph.numbers(one), graph.numbers(other))
    reads = [read_side_by_side(graph, codes) for codes in (one, other)]
    if reads[0] is None or reads[1] is None:
        return False
    (first, second) = (graph.owners(codes)[0] for codes in (one, other))
    numbers = [[r for r in value.reads if not isinstance(r, Tensor)] for value in (first, second)]
    is_same_operation = first.operation == second.operation and numbers[0] == numbers[1]
    return is_same_operation and all(is_one_array(graph, *both) for both in zip(*reads, strict=True))


def paths(graph: Graph, codes: Tensor, *targets: Value) -> Iterator[Tensor]:
    """Yield the entries that stand behind these through elementwise operations, in their order.

    They are entries of an earlier value, or of several whose entries stand side by side.
    """
    first = min(target.number for target in targets)
    seen: set[tuple[int, int]] = set()
    waiting = [codes]
    while waiting:
        here = waiting.pop()
        value = graph.owner(here)
        if (value in targets) if value else set(graph.owners(here)) == set(targets):
            yield here
        elif value is not None and value.kind == "elementwise" and value.number > first:
            mark = value.number, int(here.reshape(-1)[0])
            if mark not in seen:
                waiting += [through(read, here) for read in value.arrays if graph.depends(read)]
            seen.add(mark)


def unchanged(graph: Graph, codes: Tensor) -> Tensor:
    """Return the entries of the earliest value that elementwise operations hand on without changing a number.

    Ids that are looked up are often made sure of before: ``where(ids < 0, ids + V, ids)``.
    """
    while (value := graph.owner(codes)) is not None and value.kind == "elementwise":
        numbers = graph.numbers(codes)
        behind = (through(read, codes) for read in value.arrays if graph.depends(read))
        same = next((read for read in behind if torch.equal(graph.numbers(read), numbers)), None)
        if same is None:
            break
        codes = same
    return codes


def along_axis(at: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """Return where along an axis of an array of this shape its entries at these places stand.

    (``torch.unravel_index`` would import torch's compiler for seconds to check its arguments.)
    """
    axis %= len(shape)
    return at // prod(shape[axis + 1 :]) % shape[axis]


def is_even(numbers: Tensor) -> bool:
    """Return whether all numbers are one."""
    return bool((numbers == numbers.reshape(-1)[0]).all()) if numbers.numel() else False


def constant_along(codes: Tensor, axis: int) -> bool:
    """Return whether entries do not change along an axis."""
    return bool(torch.equal(codes, codes.narrow(axis, 0, 1).expand_as(codes)))
