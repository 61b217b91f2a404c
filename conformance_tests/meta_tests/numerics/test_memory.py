"""Memory is given back where the C library can be told so, and nothing happens where not."""

import ctypes
from typing import Any

import pytest

from conformance_tests.numerics import memory


def test_the_library_is_told_of_large_arrays_and_asked_for_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the numbers of glibc: ``M_MMAP_THRESHOLD`` is −3, and ``malloc_trim`` leaves 0 bytes at the heap's end."""
    told: list[tuple[Any, ...]] = []

    class Library:
        mallopt = staticmethod(lambda *args: told.append(("mallopt", *args)))
        malloc_trim = staticmethod(lambda *args: told.append(("malloc_trim", *args)))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    memory.keep_large_arrays_apart()
    memory.give_back()
    assert told == [("mallopt", -3, 4194304), ("malloc_trim", 0)]


@pytest.mark.parametrize("fault", [AttributeError("mallopt"), OSError("no such library"), TypeError("None")])
def test_another_library_is_left_alone(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> Any:
        raise fault

    monkeypatch.setattr(ctypes, "CDLL", refused)
    memory.keep_large_arrays_apart()
    memory.give_back()
