"""A value that is formed rightly and changed before it is used: then the equation that reads it is right.

An encoder forms S, multiplies it by 0.9 and takes the softmax of that: S is among its arrays, A is not, and
yet the softmax is right. What is wrong is what hands the scores on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from conformance_tests.harness.computed import Case, Computed
from conformance_tests.harness.intermediates import Recorded
from encoder_spec.assembly import Intermediate, in_call
from encoder_spec.equation import Equation, places, variants
from encoder_spec.profiles import Profile

PARALLEL = 1e-9
"""Largest distance of an array from a multiple of another one, relative to the array's length."""

NORMED = 1e-3
"""This limit for an array that has passed a norm, whose ε is not asked for."""

BEYOND = -1e3
"""Scores below this one have been masked."""

SUMS = ("segment", "embedding_norm", "dropout", "input")
"""Slots that may be the first to show the sum of embedding and position."""


class Departure(NamedTuple):
    """The place where a subject departs, in the specification's trace of a case, beside the subject's arrays."""

    run: Computed
    case: Case
    trace: Sequence[Intermediate]
    place: int
    recorded: Recorded

    @property
    def step(self) -> Intermediate:
        """The intermediate that the specification gives there."""
        return self.trace[self.place]

    @property
    def profile(self) -> Profile:
        """The choice of equations."""
        return self.run.encoder.profile

    def before(self, *slots: str) -> Tensor:
        """Return the last value before this place in one of these slots."""
        step = next(step for step in reversed(self.trace[: self.place]) if step.equation.slot in slots)
        return cast(Tensor, step.value)

    def next_place(self, place: int, *slots: str) -> int:
        """Return the first place, from this one on, with one of these slots."""
        return next(i for i, step in enumerate(self.trace) if i >= place and step.equation.slot in slots)

    def arrays_like(self, like: Tensor) -> Iterator[Tensor]:
        """Yield the subject's arrays with as many entries, in this shape, in the order in which they were computed."""
        yield from (flat.reshape(like.shape) for flat in self.recorded.of_size(like.numel()))

    def others_like(self, like: Tensor) -> Iterator[Tensor]:
        """Yield these arrays, except those that hold just these numbers, up to rounding."""
        return (x for x in self.arrays_like(like) if not is_same(x, like))

    def parameter(self, letter: str) -> Tensor:
        """Return the subject's parameter of this letter for the equation at this place; 0 if there is none."""
        path = self.run.encoder.home(f"{self.step.path}.{letter}".removeprefix("."))
        return self.run.parameters(self.case.weights).get(path, torch.zeros(()))

    def equation_at(self, place: int) -> Callable[..., Any]:
        """Return the equation at a place, with the subject's parameters, as a function of its input alone."""
        path, of = self.trace[place].path, self.trace[place].equation.slot
        slot = self.profile.slot_at(path) if path.rpartition(".")[2] in places() else of
        probe = self.run.probes[self.case.probe]
        keep = probe.keep
        kept = torch.ones(1, 1, 1, dtype=torch.bool) if keep is None else keep[:, None]
        function: Callable[..., Any] = self.run.encoder.seeing(*probe.inputs).bind(
            in_call(self.run.parameters(self.case.weights), kept, probe.inputs), path=path, slot=slot
        )
        if of == "residual":
            return lambda x: function(x, self.trace[place - 1].value)
        return (lambda x: function(x, kept)) if slot in ("multihead", "layer") else function


def giver_to_input(there: Departure) -> Equation | None:
    """Return the equation before the layers whose value is changed before the one at this place reads it.

    Return None if the one at this place is wrong itself.
    """
    slot, reads = there.step.equation.slot, there.step.equation.variant
    search = before_map if reads == "factorised" else BEFORE.get(slot, before_sum)
    giver = search(there) if slot in (*BEFORE, *SUMS) else None
    return there.profile[giver] if giver else None


def before_scale(there: Departure) -> str | None:
    """Return what makes the tokens, if their scale is right with others that are not a multiple of these."""
    X, scaled = there.before("token_activation"), there.equation_at(there.place)
    others = (other for other in there.others_like(X) if not is_multiple(other, X))
    right = (maker_of_tokens(there, other) for other in others if there.recorded.has(scaled(other)))
    return next(right, None)


