"""The registry of checks: what a decorator ties together, and the order in which checks run."""

from typing import Any

import pytest

from conformance_tests.harness import checks
from conformance_tests.harness.checks import Check, Registry, decides, registry, shows
from conformance_tests.reports.report import Level
from encoder_spec.equation import TOPICS


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An empty registry in the place of the one in use."""
    monkeypatch.setattr(checks, "REGISTRY", Registry())
    return checks.REGISTRY


def test_a_check_is_registered_under_its_name_and_stays_a_function(empty: Registry) -> None:
    def test_something(run: Any) -> None:
        """It is not called here."""

    assert decides("ATT-3", "ATT-4", level="trace")(test_something) is test_something
    name = "test_checks::test_something"
    assert empty.checks == {name: Check(("ATT-3", "ATT-4"), Level.TRACE, test_something)}
    assert empty.checks[name].name == name


def test_a_check_takes_a_run_and_nothing_else(empty: Registry) -> None:
    def test_two(run: Any, other: Any) -> None:
        """It would not know what the other is."""

    with pytest.raises(AssertionError, match="test_two must take a run"):
        decides("ATT-3", level="trace")(test_two)
    assert empty.checks == {}


def test_a_demonstration_is_kept_with_what_it_shows(empty: Registry) -> None:
    def test_by_hand() -> None:
        """It is not called here."""

    assert shows("ATT-3")(test_by_hand) is test_by_hand
    assert empty.demonstrations == [(("ATT-3",), test_by_hand)]


def test_checks_come_in_the_order_of_the_topics() -> None:
    """Whatever was imported first: the check that was registered last comes first here."""
    found = registry()
    names = list(found.checks)
    found.checks = {name: found.checks[name] for name in reversed(names)}
    places = [TOPICS.index(name.partition("::")[0].removeprefix("test_")) for name in registry().checks]
    assert places == sorted(places)
    assert sorted(set(places)) == list(range(len(TOPICS)))
    found.checks = {name: found.checks[name] for name in names}
