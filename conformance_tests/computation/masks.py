"""Masks within attention: which keys they hide, by where the keys stand and by the ids of their tokens."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Value, places
from conformance_tests.computation.walking import along_axis, constant_along, first_argument, is_even, through

LARGE = 1e4
"""A key is hidden by adding −∞, or a negative number at least so large."""


MATRIX = 2
"""Queries and keys are the last two axes of scores."""


def masks_out(graph: Graph, value: Value, others: "Sequence[Tensor | float]", argument: Tensor) -> bool:
    """Return whether scores are multiplied by 1, or by 0 where what the softmax reads is a large negative number."""
    if value.operation != "mul" or len(others) != 1 or graph.depends(others[0]) or value.shape != argument.shape:
        return False
    kept = graph.numbers(others[0]).broadcast_to(argument.shape)
    return not is_even(kept) and bool(((kept == 1) | ((kept == 0) & (argument <= -LARGE))).all())


class Reach(NamedTuple):
    """The keys that a query reads where nothing is padded: a variant, the width of its window, and what it is in words.

    No variant is one that no equation has.
    """

    variant: str = "global"
    window: int = 0
    says: str = ""


def reach_of(scores: Tensor, axis: int) -> Reach:
    """Return which keys are hidden from which queries by where they stand; all are read if none is, or others are.

    An id of padding may hide keys as well: those of all queries.

    Args:
        scores: what the softmax reads in a call in which nothing is padded.
        axis: that of the keys; that of the queries is the other one of the last two.
    """
    hidden = scores <= -LARGE / 2  # a fill that is added leaves the score itself, which is far smaller, beside it
    if hidden.ndim < MATRIX or axis % hidden.ndim < hidden.ndim - MATRIX or hidden.shape[-1] != hidden.shape[-2]:
        return Reach()
    hidden = (hidden if axis % hidden.ndim == hidden.ndim - 1 else hidden.mT).reshape(-1, *hidden.shape[-2:])
    if not bool(hidden.any()) or bool(hidden.all(-1).any()):
        return Reach()
    places = torch.arange(hidden.shape[-1])
    ahead = places - places[:, None]
    for pattern, variant, says in (
        (ahead > 0, "causal", "each position sees itself and those before it alone (a causal mask)"),
        (ahead < 0, "", "each position sees itself and those behind it alone"),
        (ahead == 0, "", "no position sees itself"),
    ):
        if bool((hidden == pattern).all()):
            return Reach(variant, 0, says)
    before, behind = (int(side.masked_fill(hidden.any(0), 0).max()) for side in (-ahead, ahead))
    if not bool((hidden == ((ahead > behind) | (-ahead > before))).all()):
        return Reach()
    if before == behind:
        return Reach("local", 2 * behind, f"each position sees {behind} others to either side alone (a window)")
    return Reach("", 0, f"each position sees {before} others before it and {behind} behind it alone (a window)")


def is_made_of_ids(graph: Graph, value: Value) -> bool:
    """Return whether a value is a product of numbers that are made from the ids alone."""
    given = first_argument(graph)
    return (
        value.operation == "product" and not value.learned and given is not None and not given.dtype.is_floating_point
    )


def ids_behind(graph: Graph, codes: Tensor) -> Iterator[Tensor]:
    """Yield the ids from which operations on each entry make these, in their arrangement."""
    given = first_argument(graph)
    if given is None or given.dtype.is_floating_point:
        return
    waiting = [codes]
    while waiting:
        here = waiting.pop()
        value = graph.owner(here)
        if value is given:
            yield here
        elif value is not None and value.kind == "elementwise":
            waiting += [through(read, here) for read in value.arrays if graph.depends(read)]
        elif value is not None and is_made_of_ids(graph, value):
            waiting += factors(value, here)


def factors(product: Value, codes: Tensor) -> list[Tensor]:
    """Return the first entry of the row, and of the column, that make each of these entries of a product."""
    rows, columns = product.arrays
    _, M, N = product.shape
    at = places(codes)
    return [rows[at // (M * N), at // N % M, 0], columns[at // (M * N), 0, at % N]]


def hidden_wrongly(graph: Graph, masking_ids: Sequence[Tensor], axis: int) -> str:
    """Say what masks that are made from ids hide in the place of the keys with those ids; nothing if they hide these.

    Args:
        graph: the computation.
        masking_ids: the ids that masks are made from, one for each entry of the scores.
        axis: that of the keys; that of the queries is the other one of the last two.
    """
    axes = masking_ids[0].ndim if masking_ids else 0
    if axes < MATRIX or axis % axes < axes - MATRIX:
        return ""
    keys, queries = (-1, -2) if axis % axes == axes - 1 else (-2, -1)
    by_key = [ids for ids in masking_ids if not constant_along(ids, keys)]
    if not by_key:
        by_query = any(not constant_along(ids, queries) for ids in masking_ids)
        return "hides queries, where it should hide keys" if by_query else ""
    for ids in by_key:
        given = graph.owner(ids)
        assert given is not None
        at = places(ids.movedim(keys, -1).reshape(-1, ids.shape[keys])[0])
        along = (along_axis(at, given.shape, a) for a in range(len(given.shape)))
        read = next(place for place in along if not is_even(place))
        moved = (read != torch.arange(len(read))).nonzero().flatten().tolist()
        if moved:
            return f"hides the key at position {moved[0]} by the id at position {int(read[moved[0]])}"
    return ""
