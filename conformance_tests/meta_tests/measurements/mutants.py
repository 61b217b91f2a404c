"""Mutation testing of the specification's own code: ``make mutants``.

Every function of a topic and of the assembly is changed in one place at a time, and the tests of
that topic are run against each change. One that no test notices is either proven equivalent, in
``equivalent``, or shows that a test is missing. ``mutants.json`` keeps the outcome.
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from _pytest.runner import runtestprotocol

from conformance_tests.meta_tests.measurements.equivalent import EQUIVALENT
from conformance_tests.meta_tests.measurements.mutation import MUTATED, Mutant, all_mutants, source
from conformance_tests.quality.fingerprint import code_of
from encoder_spec.equation import TOPICS, equations

FILE = Path(__file__).with_name("mutants.json")
TESTS = Path(__file__).parents[1] / "spec"

GENERAL = ("oracles", "assembly", "walk", "encoder", "softmax_edges", "steps")
"""Tests of several topics: those that take seconds. Judging whole encoders by the suite takes minutes."""

NEAR = {"assembly": ("test_walk",)}
"""Tests of a module beside those that have its name."""

LIMIT = 120
"""Seconds after which a test that a mutant keeps busy counts as one that notices it."""

SURVIVED = "nothing"
TIMED_OUT = "the time limit"
CRASHED = "a crash"


@dataclass(frozen=True)
class Row:
    """What became of one mutant.

    Attributes:
        function: module and name of what is changed.
        operator: what kind of change it is.
        line: the statement as it is.
        becomes: the statement as changed.
        killed_by: the first test that fails.
    """

    function: str
    operator: str
    line: str
    becomes: str
    killed_by: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells the mutant from every other."""
        return self.function, self.line, self.becomes


class Hunt:
    """A pytest plugin that runs the collected tests against one mutant after the other.

    Each mutant has a process of its own, a copy of this one in which every test is already
    collected: what a mutant spoils, hangs or kills is gone with that process.

    Attributes:
        limit: seconds after which a test that a mutant keeps busy counts as one that notices it.
    """

    limit = LIMIT

    def __init__(self, mutants: Sequence[Mutant], first: dict[tuple[str, str, str], str]) -> None:
        self.mutants = mutants
        self.first = first
        self.rows: list[Row] = []
        self.wrong = SURVIVED

    def pytest_collection_finish(self) -> None:
        """A copy of a process has its first thread alone; what every copy would load anew is loaded before."""
        torch.set_num_threads(1)
        torch.testing.assert_close(0.0, 0.0)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests without any mutant, which all must pass, and then against each."""
        used = {item for mutant in self.mutants for item in self.ordered(mutant, session.items)}
        self.wrong = noticed_by(None, [item for item in session.items if item in used])
        if self.wrong != SURVIVED:
            return True
        for done, mutant in enumerate(self.mutants, start=1):
            by = noticed_by(mutant, self.ordered(mutant, session.items), self.limit)
            self.rows.append(Row(mutant.function, mutant.operator, mutant.line, mutant.becomes, by))
            print(f"{done} of {len(self.mutants)}", end="\r", flush=True)
            if by == SURVIVED:
                print(f"{mutant.function}: {mutant.becomes}", flush=True)
        return True

    def ordered(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """What noticed it last time, then the tests of its topic, those of its equations, and the general ones."""
        named = tuple(f"[{e.id}]" for e in equations().values() if e.topic == mutant.module)

        def distance(item: pytest.Item) -> int:
            if item.nodeid == self.first.get(mutant.key):
                return 0
            if item.path.stem in (f"test_{mutant.module}", *NEAR.get(mutant.module, ())):
                return 1
            if item.path.stem == "test_oracles":
                return 2 if item.name.endswith(named) else 4
            return 3

        # Comparing whole encoders and other equations with their oracles takes time, and finds nothing more.
        return sorted((item for item in items if distance(item) < 4), key=distance)


def noticed_by(mutant: Mutant | None, items: Sequence[pytest.Item], limit: int = 0) -> str:
    """The first of these tests that fails with a mutant, or with none, in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever happens here, this copy must not run on as if it were the whole.
        try:
            answer_with(mutant, items, writing, limit)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer:
        return answer
    if os.WIFSIGNALED(status):
        return TIMED_OUT if os.WTERMSIG(status) == signal.SIGALRM else CRASHED
    raise RuntimeError(f"the copy of this process for {mutant} gave no answer")


