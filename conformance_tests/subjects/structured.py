"""Inputs that are structures: a dictionary, a tuple, or an object with attributes, in which code looks for its arrays.

What it looks for shows when it is called with something that notes each question. From then on the entries are
arguments like any other.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from torch import Tensor

from conformance_tests.errors import message
from conformance_tests.subjects.calling import EXHAUSTED, REQUIRED, Arguments
from conformance_tests.subjects.handed_on import unpacked_into

EXPECTED = re.compile(r"too many values to unpack \(expected (\d+)")
"""Python's message when more entries come than the code unpacks: it names the number."""

MOST_UNPACKED = 20
"""So many entries are handed out: code that goes through them in a loop may do much for each."""

Key = str | int


class Entries(dict[Key, Any]):
    """A dictionary whose entries are attributes as well, and which notes those that it does not have.

    Args:
        values: the entries.
        missing: what is handed out for any other one.
    """

    def __init__(self, values: Mapping[Key, Any], missing: Any = None) -> None:
        super().__init__(values)
        self.__dict__.update(_missing=missing, _asked={})

    @property
    def asked(self) -> dict[Key, Any]:
        """The entries that were looked for in vain, in order, each with the default that the question had."""
        return self.__dict__["_asked"]  # type: ignore[no-any-return]

    def __missing__(self, key: Key) -> Any:
        """Note the question."""
        self.asked[key] = REQUIRED
        return self.__dict__["_missing"]

    def __getattr__(self, name: str) -> Any:
        """Return an entry; code that asks for what every tensor has, such as its shape, takes a tensor."""
        if name.startswith("_") or hasattr(Tensor, name):
            raise AttributeError(name)
        return self[name]

    def get(self, key: Key, default: Any = None) -> Any:
        """Note a question that has an answer by default."""
        if key not in self:
            self.asked.setdefault(key, default)
        return super().get(key, default)

    def keys(self) -> Any:
        """Note what a call states that gets the entries by their names: it asks for none itself."""
        for parameter in () if len(self) else unpacked_into(self, sys._getframe(1)):
            self.asked.setdefault(parameter.name, parameter.default)
        return super().keys()

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str | int) and not super().__contains__(key):
            self.asked.setdefault(key, None)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        """Hand out more entries than are unpacked anywhere: code that unpacks them says how many it expects."""
        return repeat(self.__dict__["_missing"], MOST_UNPACKED)


@dataclass(frozen=True)
class Structure:
    """The entries of the first argument of a call, by their names among the arguments.

    Attributes:
        argument: the name of the first argument.
        entries: name → the key under which it is looked for, and its default.
    """

    argument: str
    entries: Mapping[str, tuple[Key, Any]]

    def __str__(self) -> str:
        """Say what it consists of, for a report."""
        return f"entries of {self.argument}: {', '.join(str(key) for key, _ in self.entries.values())}"

    @property
    def has_names(self) -> bool:
        """True if an entry has a name; those of a tuple have places alone."""
        return any(isinstance(key, str) for key, _ in self.entries.values())

    @property
    def has_several_places(self) -> bool:
        """True if it is a tuple of several entries."""
        return not self.has_names and len(self.entries) > 1

    def arguments(self, stated: Arguments) -> Arguments:
        """Return the arguments of a call: the entries in the place of the structure."""
        further = {name: default for name, default in stated.items() if name != self.argument}
        return {name: default for name, (_, default) in self.entries.items()} | further

    def made(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the structure that holds these values, and the values that belong beside it."""
        held = {key: values.get(name, default) for name, (key, default) in self.entries.items()}
        beside = {name: value for name, value in values.items() if name not in self.entries}
        if all(isinstance(key, int) for key in held):
            return tuple(held.get(place) for place in range(max(map(int, held)) + 1)), beside
        return Entries({key: value for key, value in held.items() if value is not REQUIRED}), beside


def structure_of(argument: str, call: Callable[[Any], Any], inputs: Iterable[Tensor]) -> Structure | None:
    """Return the structure that code looks for in its first argument; None if it asks for no entries.

    Args:
        argument: the name of the first argument.
        call: calls the encoder with it.
        inputs: arrays that may be an entry; those with which most is asked show most.
    """
    best: dict[Key, Any] = {}
    for x in inputs:
        asked = asked_by(call, x)
        if not asked:
            break  # no entry is reached before it is asked for, so another one would change nothing
        best = asked if len(asked) > len(best) else best
    if not best:
        return None
    names = {key: key if isinstance(key, str) else f"{argument}[{key}]" for key in best}
    return Structure(argument, {names[key]: (key, default) for key, default in best.items()})


def asked_by(call: Callable[[Any], Any], x: Tensor) -> dict[Key, Any]:
    """Return the entries that code asks for where each holds the same array, with the default of each."""
    noting = Entries({}, x)
    try:
        call(noting)
    except EXHAUSTED:
        return {}
    except Exception as refusal:
        expected = EXPECTED.search(message(refusal))
        if expected and not noting.asked:
            return dict.fromkeys(range(int(expected[1])), REQUIRED)
    return noting.asked
