"""Ratios of what processes took: the median of the rounds, and the least and greatest of them.

A round divides one sample by another that was taken moments later, so that a busy machine slows both. Processor time is
divided, which others on the machine change least; the ratio of the time on the clock is kept beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.measuring import CPU, WALL, Samples

GROWTH = 4 / 3
"""A ratio may become so many times as large as on file."""


@dataclass(frozen=True)
class Quantity:
    """A quantity of a process: ``cpu``, ``wall``, ``peak``, or a number that it prints."""

    process: str
    what: str

    def on_the_clock(self) -> "Quantity":
        """Return the time on the clock in the place of processor time."""
        return Quantity(self.process, WALL) if self.what == CPU else self


@dataclass(frozen=True)
class Figure:
    """A ratio: (work − less) / (per · times).

    Attributes:
        name: what is divided by what.
        work: what is measured.
        per: what it is divided by; a number divides as it is.
        less: what is taken off first.
        times: how many times ``work`` holds what is asked for.
        target: what the ratio should not exceed; None where nobody set one.
        kind: ``ratio``, or ``incumbent`` for what others use.
        curve: the curve that the ratio is a point of.
        x: where on the curve.
    """

    name: str
    work: Quantity
    per: Quantity | float
    less: Quantity | float = 0.0
    times: float = 1
    target: float | None = None
    kind: str = "ratio"
    curve: str = ""
    x: float = 0

    def quantities(self) -> list[Quantity]:
        """Return what has to be measured for it."""
        return [q for q in (self.work, self.per, self.less) if isinstance(q, Quantity)]

    def values(self, samples: Samples) -> list[float]:
        """Return the ratio in each round in which everything was measured; none if something is missing."""
        taken = [samples.values.get((q.process, q.what), []) for q in self.quantities()]
        found = []
        for turn in range(min(map(len, taken))):
            work, per, less = (
                samples.values[q.process, q.what][turn] if isinstance(q, Quantity) else q
                for q in (self.work, self.per, self.less)
            )
            found.append((work - less) / (per * self.times))
        return found

    def on_the_clock(self) -> "Figure":
        """Return the same ratio of the time on the clock."""
        per, less = (q.on_the_clock() if isinstance(q, Quantity) else q for q in (self.per, self.less))
        return replace(self, work=self.work.on_the_clock(), per=per, less=less)


@dataclass(frozen=True)
class Ratio:
    """A figure as it was measured: median, least and greatest of the rounds, the same on the clock, and its target."""

    ratio: float
    low: float
    high: float
    wall: float | None = None
    target: float | None = None
    kind: str = "ratio"
    curve: str = ""
    x: float = 0


def ratios(figures: Iterable[Figure], samples: Samples) -> dict[str, Ratio]:
    """Return the figures that were measured, by name."""
    found = {}
    for figure in figures:
        if values := figure.values(samples):
            clock = figure.on_the_clock()
            wall = median(clock.values(samples)) if clock != figure else None
            found[figure.name] = Ratio(
                median(values), min(values), max(values), wall, figure.target, figure.kind, figure.curve, figure.x
            )
    return found


def not_measured(figures: Iterable[Figure], samples: Samples) -> dict[str, str]:
    """Return why figures are missing, by name: the reason of the first process that did not do its work."""
    return {
        figure.name: samples.missing[quantity.process]
        for figure in figures
        for quantity in reversed(figure.quantities())
        if quantity.process in samples.missing
    }


@dataclass(frozen=True)
class Change:
    """A ratio as it is on file and as it is now, measured side by side."""

    name: str
    before: float
    now: float

    @property
    def growth(self) -> float:
        """The factor by which it has grown."""
        return self.now / self.before

    @property
    def too_large(self) -> bool:
        """True if it grew by more than a third."""
        return self.growth > GROWTH


def changes(figures: Iterable[Figure], before: Samples, now: Samples) -> list[Change]:
    """Compare the ratios that both versions have.

    A figure that takes something off is left out: the spread of what is left is larger than itself.
    """
    whole = [figure for figure in figures if not figure.less]
    then, since = (ratios(whole, samples) for samples in (before, now))
    return [Change(name, then[name].ratio, since[name].ratio) for name in since if name in then]


def table(found: Mapping[str, Ratio], before: Mapping[str, Ratio]) -> str:
    """Return the ratios as lines of text: median, spread, time on the clock, target, and what it was."""
    lines = [f"{'':54}{'ratio':>9}{'spread':>16}{'clock':>8}{'target':>8}{'was':>9}"]
    for name, one in found.items():
        spread = f"{one.low:.2f}–{one.high:.2f}"
        wall = "" if one.wall is None else f"{one.wall:.2f}"
        target = "" if one.target is None else f"{one.target:.2f}"
        was = f"{before[name].ratio:.2f}" if name in before else ""
        missed = "  missed" if one.target is not None and one.ratio > one.target else ""
        lines.append(f"{name:54}{one.ratio:9.2f}{spread:>16}{wall:>8}{target:>8}{was:>9}{missed}")
    return "\n".join(lines)
