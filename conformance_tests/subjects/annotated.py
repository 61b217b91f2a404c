"""Arguments whose annotations name a class of the encoder's author: objects of it are made of a mask, or of nothing."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter, signature
from typing import Any, get_args, get_type_hints

from torch import Tensor, nn

from conformance_tests.subjects.calling import REQUIRED, Arguments
from conformance_tests.subjects.handed_on import ANYTHING
from conformance_tests.subjects.source_lines import is_authors

NEITHER = (Tensor, nn.Module, Enum, str, int, float)
"""Classes that are not made of one array, or that an array stands for."""


@dataclass(frozen=True)
class Made:
    """A class whose objects are made of one array, or of nothing."""

    of: type
    of_nothing: bool

    def __str__(self) -> str:
        """Return what makes one."""
        return f"{self.of.__name__}({'' if self.of_nothing else '…'})"

    def __call__(self, value: Any) -> Any:
        """Return an object that is made of a value; None stays what it is."""
        if self.of_nothing:
            return self.of()
        return value if value is None else self.of(value)


def made_by_annotation(function: Callable[..., Any]) -> dict[str, Made]:
    """Return the arguments of a function that its annotations give a class of its author, and how such are made."""
    try:
        stated = get_type_hints(getattr(function, "__func__", function))
    except Exception:  # an annotation may name what exists for a type checker alone
        return {}
    found: dict[str, Made] = {}
    for name, annotation in stated.items():
        for option in get_args(annotation) or (annotation,):
            made = as_made(option)
            if made is not None and name != "return":
                found.setdefault(name, made)
    return found


def as_made(option: Any) -> Made | None:
    """Return how objects of a class are made, if it is the author's, and takes one value or none.

    A kind of arrays, such as jaxtyping's, looks like a class whose objects are made of nothing, and has no objects.
    """
    if not isinstance(option, type) or issubclass(option, NEITHER):
        return None
    if not is_authors(getattr(sys.modules.get(option.__module__), "__file__", None) or "<unknown>"):
        return None
    try:
        takes = signature(option).parameters.values()
    except ValueError:  # it adds nothing to how a class of Python is made
        return Made(option, of_nothing=True)
    required = [p for p in takes if p.default is Parameter.empty and p.kind not in ANYTHING]
    if len(required) > 1 or any(p.kind is Parameter.KEYWORD_ONLY for p in required):
        return None
    if not required:
        try:
            option()
        except Exception:  # whatever the author's class raises
            return None
    return Made(option, of_nothing=not required)


def given_anyway(made: Mapping[str, Made], arguments: Arguments) -> dict[str, Made]:
    """Return those that are required, and made of nothing."""
    return {name: how for name, how in made.items() if how.of_nothing and arguments.get(name) is REQUIRED}
