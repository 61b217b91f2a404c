"""What was asked of a subject, and what a wrong equation gives in its place."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.deviations import deviation_named, with_deviations
from conformance_tests.diagnosis import observations as measured
from conformance_tests.diagnosis.observations import (
    NEAR_MISS,
    Answer,
    Observation,
    Tried,
    answers_at_random,
    evaluated,
    gradients_of_subject,
    is_defined,
    is_near_miss,
    is_random,
    largest_difference,
    observations,
)
from conformance_tests.diagnosis.shrinking import agreeing_cases
from conformance_tests.errors import Blocked, Unsupported
from conformance_tests.harness.computed import FAST, LARGE, PADDED, UNPADDED, Case
from conformance_tests.harness.gradients import Gradients
from conformance_tests.harness.run import Run
from conformance_tests.meta_tests.diagnosis.conftest import RunWith
from encoder_spec.assembly import Encoder

ZEROS = torch.zeros(2, 2)
KEEP = torch.tensor([[True, False], [True, True]])


def off_by(difference: float) -> Tensor:
    """Zeros with one entry that is not, at a padded position."""
    changed = torch.zeros(2, 2)
    changed[0, 1] = difference
    return changed


@pytest.mark.parametrize(
    ("got", "valid", "near"),
    [
        (off_by(0.0), None, False),
        (off_by(0.5), None, False),
        (off_by(2.0), None, True),
        (off_by(NEAR_MISS), None, True),
        (off_by(NEAR_MISS + 1), None, False),
        (off_by(2.0), KEEP, False),
        (torch.zeros(3), None, False),
    ],
)
def test_a_near_miss_exceeds_its_budget_by_at_most_ten_times(got: Tensor, valid: Tensor | None, near: bool) -> None:
    """The budget is 1. What does not exceed it is no miss, nor is what differs where nothing is valid."""
    assert is_near_miss(got, ZEROS, valid, 1.0) is near


LEARNED = {"b": torch.ones(2), "a": torch.zeros(3)}


@pytest.mark.parametrize(("by_input", "lengths"), [(None, [3, 2]), (torch.ones(4), [4, 3, 2])])
def test_gradients_are_those_of_a_floating_input_and_then_of_the_parameters_by_path(
    by_input: Tensor | None, lengths: list[int]
) -> None:
    """Token ids have none."""
    run: Any = SimpleNamespace(
        demand_float64=lambda what: None,
        gradients=lambda case: (by_input, LEARNED, frozenset()),
    )
    assert [len(gradient) for gradient in gradients_of_subject(run, Case())] == lengths


class Asked:
    """A run that answers each case with its number, and refuses some."""

    def __init__(self, refused: tuple[Case, ...] = ()) -> None:
        self.refused = refused

    def cases(self, *cases: Case) -> list[Case]:
        return list(cases)

    def output(self, case: Case) -> Tensor:
        if case in self.refused:
            raise Unsupported("refused")
        return torch.ones(1)

    def gradient_cases(self) -> list[Case]:
        return [Case(), Case(probe="right")]

    def demand_float64(self, what: str) -> None:
        """Go on."""

    def gradients(self, case: Case) -> Gradients:
        if case in self.refused:
            raise Blocked("its output is wrong")
        return Gradients(None, LEARNED, frozenset())


def asked_of(run: Any) -> list[tuple[Case, bool]]:
    return [(o.case, o.gradients) for o in observations(run)]


def test_outputs_of_all_cases_are_observed_and_then_gradients() -> None:
    gradients = [(Case(), True), (Case(probe="right"), True)]
    assert asked_of(Asked()) == [*((case, False) for case in (*UNPADDED, *PADDED, *FAST, *LARGE)), *gradients]


def test_what_a_subject_refuses_is_left_out_and_the_rest_is_observed() -> None:
    refused = (Case(), PADDED[0])
    assert asked_of(Asked(refused=refused)) == [pair for pair in asked_of(Asked()) if pair[0] not in refused]


def test_an_observation_is_of_an_output_unless_it_says_otherwise() -> None:
    assert not Observation(Case(), ()).gradients


def test_a_subject_that_agrees_may_be_wrong_on_parts_of_these_probes() -> None:
    run: Any = SimpleNamespace(case=Case, cases=lambda *cases: list(cases), expected=lambda case: torch.ones(1))
    assert agreeing_cases(run) == [Case(), *FAST]


def test_nothing_is_shrunk_where_the_specification_has_no_value() -> None:
    def blocked(case: Case) -> Tensor:
        raise Blocked("a parameter is missing")

    run: Any = SimpleNamespace(case=Case, cases=list, expected=blocked)
    assert agreeing_cases(run) == []


# Beside a wrong equation ---------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["mask-unused", "layers-shared", "norm-without-beta", "input-detached"])
def test_only_the_equations_of_the_subject_give_all_that_it_gave(wrong: str, run_with: RunWith) -> None:
    """To the last digit in float64, gradients included; what one observation contradicts is no candidate."""
    run = run_with(wrong)
    asked = list(observations(run))
    own = with_deviations(run.encoder, [deviation_named(wrong)])
    assert largest_difference(run, own, asked) == 0.0
    assert largest_difference(run, run.encoder, asked) is None
    agreeing = [o for o in asked if largest_difference(run, run.encoder, [o]) is not None]
    assert len(agreeing) < len(asked)
    assert largest_difference(run, run.encoder, agreeing) is not None


def test_each_deviation_is_evaluated_once_and_most_pairs_never(
    run_with: RunWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that changes nothing here, another does what it does by itself."""
    run = run_with("scores-scaled-by-d-model")
    plain = next(iter(observations(run)))
    evaluations: list[Encoder] = []
    evaluate = measured.evaluated

    def counted(run: Run, encoder: Encoder, observation: Observation) -> tuple[Tensor, ...]:
        evaluations.append(encoder)
        return evaluate(run, encoder, observation)

    monkeypatch.setattr(measured, "evaluated", counted)
    tried = Tried(run)
    unmasked, scaled, tanh = map(deviation_named, ("mask-unused", "scores-scaled-by-d-model", "activation-tanh"))
    assert tried.answer((unmasked,), plain) == Answer(None, is_specified=True)
    assert tried.answer((scaled,), plain) == Answer(0.0, is_specified=False)
    before = len(evaluations)
    assert tried.answer((unmasked, scaled), plain) == tried.answer((scaled,), plain)
    assert len(evaluations) == before
    assert tried.answer((tanh, scaled), plain) == Answer(None, is_specified=False)
    assert len(evaluations) == before + 2  # of one alone, and of both


