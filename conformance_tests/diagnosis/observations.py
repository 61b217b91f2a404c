"""Values that a subject gave, beside those of the specification with a wrong equation.

Outputs in every case, and gradients: a wrong equation is an explanation only if it reproduces all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.deviations import NOT_DEFINED, Deviation, with_deviations
from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.computed import FAST, LARGE, PADDED, UNPADDED, Case
from conformance_tests.harness.run import Run
from conformance_tests.numerics.compare import demand_equal
from conformance_tests.numerics.probes import Probe
from conformance_tests.numerics.rounding import budget
from conformance_tests.numerics.sketches import nothing_like, sketch
from encoder_spec.assembly import Encoder

NEAR_MISS = 10.0
"""A difference of at most so many budgets may still be one of rounding."""

UNDECIDED = (Blocked, Disagreement, Unsupported)


@dataclass(frozen=True, eq=False)
class Observation:
    """An answer of a subject: an output, or gradients.

    Attributes:
        case: the weights and the probe.
        got: the output alone, or the gradients.
        gradients: whether it is these.
        instead: what was read in the place of the case's probe, if something was.
        valid: what is compared of the output then.
    """

    case: Case
    got: tuple[Tensor, ...]
    gradients: bool = False
    instead: Probe | None = None
    valid: Tensor | None = None


def observations(run: Run) -> Iterator[Observation]:
    """Yield what can be compared, the quickest first; what a subject refuses is left out."""
    for case in run.cases(*UNPADDED, *PADDED, *FAST, *LARGE):
        try:
            yield Observation(case, (run.output(case),))
        except UNDECIDED:
            continue
    for case in run.gradient_cases():
        try:
            if not run.output(case).isfinite().any():
                continue  # of what is NaN there are no gradients
            yield Observation(case, gradients_of_subject(run, case), gradients=True)
        except UNDECIDED:
            continue


def with_other_padding(run: Run) -> Iterator[Observation]:
    """Yield the outputs where padding holds something else: what leaks of it may show nowhere else."""
    try:
        run.demand_mask()
        changed = run.with_other_padding(*run.padded_cases())
    except UNDECIDED:
        return
    for case, other, valid in changed:
        with suppress(*UNDECIDED):
            yield Observation(case, (run.encode(case, other.copy()),), instead=other, valid=valid)


def gradients_of_subject(run: Run, case: Case) -> tuple[Tensor, ...]:
    """Return the subject's gradients by the input, if it is floating, and by every parameter in the order of paths."""
    run.demand_float64("gradients")
    by_input, by_path, _ = run.gradients(case)
    return (*(() if by_input is None else (by_input,)), *(by_path[path] for path in sorted(by_path)))


def largest_difference(run: Run, encoder: Encoder, asked: Sequence[Observation]) -> float | None:
    """Return the largest difference between an encoder and what was observed; None if one exceeds its budget."""
    largest = 0.0
    for observation in asked:
        error = error_of(run, encoder, observation, values(run, encoder, observation))
        if error is None:
            return None
        largest = max(largest, error)
    return largest


def values(run: Run, encoder: Encoder, observation: Observation) -> tuple[Tensor, ...] | None:
    """Return what an encoder gives where the subject was observed; None if it has no value there."""
    try:
        return evaluated(run, encoder, observation)
    except (*UNDECIDED, *NOT_DEFINED):
        return None


def error_of(run: Run, encoder: Encoder, observation: Observation, wants: Sequence[Tensor] | None) -> float | None:
    """Return the largest difference between an encoder's values and what was observed; None beyond the budget."""
    if wants is None:
        return None
    largest = 0.0
    try:
        for got, want in zip(observation.got, wants, strict=True):
            valid = None if observation.gradients else valid_at(run, observation)
            allowed = run.budget(observation.case)
            if allowed is not None and is_near_miss(got, want, valid, allowed):
                allowed = budget_of(run, encoder, observation.case)
            largest = max(largest, demand_equal(got, want, "", valid=valid, budget=allowed).error)
    except (*UNDECIDED, *NOT_DEFINED):
        return None
    return largest


class Answer(NamedTuple):
    """An answer of the specification with wrong equations, where the subject was observed.

    Attributes:
        error: the largest difference from what the subject gave; None beyond the budget, or without a value.
        is_specified: whether it is what the specification gives without them, bit for bit.
    """

    error: float | None
    is_specified: bool


