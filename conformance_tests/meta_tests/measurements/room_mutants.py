"""Mutation testing of the rooms of the suite, on a sample: ``make room-mutants``.

Functions of a room are changed in one place at a time, and the tests of that room are run against each
change: those that ``make test`` runs, without the thorough ones. ``room_mutants.json`` keeps the outcome.
A share of each sample survives: some mutants compute the same, some change but a message, and what runs
while tests are collected, such as a decorator that registers, has run before the mutant is planted.
On a busy machine the time limit counts for less: run it where a processor is free.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random

import pytest

import conformance_tests
from conformance_tests.meta_tests.measurements.mutants import SURVIVED, Hunt, Row, caught
from conformance_tests.meta_tests.measurements.mutation import Mutant, mutants, source

FILE = Path(__file__).with_name("room_mutants.json")
SUITE = Path(conformance_tests.__path__[0])
TESTS = Path(__file__).parents[1]

ROOMS = (
    "numerics",
    "reports",
    "deviations",
    "targets",
    "subjects",
    "harness",
    "diagnosis",
    "engine",
    "isolation",
    "frontends",
)
"""The rooms from which samples are drawn."""

ONLY = {"deviations": ("__init__", "resolution"), "frontends": ("command_line", "listing", "scaffold")}
"""Of these rooms a few modules alone: deviations are wrong on purpose, and the kill matrix runs each of them."""

LEFT_OUT = {"subjects": ("onnx", "paddle"), "harness": ("changed_inputs", "intermediates", "wiring")}
"""Modules that no fast test can run: they need a framework, or the graph of a whole encoder."""

SIZE = 25
"""Mutants in the sample of a room."""

Outcome = Mapping[str, Sequence[Row]]
"""What became of the mutants in the sample of each room."""


class RoomHunt(Hunt):
    """A hunt with all the tests of a room: first what noticed a mutant last time, then those of its module."""

    limit = 60

    def ordered(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Every test, in the order in which it is likely to notice the mutant."""
        named = f"test_{mutant.module.rpartition('.')[2]}"
        return sorted(
            items, key=lambda item: (item.nodeid != self.first.get(mutant.key), not item.path.stem.startswith(named))
        )


def modules_of(room: str) -> list[str]:
    """The modules of a room that are mutated, as they are named in the suite: ``numerics.compare``."""
    stems = [file.stem for file in sorted((SUITE / room).glob("*.py"))]
    chosen = [stem for stem in ONLY.get(room, stems) if stem not in LEFT_OUT.get(room, ())]
    return [room if stem == "__init__" else f"{room}.{stem}" for stem in chosen]


@cache
def mutants_of(room: str) -> list[Mutant]:
    """Every mutant of a room, in the order of its modules."""
    package = conformance_tests.__name__
    return [mutant for module in modules_of(room) for mutant in mutants(module, source(module, package), package)]


def sample(room: str, size: int = SIZE) -> list[Mutant]:
    """Mutants of a room drawn at random, the same ones each time. A smaller sample is the beginning of a larger one."""
    everything = mutants_of(room)
    return Random(room).sample(everything, len(everything))[:size]


def hunted(room: str, chosen: Sequence[Mutant], known: Iterable[Row] = ()) -> list[Row]:
    """What becomes of mutants of a room when its fast tests are run against them.

    Raises:
        RuntimeError: if the tests cannot be run, or fail without any mutant.
    """
    hunt = RoomHunt(chosen, {row.key: row.killed_by for row in known})
    return caught(hunt, [TESTS / room, "-m", "not thorough"])


def share(rows: Sequence[Row]) -> float:
    """The part of mutants that a test notices, to three digits."""
    return round(sum(row.killed_by != SURVIVED for row in rows) / len(rows), 3)


# On file -------------------------------------------------------------------------------


def written(outcome: Outcome, least: Mapping[str, float]) -> None:
    """Put on file what became of each mutant, one line for each, and the least share that each room has to keep."""
    rows = [json.dumps({"room": room} | asdict(row), ensure_ascii=False) for room in outcome for row in outcome[room]]
    lines = ",\n ".join(rows)
    shares = json.dumps({room: share(outcome[room]) for room in outcome})
    FILE.write_text(
        f'{{"least": {json.dumps(dict(least))},\n"shares": {shares},\n"rows": [\n {lines}\n]}}\n', encoding="utf-8"
    )


def on_file() -> tuple[dict[str, float], dict[str, list[Row]]]:
    """The least share of each room, and what became of its mutants."""
    if not FILE.exists():
        return {}, {}
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    outcome: dict[str, list[Row]] = {}
    for entry in entries["rows"]:
        outcome.setdefault(entry.pop("room"), []).append(Row(**entry))
    return entries["least"], outcome


def faults(outcome: Outcome, least: Mapping[str, float]) -> list[str]:
    """The rooms whose tests notice a smaller part of the mutants than they have to."""
    return [
        f"{room}: {share(rows):.0%} of the mutants are noticed, {least[room]:.0%} were before"
        for room, rows in outcome.items()
        if room in least and share(rows) < least[room]
    ]


def main() -> None:
    """Hunt a sample of each room, or of the rooms named, and put the outcome on file. A number is the sample's size.

    The exit status says whether a room falls below the share that it has on file. A higher share is the new least.
    """
    size = next((int(word) for word in sys.argv[1:] if word.isdigit()), SIZE)
    rooms = [word for word in sys.argv[1:] if not word.isdigit()] or ROOMS
    least, outcome = on_file()
    for room in rooms:
        outcome[room] = hunted(room, sample(room, size), outcome.get(room, ()))
        noticed = sum(row.killed_by != SURVIVED for row in outcome[room])
        print(f"{room}: {noticed} of {len(outcome[room])} noticed, of {len(mutants_of(room))} mutants", flush=True)
        outcome = {room: outcome[room] for room in ROOMS if room in outcome}
        least = {room: max(share(rows), least.get(room, 0.0)) for room, rows in outcome.items()}
        written(outcome, least)
    told = faults(outcome, least)
    print(*told, sep="\n", end="\n" if told else "")
    sys.exit(bool(told))


if __name__ == "__main__":
    main()
