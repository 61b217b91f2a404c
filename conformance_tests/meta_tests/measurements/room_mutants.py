"""Mutation testing of the rooms of the suite, on a sample: ``make room-mutants``.

Functions of a room are changed in one place at a time, and the tests of that room are run against each
change: those that ``make test`` runs, without the thorough ones. ``room_mutants.json`` keeps the outcome.
What survives is in ``equivalent``, or is hunted again with the thorough tests of the room and some tests that judge
whole encoders. What these notice a fast test has to notice too, but in the modules ``LEFT_TO_THE_FULL_TIER``.
On a busy machine the time limit counts for less: run it where a processor is free.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import conformance_tests
from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.judgements import Judgements
from conformance_tests.meta_tests.measurements.equivalent import EQUIVALENT_IN_ROOMS
from conformance_tests.meta_tests.measurements.mutants import SURVIVED, Hunt, Row, caught
from conformance_tests.meta_tests.measurements.mutation import Mutant, mutants, source
from conformance_tests.reports.report import TargetReport

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

WHOLE_ENCODERS = (
    "diagnosis/test_search.py",
    "encoders/test_lengths.py::test_an_encoder_whose_positions_end_is_judged_up_to_there",
)
"""Tests outside of a room that judge whole encoders, and so run through all rooms: those that take seconds."""

FULL_TIER = "the full tier: "
"""What stands before the test that notices a mutant which no fast test of its room notices."""

LEFT_TO_THE_FULL_TIER = ("harness.computed",)
"""Modules whose mutants may be noticed by the full tier alone: they compute with whole encoders."""

Outcome = Mapping[str, Sequence[Row]]
"""What became of the mutants in the sample of each room."""


class RoomHunt(Hunt):
    """A hunt with all the tests of a room: first what noticed a mutant last time, then those of its module."""

    limit = 60

    def pytest_collection_finish(self) -> None:
        """Judge anew where a test shares a judgement: one that is kept is that of the right code."""
        super().pytest_collection_finish()
        Judgements.__call__ = judged_anew  # type: ignore[method-assign]

    def ordered(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Every test, in the order in which it is likely to notice the mutant."""
        named = f"test_{mutant.module.rpartition('.')[2]}"
        return sorted(
            items, key=lambda item: (item.nodeid != self.first.get(mutant.key), not item.path.stem.startswith(named))
        )


def judged_anew(_: Judgements, target: Any, **question: Any) -> TargetReport:
    """Judge a target and keep nothing."""
    return check(target, **question).targets[0]


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
    """What becomes of mutants of a room when its fast tests are run against them, and of what is left in the full tier.

    Raises:
        RuntimeError: if the tests cannot be run, or fail without any mutant.
    """
    first = {row.key: row.killed_by for row in known}
    rows = caught(RoomHunt(chosen, first), [TESTS / room, "-m", "not thorough"])
    missed = {row.key for row in rows if row.killed_by == SURVIVED and key_of(row) not in EQUIVALENT_IN_ROOMS}
    if not missed:
        return rows
    hunt = RoomHunt([mutant for mutant in chosen if mutant.key in missed], first)
    full = {row.key: row for row in caught(hunt, [TESTS / room, *(TESTS / file for file in WHOLE_ENCODERS)])}
    return [in_full_tier(full[row.key]) if row.key in full else row for row in rows]


def key_of(row: Row) -> tuple[str, str]:
    """Under which a mutant is said to be equivalent."""
    return row.function, row.becomes


def in_full_tier(row: Row) -> Row:
    """The row of a mutant that no fast test of its room notices."""
    return row if row.killed_by == SURVIVED else replace(row, killed_by=FULL_TIER + row.killed_by)


def is_noticed(row: Row) -> bool:
    """Whether a fast test of its room notices a mutant."""
    return row.killed_by != SURVIVED and not row.killed_by.startswith(FULL_TIER)


def share(rows: Sequence[Row]) -> float:
    """The part of mutants that a fast test notices, to three digits."""
    return round(sum(map(is_noticed, rows)) / len(rows), 3)


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
    """What shows that a fast test is missing: rooms below their share, and what the full tier alone notices."""
    below = [
        f"{room}: {share(rows):.0%} of the mutants are noticed, {least[room]:.0%} were before"
        for room, rows in outcome.items()
        if room in least and share(rows) < least[room]
    ]
    return below + [
        f"{row.function}: no fast test notices that {row.line!r} became {row.becomes!r}; {row.killed_by} does"
        for rows in outcome.values()
        for row in rows
        if row.killed_by.startswith(FULL_TIER) and not row.function.startswith(LEFT_TO_THE_FULL_TIER)
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
        noticed = sum(map(is_noticed, outcome[room]))
        print(f"{room}: {noticed} of {len(outcome[room])} noticed, of {len(mutants_of(room))} mutants", flush=True)
        outcome = {room: outcome[room] for room in ROOMS if room in outcome}
        least = {room: max(share(rows), least.get(room, 0.0)) for room, rows in outcome.items()}
        written(outcome, least)
    told = faults(outcome, least)
    print(*told, sep="\n", end="\n" if told else "")
    sys.exit(bool(told))


if __name__ == "__main__":
    main()
