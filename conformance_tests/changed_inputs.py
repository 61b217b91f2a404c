"""A value that is formed rightly and changed before it is used: then the equation that reads it is right.

An encoder forms S, multiplies it by 0.9 and takes the softmax of that: S is among its arrays, A is not, and
yet the softmax is right. What is wrong is what hands the scores on.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from conformance_tests.intermediates import Recorded
from conformance_tests.run import Case, Run
from encoder_spec.assembly import Intermediate
from encoder_spec.equation import Equation

PARALLEL = 1e-9
"""In units of its own length, how far an array may lie from a multiple of another one."""

NORMED = 1e-3
"""The same for what a norm makes of an array, whose ε is not asked for."""

BEYOND = -1e3
"""Scores below this one have been masked."""


SUMS = ("segment", "embedding_norm", "dropout", "input")
"""What may be the first to show the sum of embedding and position."""


class Departure(NamedTuple):
    """Where a subject departs: the place in the specification's trace of a case, beside the subject's arrays."""

    run: Run
    case: Case
    trace: Sequence[Intermediate]
    place: int
    recorded: Recorded

    def before(self, *slots: str) -> Tensor:
        """The last value before this place in one of these slots."""
        step = next(step for step in reversed(self.trace[: self.place]) if step.equation.slot in slots)
        return cast(Tensor, step.value)

    def arrays_like(self, like: Tensor) -> Iterator[Tensor]:
        """The subject's arrays with as many entries, in this shape, in the order in which they were computed."""
        yield from (flat.reshape(like.shape) for flat in self.recorded.of_size(like.numel()))


def giver_within(there: Departure) -> Equation | None:
    """The equation whose value is changed before the one at this place reads it; None if that one is wrong itself."""
    find = {"weights": before_weights, "values": before_values, "ffn": before_ffn, "residual": before_residual}
    search = find.get(there.trace[there.place].equation.slot)
    slot = search(there) if search else None
    return there.run.encoder.profile[slot] if slot else None


def giver_to_input(there: Departure) -> Equation | None:
    """What makes the embedding or the position, if their sum departs and is right with another one of the two.

    A multiple of the embedding is the fault of its scale.
    """
    before = [step.equation.slot for step in there.trace[: there.place]]
    if there.trace[there.place].equation.slot not in SUMS or "position" not in before:
        return None
    X, PE = there.before("embedding_scale"), there.before("position")
    if X.shape[-2:] != PE.shape[-2:]:
        return None
    profile = there.run.encoder.profile
    for place, other in enumerate(there.arrays_like(X)):
        if not torch.equal(other, X) and there.recorded.has(other + PE, after=place):
            return profile["embedding_scale" if is_multiple(other, X) else "embedding"]
    others = (other for other in there.arrays_like(PE) if not torch.equal(other, PE))
    return profile["position"] if any(there.recorded.has(X + other) for other in others) else None


def before_weights(there: Departure) -> str | None:
    """The mask or the scores, if in every layer some array is the softmax of another one."""
    S, weights = there.before("scores"), there.run.encoder.profile["weights"].function
    held = [(x, A) for x in there.arrays_like(S) if there.recorded.has(A := weights(x))]
    different = {tuple(A.sum(dim=(0, 1)).flatten().round(decimals=9).tolist()) for _, A in held}
    if len(different) < there.run.encoder.dimensions.N:
        return None
    near = PARALLEL * float(S.abs().max())
    return "mask" if any(bool((((x - S).abs() <= near) | (x < BEYOND)).all()) for x, _ in held) else "scores"


def before_values(there: Departure) -> str | None:
    """The weights, if the average is right with other ones: dropout, where entries are missing and no more."""
    A, V = there.before("weights"), there.before("split")
    for other in there.arrays_like(A):
        if not torch.equal(other, A) and there.recorded.has(other @ V):
            kept = other != 0
            return "dropout" if not kept.all() and is_multiple(other[kept], A[kept]) else "weights"
    return None


def before_ffn(there: Departure) -> str | None:
    """The activation, if the second map is right with other inner features."""
    path = there.trace[there.place].path
    parameters, home = there.run.parameters(there.case.weights), there.run.encoder.home
    W_2, b_2 = parameters[home(f"{path}.W_2")], parameters.get(home(f"{path}.b_2"), torch.zeros(()))
    others = there.arrays_like(there.before("activation"))
    return "activation" if any(there.recorded.has(other @ W_2 + b_2) for other in others) else None


def before_residual(there: Departure) -> str | None:
    """What ends the sublayer, if the sum is right with something else than the sublayer's value.

    A multiple of it may be its weight in the sum; normed by the layer, it is right, and the sum wrong.
    """
    given = there.before("multihead", "ffn")
    X = there.trace[there.place].value - given
    formed = max(there.recorded.places_of(given), default=-1)
    for at, other in enumerate(there.arrays_like(given)):
        if at <= formed or is_multiple(other, given) or is_standardised(other, given):
            continue
        if there.recorded.has(X + other, after=at):
            ends = next(s for s in reversed(there.trace[: there.place]) if s.equation.slot in ("output", "ffn"))
            return str(ends.equation.slot)
    return None


def is_multiple(x: Tensor, of: Tensor) -> bool:
    """Whether an array is another one times a number."""
    factor = float((x * of).sum() / of.square().sum())
    return bool((x - factor * of).norm() <= PARALLEL * x.norm())


def is_standardised(x: Tensor, of: Tensor) -> bool:
    """Whether every position of an array is an affine map, the same for all, of the other one's with its norm taken."""
    unit = torch.nn.functional.layer_norm(of, of.shape[-1:]).flatten(0, -2)
    rows = x.flatten(0, -2)
    slope = ((rows - rows.mean(0)) * (unit - unit.mean(0))).sum(0) / (unit - unit.mean(0)).square().sum(0)
    rest = rows - rows.mean(0) - slope * (unit - unit.mean(0))
    return bool(rest.norm() <= NORMED * rows.norm())
