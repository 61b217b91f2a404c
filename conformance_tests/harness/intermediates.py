"""Finding the specification's intermediates among those of an encoder, by value.

An encoder does not say which of its arrays are the scores. But an array that holds the
numbers of the scores, up to the order of its axes, is the scores: no name is needed, and
no hook. What is not found was either never formed (a fused kernel) or is wrong; the order
of computation decides which.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import permutations
from operator import or_
from typing import Any

import torch
from torch import Tensor

from conformance_tests.numerics.compare import BUDGET, budget_in_float64, difference_at
from encoder_spec.assembly import Intermediate, Trace
from encoder_spec.equation import variants

SMALLEST = 1e-2
"""Values below this one are compared as if they were this large: they may be differences of numbers near 1.

Nothing is known of outputs, and the bound is 1. But a faint intermediate, which a norm will magnify, is
another one if it differs by what is little beside 1.
"""

SIDE_BY_SIDE = {"projections", "merge"}
"""The slots whose values hold all heads in one axis; an encoder may form them with an axis for each."""

OF_PLACES = ("position", "angles", "coordinates", "axes")
"""Slots whose values are those of places, whatever stands there; those of equations that read the mask are heard."""

SAYING_LITTLE = (*OF_PLACES, "statistics")
"""Slots whose values may be right though what stands before them is wrong."""


READING_FIRST = frozenset({"head.first", "head.nsp"})
"""Equations that read the first position of a sequence alone: they say nothing where that is padding."""


OVER_KEYS = ("weights", "values", "attention", "merge")
"""Slots whose values say nothing of a single key: whatever its score, its weight is 1, and it gives its value."""


@dataclass(frozen=True)
class Aligned:
    """An intermediate of the specification and the subject's array that equals it, if any.

    ``got`` and ``want`` have the specification's axes. Without a match ``got`` is None
    or the nearest array of the right size, and ``nearest`` looks for it. One that ``is_handed_on``
    is the very array that another equation gave. ``made_of`` has the places, as bits, of the values that it is
    computed of: that it is found vouches for these.
    """

    spec: Intermediate
    part: int
    want: Tensor
    got: Tensor | None
    error: float
    budget: float
    valid: Tensor | None = None
    look: Callable[[], "Aligned"] | None = None
    is_handed_on: bool = False
    made_of: int = 0

    def nearest(self) -> "Aligned":
        """Return this one with the nearest array of the right size, if none equals the value."""
        return self.look() if self.look else self

    def as_value_of(self, other: Intermediate) -> "Aligned":
        """Return what was found as found of an equation that hands on the very array."""
        look = None if self.look is None else (lambda: self.nearest().as_value_of(other))
        return replace(self, spec=other, part=0, look=look, is_handed_on=True)

    @property
    def letter(self) -> str:
        """The letter of this value in its equation, such as S or K."""
        if self.spec.equation.slot == "projections":
            return "QKV"[self.part]
        found = re.match(r"\s*(?:\\tilde )?([A-Za-z]+)", self.spec.equation.latex)
        return found[1] if found else "value"

    @property
    def is_found(self) -> bool:
        """True if the subject computes this value."""
        return self.error <= self.budget

    @property
    def tells(self) -> bool:
        """True if the subject computes this value, and would not if what stands before it were wrong."""
        compared = self.valid is None or bool(self.valid.any())
        says_more = self.spec.equation.slot not in SAYING_LITTLE and not self.is_handed_on
        return self.is_found and compared and says_more


def values_of(intermediate: Intermediate) -> list[Tensor]:
    """Return the tensors among the values of an equation: several for Q, K, V or for μ, σ².

    The variance is left out: most encoders form 1/√(σ² + ε) at once.
    """
    return [part.detach() for part in parts(intermediate)]


def parts(intermediate: Intermediate) -> list[Tensor]:
    """Return the tensors of ``values_of``, with the gradients that they have."""
    value: Any = intermediate.value
    several = list(value) if isinstance(value, tuple) else [value]
    if intermediate.equation.slot == "statistics":
        several = several[:1]
    return [part for part in several if isinstance(part, Tensor)]


class Recorded:
    """The subject's arrays by size, with their sums and sums of squares, which no order of axes changes."""

    def __init__(self, arrays: list[Tensor], budget: float = BUDGET) -> None:
        self.budget = budget
        by_size: dict[int, list[Tensor]] = {}
        for array in filter(torch.numel, arrays):
            by_size.setdefault(array.numel(), []).append(array.reshape(-1).to(torch.float64))
        self._flat = {size: torch.stack(same) for size, same in by_size.items()}
        self._sums = {size: moments(flat) for size, flat in self._flat.items()}

    def of_size(self, size: int) -> Tensor:
        """Return all arrays with this many entries, one a row."""
        return self._flat.get(size, torch.empty(0, size, dtype=torch.float64))

    def in_any_order(self, like: Tensor) -> Iterator[Tensor]:
        """Yield the arrays of the size of another one, with its axes in every order that may be theirs."""
        for order in axis_orders(like):
            yield from in_order(order, like.shape, self.of_size(like.numel()))

    def has(self, want: Tensor, after: int = -1) -> bool:
        """Return whether some array may be ``want`` in another order of axes.

        It must stand behind the place ``after`` among those of its size.
        """
        return any(place > after for place in self.places_of(want))

    def holds(self, want: Tensor) -> bool:
        """Return whether some array is ``want`` in another order of axes, entry by entry.

        Another computation rounds in its own way, so that it may be ten times as far away as is allowed of a right one.
        """
        near = 10 * budget_in_float64(want)
        likely = self.like(want, near)
        return any(
            bool((difference_at(array, want, None) <= near).all())
            for order in (axis_orders(want) if len(likely) else ())
            for array in in_order(order, want.shape, likely)
        )

    def has_reordered(self, want: Tensor) -> bool:
        """Return whether some array has the samples of ``want`` in another order: a batch is sorted to be packed."""
        sums = want.flatten(1).sum(dim=1)
        near = self.budget * want[0].numel() * max(1.0, largest(want))
        of_samples = self.of_size(want.numel()).unflatten(1, (len(want), -1)).sum(dim=2)
        alike = ((of_samples.sort(dim=1).values - sums.sort().values).abs() <= near).all(dim=1)
        return bool((alike & ((of_samples - sums).abs() > near).any(dim=1)).any())

    def places_of(self, want: Tensor) -> list[int]:
        """Return the places, among the arrays of its size, of those that may be ``want`` in another order of axes."""
        near = self._near(want, self.budget * max(1.0, largest(want)))
        return near.nonzero().flatten().tolist()

    def like(self, want: Tensor, budget: float) -> Tensor:
        """Return the arrays that may be ``want`` in another order of axes."""
        return self.of_size(want.numel())[self._near(want, budget)]

    def _near(self, want: Tensor, budget: float) -> Tensor:
        if want.numel() not in self._sums:
            return torch.zeros(0, dtype=torch.bool)
        allowed = budget * want.numel() * max(1.0, 2 * largest(want))
        return ((self._sums[want.numel()] - moments(want.reshape(1, -1))).abs() <= allowed).all(dim=-1)


