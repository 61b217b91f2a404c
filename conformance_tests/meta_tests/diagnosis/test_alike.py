"""Whether a wrong equation fails what a subject fails, and by as much."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from conformance_tests.diagnosis import explanations
from conformance_tests.diagnosis.explanations import amounts_alike, failing

Decisions = dict[str, tuple[str, float | None]]


def failed(id: str, outcome: str, error: float | None, message: str = "said of 2") -> Any:
    """A decision."""
    return SimpleNamespace(id=id, outcome=outcome, error=error, message=message)


SUBJECTS = {"B": failed("B", "fail", 0.5), "C": failed("C", "fail", None)}
"""The failures of the subject, by requirement."""


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a run be its decisions, by requirement; the list names those that were asked for."""
    asked: list[str] = []

    def decide(run: Decisions, check: None, id: str) -> Any:
        asked.append(id)
        return failed(id, *run[id])

    monkeypatch.setattr(explanations, "planned", lambda run, level: [(None, id) for id in run])
    monkeypatch.setattr(explanations, "decide", decide)
    return asked


def test_failures_are_listed_with_their_amounts(decided: list[str]) -> None:
    """One without a number is a failure too; what cannot be decided is none."""
    run: Any = {"A": ("pass", None), "B": ("fail", 0.5), "C": ("fail", None), "D": ("unsupported", None)}
    assert {id: result.error for id, result in failing(run).items()} == {"B": 0.5, "C": None}


@pytest.mark.parametrize(
    ("decisions", "alike"),
    [
        ({"A": ("pass", None), "B": ("fail", 0.5), "C": ("fail", None)}, True),
        ({"A": ("pass", None), "B": ("fail", 0.5 + 1e-8), "C": ("fail", None)}, True),
        ({"A": ("pass", None), "B": ("fail", 0.5001), "C": ("fail", None)}, False),
        ({"A": ("pass", None), "B": ("fail", 0.5001), "C": ("fail", 0.0)}, False),
        ({"A": ("pass", None), "B": ("fail", 4.9), "C": ("fail", None)}, False),
        ({"A": ("pass", None), "B": ("fail", 5.1), "C": ("fail", None)}, None),
        ({"A": ("pass", None), "B": ("fail", 0.04), "C": ("fail", None)}, None),
        ({"A": ("pass", None), "B": ("fail", math.nan), "C": ("fail", None)}, None),
        ({"A": ("pass", None), "B": ("fail", math.inf), "C": ("fail", None)}, None),
        ({"A": ("fail", None), "B": ("fail", 0.5), "C": ("fail", None)}, None),
        ({"A": ("pass", None), "B": ("pass", None), "C": ("fail", None)}, None),
    ],
    ids=["equal", "rounded", "other-amount", "other-amount-then-none", "ten-times", "more", "less", "nan", "infinite"]
    + ["one-more", "one-less"],
)
def test_the_same_failures_by_equal_amounts_are_alike(
    decisions: Decisions, alike: bool | None, decided: list[str]
) -> None:
    """To a millionth, since sums may be taken in another order; errors of another order say nothing together."""
    given: Any = decisions
    assert amounts_alike(given, SUBJECTS) is alike


def test_errors_of_any_amount_are_alike_where_all_is_random(decided: list[str]) -> None:
    given: Any = {"A": ("pass", None), "B": ("fail", 5.1), "C": ("fail", None)}
    assert amounts_alike(given, SUBJECTS, at_random=True) is False


@pytest.mark.parametrize(("said", "alike"), [("said of 3", True), ("said otherwise", None)])
def test_what_is_no_number_is_failed_alike_in_equal_words(said: str, alike: bool | None, decided: list[str]) -> None:
    """Its numbers left out."""
    given: Any = {"B": ("fail", 0.5), "C": ("fail", None, said)}
    assert amounts_alike(given, SUBJECTS) is alike


def test_what_the_subject_fails_is_decided_first_and_a_difference_ends_the_search(decided: list[str]) -> None:
    run: Any = {"A": ("pass", None), "B": ("pass", None), "C": ("fail", None)}
    assert amounts_alike(run, {"C": SUBJECTS["C"], "B": SUBJECTS["B"]}) is None
    assert decided == ["B"]
