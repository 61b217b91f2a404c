"""What was asked of a subject, and what a wrong equation gives in its place."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance_tests.diagnosis.observations import (
    NEAR_MISS,
    Observation,
    gradients_of_subject,
    is_near_miss,
    observations,
)
from conformance_tests.diagnosis.shrinking import agreeing_cases
from conformance_tests.errors import Blocked, Unsupported
from conformance_tests.harness.computed import FAST, PADDED, UNPADDED, Case

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
    run: Any = SimpleNamespace(cotangent=lambda case: None, gradients=lambda case, cotangent: (by_input, LEARNED))
    assert [len(gradient) for gradient in gradients_of_subject(run, Case())] == lengths


class Asked:
    """A run that answers each case with its number, and refuses some."""

    def __init__(self, masked: bool = True, refused: tuple[Case, ...] = ()) -> None:
        self.subject = SimpleNamespace(takes_mask=masked)
        self.refused = refused

    def cases(self, *cases: Case) -> list[Case]:
        return list(cases)

    def output(self, case: Case) -> Tensor:
        if case in self.refused:
            raise Unsupported("refused")
        return torch.ones(1)

    def gradient_cases(self) -> list[Case]:
        return [Case(), Case(probe="right")]

    def cotangent(self, case: Case) -> None:
        return None

    def gradients(self, case: Case, cotangent: None) -> tuple[None, dict[str, Tensor]]:
        if case in self.refused:
            raise Blocked("its output is wrong")
        return None, LEARNED


def asked_of(run: Any) -> list[tuple[Case, bool]]:
    return [(o.case, o.gradients) for o in observations(run)]


def test_outputs_of_all_cases_are_observed_and_then_gradients() -> None:
    gradients = [(Case(), True), (Case(probe="right"), True)]
    assert asked_of(Asked()) == [*((case, False) for case in (*UNPADDED, *PADDED, *FAST)), *gradients]
    without_mask = [*((case, False) for case in (*UNPADDED, FAST[0])), *gradients]
    assert asked_of(Asked(masked=False)) == without_mask


def test_what_a_subject_refuses_is_left_out_and_the_rest_is_observed() -> None:
    refused = (Case(), PADDED[0])
    assert asked_of(Asked(refused=refused)) == [pair for pair in asked_of(Asked()) if pair[0] not in refused]


def test_an_observation_is_of_an_output_unless_it_says_otherwise() -> None:
    assert not Observation(Case(), ()).gradients


@pytest.mark.parametrize(
    ("masked", "cases"),
    [(True, [Case(), *FAST]), (False, [Case(), FAST[0]])],
)
def test_a_subject_that_agrees_may_be_wrong_on_parts_of_these_probes(masked: bool, cases: list[Case]) -> None:
    run: Any = SimpleNamespace(
        subject=SimpleNamespace(takes_mask=masked),
        case=Case,
        cases=lambda *cases: list(cases),
        expected=lambda case: torch.ones(1),
    )
    assert agreeing_cases(run) == cases


def test_nothing_is_shrunk_where_the_specification_has_no_value() -> None:
    def blocked(case: Case) -> Tensor:
        raise Blocked("a parameter is missing")

    run: Any = SimpleNamespace(subject=SimpleNamespace(takes_mask=True), case=Case, cases=list, expected=blocked)
    assert agreeing_cases(run) == []