def largest(value: Tensor) -> float:
    """Return the largest magnitude of an array, 0 without entries: a wrong equation may leave none."""
    return float(value.abs().max()) if value.numel() else 0.0


def moments(flat: Tensor) -> Tensor:
    """Return Σ x and Σ x² of every row."""
    return torch.stack([flat.sum(dim=-1), flat.square().sum(dim=-1)], dim=-1)


def made_of(trace: Trace) -> list[int]:
    """Return for each value that ``align`` looks for, as bits, the places of those that it is computed of, and its own.

    Autograd tells, in a trace with gradients. What has none, as angles and masks, is the same whatever is wrong before
    it: all that follow are taken to be computed of it.
    """
    values = [value for part in parts_of(trace) for value in part]
    bits: dict[Any, int] = {}
    for place, value in enumerate(values):
        bits[value.grad_fn] = bits.get(value.grad_fn, 0) | 1 << place
    constant = bits.pop(None, 0)
    reached: dict[Any, int] = {None: 0}
    for value in values:
        waiting: list[Any] = [value.grad_fn]
        while waiting:
            node = waiting[-1]
            before = [] if node in reached else [function for function, _ in node.next_functions]
            if unknown := [function for function in before if function not in reached]:
                waiting += unknown
                continue
            waiting.pop()
            if node not in reached:
                reached[node] = reduce(or_, (reached[function] for function in before), bits.get(node, 0))
    return [reached[v.grad_fn] | constant & (1 << place) - 1 | 1 << place for place, v in enumerate(values)]


