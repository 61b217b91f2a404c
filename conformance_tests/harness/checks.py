"""The ties between a test and the requirement that it decides.

A *check* takes a run and asserts: ``@decides("ATT-3", level="trace")``. pytest collects
it as it stands; the command line and Python call the same function. A test that takes no run
shows the requirement on the specification itself: ``@shows("ATT-3")``.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from conformance_tests.reports.report import Level
from encoder_spec.equation import TOPICS

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Check:
    """A test function that decides requirements for one encoder."""

    requirements: tuple[str, ...]
    level: Level
    function: Callable[[Any], None]

    @property
    def name(self) -> str:
        """The id of the test, as pytest prints it."""
        return self.name_of(self.function)

    @staticmethod
    def name_of(function: Callable[..., Any]) -> str:
        """Return the id of a test function, as pytest prints it."""
        return f"{function.__module__.rpartition('.')[2]}::{function.__name__}"


@dataclass
class Registry:
    """All checks and all demonstrations, by the order of their definition."""

    checks: dict[str, Check] = field(default_factory=dict)
    demonstrations: list[tuple[tuple[str, ...], Callable[..., None]]] = field(default_factory=list)


REGISTRY = Registry()


def decides(*requirements: str, level: str) -> Callable[[F], F]:
    """Register a test that takes a run as the check of these requirements.

    Of several requirements, each belongs to another equation of one slot: a run meets
    the one whose equation it uses.
    """

    def register(function: F) -> F:
        assert list(inspect.signature(function).parameters) == ["run"], f"{function.__name__} must take a run"
        check = Check(requirements, Level.named(level), function)
        REGISTRY.checks[check.name] = check
        return function

    return register


def shows(*requirements: str) -> Callable[[F], F]:
    """Register a test that shows these requirements on the specification itself."""

    def register(function: F) -> F:
        REGISTRY.demonstrations.append((requirements, function))
        return function

    return register


def registry() -> Registry:
    """Import all checks and demonstrations; return them, checks by topic, whatever was imported first."""
    for topic in TOPICS:
        importlib.import_module(f"conformance_tests.test_{topic}")
    by_topic = sorted(REGISTRY.checks, key=lambda name: TOPICS.index(name.partition("::")[0].removeprefix("test_")))
    REGISTRY.checks = {name: REGISTRY.checks[name] for name in by_topic}
    return REGISTRY
