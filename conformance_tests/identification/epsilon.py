"""Finding ε, which may be any number: a root of one equation, not found by trying a list."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log10

import torch
from torch import Tensor

from conformance_tests.harness.intermediates import Recorded, moments
from conformance_tests.identification.experiment import Experiment
from encoder_spec.assembly import Encoder
from encoder_spec.notation import SpecificationError

EPSILONS = (1e-5, 1e-12, 1e-6, 1e-3, 1e-8)
"""Values of ε in use: torch, BERT, ViT and the original code, Keras, others."""

SMALLEST, LARGEST = -16.0, 0.0
"""Between these powers of ten ε is sought."""

STEPS = 24
"""A root is found to all its digits after fewer steps."""

SECTIONS = 64
"""After so many golden sections nothing is left of two decades in float64."""

ROUGH = 16
"""After so many a thousandth of a decade is left."""

LEFT_OVER = 0.1
"""There an encoder with this one thing unknown has less than this part of the distance a decade away."""

OUTER_NORMS = {
    "norm_final": "final_norm",
    "norm_embedding": "embedding_norm",
    "norm_token": "token_norm",
    "norm_feature": "feature_norm",
}
"""The place of each norm outside of the layers, and the slot whose equation uses it."""

PLACES = {"eps": "layers.0.norm_1"} | {f"{place}.eps": place for place in OUTER_NORMS}
"""Path of the norm whose value shows each constant."""


def fitted(encoder: Encoder, constant: str, experiment: Experiment, recorded: Recorded) -> Encoder:
    """Return the encoder with the ε for which the value of a norm stands among the subject's intermediates.

    Values in use come first. If the subject computes what the norm reads, every value follows at which the
    norm's value has the sum of squares of some array. Where there is none, the encoder stays as it is.
    """
    argument = argument_of_norm(encoder, PLACES[constant], experiment)
    if argument is None:
        return encoder

    def value(eps: float) -> Tensor:
        changed = encoder.replace(**{constant: eps})
        norm = changed.bind(
            experiment.parameters, path=PLACES[constant], slot=changed.profile.slot_at(PLACES[constant])
        )
        result: Tensor = norm(argument)
        return result

    known = [encoder.profile.constants.get(constant, encoder.profile.constants["eps"]), *EPSILONS]
    others = crossings(value, recorded.of_size(argument.numel())) if recorded.has(argument) else ()
    for eps in (*known, *others):
        if recorded.has(value(eps)):
            written = next((e for e in as_written(eps) if recorded.has(value(e))), eps)
            return encoder.replace(**{constant: written})
    return encoder


def as_written(eps: float) -> Iterator[float]:
    """Yield the numbers near to one that people write, those with the fewest digits first."""
    yield from (float(f"{eps:.{digits - 1}e}") for digits in (1, 2, 3, 6))


def argument_of_norm(encoder: Encoder, path: str, experiment: Experiment) -> Tensor | None:
    """Return the value computed just before the norm at a path, which it reads; None without such a norm."""
    try:
        trace = encoder.trace(experiment.parameters, *experiment.inputs)
    except SpecificationError:
        return None
    first = next((place for place, i in enumerate(trace) if i.path == path), 0)
    return trace[first - 1].value if first and isinstance(trace[first - 1].value, Tensor) else None


def crossings(value: Callable[[float], Tensor], arrays: Tensor) -> Iterator[float]:
    """Yield each ε at which the sum of squares of a norm's value is that of one of the arrays, and its sum may be."""

    def at(power: float) -> tuple[float, float]:
        total, squares = moments(value(10.0**power).reshape(1, -1))[0].tolist()
        return total, squares

    def short_of(wanted: float, power: float) -> float:
        return at(power)[1] - wanted

    grid = torch.linspace(SMALLEST, LARGEST, 33).tolist()
    ends = [at(power) for power in grid]
    for total, squares in moments(arrays).unique(dim=0).tolist():
        for low, high, (sum_a, a), (sum_b, b) in zip(grid, grid[1:], ends, ends[1:], strict=False):
            # The sum changes little from one end to the other; far from both it is another array's.
            near = abs(total - sum_a) <= 10 * abs(sum_b - sum_a) + 1e-9 * (1 + abs(sum_a))
            if near and (a - squares) * (b - squares) < 0:
                yield 10.0 ** root(partial(short_of, squares), low, high)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that changes its sign between two numbers is zero, by the Illinois method."""
    a, b = function(low), function(high)
    middle, kept = low, 0
    for _ in range(STEPS):
        middle = (low * b - high * a) / (b - a)
        at = function(middle)
        if at == 0 or abs(high - low) < 1e-15:
            break
        if (at > 0) == (b > 0):
            high, b, a, kept = middle, at, a / 2 if kept == 1 else a, 1
        else:
            low, a, b, kept = middle, at, b / 2 if kept == -1 else b, -1
    return middle


def settled(encoder: Encoder, constant: str, experiments: Sequence[Experiment]) -> Encoder:
    """Return the encoder with the ε that brings its outputs nearest to the subject's, as people write numbers.

    The search is among all magnitudes first, then within the best, and ends early where no ε brings them near.
    """

    def far(power: float) -> float:
        changed = encoder.replace(**{constant: 10.0**power})
        return sum(e.distance(changed) for e in experiments)

    now = log10(max(encoder.profile.constants.get(constant, encoder.profile.constants["eps"]), 10.0**SMALLEST))
    grid = sorted({now, *torch.linspace(SMALLEST, LARGEST, 17).tolist()})
    best = min(grid, key=far)
    low, high = golden(far, best - 1, best + 1, ROUGH)
    if far((low + high) / 2) <= LEFT_OVER * min(far(best - 1), far(best + 1)):
        low, high = golden(far, low, high, SECTIONS - ROUGH)
    found = 10.0 ** ((low + high) / 2)
    for written in as_written(found):
        rounded = encoder.replace(**{constant: written})
        if all(e.residual(rounded) <= 1 for e in experiments):
            return rounded
    return encoder.replace(**{constant: found})


def golden(function: Callable[[float], float], low: float, high: float, sections: int) -> tuple[float, float]:
    """Return what golden sections leave of an interval in which a function has one minimum, which is in there."""
    ratio = (5**0.5 - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    for _ in range(sections):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return low, high