def parts_of(trace: Trace) -> Iterator[list[Tensor]]:
    """Yield the values of each intermediate that are looked for; of one that is handed on, the value once more."""
    seen: set[int] = set()
    for intermediate in trace:
        yield [intermediate.value] if id(intermediate.value) in seen else parts(intermediate)
        if isinstance(intermediate.value, Tensor):
            seen.add(id(intermediate.value))


def align(trace: Trace, recorded: Callable[[], Recorded], h: int, keep: Tensor | None = None) -> list[Aligned]:
    """Look for every value of the trace among the recorded arrays.

    Args:
        trace: the specification's intermediates, from the same input and parameters.
        recorded: returns the subject's arrays, its inputs among them; asked again for what is nearest to a value.
        h: the number of heads, which an encoder may keep as a separate axis throughout.
        keep: (B, n); padded query rows are not compared.
    """
    arrays = recorded()
    aligned: list[Aligned] = []
    reads_first = reads_first_alone(step.equation.id for step in trace)
    handed_on: dict[int, Aligned] = {}  # by the identity of the value, which an equation may leave as it is
    for intermediate in trace:
        before = handed_on.get(id(intermediate.value))
        if before is not None:
            aligned.append(before.as_value_of(intermediate))
            continue
        for part, want in enumerate(values_of(intermediate)):
            valid = valid_rows(intermediate, want, keep, reads_first)
            aligned.append(match(intermediate, part, want, arrays, recorded, valid, h))
        if isinstance(intermediate.value, Tensor):
            handed_on[id(intermediate.value)] = aligned[-1]
    return aligned


def reads_first_alone(equations: Iterable[str]) -> bool:
    """Return whether an encoder with these equations ends with a vector that is made of first positions alone."""
    return not READING_FIRST.isdisjoint(equations)


def valid_rows(
    intermediate: Intermediate, want: Tensor, keep: Tensor | None, reads_first: bool = False
) -> Tensor | None:
    """Return where an intermediate belongs to a valid query: its batch and its first position axis.

    A vector for each sequence belongs to its valid positions, or to the first one where a head reads that alone.
    """
    if keep is None or not keep.any():
        return None
    if intermediate.equation.slot in OF_PLACES and not intermediate.equation.reads_mask:
        return None
    if len(want) != len(keep):
        return None  # of weights alone, such as a normed table
    slot = intermediate.equation.slot
    if slot in OVER_KEYS or (slot == "dropout" and want.ndim == 4):  # with an axis for heads: the weights
        keep = keep & (keep.sum(dim=1, keepdim=True) > 1)
    if want.ndim == 4:
        return keep[:, None, :].expand(want.shape[:3])
    if want.ndim == 2:
        return keep[:, 0] if reads_first else keep.any(dim=1)
    return keep if want.shape[1] == keep.shape[1] else None


def match(
    intermediate: Intermediate,
    part: int,
    want: Tensor,
    arrays: Recorded,
    again: Callable[[], Recorded],
    valid: Tensor | None,
    h: int,
) -> Aligned:
    """Return the array that equals ``want`` under some order of its axes; without one, it can look for the nearest.

    It does so in the arrays as they are then returned ``again``, and does not keep all of them for it.
    """
    finite = want[want.isfinite()]
    budget = BUDGET * max(SMALLEST, float(finite.abs().max()) if finite.numel() else 1.0)
    by_heads = intermediate.equation.slot in SIDE_BY_SIDE and want.shape[-1] % h == 0
    split = want.unflatten(-1, (h, -1)) if by_heads else want
    orders = axis_orders(split)
    if intermediate.equation.slot == "merge" and by_heads:
        orders = [order for order in orders if is_concatenation(order, split)]

    def nearest(candidates: Tensor) -> Aligned:
        best, least, error = None, float("inf"), float("inf")
        for order in orders if len(candidates) else ():
            got = in_order(order, split.shape, candidates).reshape(-1, *want.shape)
            difference = difference_at(got, want, None if valid is None else valid[None])
            # Summed and capped, so that one infinite difference does not hide all others.
            distances = difference.clamp(max=1e3).flatten(1).sum(dim=1)
            first = int(distances.argmin())
            if float(distances[first]) < least:
                best, least, error = got[first], float(distances[first]), float(difference[first].max())
            if error <= budget:
                break
        return Aligned(intermediate, part, want, best, error, budget, valid)

    row = first_row(want, valid)

    def equal(candidates: Tensor) -> Aligned | None:
        """Return a candidate that equals the value; what differs in one row already is not looked at as a whole."""
        for order in orders if len(candidates) else ():
            of_all: Any = (slice(None), *row)
            rows = in_order(order, split.shape, candidates)[of_all].reshape(len(candidates), -1)
            alike = (difference_at(rows, want[row].reshape(1, -1), None) <= budget).all(dim=1)
            if alike.any() and (found := nearest(candidates[alike])).is_found:
                return found
        return None

    # Where no array equals it, the nearest one is looked for only if the encoder departs here.
    missing = Aligned(
        intermediate, part, want, None, float("inf"), budget, valid, lambda: nearest(again().of_size(want.numel()))
    )
    if len(finite) == want.numel():
        if likely := equal(arrays.like(want, budget)):
            return likely
        heads = head_by_head(intermediate, split, valid)
        pieces = [match(intermediate, part, p, arrays, again, v, 1) for p, v in heads]
        got = [p.got for p in pieces if p.is_found and p.got is not None]
        if pieces and len(got) == len(pieces):
            whole = torch.stack(got, dim=heads_axis(intermediate)).reshape(want.shape)
            return replace(missing, got=whole, error=max(p.error for p in pieces), look=None)
        if valid is None:
            return missing  # no array has its sums, so none equals it
    return equal(arrays.of_size(want.numel())) or missing


