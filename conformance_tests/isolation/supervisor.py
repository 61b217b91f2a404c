"""Subjects in a process of their own: whatever one does to it costs neither results nor other targets.

Nothing here imports torch: only the worker does. A worker serves one target after the
other as long as it lives and is as it was; otherwise a fresh one takes its place. What a
subject prints is not shown; of a subject that ended its process the last line is quoted.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from conformance_tests.errors import Lost, TargetError, WorkerFault
from conformance_tests.isolation.process import Worker
from conformance_tests.reports.report import Report, Result, TargetReport
from conformance_tests.targets.resolving import module_exists, resolve

Progress = Callable[[str, int, int], None]

ATTEMPTS = 2
"""How many workers one target may cost before the rest of its checks is blocked."""


class Stopped(Exception):
    """The run ended early, or with a fault; ``report`` has what was decided, ``reason`` says why."""

    def __init__(self, report: Report, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.report = report
        self.reason = reason


@dataclass
class Followed:
    """One target while it is judged: what is decided, what is not, and what is being done."""

    report: TargetReport
    expected: Path | None = None
    undecided: list[Result] = field(default_factory=list)
    doing: str = "importing"
    loss: str = ""

    def take(self, answer: dict[str, Any], progress: Progress) -> None:
        """Keep what an answer says."""
        if "doing" in answer:
            self.doing = answer["doing"].removeprefix(f"{self.report.target}: ")
            progress(answer["doing"], answer["done"], answer["of"])
        if "results" in answer:
            self.report.profile = answer["profile"]
            self.report.requirements += [Result(**r) for r in answer["results"]]
            self.undecided = [Result(**r) for r in answer["undecided"]]

    def lose(self, reason: str) -> None:
        """The worker is lost: the check in progress, if any, ends in an error."""
        self.loss = f"the subject {reason}"
        deciding = bool(self.undecided) and self.undecided[0].id == self.doing
        self.report.notes.append(f"{self.loss}, while {f'deciding {self.doing}' if deciding else f'{self.doing} it'}")
        if deciding:
            fatal = replace(self.undecided.pop(0), outcome="error", message=self.loss)
            self.report.requirements.append(fatal)

    def finish(self, report: TargetReport) -> None:
        """Take over the whole report; a target that cost a worker stays in error."""
        report.notes = self.report.notes + report.notes
        if self.loss:
            report.verdict = "error"
        self.report = report

    def give_up(self) -> None:
        """Leave the rest undecided."""
        from conformance_tests.reports.report import Level

        self.report.requirements += [replace(r, message=self.loss) for r in self.undecided]
        if self.expected is not None and self.report.requirements:
            from conformance_tests.engine.expected import apply_expected, expected_failures

            known = expected_failures(self.expected)
            self.report.requirements, notes = apply_expected(self.report.requirements, known, self.report.target)
            self.report.notes += notes
        passed = [Level.named(r.level) for r in self.report.of("pass")]
        self.report.level = str(max(passed, default=Level.STATIC))
        self.undecided = []


class Workers:
    """Judges targets in worker processes, one after the other; the first starts at once.

    Args:
        timeout: seconds for every step: import, making, identification, and each check.
        memory: GiB that a target may allocate, on systems that can limit it (Linux);
            three quarters of what is free unless given.
    """

    def __init__(self, timeout: float = 60.0, memory: float | None = None) -> None:
        self.timeout = timeout
        self.memory = memory
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        self._worker = Worker(self.memory)
        return self

    def __exit__(self, *_: object) -> None:
        self._replace()

    def _replace(self) -> None:
        """End the worker; the next target gets a fresh one."""
        if self._worker is not None:
            self._worker.end()
        self._worker = None

    def check(
        self,
        targets: list[str],
        profile: str = "auto",
        level: str = "gradient",
        seed: int = 0,
        progress: Progress = lambda *_: None,
        expected: Path | None = None,
        dtype: str | None = None,
        device: str = "cpu",
    ) -> Report:
        """Judge targets as ``suite.check`` does, each by its name.

        Raises:
            TargetError: if a target's name, the profile or the expected failures cannot be used.
            Stopped: at Ctrl-C, or at the end after a fault of the suite itself, which cost
                only the target at which it happened.
        """
        request = {"profile": profile, "level": level, "seed": seed, "expected": expected and str(expected)}
        request |= {"dtype": dtype, "device": device}
        report = Report(seed)
        faults = []
        for name in targets:
            begun = time.perf_counter()
            followed = Followed(TargetReport(name), expected)
            try:
                self._judge(followed, request | {"target": name}, progress)
            except WorkerFault as fault:
                faults.append(fault)
                followed.loss = "encoder-spec itself failed on this target"
                followed.report.notes.append(followed.loss)
                followed.give_up()
            except KeyboardInterrupt as interrupt:
                followed.loss = "interrupted"
                followed.report.notes.append(followed.loss)
                followed.give_up()
                report.targets.append(followed.report)
                raise Stopped(report, interrupt) from None
            followed.report.seconds = followed.report.seconds or round(time.perf_counter() - begun, 3)
            report.targets.append(followed.report)
        if faults:
            raise Stopped(report, faults[0])
        return report

    def _judge(self, followed: Followed, request: dict[str, Any], progress: Progress) -> None:
        for _ in range(ATTEMPTS):
            try:
                last = self._follow(followed, request, progress)
            except Lost as loss:
                self._replace()
                followed.lose(str(loss))
                if not followed.undecided:
                    break
                continue
            if not last["clean"]:
                self._replace()
            if "unusable" in last:
                raise TargetError(last["unusable"])
            if "fault" in last:
                raise WorkerFault(last["fault"])
            found = last["report"]
            followed.finish(TargetReport(**found | {"requirements": [Result(**r) for r in found["requirements"]]}))
            return
        followed.give_up()

    def _follow(self, followed: Followed, request: dict[str, Any], progress: Progress) -> dict[str, Any]:
        """Let the worker judge a target; its last answer."""
        worker = self._worker = self._worker or Worker(self.memory)
        worker.ask(**request, decided=[asdict(r) for r in followed.report.requirements])
        followed.doing = "importing"
        while "clean" not in (answer := worker.answer(self.timeout)):
            followed.take(answer, progress)
        return answer


def demand_usable(target: str) -> None:
    """Find out what can be found out about a name without running anything.

    Raises:
        TargetError: if it cannot be used.
    """
    module, _, _ = target.rpartition(":")
    path = list(sys.path)
    try:
        # Looking for a module in a package imports the package, and that is the worker's business.
        package = module.partition(".")[0]
        if module.endswith(".py") or not package or not module_exists(package):
            resolve(target)
    finally:
        sys.path[:] = path


@contextmanager
def judging(
    targets: Iterable[str], timeout: float, memory: float | None, in_process: bool
) -> Iterator[Callable[..., Any]]:
    """What judges targets: it returns a report, and what stopped it early or went wrong, if anything."""
    for name in targets:
        demand_usable(name)
    if in_process:
        from conformance_tests.engine import judging as suite

        yield lambda *args, **kwargs: (suite.check(*args, **kwargs), None)
        return

    def judge(*args: Any, **kwargs: Any) -> Any:
        try:
            return workers.check(*args, **kwargs), None
        except Stopped as stopped:
            return stopped.report, stopped.reason

    with Workers(timeout, memory) as workers:
        yield judge
