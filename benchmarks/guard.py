"""Fail where a ratio grew by more than a third against the version on file, side by side: ``make bench-guard``.

Only what takes seconds is measured. Where a ratio seems to have grown, what belongs to it is measured again before it
counts. The exit status is 0 if none grew, 1 if one did, and 2 if one version cannot be measured. Where there is no
history, as in a shallow clone, nothing is compared, and that is said.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks import history
from benchmarks.catalogue import FIGURES, chosen
from benchmarks.figures import GROWTH, Change, Figure, changes
from benchmarks.measuring import (
    QUICK,
    ROOT,
    SUITE,
    NotMeasuredError,
    Process,
    Samples,
    Version,
    compile_once,
    exported,
    rounds,
)

ROUNDS, AGAIN = 3, 5
"""The number of rounds for everything, and of further ones where a ratio seems to have grown."""

ON_FILE, NOW = "on file", "now"

Measured = Callable[[Mapping[str, Process], int], Mapping[str, Samples]]


def compared(measure: Measured, processes: Mapping[str, Process], figures: Sequence[Figure]) -> list[Change]:
    """Measure both versions in turns, and measure anew what seems to have grown.

    Args:
        measure: takes processes and a number of rounds, and returns the samples ``on file`` and ``now``.
        processes: what may be measured, by name.
        figures: the ratios that are compared.
    """
    first = measure(processes, ROUNDS)
    found = {change.name: change for change in changes(figures, first[ON_FILE], first[NOW])}
    suspected = [figure for figure in figures if figure.name in found and found[figure.name].too_large]
    if suspected:
        names = {quantity.process for figure in suspected for quantity in figure.quantities()}
        again = measure({name: process for name, process in processes.items() if name in names}, AGAIN)
        found |= {change.name: change for change in changes(suspected, again[ON_FILE], again[NOW])}
    return list(found.values())


def told(found: Iterable[Change]) -> str:
    """Return the comparison as lines of text, and mark what grew too much."""
    lines = [f"{'':40}{'on file':>9}{'now':>9}{'change':>9}"]
    for change in found:
        mark = f"  more than {GROWTH - 1:.0%} larger" if change.too_large else ""
        lines.append(f"{change.name:40}{change.before:9.3f}{change.now:9.3f}{change.growth - 1:+9.0%}{mark}")
    return "\n".join(lines)


def unchanged(commit: str) -> bool:
    """Return whether this working tree holds the same suite as a commit, its tests left out."""
    paths = (*SUITE, ":(exclude)conformance_tests/meta_tests")
    new = history.git("status", "--porcelain", "--untracked-files=all", "--", *paths)
    return not new and not history.git("diff", "--name-only", commit, "--", *paths)


def main() -> int:
    """Compare this version with the one on file, and return the exit status."""
    try:
        commit = history.commit_on_file()
    except LookupError as problem:
        print(f"Not compared: {problem}", file=sys.stderr)
        return 0
    if unchanged(commit):
        print(f"The suite is that of commit {commit}, which is on file: there is nothing to compare.")
        return 0
    processes = chosen(QUICK)
    figures = [figure for figure in FIGURES if all(quantity.process in processes for quantity in figure.quantities())]
    try:
        with exported(commit) as folder:
            versions = [Version(ON_FILE, folder), Version(NOW, ROOT)]
            for version in versions:
                compile_once(version)
            print(f"Compared with commit {commit}, which is on file; this takes two minutes.", flush=True)
            found = compared(lambda some, number: rounds(some, versions, number), processes, figures)
    except NotMeasuredError as problem:
        print(problem, file=sys.stderr)
        return 2
    print(told(found))
    grown = [change for change in found if change.too_large]
    if grown:
        names = ", ".join(change.name for change in grown)
        print(f"Grew by more than a third: {names}. If it must be so, run `make bench` and commit {history.FILE.name}.")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
