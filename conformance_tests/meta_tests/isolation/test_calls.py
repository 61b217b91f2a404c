"""Functions of the suite in worker processes: their results in order, what they raise, and what a worker keeps."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from conformance_tests.errors import Lost, WorkerFault
from conformance_tests.isolation.calls import in_workers, name_of
from conformance_tests.isolation.worker import packed, unpacked
from conformance_tests.meta_tests.isolation.called import CALLS, Point, ended, mirrored, placed, raised


def test_results_come_in_the_order_of_the_items_from_as_many_processes_as_asked_for() -> None:
    """The first item takes longest. Values of our own classes go there and come back."""
    points = [Point(number, number + 1) for number in range(5)]
    assert list(in_workers(mirrored, points, 2)) == [Point(number + 1, number) for number in range(5)]
    assert CALLS == []  # nothing was called here


def test_a_process_serves_several_calls_and_keeps_what_it_has_learned() -> None:
    """One process serves all of them; each call adds to what the one before left."""
    found = list(in_workers(placed, "abc", 1))
    assert {process for process, _ in found}.isdisjoint({os.getpid()})
    assert [calls for _, calls in found] == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert len({process for process, _ in found}) == 1


def test_what_a_call_raises_is_a_fault_with_its_traceback() -> None:
    with pytest.raises(WorkerFault, match=r"(?s)called\.py.*ZeroDivisionError"):
        list(in_workers(raised, [3], 1))


def test_a_call_that_ends_its_process_is_told() -> None:
    with pytest.raises(Lost, match="exit status 3"):
        list(in_workers(ended, [3], 1))


def test_results_that_nobody_wants_are_not_waited_for() -> None:
    """Each of the others would take a minute."""
    results = in_workers(mirrored, [Point(1, 2), *[Point(60, 0)] * 3], 2)
    assert next(results) == Point(2, 1)
    results.close()


def test_a_function_of_the_module_that_runs_is_found_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m package.module` calls it `__main__`."""
    running = ModuleType("__main__")
    running.__spec__ = SimpleNamespace(name="package.module")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", running)
    monkeypatch.setattr(mirrored, "__module__", "__main__")
    assert name_of(mirrored) == "package.module:mirrored"


@pytest.mark.parametrize("value", [None, ("a", {"b": (1, 2.5)}), Point(1, 2)])
def test_a_value_is_packed_into_one_line_of_text(value: object) -> None:
    """Lines separate what is sent."""
    assert packed(value).isprintable()
    assert unpacked(packed(value)) == value
