"""The report, for people and for programs (JSON, schema 1)."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Self

from encoder_spec import SPEC_VERSION, __version__
from encoder_spec.notation import SpecificationError

OUTCOMES = ("pass", "fail", "xfail", "xpass", "unsupported", "blocked", "error")


class Level(IntEnum):
    """The strength of a check's evidence, from weakest to strongest."""

    STATIC = 0
    BLACK_BOX = 1
    AGREEMENT = 2
    TRACE = 3
    GRADIENT = 4

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    @classmethod
    def named(cls, name: str) -> "Level":
        """Return the level that reports and the command line call ``name``.

        Raises:
            SpecificationError: if there is none.
        """
        known = {str(level): level for level in cls}
        if name not in known:
            raise SpecificationError(f"there is no level {name!r}: choose among {', '.join(known)}")
        return known[name]


@dataclass(frozen=True)
class Result:
    """The outcome of one requirement for one subject."""

    id: str
    equation: str
    test: str
    level: str
    outcome: str
    message: str = ""
    error: float | None = None
    budget: float | None = None
    repro: str = ""
    smallest: list[int] | None = None
    """The shape of the smallest input whose output is wrong, where this is a failure and outputs are wrong."""
    reason: str = ""
    """The reason why it was expected to fail, if it was."""
    link: str = ""
    """The address with more about an expected failure."""

    @property
    def page(self) -> str:
        """The place in the site that explains the requirement."""
        return f"{self.equation.partition('.')[0]}.html#{self.id}"

    @property
    def passes(self) -> bool:
        """True if the encoder meets it, whatever was expected."""
        return self.outcome in ("pass", "xpass")

    @property
    def counts_against(self) -> bool:
        """True if an encoder with this result is not conformant."""
        return self.outcome in ("fail", "xpass", "error")


def verdict_of(results: Iterable[Result], asked: Level) -> tuple[str, str]:
    """Return the level that these results reach, and the verdict on an encoder that could be judged."""
    results = list(results)
    reached = max((Level.named(r.level) for r in results if r.outcome == "pass"), default=Level.STATIC)
    if any(r.counts_against for r in results):
        return str(reached), "nonconformant"
    enough = reached >= min(Level.AGREEMENT, asked)
    return str(reached), "conformant" if enough else "undetermined"


@dataclass
class TargetReport:
    """Everything found about one target."""

    target: str
    verdict: str = "error"
    level: str = "static"
    profile: dict[str, Any] = field(default_factory=dict)
    requirements: list[Result] = field(default_factory=list)
    diagnosis: list[dict[str, Any]] = field(default_factory=list)
    departs_at: str | None = None
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dtype: str = "float64"
    """The precision in which it was judged."""
    extent: dict[str, list[Any]] = field(default_factory=dict)
    """How far it was looked at: the lengths, sizes of batches, precisions, modes and weights of the calls answered."""
    explained: bool = True
    """False if something is wrong that the catalogue of deviations was not searched for, or that no output shows."""

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Return the report whose parts ``asdict`` gave."""
        return cls(**data | {"requirements": [Result(**r) for r in data["requirements"]]})

    def counts(self) -> Counter[str]:
        """Count the requirements with each outcome."""
        return Counter(r.outcome for r in self.requirements)

    @property
    def smallest(self) -> list[int] | None:
        """The shape of the smallest input whose output is wrong, if one is."""
        return next((r.smallest for r in self.requirements if r.smallest), None)

    def of(self, outcome: str) -> list[Result]:
        """Return the requirements with this outcome."""
        return [r for r in self.requirements if r.outcome == outcome]


MOST_TARGETS = 5
"""So many targets are named in a report's short form."""


@dataclass(repr=False)
class Report:
    """The report of a run over one or more targets."""

    seed: int
    targets: list[TargetReport] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst verdict of all targets."""
        order = ("error", "nonconformant", "undetermined", "conformant")
        return min((t.verdict for t in self.targets), key=order.index, default="error")

    @property
    def requirements(self) -> list[Result]:
        """Every result, target by target."""
        return [r for t in self.targets for r in t.requirements]

    @property
    def diagnosis(self) -> list[dict[str, Any]]:
        """Every diagnosis, target by target."""
        return [d for t in self.targets for d in t.diagnosis]

    def __repr__(self) -> str:
        """Return the verdicts in one line."""
        verdicts = ", ".join(f"{t.target} {t.verdict}" for t in self.targets[:MOST_TARGETS])
        more = ", …" if len(self.targets) > MOST_TARGETS else ""
        return f"<Report: {verdicts}{more}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "schema": 1,
            "spec_version": SPEC_VERSION,
            "suite_version": __version__,
            "seed": self.seed,
            "targets": [
                asdict(t) | {"requirements": [asdict(r) | {"page": r.page} for r in t.requirements]}
                for t in self.targets
            ],
        }

    def to_json(self) -> str:
        """Return the report as JSON; numbers that JSON cannot write (infinity, NaN) become null."""
        return json.dumps(finite(self.to_dict()), indent=1, ensure_ascii=False)


def finite(value: Any) -> Any:
    """Replace every number that is not finite by None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, float) and not (abs(value) < float("inf")):
        return None
    return value
