"""Mutations of our own code: every function of a module, changed in one place at a time.

The modules are those of the specification, or of another package that is named. A mutant is planted by
giving the function another body, in place: whoever imported it by name, wrapped it or closed over it runs
the mutant, and nothing has to be imported anew. What the function has returned before has its new body too.
"""

import ast
import gc
import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import click

from conformance_tests.meta_tests.measurements.mutation_operators import alternatives, is_demand
from encoder_spec.equation import TOPICS

MUTATED = (*TOPICS, "assembly")
"""The modules that are mutated: the equations with what they call, and the walk that composes them."""

SPECIFICATION = "encoder_spec"
"""The package of modules that are named without one."""

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
        module: the module in which it is planted, in its package.
        package: the package of that module.
    """

    function: str
    operator: str
    line: str
    becomes: str
    text: str
    module: str
    package: str = SPECIFICATION

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from every other mutant."""
        return self.function, self.line, self.becomes

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Let everybody who calls the function run the mutant."""
        wrapped = attribute(self.package, self.module, self.function.removeprefix(f"{self.module}."))
        function = live(wrapped)
        right = function.__code__, function.__defaults__, function.__kwdefaults__
        code, defaults = compiled(self.text, function)
        inner = list(made_inside(right[0], code))
        try:
            function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults
            for made, _, changed in inner:
                made.__code__ = changed
            forget(wrapped)
            yield
        finally:
            function.__code__, function.__defaults__, function.__kwdefaults__ = right
            for made, unchanged, _ in inner:
                made.__code__ = unchanged


def source(module: str, package: str = SPECIFICATION) -> str:
    """The text of a module of a package."""
    spec = find_spec(f"{package}.{module}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def attribute(package: str, module: str, path: str) -> Any:
    """What a module holds under a name such as ``scores`` or ``Encoder.forward``, as a class holds its methods."""
    found: Any = importlib.import_module(f"{package}.{module}")
    for part in path.split("."):
        found = vars(found)[part]
    return found


def live(wrapped: Any) -> FunctionType:
    """The function that runs when one is called: below what checks shapes, caches, or makes it a property."""
    match wrapped:
        case cached_property():
            return live(wrapped.func)
        case property():
            return live(wrapped.fget)
        case click.Command():
            return live(wrapped.callback)
        case staticmethod() | classmethod():
            return live(wrapped.__func__)
    return inspect.unwrap(wrapped)


def made_inside(right: CodeType, mutant: CodeType) -> Iterator[tuple[FunctionType, CodeType, CodeType]]:
    """Yield the functions that a function has returned or registered already, with their code as it is and as changed.

    Such as ``make`` in a function that returns one: a table that was filled on import holds it.
    """
    before, after = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (right, mutant))
    if [c.co_name for c in before] != [c.co_name for c in after]:
        return
    for unchanged, changed in zip(before, after, strict=True):
        for made in gc.get_referrers(unchanged):
            if isinstance(made, FunctionType) and made.__code__.co_freevars == changed.co_freevars:
                yield made, unchanged, changed
        yield from made_inside(unchanged, changed)


def forget(wrapped: Any) -> None:
    """Empty the cache of a function that has one: it would go on giving what the function gave before."""
    while wrapped is not None:
        if hasattr(wrapped, "cache_clear"):
            wrapped.cache_clear()
        wrapped = getattr(wrapped, "__wrapped__", None)


def compiled(text: str, function: FunctionType) -> tuple[CodeType, tuple[Any, Any]]:
    """The code of a changed function, and the values of its arguments' defaults, positional and named.

    The code of a method that calls ``super()`` knows its class. It has to, changed or not, to take the other's place.
    """
    (changed,) = ast.parse(text).body
    assert isinstance(changed, ast.FunctionDef)
    if function.__code__.co_freevars == ("__class__",):
        changed.body.insert(0, ast.Expr(ast.Name("__class__", ast.Load())))
        holder = ast.ClassDef("Holder", [], [], [changed], [])
        text = ast.unparse(ast.fix_missing_locations(ast.Module([holder], [])))
    tree = ast.parse(f"from __future__ import annotations\n{text}")
    made: dict[str, Any] = {}
    exec(compile(tree, f"<mutant of {function.__qualname__}>", "exec"), dict(function.__globals__), made)
    mutant = (vars(made["Holder"]) if "Holder" in made else made)[function.__name__]
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
    """Every mutant of every module of the specification, in the order of the sources."""
    return [mutant for module in MUTATED for mutant in mutants(module, source(module))]


def mutants(module: str, text: str, package: str = SPECIFICATION) -> Iterator[Mutant]:
    """Every mutant of every function of a module with this text, each once."""
    for name, function in functions(ast.parse(text)):
        seen = {ast.unparse(function)}
        for spot in list(spots(function, function)):
            line = shown(spot.statement)
            for operator, other in alternatives(spot.node, function):
                with spot.holding(other) as statement:
                    changed = ast.unparse(function)
                    if changed not in seen:
                        yield Mutant(f"{module}.{name}", operator, line, shown(statement), changed, module, package)
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