def before_cls(there: Departure) -> str | None:
    """Return what makes the tokens, if other ones stand behind the class token.

    Return the slot of the position, if it is added before.
    """
    X, formed = there.before("embedding_scale"), there.step.value
    if any(other.any() and there.recorded.has(X + other) for other in there.arrays_like(X[0])):
        return "position"
    in_another_order = there.recorded.places_of(X)
    for place, other in enumerate(there.arrays_like(X)):
        if place not in in_another_order and there.recorded.has(torch.cat([formed[:, : -X.shape[1]], other], dim=1)):
            return maker_of_tokens(there, other)
    return None


def before_map(there: Departure) -> str | None:
    """Return the slot that gives the narrow sum, if the map behind it is right with another one."""
    X, W_e, b_e = there.before("embedding_norm"), there.parameter("W_e"), there.parameter("b_e")
    for other in there.others_like(X):
        if there.recorded.has(other @ W_e + b_e):
            return "dropout" if is_dropped(other, X, there) else "embedding_norm"
    return None


def before_sum(there: Departure) -> str | None:
    """Return what makes the tokens, or the slot of the position, if their sum is right with another one of the two."""
    if all(step.equation.slot != "position" for step in there.trace[: there.place]):
        return None
    X, PE = there.before("embedding_scale"), there.before("position")
    if X.shape[-2:] != PE.shape[-2:]:
        return None
    for place, other in enumerate(there.arrays_like(X)):
        if not is_same(other, X) and there.recorded.has(other + PE, after=place):
            return maker_of_tokens(there, other)
    return "position" if any(there.recorded.has(X + other) for other in there.others_like(PE)) else None


def before_embedding(there: Departure) -> str | None:
    """Return the norm of the features, if their map is right with other ones, where there is one or they are normed."""
    equation = there.step.equation
    if "feature_norm" not in equation.slots:
        return None
    W, b = (next((p for p in equation.parameters if p.startswith(letter)), "") for letter in ("W_", "b_"))
    u = there.before("feature_norm")
    for other in there.others_like(u):
        normed = there.profile["feature_norm"].variant == "norm" or is_standardised(other, u)
        if normed and there.recorded.has(other @ there.parameter(W) + there.parameter(b)):
            return "feature_norm"
    return None


def before_position(there: Departure) -> str | None:
    """Return what makes the tokens, if positions that are heard in them are right with other ones."""
    if not there.step.equation.reads_mask:
        return None  # it tells places alone
    X, placed = there.before("cls"), there.equation_at(there.place)
    right = (maker_of_tokens(there, other) for other in there.others_like(X) if there.recorded.has(placed(other)))
    return next(right, None)


BEFORE = {
    "embedding": before_embedding,
    "embedding_scale": before_scale,
    "cls": before_cls,
    "position": before_position,
}
"""Searches, by slot, for what is changed before the equation in it reads it."""


def maker_of_tokens(there: Departure, other: Tensor) -> str:
    """Return the slot that gives wrong tokens: a multiple is the fault of their scale.

    Otherwise it is the last one that changes the embedding, or the one that was to leave it as it is.
    """
    X = there.before("token_activation")
    if is_multiple(other, X):
        return "embedding_scale"
    for slot in ("token_activation", "token_norm"):
        if there.profile[slot].variant != "none":
            return slot
    if is_standardised(other, X):
        return "token_norm"
    activated = (activation.function(X) for activation in variants("activation").values())
    return "token_activation" if any(is_multiple(other, x) for x in activated) else "embedding"


def giver_within(there: Departure) -> Equation | None:
    """Return the equation whose value is changed before the one at this place reads it.

    Return None if the one at this place is wrong itself.
    """
    find = {
        "projections": before_first_layer,
        "statistics": before_first_layer,
        "norm": before_first_layer,
        "weights": before_weights,
        "values": before_values,
        "ffn": before_ffn,
        "residual": before_residual,
    }
    search = find.get(there.step.equation.slot)
    slot = search(there) if search else None
    return there.profile[slot] if slot else None


def before_first_layer(there: Departure) -> str | None:
    """Return dropout, if the first equation of the first layer reads the input as dropout leaves it."""
    given = there.trace[there.place - 1]
    if given.equation.slot != "input":
        return None
    reads = there.equation_at(there.next_place(there.place, "projections", "norm"))
    for other in there.arrays_like(given.value):
        if is_dropped(other, given.value, there):
            read = reads(other)
            if there.recorded.has(read[0] if isinstance(read, tuple) else read):
                return "dropout"
    return None


