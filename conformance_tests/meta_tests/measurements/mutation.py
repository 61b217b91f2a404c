"""Mutations of the specification's own code: every function of a topic, changed in one place at a time.

A mutant is planted by giving the function another body, in place: whoever imported it by name,
wrapped it or closed over it runs the mutant, and nothing has to be imported anew.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import encoder_spec
from conformance_tests.meta_tests.measurements.mutation_operators import alternatives, is_demand
from encoder_spec.equation import TOPICS

MUTATED = (*TOPICS, "assembly")
"""The modules that are mutated: the equations with what they call, and the walk that composes them."""

UNCHANGED = {"annotation", "returns", "type_comment", "ctx", "op", "ops"}
"""Fields in which nothing is changed: shapes are declarations, and operators change with their operands."""


@dataclass(frozen=True)
class Mutant:
    """One function with one change.

    Attributes:
        function: module and name of what is changed, as in ``attention.scores``.
        operator: what kind of change it is.
        line: the statement as it is.
        becomes: the statement as changed.
        text: the whole function as changed.
    """

    function: str
    operator: str
    line: str
    becomes: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from every other mutant."""
        return self.function, self.line, self.becomes

    @property
    def module(self) -> str:
        """The module in which it is planted."""
        return self.function.partition(".")[0]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Let everybody who calls the function run the mutant."""
        function = live(self.function)
        right = function.__code__, function.__defaults__, function.__kwdefaults__
        code, defaults = compiled(self.text, function)
        try:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults
            yield
        finally:
            function.__code__, function.__defaults__, function.__kwdefaults__ = right


def source(module: str) -> str:
    """The text of a module of the specification."""
    return Path(encoder_spec.__path__[0], f"{module}.py").read_text(encoding="utf-8")


def live(name: str) -> FunctionType:
    """The function that runs when one is called: below what checks shapes, or makes it a property."""
    module, *path = name.split(".")
    found: Any = importlib.import_module(f"encoder_spec.{module}")
    for part in path:
        found = vars(found)[part]
    return inspect.unwrap(found.func if isinstance(found, cached_property) else found)


def compiled(text: str, function: FunctionType) -> tuple[CodeType, tuple[Any, Any]]:
    """The code of a changed function, and the values of its arguments' defaults, positional and named."""
    tree = ast.parse(f"from __future__ import annotations\n{text}")
    made: dict[str, Any] = {}
    exec(compile(tree, f"<mutant of {function.__qualname__}>", "exec"), dict(function.__globals__), made)
    mutant = made[function.__name__]
    return mutant.__code__, (mutant.__defaults__, mutant.__kwdefaults__)


# What is changed where -----------------------------------------------------------------


@dataclass(frozen=True)
class Spot:
    """A place in a function where a node stands, and the innermost statement around it."""

    holder: ast.AST
    field: str
    place: int | None
    statement: ast.stmt

    @property
    def node(self) -> Any:
        """What stands there."""
        value = getattr(self.holder, self.field)
        return value if self.place is None else value[self.place]

    @contextmanager
    def holding(self, other: ast.AST) -> Iterator[ast.stmt]:
        """Something else stands there meanwhile; this is then the statement."""
        right = self.node
        self.put(other if hasattr(other, "lineno") else ast.copy_location(other, right))
        try:
            yield other if isinstance(other, ast.stmt) else self.statement
        finally:
            self.put(right)

    def put(self, node: ast.AST) -> None:
        """Let a node stand there."""
        if self.place is None:
            setattr(self.holder, self.field, node)
        else:
            getattr(self.holder, self.field)[self.place] = node


@cache
def all_mutants() -> list[Mutant]:
    """Every mutant of every module, in the order of the sources."""
    return [mutant for module in MUTATED for mutant in mutants(module, source(module))]


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """Every mutant of every function of a module with this text, each once."""
    for name, function in functions(ast.parse(text)):
        seen = {ast.unparse(function)}
        for spot in list(spots(function, function)):
            line = shown(spot.statement)
            for operator, other in alternatives(spot.node, function):
                with spot.holding(other) as statement:
                    changed = ast.unparse(function)
                    if changed not in seen:
                        yield Mutant(f"{module}.{name}", operator, line, shown(statement), changed)
                    seen.add(changed)


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and the methods of its classes, without decorators and docstrings."""
    for node in tree.body:
        among, prefix = (node.body, f"{node.name}.") if isinstance(node, ast.ClassDef) else ([node], "")
        for function in among:
            if isinstance(function, ast.FunctionDef):
                function.decorator_list = []
                if ast.get_docstring(function) is not None:
                    del function.body[0]
                yield prefix + function.name, function


def spots(holder: ast.AST, statement: ast.stmt) -> Iterator[Spot]:
    """Every place below a node, in the order of the source."""
    for field, value in ast.iter_fields(holder):
        for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and field not in UNCHANGED and not is_message(node, holder):
                inside = node if isinstance(node, ast.stmt) else statement
                yield Spot(holder, field, place, inside)
                yield from spots(node, inside)


def is_message(node: ast.AST, holder: ast.AST) -> bool:
    """Whether a node is but the words with which something is refused: those are no part of an equation."""
    match holder:
        case ast.Call(args=[_, message]) if is_demand(holder):
            return node is message
        case ast.Raise():
            return node is holder.exc
    return False


def shown(statement: ast.stmt) -> str:
    """A statement as one line: the first one of those with others inside, and no message."""
    bare = deepcopy(statement)
    for holder in ast.walk(bare):
        match holder:
            case ast.Call(args=[condition, _]) if is_demand(holder):
                holder.args = [condition, ast.Name("…")]
            case ast.Raise():
                holder.exc = ast.Name("…")
    if isinstance(bare, ast.FunctionDef | ast.For | ast.If | ast.While | ast.With | ast.Try):
        bare.body = [ast.Pass()]
    return ast.unparse(bare).splitlines()[0]
