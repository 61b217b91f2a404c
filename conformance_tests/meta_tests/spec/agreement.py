"""Whether implementation and oracle agree, in value and in gradient, on every case that Hypothesis finds."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from torch import Tensor

from conformance_tests.meta_tests.spec.generate import BOUNDED, Case, as_tensor, cases, generators, whole_encoders
from encoder_spec.equation import Equation
from encoder_spec.profiles import PROFILES, Profile

ROUNDING = 1e-12
"""Allowed relative to max(1, |want|): some 10⁴ unit roundoffs, for sums in another order."""

STEP = 1e-5
SLACK = 1e-8
"""Allowed difference of the two derivatives, relative to max(1, M) with M = Σ |w f|.

Each evaluation of L carries a rounding error of some 10 u M, u = 1.1·10⁻¹⁶, hence the quotient
10 u M / STEP ≈ 10⁻¹⁰ M. Its truncation error is STEP²/6 |L⁽³⁾| ≈ 2·10⁻¹¹ |L⁽³⁾| along a unit
vector, which leaves room for third derivatives up to 500 M: norms of small variance have large ones.
"""

SMOOTH = [profile.replace(activation="gelu") for profile in PROFILES.values()]
"""Profiles without ReLU, since a difference quotient over its kink is no derivative."""


def parts(value: Any) -> tuple[Any, ...]:
    """List the arrays of a value that is one array, a tuple of them, or a number."""
    return value if isinstance(value, tuple) else (value,)


def difference(got: Any, want: Any) -> float:
    """Find the largest |got − want| / max(1, |want|); infinite if shapes, dtypes, NaN or infinities differ."""
    worst = 0.0
    for got_part, want_part in zip(parts(got), parts(want), strict=True):
        g, w = np.asarray(got_part), np.asarray(want_part)
        if (g.shape, g.dtype) != (w.shape, w.dtype):
            return math.inf
        unequal = (g != w) & ~(np.isnan(g) & np.isnan(w))
        g, w = g[unequal], w[unequal]
        if not np.isfinite([g, w]).all():
            return math.inf
        worst = max(worst, (abs(g - w) / np.maximum(1, abs(w))).max(initial=0))
    return worst


def check_values(equation: Equation) -> None:
    """Search for a case in which the implementation departs from the oracle."""

    @BOUNDED
    @given(cases(equation))
    def search(case: Case) -> None:
        assert difference(case.implementation(), case.oracle()) <= ROUNDING

    search()


def check_encoders(profile: Profile, examples: int) -> None:
    """Search for sizes, inputs and a mask with which an encoder departs from its oracle."""

    @settings(BOUNDED, max_examples=examples)
    @given(whole_encoders(profile))
    def search(case: Case) -> None:
        keep, *inputs = case.flowing
        parameters = {path: as_tensor(a) for path, a in case.parameters.items()}
        got = case.encoder(parameters, *map(as_tensor, inputs), keep=as_tensor(keep))
        assert difference(got, case.encoder.oracle(case.parameters, *inputs, keep=keep)) <= ROUNDING

    search()


def directional_derivatives(case: Case, rng: np.random.Generator) -> tuple[float, float, float]:
    """Differentiate L = Σ w f along a unit vector: by autograd, by the oracle's central difference; and M.

    L is a random functional of the outputs f. Scores masked to −∞ take no part: they have no derivative.
    """
    finite = [torch.isfinite(torch.as_tensor(f)) for f in parts(case.oracle())]
    w = [torch.from_numpy(rng.standard_normal(int(kept.sum()))) for kept in finite]

    def L(value: Any, weigh: Callable[[Tensor], Tensor] = lambda term: term) -> Tensor:
        chosen = zip(w, finite, parts(value), strict=True)
        return torch.stack([weigh(w_f * torch.as_tensor(f)[kept]).sum() for w_f, kept, f in chosen]).sum()

    direction: list[np.ndarray] = []
    variables: list[Tensor] = []

    def differentiable(a: np.ndarray) -> Tensor:
        direction.append(rng.standard_normal(a.shape))
        variables.append(as_tensor(a).requires_grad_())
        return variables[-1]

    value = L(case.map(differentiable).implementation())
    length = math.sqrt(sum((v**2).sum() for v in direction))

    def moved(t: float) -> float:
        v = iter(direction)
        return L(case.map(lambda a: np.asarray(a + t / length * next(v))).oracle()).item()

    exact = 0.0
    # A table of positions depends on no entry of its input: there is nothing to differentiate.
    if value.requires_grad:
        gradients = torch.autograd.grad(value, variables, allow_unused=True, materialize_grads=True)
        exact = sum((g.numpy() * v).sum() / length for g, v in zip(gradients, direction, strict=True))
    return exact, (moved(STEP) - moved(-STEP)) / (2 * STEP), L(case.oracle(), torch.abs).item()


def check_gradients(equation: Equation) -> None:
    """Search for a direction in which autograd departs from the oracle's difference quotient."""

    @BOUNDED
    @given(cases(equation, SMOOTH), generators())
    def search(case: Case, rng: np.random.Generator) -> None:
        exact, quotient, M = directional_derivatives(case, rng)
        assert abs(exact - quotient) <= SLACK * max(1, M)

    search()
