"""Whatever can be reached from an object is held by it, variables around a function included."""

from functools import partial
from typing import Any

import pytest

from conformance_tests.subjects.holding import held

AROUND = [1.5, {"deep": 2.5}]
NOT_READ = 9.5


def reads_a_global(x: Any) -> Any:
    """Read a global variable, a function, which is not followed, and an attribute with the name of another variable."""
    return AROUND, reads_nothing, x.NOT_READ


def reads_nothing() -> None:
    """Read nothing."""


def closed_over(number: float, *, filled: bool = True) -> Any:
    """Return a function that reads two variables around it, one of which may have no value yet."""
    if filled:
        late = 3.5
    return lambda x: (number, late, x)


class Holder:
    """Holds a number, and has a method."""

    def __init__(self) -> None:
        self.number, self.again = 4.5, [self]

    def method(self, x: float) -> float:
        """Add."""
        return x + self.number


@pytest.mark.parametrize(
    ("thing", "want"),
    [
        (2.5, {"": 2.5}),
        ({"a": [1, 2.5]}, {"a.1": 2.5}),
        (Holder(), {"number": 4.5}),
        (Holder().method, {"number": 4.5}),
        (partial(Holder().method, x=0.5), {"number": 4.5, "x": 0.5}),
        (closed_over(1.5), {"number": 1.5, "late": 3.5}),
        (closed_over(1.5, filled=False), {"number": 1.5}),
        (reads_a_global, {"AROUND.0": 1.5, "AROUND.1.deep": 2.5}),
        (reads_nothing, {}),
        (Holder, {}),
    ],
    ids=range(10),
)
def test_an_object_holds_what_can_be_reached_from_it(thing: Any, want: dict[str, float]) -> None:
    """Attributes, entries, arguments given beforehand and variables around a function; never those of a class."""
    assert held(thing, float) == want
