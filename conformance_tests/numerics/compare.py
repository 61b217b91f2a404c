"""Comparison of an encoder's values with those of the specification."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.errors import Disagreement

BUDGET = 1e-12
"""Allowed difference in float64, relative to the largest magnitude and at least absolute."""


@dataclass(frozen=True)
class Comparison:
    """The largest difference found, and the largest one allowed."""

    error: float
    budget: float


def demand_equal(
    got: Tensor,
    want: Tensor,
    what: str,
    *,
    valid: Tensor | None = None,
    amplification: float = 1.0,
    context: str = "",
    budget: float | None = None,
) -> Comparison:
    """Compare two tensors where ``valid`` is true.

    Args:
        got: what the encoder computed.
        want: what the specification gives, of the same shape.
        what: equation and letter, such as ``"attention.scores: S"``.
        valid: where to compare, everywhere by default; it broadcasts from the left.
        amplification: the factor by which the computation magnifies rounding, at least 1.
        context: sizes and probe, for the message.
        budget: the allowed difference, if it was derived for this comparison; by default that of float64.

    Returns:
        The largest difference and the budget.

    Raises:
        Disagreement: if the shapes differ or the difference exceeds the budget.
    """
    if got.shape != want.shape:
        raise Disagreement(f"{what} has shape {tuple(got.shape)}, but the spec gives {tuple(want.shape)} [{context}]")
    if valid is not None and got.shape[: valid.ndim] != valid.shape:
        raise Disagreement(
            f"{what} has shape {tuple(got.shape)}, which the mask {tuple(valid.shape)} does not fit [{context}]"
        )
    got, want = got.double(), want.double()
    difference = difference_at(got, want, valid)
    budget = (budget_in_float64(want) if budget is None else budget) * amplification
    error = float(difference.max()) if difference.numel() else 0.0
    if error <= budget:
        return Comparison(error, budget)
    place = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
    index = ", ".join(map(str, place))
    raise Disagreement(
        f"{what}[{index}] = {float(got[place]):.6g}, but the spec gives {float(want[place]):.6g} "
        f"(off by {error:.1e}, allowed {budget:.0e}) [{context}]",
        error,
        budget,
    )


def budget_in_float64(want: Tensor) -> float:
    """Return how far an array in float64 may be from what the specification gives."""
    finite = want[want.isfinite()]
    return BUDGET * max(1.0, float(finite.abs().max()) if finite.numel() else 1.0)


def difference_at(got: Tensor, want: Tensor, valid: Tensor | None) -> Tensor:
    """Return |got − want| where valid and 0 elsewhere; NaN equals NaN, and NaN against a number is infinite.

    Where the specification has −∞ (a masked score), a score counts as equal if its exponential underflows beside the
    kept scores: −∞ has no other purpose.
    """
    difference = (got - want).abs()
    finite = want.isfinite()
    if not finite.all():
        difference = difference.masked_fill(got == want, 0).masked_fill(got.isnan() & want.isnan(), 0)
        if finite.any():
            underflow = float(want[finite].min()) - 745.0
            difference = difference.masked_fill((want == -torch.inf) & (got <= underflow), 0)
    difference = difference.nan_to_num(nan=torch.inf, posinf=torch.inf)
    if valid is not None:
        valid = valid.reshape(valid.shape + (1,) * (difference.ndim - valid.ndim))
        difference = difference.masked_fill(~valid.expand_as(difference), 0)
    return difference
