"""Traceability: each equation with its implementation, oracle, proofs, requirements and tests.

The table is generated, and a hole in it is a failure: an equation without an oracle, a requirement without a test, an
algebraic one without a proof, a test that names no requirement or an unknown one. A contract in pyproject.toml makes
sure that oracles import NumPy alone.
"""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from conformance_tests.harness.checks import REGISTRY, registry
from encoder_spec.equation import TOPICS, Equation, equations, requirements
from encoder_spec.notation import SYMBOLS
from encoder_spec.proof import proofs


@dataclass(frozen=True)
class Row:
    """Everything that belongs to one equation."""

    equation: Equation
    implementation: str
    oracle: str
    requirements: tuple[str, ...]
    proofs: tuple[str, ...]
    checks: tuple[str, ...]
    demonstrations: tuple[str, ...]


def demonstrations_at_hand() -> bool:
    """Import the suite's own tests, and return whether there are any: a wheel contains none."""
    try:
        importlib.import_module("conformance_tests.meta_tests")
    except ModuleNotFoundError:
        return False
    for topic in TOPICS:
        importlib.import_module(f"conformance_tests.meta_tests.spec.test_{topic}")
    return True


def rows() -> list[Row]:
    """Return one row for each equation, in the order of the specification."""
    demonstrations_at_hand()
    return [row_of(e) for e in equations().values()]


def row_of(equation: Equation) -> Row:
    """Collect everything that belongs to an equation."""
    ids = tuple(id for id, r in requirements().items() if r.equation == equation.id)
    try:
        oracle = place(equation.oracle)
    except LookupError:
        oracle = ""
    return Row(
        equation,
        place(equation.function),
        oracle,
        ids,
        tuple(id for id in ids if id in proofs()),
        tuple(c.name for c in registry().checks.values() if set(c.requirements) & set(ids)),
        tuple(f.__name__ for shown, f in REGISTRY.demonstrations if set(shown) & set(ids)),
    )


def place(function: object) -> str:
    """Return the file and the name of a function."""
    module = inspect.getmodule(function)
    name = getattr(function, "__name__", "")
    return f"{module.__name__}.{name}" if module else name


def holes() -> list[str]:
    """Return everything that is missing or wrong, one line each; an empty list in a sound tree."""
    complete = demonstrations_at_hand()
    found = [*holes_in_rows(complete), *holes_in_proofs()]
    for module in test_modules(complete):
        found.extend(tests_without_requirement(module))
    return found


def holes_in_rows(complete: bool) -> Iterator[str]:
    """Yield the equations and requirements that lack something."""
    for row in rows():
        e = row.equation
        for what, there in {
            "title": e.title,
            "source": e.source,
            "formula": e.latex,
            "statement of what is undefined": any(n.startswith("Undefined:") for n in e.notes),
            "oracle": row.oracle,
            "requirement": row.requirements,
        }.items():
            if not there:
                yield f"{e.id} has no {what}"
        for axis in {axis for shape in e.parameters.values() for axis in shape if not axis.isdigit()} - set(SYMBOLS):
            yield f"{e.id} has a parameter with the axis {axis}, which notation.py does not define"
    tested = {id for c in registry().checks.values() for id in c.requirements}
    shown = {id for ids, _ in REGISTRY.demonstrations for id in ids}
    for id in requirements():
        if id not in tested | shown and complete:
            yield f"{id} has no test"
    for id in (tested | shown) - set(requirements()):
        yield f"a test names the requirement {id}, which does not exist"


def holes_in_proofs() -> Iterator[str]:
    """Yield the algebraic requirements without a proof, and the proofs of anything else."""
    algebraic = {id for id, r in requirements().items() if r.algebraic}
    for id in sorted(algebraic - set(proofs())):
        yield f"{id} is algebraic, but has no proof"
    for id in sorted(set(proofs()) - algebraic):
        yield f"there is a proof of {id}, which is not an algebraic requirement"


def test_modules(complete: bool) -> Iterator[ModuleType]:
    """Yield the modules in which each test must name a requirement."""
    packages = ["conformance_tests", *["conformance_tests.meta_tests.spec"] * complete]
    for package in packages:
        for topic in TOPICS:
            yield importlib.import_module(f"{package}.test_{topic}")


def tests_without_requirement(module: ModuleType) -> Iterator[str]:
    """Yield the test functions that no decorator ties to a requirement."""
    known = {c.function for c in REGISTRY.checks.values()} | {f for _, f in REGISTRY.demonstrations}
    for name, function in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(function) and function not in known:
            yield f"{module.__name__}.{name} names no requirement"
