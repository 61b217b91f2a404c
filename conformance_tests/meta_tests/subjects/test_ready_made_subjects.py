"""A subject for an object of a framework is imported when it is needed."""

from collections.abc import Callable
from typing import Any

import pytest

from conformance_tests.errors import SubjectError
from conformance_tests.subjects.adapted import AdaptedSubject
from conformance_tests.subjects.ready_made import READY_MADE, framework_of, ready_made


def of_module(module: str) -> Any:
    """An object of a class from this module."""
    return type("Layer", (), {"__module__": module})()


def test_the_subject_of_a_framework_is_made_around_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its module in the room and its class; a list of layers goes in as a whole."""
    monkeypatch.setitem(READY_MADE, "madeup", "adapted:AdaptedSubject")
    for thing in (of_module("madeup.layers"), [of_module("madeup")], (of_module("madeup.x"), 5)):
        subject = ready_made(thing)
        assert isinstance(subject, AdaptedSubject)
        assert subject.subject is thing


@pytest.mark.parametrize("thing", [of_module("torch.nn"), of_module("madeup2"), 5, [], None])
def test_without_a_framework_there_is_none(thing: Any) -> None:
    assert ready_made(thing) is None
    assert framework_of(thing) is None


def test_what_the_framework_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thing: Any) -> None:
        raise SubjectError("no form that can be called")

    called: list[str] = []

    def imported(name: str) -> Any:
        called.append(name)
        return type("Module", (), {"Made": staticmethod(refuse)})

    monkeypatch.setitem(READY_MADE, "madeup", "inside.it:Made")
    monkeypatch.setattr("conformance_tests.subjects.ready_made.importlib.import_module", imported)
    make: Callable[[Any], Any] = ready_made
    with pytest.raises(SubjectError, match="no form that can be called"):
        make(of_module("madeup"))
    assert called == ["conformance_tests.subjects.inside.it"]
