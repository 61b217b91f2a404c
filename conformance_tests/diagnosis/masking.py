"""Masks as a subject applies them: where scores change, and to or by which number.

People mask with every number that a softmax nearly forgets, with some that it does not, and in the
wrong place. No catalogue holds them all, so that they are read off the subject's arrays. What is
found is a guess until the specification with it gives the subject's outputs.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isnan

import torch
from torch import Tensor

from conformance_tests.deviations import NOT_DEFINED, Deviation
from conformance_tests.diagnosis.observations import UNDECIDED
from conformance_tests.harness.computed import PADDED
from conformance_tests.harness.run import Run
from conformance_tests.numerics.compare import BUDGET
from encoder_spec.equation import Equation, equations


def masks_as_applied(run: Run) -> list[Deviation]:
    """Return the deviations by which a mask changes the first layer's scores as it does in the subject's arrays."""
    found: dict[str, Deviation] = {}
    with suppress(*UNDECIDED, *NOT_DEFINED):
        (case,) = run.cases(PADDED[0])
        keep, recorded = run.probes[case.probe].keep, run.recorded(case)
        scores = next(i.value for i in run.trace(case) if i.equation.slot == "scores")
        assert keep is not None
        for S in (scores, scores[:, :1]):  # or head by head
            for array in recorded.in_any_order(S):
                for wrong in masks_between(S, keep[:, None], array, BUDGET):
                    found.setdefault(wrong.definition, wrong)
    return list(found.values())


RIGHT_PLACE = "masked scores"

PLACES: dict[str, Callable[[Tensor], Tensor]] = {
    RIGHT_PLACE: lambda keep: ~keep[:, None],
    "the scores to keep": lambda keep: keep[:, None],
    "the rows of padded queries": lambda keep: ~keep[:, None].mT,
    "the rows of padded queries and masked scores": lambda keep: ~(keep[:, None] & keep[:, None].mT),
}
"""Scores that a mask (B, 1, n) may change, in words."""


@dataclass(frozen=True)
class Change:
    """A change of scores, in words and as a function; ``number`` is what they become, or what is added."""

    words: str
    number: float
    of: Callable[[Tensor], Tensor]


def becoming(number: float) -> Change:
    """Return the change in which every score becomes a number."""
    return Change(f"become {written(number)}", number, lambda S: torch.full_like(S, number))


def moved_by(number: float) -> Change:
    """Return the change in which a number is added to every score."""
    done = "lowered" if number < 0 else "raised"
    return Change(f"are {done} by {written(abs(number))}", number, lambda S: S + number)


def written(number: float) -> str:
    """Return a number as it stands in a sentence."""
    return f"{number:.6g}".replace("-", "−").replace("nan", "NaN").replace("inf", "∞")


def hidden_by(S: Tensor, keep: Tensor) -> Tensor:
    """Return masked scores as −∞, as the specification has them."""
    return S.masked_fill(~keep[:, None], -torch.inf)


def unmasked(S: Tensor, _keep: Tensor) -> Tensor:
    """Return the scores as they are."""
    return S


def emptied(S: Tensor) -> Tensor:
    """Return scores with NaN in the rows where none is left, as a plain softmax gives them."""
    return S.masked_fill(S.isneginf().all(-1, keepdim=True), torch.nan)


def masks_between(S: Tensor, keep: Tensor, masked: Tensor, budget: float) -> Iterator[Deviation]:
    """Yield the deviations that make masked scores of scores; none if the mask changes them in no way that is known.

    Args:
        S: scores (B, h, n, n).
        keep: the mask (B, 1, n), True = keep.
        masked: the scores behind the mask.
        budget: how far numbers may be apart.
    """
    for place, where in PLACES.items():
        here, hidden = (chosen.expand_as(S) for chosen in (where(keep), ~keep[:, None]))
        # What all scores get alike cancels in the softmax; where others are masked rightly, it does not show.
        shift = only_number(masked[~here & ~hidden] - S[~here & ~hidden], budget) or 0.0
        shift = shift if abs(shift) > budget else 0.0
        if not is_near(masked[~here & ~hidden], S[~here & ~hidden] + shift, budget):
            continue
        elsewhere = masked[~here & hidden]
        rest: Callable[[Tensor, Tensor], Tensor] = unmasked
        effect = "and padded keys are read" if place != RIGHT_PLACE else ""
        if elsewhere.isneginf().all() and elsewhere.numel():
            rest, effect = hidden_by, ""
        elif not is_near(elsewhere, S[~here & hidden] + shift, budget):
            continue
        number = only_number(masked[here] - shift, budget)
        if number is not None:
            yield mask_that(place, becoming(number), rest, effect)
            if number == -inf:
                yield mask_that(
                    place, becoming(number), rest, "and the softmax makes NaN of rows with no key left", emptied
                )
        distance = only_number(masked[here] - S[here] - shift, budget)
        if distance is not None and budget < abs(distance) < inf:
            yield mask_that(place, moved_by(distance), rest, effect)


def only_number(values: Tensor, budget: float) -> float | None:
    """Return the number that all of these are, up to a budget; None if they differ, or if there are none."""
    if not values.numel():
        return None
    first = values.reshape(-1)[0]
    near = budget * max(1.0, float(first.abs())) if first.isfinite() else budget
    return float(first) if is_near(values, first.expand_as(values), near) else None


def is_near(one: Tensor, other: Tensor, budget: float) -> bool:
    """Return whether numbers are the same up to a budget; NaN and infinities are if both are."""
    return torch.allclose(one, other, rtol=0, atol=budget, equal_nan=True)


def mask_that(
    place: str,
    change: Change,
    rest: Callable[[Tensor, Tensor], Tensor],
    effect: str,
    then: Callable[[Tensor], Tensor] | None = None,
) -> Deviation:
    """Return the deviation in which a mask changes scores in one place.

    Args:
        place: where, of ``PLACES``.
        change: how.
        rest: what the scores elsewhere are, of scores and mask: ``unmasked`` or ``hidden_by``.
        effect: what comes of it, in words; in the right place the number tells.
        then: what all of them become behind that, if anything.
    """

    def masked(S: Tensor, keep: Tensor) -> Tensor:
        if keep.shape[-1] == 1:  # without a mask the specification hands one of a single entry
            return S
        changed = torch.where(PLACES[place](keep), change.of(S), rest(S, keep))
        return then(changed) if then else changed

    if place == RIGHT_PLACE and not effect and not isnan(change.number):
        effect = "and padding gets the most weight" if change.number > 1 else "which real scores can beat"
    definition = f"{place[0].upper()}{place[1:]} {change.words}{', ' if effect else ''}{effect}."
    choices = tuple(e.id for e in equations().values() if e.slot == "mask")
    equation = Equation("deviation.mask-otherwise", "mask", "mask-otherwise", masked)
    return Deviation("mask-otherwise", definition, choices, ("MASK-1",), {"mask": equation}, ())
