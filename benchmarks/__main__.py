"""Measure the ratios side by side, print them with their targets, and put them on file: ``make bench``.

``make bench ARGS=--large`` measures everything, which takes an hour and 16 GB of memory or more.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks import history
from benchmarks.catalogue import COUNTED, FIGURES, chosen, script
from benchmarks.figures import not_measured, ratios, table
from benchmarks.measuring import (
    LARGE,
    QUICK,
    ROOT,
    USUAL,
    NotMeasuredError,
    Version,
    compile_once,
    exported,
    measured,
    rounds,
)

SAMPLES = Path(__file__).with_name("samples.json")


def say(text: str) -> None:
    """Print what begins, on the channel that no result is printed on."""
    print(text, file=sys.stderr, flush=True)


def counted(version: Version) -> dict[str, dict[str, float]]:
    """Return what judging each encoder takes in passes, evaluations, draws and casts."""
    found = {}
    for encoder in COUNTED:
        say(f"counts: {encoder}, {version.name}")
        try:
            taken = measured(script("counts", encoder), version)
        except NotMeasuredError as reason:
            say(f"not counted: {reason}")
        else:
            found[encoder] = {what: number for what, number in taken.items() if " " in what}
    return found


def main() -> None:
    """Measure, print and put on file."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="measure only what takes seconds")
    asked.add_argument("--large", action="store_true", help="measure large encoders too")
    asked.add_argument("--only", default="", help="measure only ratios whose name contains this; puts nothing on file")
    asked.add_argument("--rounds", type=int, help="how often each process runs, in the place of 5, 3 or 2")
    asked.add_argument("--against", metavar="COMMIT", help="measure another version too, in turns with this one")
    options = asked.parse_args()

    figures = [figure for figure in FIGURES if options.only in figure.name]
    wanted = {quantity.process for figure in figures for quantity in figure.quantities()}
    effort = LARGE if options.large else QUICK if options.quick else USUAL
    processes = {name: process for name, process in chosen(effort).items() if name in wanted}
    with ExitStack() as stack:
        versions = [Version("this version", ROOT, history.commit_of())]
        if options.against:
            commit = history.commit_of(options.against)
            versions.insert(0, Version(f"commit {commit}", stack.enter_context(exported(commit)), commit))
        for version in versions:
            compile_once(version)
        samples = rounds(processes, versions, options.rounds, say=say)
        counts = {version.name: {} if options.only else counted(version) for version in versions}

    on_file = history.entries()
    before = history.ratios_of(on_file[-1]) if on_file else {}
    for version in versions:
        found = ratios(figures, samples[version.name])
        missing = not_measured(figures, samples[version.name])
        print(f"\n{version.name} ({version.commit})\n{table(found, before)}")
        for name, reason in missing.items():
            print(f"not measured: {name}: {reason}")
        for encoder, numbers in counts[version.name].items():
            print(f"counts of {encoder}: " + ", ".join(f"{number:g} {what}" for what, number in numbers.items()))
        before = found
        if not options.only:
            history.put(history.entry(version.commit, found, counts[version.name], missing))
    if not options.only:
        samples[versions[-1].name].suite().dump(str(SAMPLES), replace=True)


if __name__ == "__main__":
    main()