def answer_with(mutant: Mutant | None, items: Sequence[pytest.Item], writing: int, limit: int) -> None:
    """Plant a mutant, run the tests, and write down which one fails."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    with mutant.planted() if mutant else nullcontext():
        os.write(writing, first_failing(items, limit).encode())


def first_failing(items: Sequence[pytest.Item], limit: int) -> str:
    """Run these tests up to the first one that fails, and name it; one that takes longer ends this process."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        signal.alarm(limit)
        if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
            return item.nodeid
    return SURVIVED


def hunted(mutants: Sequence[Mutant], files: Iterable[Path | str], known: Iterable[Row] = ()) -> list[Row]:
    """What becomes of mutants of the specification when the tests in these files are run against them.

    Args:
        mutants: what is hunted.
        files: the tests, or files of them.
        known: what was found before: what noticed a mutant then is tried first.

    Raises:
        RuntimeError: if the tests cannot be run, or fail without any mutant.
    """
    return caught(Hunt(mutants, {row.key: row.killed_by for row in known}), files)


def caught(hunt: Hunt, arguments: Iterable[Path | str]) -> list[Row]:
    """What a hunt finds, with the tests that pytest collects for these arguments.

    Raises:
        RuntimeError: if the tests cannot be run, or fail without any mutant.
    """
    # This package is imported before pytest starts, which would have liked to rewrite its assertions.
    quiet = ["-qq", "-p", "no:cacheprovider", "--capture=no", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*quiet, *map(str, arguments)], plugins=[hunt])
    if hunt.wrong != SURVIVED:
        raise RuntimeError(f"without any mutant, {hunt.wrong} fails")
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"the tests could not be run: pytest gave {status}")
    return hunt.rows


def files_of_tests() -> list[Path]:
    """The tests that are run: those of every topic, and the general ones."""
    return [TESTS / f"test_{name}.py" for name in dict.fromkeys((*TOPICS, *GENERAL))]


# On file -------------------------------------------------------------------------------


def fingerprints() -> dict[str, str]:
    """A hash of the code of every module that is mutated."""
    return {m: sha256("\n".join(code_of(source(m))).encode()).hexdigest()[:16] for m in MUTATED}


def write(sources: dict[str, str], rows: Iterable[Row]) -> None:
    """Put the outcome on file with what it was computed from, one line for each mutant."""
    lines = ",\n ".join(json.dumps(asdict(row), ensure_ascii=False) for row in rows)
    FILE.write_text(f'{{"sources": {json.dumps(sources)}, "rows": [\n {lines}\n]}}\n', encoding="utf-8")


def on_file() -> tuple[dict[str, str], list[Row]]:
    """What was found last, and of which code."""
    if not FILE.exists():
        return {}, []
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return entries["sources"], [Row(**entry) for entry in entries["rows"]]


def faults(rows: Sequence[Row]) -> Iterator[str]:
    """What shows that a test is missing, or that what is said to be equivalent is not."""
    survived = {(row.function, row.becomes) for row in rows if row.killed_by == SURVIVED}
    for row in rows:
        if row.killed_by == SURVIVED and (row.function, row.becomes) not in EQUIVALENT:
            yield f"{row.function}: nothing notices that {row.line!r} became {row.becomes!r}"
    for function, becomes in EQUIVALENT:
        if (function, becomes) not in survived:
            yield f"{function}: that something became {becomes!r} is said to be equivalent, but no such mutant survives"


def main() -> None:
    """Hunt every mutant, or those of the modules named, and put the outcome on file.

    The exit status says whether one survived that is not proven equivalent.
    """
    everything, chosen = all_mutants(), sys.argv[1:] or MUTATED
    sources, known = on_file()
    wanted = [m for m in everything if m.module in chosen]
    rows = {row.key: row for row in [*known, *hunted(wanted, files_of_tests(), known)]}
    found = [rows[m.key] for m in everything if m.key in rows]
    write(sources | {module: hash for module, hash in fingerprints().items() if module in chosen}, found)
    survivors = [row for row in found if row.killed_by == SURVIVED]
    told = list(faults(found))
    print(f"{len(found)} mutants: {len(found) - len(survivors)} noticed, {len(survivors)} not")
    print(*told, sep="\n", end="\n" if told else "")
    sys.exit(bool(told))


if __name__ == "__main__":
    main()
