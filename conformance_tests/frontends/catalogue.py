"""Entries of the lists, as data on file, so that nobody waits for torch to read them: ``make catalogue``.

The specification declares it in decorators, docstrings and annotations, which only Python itself reads, with torch.
``catalogue.json`` keeps what it declared, beside a hash of the sources. Where these have changed since, as they do
while somebody edits them, everything is derived anew: a list never shows what is out of date.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from conformance_tests.quality import fingerprint

if TYPE_CHECKING:
    from encoder_spec.profiles import Profile as Choice

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("catalogue.json")

SOURCES = (*fingerprint.SOURCES, (Path(__file__).parent, Path(__file__).name))
"""The equations, the checks, the deviations, and this module."""


@dataclass(frozen=True)
class Equation:
    """See ``encoder_spec.equation.Equation``; ``code`` is the place of its function."""

    id: str
    slot: str
    variant: str
    title: str
    source: str
    latex: str
    parameters: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    code: str


@dataclass(frozen=True)
class Requirement:
    """See ``encoder_spec.equation.Requirement``."""

    id: str
    equation: str
    statement: str
    algebraic: bool


@dataclass(frozen=True)
class Check:
    """See ``conformance_tests.harness.checks.Check``; ``code`` is the place of its function."""

    name: str
    level: str
    requirements: Sequence[str]
    code: str


@dataclass(frozen=True)
class Deviation:
    """See ``conformance_tests.deviations.Deviation``; where it replaces an equation stands the place of its code."""

    id: str
    slot: str
    definition: str
    of: Sequence[str]
    noticed_by: Sequence[str]
    replaces: Mapping[str, str | float]
    evidence: Sequence[str]


@dataclass(frozen=True)
class Profile:
    """See ``encoder_spec.profiles.Profile``."""

    name: str
    source: str
    choices: Mapping[str, str | float]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Cost:
    """A row of ``encoder_spec.cost.report``, as a formula in any head widths and in the customary ones."""

    profile: str
    quantity: str
    part: str
    formula: str
    customary: str


Entry = TypeVar("Entry", Equation, Requirement, Check, Deviation, Profile, Cost)


@cache
def on_file() -> Mapping[str, Any]:
    """Read the catalogue on file; return nothing if its sources have changed since, or it cannot be read."""
    with suppress(OSError, ValueError):  # such as in the middle of a merge
        kept: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
        if kept["sources"] == fingerprint.hash_of(SOURCES, str.splitlines):
            return kept
    return {}


def listed(kind: type[Entry]) -> list[Entry]:
    """Return the entries of one kind, in the order of the specification."""
    kept = on_file()
    return [kind(**entry) for entry in kept[kind.__name__]] if kept else list(DERIVED[kind]())


def costs(name: str) -> list[Cost]:
    """Return what the profile of this name costs, or the one that a ``.toml`` file describes.

    Raises:
        SpecificationError: if there is no such profile.
    """
    if name.endswith(".toml") or not on_file():
        return list(costs_of(choice(name)))
    return [cost for cost in listed(Cost) if cost.profile == name]


def choice(name: str) -> "Choice":
    """Return the specification's own profile of this name, or the one that a ``.toml`` file describes."""
    from encoder_spec import profiles

    return profiles.profile(name)


# Derivation ------------------------------------------------------------------------------


def equations() -> Iterator[Equation]:
    """Yield the equations of the specification."""
    from encoder_spec import equation as spec

    for e in spec.equations().values():
        code = place(e.function)
        yield Equation(e.id, e.slot, e.variant, e.title, e.source, e.latex, e.parameters, e.notes, code)


def requirements() -> Iterator[Requirement]:
    """Yield the requirements of the specification."""
    from encoder_spec import equation as spec

    for r in spec.requirements().values():
        yield Requirement(r.id, r.equation, r.statement, r.algebraic)


def checks() -> Iterator[Check]:
    """Yield the checks of the suite."""
    from conformance_tests.harness.checks import registry

    for check in registry().checks.values():
        yield Check(check.name, str(check.level), check.requirements, place(check.function))


def deviations() -> Iterator[Deviation]:
    """Yield the catalogue of deviations."""
    from conformance_tests import deviations as defects
    from encoder_spec import equation as spec

    for d in defects.deviations().values():
        replaces = {name: place(e.function) if isinstance(e, spec.Equation) else e for name, e in d.replaces.items()}
        yield Deviation(d.id, d.slot, d.definition, d.of, d.noticed_by, replaces, d.evidence)


def profiles() -> Iterator[Profile]:
    """Yield the published profiles."""
    from encoder_spec.profiles import PROFILES

    yield from map(described, PROFILES.values())


def described(profile: "Choice") -> Profile:
    """Return a profile as the lists show it."""
    return Profile(profile.name, profile.source, profile.choices(), dict(profile.sizes))


def published_costs() -> Iterator[Cost]:
    """Yield the costs of all published profiles."""
    from encoder_spec.profiles import PROFILES

    for profile in PROFILES.values():
        yield from costs_of(profile)


def costs_of(profile: "Choice") -> Iterator[Cost]:
    """Yield what a profile costs."""
    from encoder_spec.cost import report
    from encoder_spec.dimensions import Dimensions

    rows = zip(report(profile, Dimensions(d_k=1, d_v=1), n=1), report(profile, Dimensions(), n=1), strict=True)
    for general, customary in rows:
        yield Cost(profile.name, general.quantity, general.part, general.text, customary.text)


def place(function: Callable[..., Any]) -> str:
    """Return the place of a function, much as pytest writes it: ``encoder_spec/attention.py::scores``.

    One that another function defines has its name before it.
    """
    import inspect

    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).relative_to(ROOT).as_posix()}::{code.co_qualname.replace('.<locals>', '')}"


DERIVED: Mapping[type[Any], Callable[[], Iterable[Any]]] = {
    Equation: equations,
    Requirement: requirements,
    Check: checks,
    Deviation: deviations,
    Profile: profiles,
    Cost: published_costs,
}


def text() -> str:
    """Return what the file must hold: one line for each entry, so that a change can be read."""
    parts = [f'"sources": "{fingerprint.hash_of(SOURCES, str.splitlines)}"']
    for kind, derive in DERIVED.items():
        lines = ",\n ".join(json.dumps(asdict(entry), ensure_ascii=False) for entry in derive())
        parts.append(f'"{kind.__name__}": [\n {lines}\n]')
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    """Put the catalogue on file."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