def test_what_is_said_of_two_is_evaluated_with_both(run_with: RunWith) -> None:
    """One that does nothing by itself may do something beside another."""
    run = run_with("scores-scaled-by-d-model")
    plain = next(iter(observations(run)))
    tried = Tried(run)
    nothing, scaled, tanh = map(deviation_named, ("mask-unused", "scores-scaled-by-d-model", "activation-tanh"))
    assert tried.residual((nothing, scaled), [plain]) == 0.0
    tried._answers[plain, (tanh,)] = Answer(None, is_specified=True)
    assert tried.residual((tanh, scaled), [plain]) is None


def test_a_deviation_breaks_what_was_seen_to_agree_without_it(run_with: RunWith) -> None:
    """Before it has been tried, nothing is known of it."""
    run = run_with("mask-unused")
    plain = next(iter(observations(run)))
    tried = Tried(run)
    tanh, unmasked = map(deviation_named, ("activation-tanh", "mask-unused"))
    assert not tried.breaks((tanh,), [plain])
    assert tried.residual((tanh,), [plain]) is None
    assert tried.residual((unmasked,), [plain]) == 0.0
    assert tried.breaks((tanh,), [plain])
    assert not tried.breaks((unmasked,), [plain])


def test_an_encoder_is_evaluated_where_the_subject_was_observed(run_with: RunWith) -> None:
    """With the subject's weights on the same probe, with gradients and without; the result records none."""
    run = run_with()
    for case in (Case(), PADDED[0], FAST[1]):
        (output,) = evaluated(run, run.encoder, Observation(case, ()))
        assert output.equal(run.expected(case))
        assert not output.requires_grad
    by_input, *by_parameter = evaluated(run, run.encoder, Observation(Case(), (), gradients=True))
    assert by_input.shape == run.probes["plain"].inputs[0].shape
    assert [g.shape for g in by_parameter] == [run.parameters()[path].shape for path in sorted(run.mapping.sources)]


def test_a_deviation_that_needs_what_the_subject_has_not_is_not_defined(run_with: RunWith) -> None:
    """There is no third map for a gate, and no norm behind the last layer."""
    run = run_with()
    defined = {id: is_defined(run, deviation_named(id)) for id in ("ffn-gated", "final-norm-too-many", "ffn-scaled")}
    assert defined == {"ffn-gated": False, "final-norm-too-many": False, "ffn-scaled": True}


@pytest.mark.parametrize(
    ("id", "random"),
    [
        ("dropout-active-in-evaluation", True),
        ("dropout-active-without-gradients", True),
        ("dropout-with-fixed-seed", False),
        ("ffn-scaled", False),
        ("ffn-gated", False),
    ],
)
def test_a_deviation_is_random_if_two_equal_calls_differ(id: str, random: bool, run_with: RunWith) -> None:
    """Also where only calls without gradients do; one that is not defined has no outputs to differ."""
    assert is_random(run_with(), deviation_named(id)) is random


@pytest.mark.parametrize(
    ("wrong", "random"),
    [
        ((), False),
        (("dropout-active-in-evaluation",), True),
        (("dropout-active-without-gradients",), True),
        (("ffn-scaled",), False),
    ],
)
def test_a_subject_answers_at_random_if_it_is_asked_twice_and_differs(
    wrong: tuple[str, ...], random: bool, run_with: RunWith
) -> None:
    assert answers_at_random(run_with(*wrong)) is random


def test_a_subject_that_refuses_does_not_answer_at_random() -> None:
    def refusing(case: Case, probe: Any) -> Tensor:
        raise Unsupported("refused")

    run: Any = SimpleNamespace(cases=lambda *cases: list(cases), encode=refusing, probes={"plain": None})
    assert not answers_at_random(run)
