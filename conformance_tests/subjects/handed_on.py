"""Arguments that a function takes by name, and hands on, ``f(**kwargs)``: what it calls states them."""

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from inspect import Parameter, getclosurevars, getsource, isroutine, unwrap
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from conformance_tests.subjects.attributes import attribute, parameters_of


def handed_on(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of what a function calls with all that it takes by name, but for those that it sets itself.

    There are none if it takes none but those that it states, or if its source is not at hand.

    Args:
        function: a function or method, a partial one, or an object that is called.
    """
    found: list[Parameter] = []
    given = set(function.keywords) if isinstance(function, partial) else set()
    for target, call in called_with_all(function):
        starred = (place for place, x in enumerate(call.args) if isinstance(x, ast.Starred))
        by_place = next(starred, len(call.args))  # behind a star stands what the function itself gets by place
        given |= {keyword.arg for keyword in call.keywords if keyword.arg}
        with suppress(TypeError, ValueError):  # what is written in C states nothing
            stated = [*parameters_of(target).values()][by_place:]
            found += [p for p in stated if p.name not in given and p.kind in BY_NAME]
    return found


def called_with_all(
    function: Callable[..., Any], known: frozenset[CodeType] = frozenset()
) -> Iterator[tuple[Callable[..., Any], ast.Call]]:
    """Yield what a function calls with all that it takes by name, what that calls so, and so on; each with its call.

    Args:
        function: as for ``handed_on``.
        known: the code that is read already: functions may call each other.
    """
    code = code_of(function)
    if code is None or code.__code__ in known:
        return
    stated = parameters_of(code).values()
    anything = next((p.name for p in stated if p.kind is Parameter.VAR_KEYWORD), None)
    for call in calls_with(code, anything) if anything else ():
        target = Scope(function, code).value_of(call.func)
        if callable(target):
            yield target, call
            yield from called_with_all(target, known | {code.__code__})
            return


def documentation(function: Callable[..., Any]) -> str:
    """Return what the docstrings say of a function, and of what it hands its arguments on to."""
    codes = filter(None, map(code_of, [function, *(target for target, _ in called_with_all(function))]))
    return "\n\n".join(code.__doc__ for code in codes if code.__doc__)


BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
"""Kinds of parameters that can be given by name."""


def code_of(function: Callable[..., Any]) -> FunctionType | None:
    """Return the function that runs in a call; None if it is not written in Python."""
    if isinstance(function, partial):
        return code_of(function.func)
    if not isroutine(function):
        function = function.forward if isinstance(function, nn.Module) else type(function).__call__
    plain = unwrap(getattr(function, "__func__", function))
    return plain if isinstance(plain, FunctionType) else None


def calls_with(code: FunctionType, anything: str) -> Iterator[ast.Call]:
    """Yield the calls in a function that get all that it takes by name."""
    for call in calls_in(code.__code__):
        if any(is_all_of(keyword, anything) for keyword in call.keywords):
            yield call


@lru_cache(maxsize=256)  # looking a function up in a file of thousands of lines takes as long as a small encoder's call
def calls_in(code: CodeType) -> list[ast.Call]:
    """Return the calls that stand in the source of a function; none where that cannot be read."""
    try:
        tree = ast.parse(dedent(getsource(code)))
    except (OSError, SyntaxError, TypeError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def is_all_of(keyword: ast.keyword, anything: str) -> bool:
    """Return whether an argument is ``**anything``."""
    return keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == anything


class Scope:
    """Meanings of names within a function: itself, and what it finds around it."""

    def __init__(self, function: Callable[..., Any], code: FunctionType) -> None:
        while isinstance(function, partial):
            function = function.func
        self.bound = getattr(function, "__self__", None) if isroutine(function) else function
        self.names: dict[str, Any] = {}
        with suppress(Exception):  # a name may have no value yet
            found = getclosurevars(code)
            self.names = {**found.builtins, **found.globals, **found.nonlocals}
        if self.bound is not None and code.__code__.co_argcount:
            self.names[code.__code__.co_varnames[0]] = self.bound

    def value_of(self, expression: ast.expr) -> Any:
        """Return what a name, an attribute or ``super()`` means; None of anything else."""
        if isinstance(expression, ast.Name):
            return self.names.get(expression.id)
        if isinstance(expression, ast.Attribute):
            return attribute(self.value_of(expression.value), expression.attr)
        is_super = isinstance(expression, ast.Call) and ast.unparse(expression) == "super()"
        return super(self.names["__class__"], self.bound) if is_super and "__class__" in self.names else None
