"""Wrong equations are found in a catalogue of a few: alone, in pairs, or by what fails; and nothing is claimed else."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance_tests.deviations import deviation_named
from conformance_tests.diagnosis import explanations as diagnosis
from conformance_tests.diagnosis.explanations import (
    FIRST_OF_TWO,
    Explanation,
    behaving_alike,
    divided,
    explanations,
    has_its_shape,
    most_explaining,
    other_choice,
    ranked,
)
from conformance_tests.diagnosis.observations import Observation, observations
from conformance_tests.errors import Blocked
from conformance_tests.harness.computed import Case
from conformance_tests.meta_tests.diagnosis.conftest import RunWith

OTHERS = ("scores-not-scaled", "activation-tanh")


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the deviations that are searched, as a test sets them."""
    ids: list[str] = []
    monkeypatch.setattr(diagnosis, "deviations", lambda: {id: deviation_named(id) for id in ids})
    return ids


def named(found: list[Explanation]) -> list[list[str]]:
    return [sorted(d.id for d in explanation.deviations) for explanation in found]


# Alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, "scores-scaled-by-d-model"),
        (2, "scores-scaled-by-d-model"),
        (2, "mask-unused"),
        (1, "norm-without-beta"),
        (0, "ffn-shared"),
        (0, "input-detached"),
        (1, "norm-beta-ignored"),
    ],
)
def test_the_wrong_equation_is_named_wherever_it_stands_in_the_catalogue(
    place: int, wrong: str, catalogue: list[str], run_with: RunWith
) -> None:
    """Also one that shows under padding alone, lacks a parameter, uses one twice, or has another gradient alone."""
    catalogue += [*OTHERS[:place], wrong, *OTHERS[place:]]
    (found,) = explanations(run_with(wrong))
    assert (named([found]), found.residual) == ([[wrong]], 0.0)


def test_progress_is_shown_for_each_deviation_that_applies(catalogue: list[str], run_with: RunWith) -> None:
    """Three are tried: there are no segments to be exchanged."""
    catalogue += [*OTHERS, "segments-exchanged", "scores-scaled-by-d-model"]
    heard: list[tuple[int, int]] = []
    explanations(run_with("scores-scaled-by-d-model"), lambda done, of: heard.append((done, of)))
    assert heard == [(0, 3), (1, 3), (2, 3)]


def test_rounding_does_not_hide_the_cause(catalogue: list[str], run_with: RunWith) -> None:
    """In float32 the same equations agree to a few digits, and others do not."""
    catalogue += [*OTHERS, "scores-scaled-by-d-model"]
    (found,) = explanations(run_with("scores-scaled-by-d-model", dtype="float32"))
    assert named([found]) == [["scores-scaled-by-d-model"]]
    assert found.residual is not None
    assert 0 < found.residual < 1e-4


def test_nothing_is_claimed_where_nothing_matches(catalogue: list[str], run_with: RunWith) -> None:
    """Neither of an encoder whose defect is not in the catalogue, nor of one without any."""
    catalogue += OTHERS
    assert explanations(run_with("scores-scaled-by-d-model")) == []
    assert explanations(run_with()) == []


# Together, and instead -----------------------------------------------------------------


def test_two_wrong_equations_are_named_together(catalogue: list[str], run_with: RunWith) -> None:
    """Neither reproduces the encoder by itself; progress begins anew with the pairs."""
    both = ["norm-eps-outside-root", "scores-scaled-by-d-model"]
    catalogue += [*OTHERS, *both]
    heard: list[tuple[int, int]] = []
    found = explanations(run_with(*both), lambda done, of: heard.append((done, of)))
    assert named(found) == [both]
    assert heard[:4] == [(done, 4) for done in range(4)]
    assert [done for done, _ in heard[4:]] == list(range(len(heard) - 4))
    assert {of for _, of in heard[4:]} == {len(heard) - 4}