def before_weights(there: Departure) -> str | None:
    """Return the mask or the scores, if in every layer some array is the softmax of another one."""
    S, weights = there.before("scores"), there.profile["weights"].function
    held = [(x, A) for x in there.arrays_like(S) if there.recorded.has(A := weights(x))]
    different = {tuple(A.sum(dim=(0, 1)).flatten().round(decimals=9).tolist()) for _, A in held}
    if len(different) < there.run.encoder.dimensions.N:
        return None
    near = PARALLEL * float(S.abs().max())
    return "mask" if any(bool((((x - S).abs() <= near) | (x < BEYOND)).all()) for x, _ in held) else "scores"


def before_values(there: Departure) -> str | None:
    """Return the weights, or dropout, if the average is right with other ones."""
    A, V = there.before("weights"), there.before("split", "groups")
    for other in there.others_like(A):
        if there.recorded.has(other @ V):
            return "dropout" if is_dropped(other, A, there) else "weights"
    return None


def before_ffn(there: Departure) -> str | None:
    """Return the activation, if the second map is right with other inner features."""
    W_2, b_2 = there.parameter("W_2"), there.parameter("b_2")
    others = there.arrays_like(there.before("activation"))
    return "activation" if any(there.recorded.has(other @ W_2 + b_2) for other in others) else None


def before_residual(there: Departure) -> str | None:
    """Return the slot that ends the sublayer, if the sum is right with another value than the sublayer's; or dropout.

    A multiple of that value may be its weight in the sum, and 0 at some positions may be stochastic depth. If the
    layer norms it, the value is right, and the sum is wrong.
    """
    given = there.before("multihead", "ffn")
    X = there.step.value - given
    same = [place for place, x in enumerate(there.arrays_like(given)) if is_same(x, given)]
    formed = max(same or there.recorded.places_of(given), default=-1)
    for at, other in enumerate(there.arrays_like(given)):
        if at <= formed or is_multiple(other, given) or is_standardised(other, given):
            continue
        if there.recorded.has(X + other, after=at):
            left_in = other.any(dim=-1)
            if not left_in.all() and is_multiple(other[left_in], given[left_in]):
                return None
            if is_dropped(other, given, there):
                return "dropout"
            ends = next(s for s in reversed(there.trace[: there.place]) if s.equation.slot in ("output", "ffn"))
            return str(ends.equation.slot)
    return None


def is_dropped(x: Tensor, of: Tensor, there: Departure) -> bool:
    """Return whether an array is another one after dropout: some of it 0, and the rest larger by one factor.

    Where nothing is 0, the factor is that by which dropout divides in training, or which it might multiply by.
    """
    kept = x != 0
    factor, left = factor_of(x[kept], of[kept]), 1 - there.profile.constants["P_drop"]
    if not is_multiple(x[kept], of[kept]):
        return False
    return factor > 1 + PARALLEL if not kept.all() else min(abs(factor - left), abs(factor - 1 / left)) <= PARALLEL


def is_same(x: Tensor, other: Tensor) -> bool:
    """Return whether two arrays hold the same numbers, up to rounding."""
    return bool((x - other).norm() <= PARALLEL * other.norm())


def is_multiple(x: Tensor, of: Tensor) -> bool:
    """Return whether an array is another one times a number."""
    return bool((x - factor_of(x, of) * of).norm() <= PARALLEL * x.norm())


def factor_of(x: Tensor, of: Tensor) -> float:
    """Return the number that another array must be multiplied by to come nearest to an array."""
    return float((x * of).sum() / of.square().sum())


def is_standardised(x: Tensor, of: Tensor) -> bool:
    """Return whether one affine map turns every position of the other array, after a norm, into that of this array."""
    unit = torch.nn.functional.layer_norm(of, of.shape[-1:]).flatten(0, -2)
    rows = x.flatten(0, -2)
    slope = ((rows - rows.mean(0)) * (unit - unit.mean(0))).sum(0) / (unit - unit.mean(0)).square().sum(0)
    rest = rows - rows.mean(0) - slope * (unit - unit.mean(0))
    return bool(rest.norm() <= NORMED * rows.norm())
