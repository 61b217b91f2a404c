"""Run processes in turns, and keep what each took: processor time, time on the clock, and peak memory.

Samples are kept in the form of pyperf, which brings facts about the machine, JSON, and commands to look closer
(``pyperf show``, ``hist``, ``compare_to``). Its own runner is not used: it finishes one command before the next
begins, so that a machine that becomes busy slows one side alone; it knows the time on the clock alone; and it takes
exit status 1, with which a failing encoder ends, for a failure of the benchmark. asv would install torch anew for
each version, and pytest-benchmark measures calls within one process.

This process stays small: to the system, the peak of a process begins with that of the one that started it.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pyperf

ROOT = Path(__file__).parents[1]
SUITE = ("encoder_spec", "conformance_tests")
HOURS = 3600.0

CPU, WALL, PEAK = "cpu", "wall", "peak"
UNITS = {CPU: "second", WALL: "second", PEAK: "byte", "parameters": "byte"}
"""Quantities that the system measures of each process, with their units; a process may print further ones."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
BYTES_PER_UNIT = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system states peak memory."""

MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""The memory of this machine in bytes."""


@dataclass(frozen=True)
class Process:
    """A process to measure.

    Attributes:
        arguments: what follows ``python``.
        effort: how long it takes, by which it is chosen: ``QUICK``, ``USUAL`` or ``LARGE``.
        of_version: whether it runs the suite, so that each version is sampled separately.
        status: the exit status with which it ends where it did its work.
        needs: a package without which it cannot run.
        space: the most bytes of address space that it may have: what needs more fails, and leaves the machine alone.
    """

    arguments: tuple[str, ...]
    effort: int
    of_version: bool = True
    status: int = 0
    needs: str = ""
    space: int = MEMORY


QUICK, USUAL, LARGE = 0, 1, 2
ROUNDS = (5, 3, 2)
"""The number of runs of a process of each effort."""


@dataclass(frozen=True)
class Version:
    """A version of the suite: its name, the folder that holds its packages, and its commit."""

    name: str
    folder: Path
    commit: str = ""


@dataclass
class Samples:
    """The samples of one version, by process and by what was measured; and why the others are missing."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, process: str, measured: Mapping[str, float]) -> None:
        """Add what one run measured."""
        for what, value in measured.items():
            self.values.setdefault((process, what), []).append(value)

    def suite(self) -> pyperf.BenchmarkSuite:
        """Return the samples as pyperf keeps them, each under ``process · what``."""
        machine = pyperf.Run([1.0]).get_metadata()
        kept = {name: machine[name] for name in ("cpu_model_name", "cpu_count", "platform") if name in machine}
        return pyperf.BenchmarkSuite(
            [
                pyperf.Benchmark(
                    [
                        pyperf.Run(
                            [value],
                            metadata=kept | {"name": f"{process} · {what}", "unit": UNITS.get(what, "second")},
                            collect_metadata=False,
                        )
                        for value in values
                    ]
                )
                for (process, what), values in self.values.items()
            ]
        )


class NotMeasuredError(Exception):
    """A process did not do its work; the message says why in one line."""


def measured(process: Process, version: Version, limit: float = HOURS) -> dict[str, float]:
    """Run a process, and return what it took and what it printed as JSON on its last line.

    Args:
        process: what runs.
        version: whose suite it imports.
        limit: seconds after which it is ended.

    Raises:
        NotMeasuredError: if it ends with another status than the one it should end with.
    """
    if process.needs and find_spec(process.needs) is None:
        raise NotMeasuredError(f"{process.needs} is not installed")
    paths = os.pathsep.join(map(str, (version.folder, ROOT)))
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as problems:
        command = [sys.executable, *process.arguments]
        begun = time.perf_counter()
        child = subprocess.Popen(
            command,
            stdout=output,
            stderr=problems,
            env=environment,
            cwd=tempfile.gettempdir(),
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (process.space, process.space)),
        )
        watch = threading.Timer(limit, os.killpg, (child.pid, signal.SIGKILL))
        watch.start()
        try:
            # Of processes that this one starts in turn, the system adds those for which it waited.
            _, status, usage = os.wait4(child.pid, 0)
        finally:
            watch.cancel()
        wall = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        said, complaints = (lines(file) for file in (output, problems))
    if child.returncode != process.status:
        last = (complaints or said or ["nothing printed"])[-1]
        raise NotMeasuredError(f"exit status {child.returncode} where {process.status} is due: {last[:200]}")
    printed = json.loads(said[-1]) if said and said[-1].startswith("{") else {}
    peak = usage.ru_maxrss * BYTES_PER_UNIT
    return {CPU: usage.ru_utime + usage.ru_stime, WALL: wall, PEAK: peak} | printed


def lines(file: Iterable[str]) -> list[str]:
    """Return the lines of a file that something was written to, without empty ones."""
    file.seek(0)  # type: ignore[attr-defined]
    return [line.strip() for line in file if line.strip()]


Measure = Callable[[Process, Version], dict[str, float]]


def rounds(
    processes: Mapping[str, Process],
    versions: Iterable[Version],
    number: int | None = None,
    measure: Measure = measured,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Samples]:
    """Measure processes in turns: in each round, each process once for each version.

    Args:
        processes: what is measured, by name.
        versions: the versions that are compared. What does not run the suite is measured once for all of them.
        number: how many rounds; by default as many as the effort of a process allows.
        measure: runs one process.
        say: called with the name of the process that begins.

    Returns:
        The samples of each version, by its name.
    """
    versions = list(versions)
    samples = {version.name: Samples() for version in versions}
    for turn in range(number or max(ROUNDS)):
        for name, process in processes.items():
            if turn >= (number or ROUNDS[process.effort]):
                continue
            # The order changes from round to round, so that no version is always the one that runs first.
            turned = versions if turn % 2 else versions[::-1]
            for group in [[v] for v in turned] if process.of_version else [turned]:
                missing = samples[group[0].name].missing
                if name in missing:
                    continue
                say(f"round {turn + 1}: {name}" + (f", {group[0].name}" if process.of_version else ""))
                try:
                    taken = measure(process, group[0])
                except NotMeasuredError as reason:
                    for version in group:
                        samples[version.name].missing[name] = str(reason)
                else:
                    for version in group:
                        samples[version.name].add(name, taken)
    return samples


@contextmanager
def exported(commit: str) -> Iterator[Path]:
    """Write the packages of another commit to a folder, which is gone in the end.

    Raises:
        NotMeasuredError: if the repository does not have that commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit, *SUITE], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode:
            raise NotMeasuredError(f"commit {commit} is not in this repository: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "--extract"], cwd=folder, input=packed.stdout, check=True)
        yield Path(folder)


def compile_once(version: Version) -> None:
    """Compile the packages of a version, so that no sample pays for it."""
    command = [sys.executable, "-m", "compileall", "-q", *(str(version.folder / package) for package in SUITE)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