def test_those_that_explain_more_alone_are_tried_together(run_with: RunWith) -> None:
    """Each half of two wrong equations explains more than the specification; what is wrong elsewhere does not."""
    both = ["norm-eps-outside-root", "scores-scaled-by-d-model"]
    run = run_with(*both)
    departing, _ = divided(run, observations(run))
    likely = most_explaining(run, departing[0], [deviation_named(id) for id in (*OTHERS, *both)])
    assert "scores-scaled-by-d-model" in [d.id for d in likely]
    assert "activation-tanh" not in [d.id for d in likely]
    assert len(likely) <= FIRST_OF_TWO


def test_gradients_alone_tell_nothing_of_two(run_with: RunWith) -> None:
    """Where all outputs agree, no deviation explains more of them."""
    run = run_with("input-detached")
    departing, agreeing = divided(run, observations(run))
    assert agreeing
    assert [observed.gradients for observed in departing] == [True] * len(departing) != []
    assert most_explaining(run, departing[0], [deviation_named("output-detached")]) == []


def test_a_choice_that_is_right_elsewhere_is_named_in_the_place_of_the_declared_one(
    catalogue: list[str], run_with: RunWith
) -> None:
    """GELU where the profile has ReLU: found without a deviation of that name, before pairs are tried."""
    catalogue += OTHERS
    run = run_with(variant="gelu")
    (found,) = explanations(run)
    assert (named([found]), str(other_choice(run))) == ([["activation=gelu"]], str(found))
    assert found.residual is not None
    assert found.residual < 1e-9
    assert other_choice(run_with()) is None


@pytest.mark.parametrize(("shape", "has"), [((2, 3), True), ((2, 4), False), ((3,), False)])
def test_an_output_of_another_shape_is_noticed(shape: tuple[int, ...], has: bool) -> None:
    run: Any = SimpleNamespace(expected=lambda case: torch.zeros(2, 3))
    assert has_its_shape(run, Observation(Case(), (torch.zeros(shape),))) is has


def test_a_shape_that_the_specification_does_not_give_is_no_other_one() -> None:
    def blocked(case: Case) -> None:
        raise Blocked("a parameter is missing")

    run: Any = SimpleNamespace(expected=blocked)
    assert has_its_shape(run, Observation(Case(), (torch.zeros(1),)))


# By what fails -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "residual"),
    [("memory-order-ignored", 0.0), ("dropout-active-without-gradients", None)],
)
def test_what_shows_in_no_number_twice_is_named_by_what_fails(
    wrong: str, residual: float | None, catalogue: list[str], run_with: RunWith
) -> None:
    """Right outputs but for the layout of the input, and outputs that are random: there no number can agree."""
    catalogue += [*OTHERS, wrong]
    (found,) = explanations(run_with(wrong))
    assert (named([found]), found.residual) == ([[wrong]], residual)


def test_what_fails_otherwise_or_needs_other_parameters_behaves_otherwise(run_with: RunWith) -> None:
    """The subject has no norm behind its last layer, without which that deviation is nothing to compare with."""
    candidates = [deviation_named(id) for id in ("final-norm-too-many", "input-changed-in-place")]
    assert behaving_alike(run_with("memory-order-ignored"), candidates) == []
    assert named(behaving_alike(run_with("input-changed-in-place"), candidates)) == [["input-changed-in-place"]]


def test_nothing_explains_what_the_specification_itself_fails(
    run_with: RunWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process in which no gradient can be computed any more, for instance."""
    candidates, run = [deviation_named("input-changed-in-place")], run_with("input-changed-in-place")
    assert named(behaving_alike(run, candidates)) == [["input-changed-in-place"]]
    monkeypatch.setattr(diagnosis, "amounts_alike", lambda run, failed, at_random: True)
    assert behaving_alike(run, candidates) == []


# Ranked --------------------------------------------------------------------------------


def test_explanations_that_leave_no_parameter_idle_come_first_then_the_closest(run_with: RunWith) -> None:
    """A β that is there and ignored is likelier than a norm that has none, however close; no residual counts as 0."""
    idle, closer, close = (
        Explanation((deviation_named(id),), residual)
        for id, residual in (("norm-without-beta", 0.0), ("norm-beta-ignored", None), ("mask-unused", 1e-9))
    )
    assert ranked(run_with(), [idle, close, closer]) == [closer, close, idle]
    assert ranked(run_with(), iter([])) == []