def first_row(want: Tensor, valid: Tensor | None) -> tuple[int, ...]:
    """Return where, along all axes but the last, the first row stands that is valid and has numbers.

    It is the first row of all if none is.
    """
    telling = want.isfinite().any(dim=-1)
    if valid is not None:
        telling &= valid.reshape(valid.shape + (1,) * (telling.ndim - valid.ndim))
    return tuple((telling if telling.any() else torch.ones_like(telling)).nonzero()[0].tolist())


def head_by_head(intermediate: Intermediate, value: Tensor, valid: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
    """Return the values of all heads one by one, with where each is valid; nothing without an axis for the heads."""
    slot, axis = intermediate.equation.slot, heads_axis(intermediate)
    if value.ndim != 4 or value.shape[axis] == 1 or slot in ("merge", "output"):
        return []
    return [(p, valid[:, i] if valid is not None and axis == 1 else valid) for i, p in enumerate(value.unbind(axis))]


def heads_axis(intermediate: Intermediate) -> int:
    """Return the axis for the heads in a value that has one: behind the positions in projections, else before."""
    return 2 if intermediate.equation.slot == "projections" else 1


def in_order(order: Sequence[int], shape: Sequence[int], arrays: Tensor) -> Tensor:
    """Return arrays, one a row, whose axes are stored in an order, with these in that of the shape."""
    back = [order.index(axis) + 1 for axis in range(len(shape))]
    return arrays.reshape(-1, *(shape[axis] for axis in order)).permute(0, *back)


def axis_orders(want: Tensor) -> list[tuple[int, ...]]:
    """Return the orders of axes that differ, the specification's own first; axes of length 1 stay."""
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for order in permutations(range(want.ndim)):
        long = tuple(axis for axis in order if want.shape[axis] > 1)
        seen.setdefault(long, order)
    return list(seen.values())


def is_concatenation(order: tuple[int, ...], heads: Tensor) -> bool:
    """Return whether the heads (axis 2) and their entries (axis 3) lie side by side, as the map behind them reads them.

    In any other order they are what the heads gave, not yet their concatenation.
    """
    long = [axis for axis in order if heads.shape[axis] > 1]
    return not {2, 3} <= set(long) or long.index(3) == long.index(2) + 1


def departure(aligned: list[Aligned]) -> int:
    """Return the place of the first intermediate that is wrong: missing, with nothing found that is computed of it.

    What is missing otherwise was never formed; with nothing wrong the place is behind the end.
    Positions do not depend on content, and a mean hides the order of what it is taken over. That they are
    found does not vouch for what they are computed of. An equation that leaves its input as it is cannot be
    where a value is first missing: what hands that value to it is. Nor can what the subject itself computes, which
    the specification leaves open.
    """
    vouched = reduce(or_, (a.made_of for a in aligned if a.tells), 0)
    missing = (place for place, a in enumerate(aligned) if not a.is_found and not vouched >> place & 1)
    place = next(missing, len(aligned))
    first = aligned[place].spec.equation if place < len(aligned) else None
    if first is not None and (first.variant == "none" or first.variant not in variants(first.slot)):
        slot = first.slot
        return next(i for i, a in enumerate(aligned) if i > place and slot in a.spec.equation.slots)
    return place
