"""Hundreds of targets in one run leave nothing behind: a small leak in each would add up."""

import gc
import os
from ctypes import CDLL
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, sleep

import pytest

from conformance_tests.harness.question import Question
from conformance_tests.isolation.forking import AVAILABLE, ForkServer
from conformance_tests.isolation.supervisor import Limits, Workers

PLACE = "conformance_tests.meta_tests.encoders.harmful:"
KINDS = {
    "Harmful": "undetermined",
    "RaisesInInit": "error",
    "LeavesChild": "undetermined",
    "ExitsInInit": "error",
    "ChangesSettings": "undetermined",
    "EndsProcessInInit": "error",
    "LeavesThread": "undetermined",
    "LeavesFiles": "undetermined",
    "Forks": "undetermined",
    "PrintsMegabytes": "undetermined",
}
"""Encoders whose variant alone is asked for, and their verdicts: where no requirement is decided, that is open."""

TARGETS, WARM = 200, 40
"""Number of targets in all, and of those before memory is first measured: modules are imported once, by the first."""

ROOM = 8 * 2**20
"""Bytes by which memory may grow: a report takes some thousand, and an encoder that stayed a hundred times more."""

PATIENCE = 600.0
"""Seconds for every step of a target: one that forks takes long where other tests keep the cores busy."""


def memory(process: int) -> int:
    """Bytes of memory that a process uses, which it may share with those that it has forked."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def give_back() -> None:
    """Give memory back that is free in this process: one that has run thousands of tests holds much of it."""
    gc.collect()
    CDLL(None).malloc_trim(0)


def opened_by(process: int) -> int:
    """The number of files that a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def children(process: int) -> list[int]:
    """The processes that this one has started, and that are there still."""
    return [int(n) for file in Path(f"/proc/{process}/task").glob("*/children") for n in file.read_text().split()]


@pytest.mark.thorough
@pytest.mark.skipif(not AVAILABLE, reason="needs /proc")
def test_hundreds_of_targets_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither memory nor open files nor processes, here and in the process that forks them, nor any file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # Where torch's compiler is asked for a setting, it makes this folder, and leaves it.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path.with_name(f"{tmp_path.name}-compiled")))
    monkeypatch.chdir(tmp_path)
    question = Question(variant_alone=True)
    with Workers(Limits(PATIENCE, memory=1.0)) as workers:
        workers.judge([f"{PLACE}{kind}" for kind in islice(cycle(KINDS), WARM)], question)
        server = ForkServer.running()._process.pid
        give_back()
        before = [(memory(p), opened_by(p)) for p in (os.getpid(), server)]
        kinds = list(islice(cycle(KINDS), TARGETS - WARM))
        report = workers.judge([f"{PLACE}{kind}" for kind in kinds], question).report
        give_back()
        after = [(memory(p), opened_by(p)) for p in (os.getpid(), server)]
    unexpected = [
        (place, kind, target.verdict, target.notes)
        for place, (kind, target) in enumerate(zip(kinds, report.targets, strict=True))
        if target.verdict != KINDS[kind]
    ]
    assert unexpected == []
    assert ForkServer.running()._process.pid == server
    soon = monotonic() + 10  # the last worker may still be ending
    while children(server) and monotonic() < soon:
        sleep(0.1)
    assert children(server) == []
    for (held, opened), (held_then, opened_then) in zip(after, before, strict=True):
        assert held - held_then < ROOM
        assert opened <= opened_then
    assert list(tmp_path.iterdir()) == []
