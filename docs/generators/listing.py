"""Source code for a page: taken from the running function, never from line numbers."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator
from typing import Any


def whole(function: Callable[..., Any]) -> str:
    """The source of a function as it stands, decorators and docstring included."""
    return textwrap.dedent(inspect.getsource(inspect.unwrap(function))).rstrip()


def definition(source: str) -> ast.FunctionDef:
    """The function that ``source`` defines."""
    (found,) = ast.parse(source).body
    assert isinstance(found, ast.FunctionDef), f"not a function: {source}"
    return found


def bare(function: Callable[..., Any], *, without_docstring: bool = True) -> str:
    """Signature and body of a function, without decorators."""
    source = whole(function)
    node = definition(source)
    skipped: set[int] = set()
    if without_docstring and ast.get_docstring(node) is not None:
        text = node.body[0]
        skipped = set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return "\n".join(line for number, line in lines if number >= node.lineno and number not in skipped)


def helpers(
    function: Callable[..., Any], elsewhere: Collection[Callable[..., Any]] = ()
) -> Iterator[Callable[..., Any]]:
    """The functions of the same module that a function calls, directly or not, innermost first; none ``elsewhere``."""
    function = inspect.unwrap(function)
    body = definition(whole(function))
    names = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    # An argument called mask is whatever stands in that slot, not the function mask of the module.
    names -= {node.arg for node in ast.walk(body) if isinstance(node, ast.arg)}
    for name in sorted(names):
        found = function.__globals__.get(name)
        own = inspect.isfunction(found) and found.__module__ == function.__module__ and found is not function
        if own and found not in elsewhere:
            yield from helpers(found, elsewhere)
            yield found


def together(function: Callable[..., Any], elsewhere: Collection[Callable[..., Any]] = ()) -> list[Callable[..., Any]]:
    """A function after the helpers of its module that it needs, but for those shown ``elsewhere``."""
    return [*dict.fromkeys(helpers(function, elsewhere)), function]


def implementation(function: Callable[..., Any], elsewhere: Collection[Callable[..., Any]] = ()) -> str:
    """A function and its helpers as code alone: the text of an equation stands on its card."""
    return "\n\n\n".join(map(bare, together(function, elsewhere)))


def annotated(function: Callable[..., Any], elsewhere: Collection[Callable[..., Any]] = ()) -> str:
    """A function and its helpers with their docstrings: index formulas, derivations."""
    return "\n\n\n".join(bare(f, without_docstring=False) for f in together(function, elsewhere))
