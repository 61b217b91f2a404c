"""Arguments that a function takes unstated, and hands on, ``f(*args, **kwargs)``: what it calls states them."""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from inspect import Parameter, Signature, getclosurevars, getsource, isroutine, unwrap
from textwrap import dedent
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch import nn

from conformance_tests.subjects.attributes import attribute, parameters_of


def handed_on(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of what a function calls with all that it takes, but for those that it sets itself.

    There are none if it takes none but those that it states, or if its source is not at hand.

    Args:
        function: a function or method, a partial one, or an object that is called.
    """
    found: list[Parameter] = []
    given = set(function.keywords) if isinstance(function, partial) else set()
    caller, by_place = function, 0
    for target, call in called_with_all(function):
        starred = next((place for place, x in enumerate(call.args) if isinstance(x, ast.Starred)), None)
        # Behind a star stands what the function itself gets by place.
        by_place = len(call.args) if starred is None else starred + among_unstated(caller, by_place)
        given |= {keyword.arg for keyword in call.keywords if keyword.arg}
        found += [p for p in stated_by(target)[by_place:] if p.name not in given and p.kind in BY_NAME]
        caller = target
    return found


def unpacked_into(structure: Any, frame: FrameType) -> list[Parameter]:
    """Return the parameters of what a running function calls with a structure unpacked, ``f(**structure)``."""
    scope = Scope.within(frame)
    for call in calls_in(frame.f_code):
        if any(keyword.arg is None and scope.value_of(keyword.value) is structure for keyword in call.keywords):
            given = {keyword.arg for keyword in call.keywords}
            stated = stated_by(scope.value_of(call.func))[len(call.args) :]
            return [p for p in stated if p.name not in given and p.kind in BY_NAME]
    return []


def stated_by(target: Any) -> list[Parameter]:
    """Return the parameters that a function or module states: what is written in C states none."""
    with suppress(TypeError, ValueError):
        return list(parameters_of(target.forward if isinstance(target, nn.Module) else target).values())
    return []


def taking_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes by name, too, what another one takes by place alone and hands on, ``f(*args)``.

    Any other function stays what it is.
    """
    if {p.kind for p in stated_by(function)} != {Parameter.VAR_POSITIONAL}:
        return function
    stated = [p for p in handed_on(function) if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if not stated:
        return function
    takes = Signature(stated)

    def called(*by_place: Any, **named: Any) -> Any:
        given = takes.bind(*by_place, **named)
        last = max(place for place, name in enumerate(takes.parameters) if name in given.arguments)
        given.apply_defaults()
        return function(*given.args[: last + 1])

    called.__signature__ = takes  # type: ignore[attr-defined]
    return called


def among_unstated(function: Callable[..., Any], given: int) -> int:
    """Return how many of the arguments that a function gets by place are among those that it does not state.

    A method gets the object that it belongs to first, and a partial function what it was made with.

    Args:
        function: as for ``handed_on``.
        given: how many others it gets by place.
    """
    code = code_of(function)
    while isinstance(function, partial):
        given += len(function.args)
        function = function.func
    given += not isroutine(function) or hasattr(function, "__self__")
    return 0 if code is None else max(0, given - code.__code__.co_argcount)


def called_with_all(
    function: Callable[..., Any], known: frozenset[CodeType] = frozenset()
) -> Iterator[tuple[Callable[..., Any], ast.Call]]:
    """Yield what a function calls with all that it takes, what that calls so, and so on; each with its call.

    Args:
        function: as for ``handed_on``.
        known: the code that is read already: functions may call each other.
    """
    code = code_of(function)
    if code is None or code.__code__ in known:
        return
    anything = {p.kind: p.name for p in parameters_of(code).values() if p.kind in ANYTHING}
    for call in calls_with(code, anything):
        target = Scope.around(function, code).value_of(call.func)
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

ANYTHING = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
"""Kinds of parameters that state nothing."""


def code_of(function: Callable[..., Any]) -> FunctionType | None:
    """Return the function that runs in a call; None if it is not written in Python."""
    if isinstance(function, partial):
        return code_of(function.func)
    if not isroutine(function):
        function = function.forward if isinstance(function, nn.Module) else type(function).__call__
    plain = unwrap(getattr(function, "__func__", function))
    return plain if isinstance(plain, FunctionType) else None


def calls_with(code: FunctionType, anything: Mapping[Any, str]) -> Iterator[ast.Call]:
    """Yield the calls in a function that get all that it takes by name; by place, if it takes nothing else.

    Args:
        code: the function.
        anything: the names of the parameters that state nothing, by their kind.
    """
    named, placed = anything.get(Parameter.VAR_KEYWORD), anything.get(Parameter.VAR_POSITIONAL)
    for call in calls_in(code.__code__):
        by_name = (keyword.value for keyword in call.keywords if keyword.arg is None)
        by_place = (x.value for x in call.args if isinstance(x, ast.Starred))
        if any(is_named(value, named or placed) for value in (by_name if named else by_place)):
            yield call


@lru_cache(maxsize=256)  # looking a function up in a file of thousands of lines takes as long as a small encoder's call
def calls_in(code: CodeType) -> list[ast.Call]:
    """Return the calls that stand in the source of a function; none where that cannot be read."""
    try:
        tree = ast.parse(dedent(getsource(code)))
    except (OSError, SyntaxError, TypeError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def is_named(value: ast.expr, name: str | None) -> bool:
    """Return whether an expression is what goes by a name, if there is one."""
    return isinstance(value, ast.Name) and value.id == name


class Scope:
    """Meanings of names within a function.

    Args:
        names: what each means.
        bound: the object whose method it is.
    """

    def __init__(self, names: dict[str, Any], bound: Any) -> None:
        self.names, self.bound = names, bound

    @classmethod
    def around(cls, function: Callable[..., Any], code: FunctionType) -> "Scope":
        """Return that of a function that does not run: itself, and what it finds around it."""
        while isinstance(function, partial):
            function = function.func
        bound = getattr(function, "__self__", None) if isroutine(function) else function
        names: dict[str, Any] = {}
        with suppress(Exception):  # a name may have no value yet
            found = getclosurevars(code)
            names = {**found.builtins, **found.globals, **found.nonlocals}
        if bound is not None and code.__code__.co_argcount:
            names[code.__code__.co_varnames[0]] = bound
        return cls(names, bound)

    @classmethod
    def within(cls, frame: FrameType) -> "Scope":
        """Return that of a running function."""
        names = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
        return cls(names, next((names.get(name) for name in frame.f_code.co_varnames[:1]), None))

    def value_of(self, expression: ast.expr) -> Any:
        """Return what a name, an attribute or ``super()`` means; None of anything else."""
        if isinstance(expression, ast.Name):
            return self.names.get(expression.id)
        if isinstance(expression, ast.Attribute):
            return attribute(self.value_of(expression.value), expression.attr)
        is_super = isinstance(expression, ast.Call) and ast.unparse(expression) == "super()"
        return super(self.names["__class__"], self.bound) if is_super and "__class__" in self.names else None
