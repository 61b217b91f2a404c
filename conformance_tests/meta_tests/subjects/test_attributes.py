"""Attributes of objects that are not ours."""

from typing import Any

from conformance_tests.subjects.attributes import attribute, parameters_of, with_attributes


class LooksUp:
    """Keeps what it has in a dictionary, and raises a KeyError for what it has not: so does a copy before it has it."""

    def __init__(self) -> None:
        self.__dict__["kept"] = 3

    def __getattr__(self, name: str) -> Any:
        return self.__dict__[name]

    def __call__(self, x: Any, mask: Any = None) -> Any:
        return x


def test_an_attribute_that_is_missing_is_missing_whatever_is_raised() -> None:
    assert attribute(LooksUp(), "absent") is None
    assert attribute(LooksUp(), "absent", 4) == 4
    assert attribute(LooksUp(), "kept", 4) == 3


def test_the_parameters_of_its_call_are_those_of_its_class() -> None:
    assert list(parameters_of(LooksUp())) == ["x", "mask"]
    assert list(parameters_of(lambda a, *b: a)) == ["a", "b"]


def test_a_copy_has_other_attributes() -> None:
    thing = LooksUp()
    thing.also = 4
    another = with_attributes(thing, {"kept": 5})
    assert (type(another), another.kept, another.also, thing.kept) == (LooksUp, 5, 4, 3)