@dataclass(frozen=True)
class Tried:
    """Deviations that were tried, by themselves and together: each is evaluated once where the subject was observed.

    Beside one that changes nothing there, another does what it does by itself. So most pairs, of which there are many,
    need no evaluation.
    """

    run: Run
    _specified: dict[Observation, tuple[Tensor, ...] | None] = field(default_factory=dict, repr=False)
    _answers: dict[tuple[Observation, tuple[Deviation, ...]], Answer] = field(default_factory=dict, repr=False)

    def specified(self, observation: Observation) -> tuple[Tensor, ...] | None:
        """Return what the specification gives where the subject was observed; None if it has no value there."""
        if observation not in self._specified:
            self._specified[observation] = values(self.run, self.run.encoder, observation)
        return self._specified[observation]

    def answer(self, wrong: tuple[Deviation, ...], observation: Observation) -> Answer:
        """Return what the specification with some deviations gives where the subject was observed."""
        key = observation, wrong
        if key not in self._answers:
            alone = len(wrong) < 2
            doing = tuple(d for d in wrong if alone or not self.answer((d,), observation).is_specified)
            is_less = len(doing) < len(wrong)
            self._answers[key] = self.answer(doing, observation) if is_less else self._evaluated(wrong, observation)
        return self._answers[key]

    def _evaluated(self, wrong: tuple[Deviation, ...], observation: Observation) -> Answer:
        encoder = with_deviations(self.run.encoder, wrong)
        wants, specified = values(self.run, encoder, observation), self.specified(observation)
        is_specified = wants is not None and specified is not None and is_same(wants, specified)
        return Answer(error_of(self.run, encoder, observation, wants), is_specified)

    def residual(self, wrong: tuple[Deviation, ...], asked: Sequence[Observation]) -> float | None:
        """Return the largest difference between what was observed and the specification with deviations.

        None if one exceeds its budget. What is said of several is evaluated with all of them.
        """
        if any(self.answer(wrong, observation).error is None for observation in asked):
            return None
        if len(wrong) > 1:
            return largest_difference(self.run, with_deviations(self.run.encoder, wrong), asked)
        return max(self.answer(wrong, observation).error or 0.0 for observation in asked)

    def breaks(self, wrong: tuple[Deviation, ...], agreeing: Iterable[Observation]) -> bool:
        """Return whether deviations were seen not to give what the subject and the specification agree in."""
        known = filter(None, (self._answers.get((observation, wrong)) for observation in agreeing))
        return any(answer.error is None for answer in known)


def is_same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Return whether arrays are equal, bit for bit; what is not a number is equal to nothing."""
    return len(some) == len(others) and all(map(torch.equal, some, others))


def valid_at(run: Run, observation: Observation) -> Tensor | None:
    """Return the mask of what is compared of an output; None for all of it."""
    return run.valid(observation.case) if observation.instead is None else observation.valid


def is_near_miss(got: Tensor, want: Tensor, valid: Tensor | None, allowed: float) -> bool:
    """Return whether a difference exceeds what the specification's own rounding explains, but not by much.

    A wrong equation rounds in its own way: then its own budget is worth deriving.
    """
    try:
        demand_equal(got, want, "", valid=valid, budget=allowed)
    except Disagreement as miss:
        return miss.error is not None and miss.error <= NEAR_MISS * allowed
    return False


def budget_of(run: Run, encoder: Encoder, case: Case) -> float:
    """Return how far the subject may be from an encoder, if that is what it computes, in the subject's precision."""
    probe = run.probes[case.probe].copy()
    return budget(encoder, run.parameters(case.weights), probe.inputs, probe.keep, run.subject.dtype)


def evaluated(run: Run, encoder: Encoder, observation: Observation) -> tuple[Tensor, ...]:
    """Evaluate an encoder where the subject was observed."""
    if encoder is run.encoder and not observation.gradients and observation.instead is None:
        return (run.expected(observation.case),)
    probe = (observation.instead or run.probes[observation.case.probe]).copy()
    parameters = run.parameters(observation.case.weights)
    if not observation.gradients:
        with torch.set_grad_enabled(observation.case.gradients):
            return (encoder(parameters, *probe.inputs, keep=probe.keep).detach(),)
    by_input, by_path, _ = (
        run.expected_gradients(observation.case)
        if encoder is run.encoder
        else run.gradients_through(encoder, observation.case)
    )
    learned = sorted(run.mapping.with_gradients())
    # A part that is used in several layers gets the sum of its gradients, whatever its name. What the wrong
    # equation has no use for may be there all the same, and gets none.
    shared = {path: encoder.home(path) for path in learned if run.weight_sets.is_one(path, encoder.home(path))}
    of_parameters = (
        by_path[home] if (home := shared.get(path, path)) in by_path else sketch(nothing_like(parameters[path]))
        for path in learned
    )
    return (*(() if by_input is None else (by_input,)), *of_parameters)


def answers_at_random(run: Run) -> bool:
    """Return whether the subject gives another output each time, with gradients or without."""
    try:
        again = [(run.encode(case, run.probes[case.probe]), run.output(case)) for case in run.cases(Case(), *FAST[:1])]
    except UNDECIDED:
        return False
    return any(not torch.equal(now.nan_to_num(), before.nan_to_num()) for now, before in again)


def is_defined(run: Run, d: Deviation) -> bool:
    """Return whether a deviation has a value for the inputs of this run."""
    try:
        evaluated(run, with_deviations(run.encoder, (d,)), Observation(run.case(), ()))
    except NOT_DEFINED:
        return False
    return True


def is_random(run: Run, d: Deviation) -> bool:
    """Return whether a deviation gives another output each time, with gradients or without."""
    encoder = with_deviations(run.encoder, (d,))
    for case in (run.case(), run.case(gradients=False)):
        try:
            once, again = (evaluated(run, encoder, Observation(case, ()))[0] for _ in range(2))
        except NOT_DEFINED:
            return False
        if not torch.equal(once.nan_to_num(), again.nan_to_num()):
            return True
    return False
