"""Subjects in separate processes: a crash of one costs neither results nor other targets.

Nothing here imports torch: only the worker does, and each serves one target. What a
subject prints is not shown; of a subject that ended its process the last line is quoted.
"""

import re
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self

from conformance_tests.errors import Lost, TargetError, WorkerFault
from conformance_tests.harness.question import Question
from conformance_tests.isolation.process import Worker, warm
from conformance_tests.reports.expected import Expected, apply_expected, expected_failures
from conformance_tests.reports.report import Level, Report, Result, TargetReport, verdict_of
from conformance_tests.reports.watching import Progress, silent
from conformance_tests.targets.resolving import module_exists, resolve

ATTEMPTS = 2
"""How many workers one target may cost before the rest of its checks is blocked."""


@dataclass(frozen=True)
class Limits:
    """The part of the machine that a target may use.

    Attributes:
        timeout: seconds for every step: import, making, identification, and each check.
        memory: GiB that a target may allocate, on systems that can limit it (Linux); None for three quarters of
            what is free.
    """

    timeout: float = 60.0
    memory: float | None = None


@dataclass(frozen=True)
class Judgement:
    """A report of what was decided, and the fault that ended the run early or happened in it, if one did."""

    report: Report
    fault: BaseException | None = None


DEFAULT_LIMITS = Limits()


class Judge(Protocol):
    """Judges targets by their names."""

    def judge(self, targets: list[str], question: Question, progress: Progress = silent) -> Judgement:
        """Judge targets as ``engine.judging.check_all`` does.

        Raises:
            TargetError: if a target's name, the profile or the expected failures cannot be used.
        """


@dataclass
class Followed:
    """One target while it is judged: what is decided, what is not, and what is being done."""

    report: TargetReport
    expected: Expected | None = None
    undecided: list[Result] = field(default_factory=list)
    doing: str = "importing"
    loss: str = ""

    def take(self, answer: dict[str, Any], progress: Progress) -> None:
        """Keep what an answer holds."""
        if "doing" in answer:
            self.doing = answer["doing"].removeprefix(f"{self.report.target}: ")
            progress(answer["doing"], answer["done"], answer["of"])
        if "results" in answer:
            self.report.profile = answer["profile"]
            self.report.requirements += [Result(**r) for r in answer["results"]]
            self.undecided = [Result(**r) for r in answer["undecided"]]

    def lose(self, reason: str) -> None:
        """Record that the worker is lost: the check in progress, if any, ends in an error."""
        self.loss = f"the subject {reason}"
        deciding = bool(self.undecided) and self.undecided[0].id == self.doing
        self.report.notes.append(f"{self.loss}, while {f'deciding {self.doing}' if deciding else f'{self.doing} it'}")
        if deciding:
            fatal = replace(self.undecided.pop(0), outcome="error", message=self.loss)
            self.report.requirements.append(fatal)

    def finish(self, report: TargetReport, asked: Level) -> None:
        """Take over the whole report; a target that cost a worker stays in error.

        The verdict on an encoder that could be judged is not the worker's to give: it follows from the results.

        Raises:
            Lost: if it is about another target.
        """
        if report.target != self.report.target:
            raise Lost(f"answered for another target, {report.target}")
        if report.verdict in ("conformant", "nonconformant"):
            report.level, report.verdict = verdict_of(report.requirements, asked)
        report.notes = self.report.notes + report.notes
        if self.loss:
            report.verdict = "error"
        self.report = report

    def end(self, loss: str) -> None:
        """Record why there will be no more, and leave the rest undecided."""
        self.loss = loss
        self.report.notes.append(loss)
        self.give_up()

    def give_up(self) -> None:
        """Leave the rest undecided."""
        self.report.requirements += [replace(r, message=self.loss) for r in self.undecided]
        if self.expected is not None and self.report.requirements:
            known = expected_failures(self.expected)
            self.report.requirements, notes = apply_expected(self.report.requirements, known, self.report.target)
            self.report.notes += notes
        passed = [Level.named(r.level) for r in self.report.of("pass")]
        self.report.level = str(max(passed, default=Level.STATIC))
        self.undecided = []


FINAL = {"report", "unusable", "fault"}
"""One of these is in the last answer of a worker."""


class Workers:
    """Judges targets one after the other, each in a separate process."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        warm()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_worker()

    def _end_worker(self) -> None:
        """End the worker, if there is one, and all that it has started."""
        if self._worker is not None:
            self._worker.end()
        self._worker = None

    def judge(self, targets: list[str], question: Question, progress: Progress = silent) -> Judgement:
        """See ``Judge``. Ctrl-C ends the run; a fault of the suite costs only the target at which it happened."""
        report, faults = Report(question.seed), []
        for name in targets:
            begun = time.perf_counter()
            followed = Followed(TargetReport(name), question.expected)
            try:
                self._judge(followed, question, progress)
            except WorkerFault as fault:
                faults.append(fault)
                followed.end(f"encoder-spec itself failed on this target{place_of(fault)}: please report it")
            except KeyboardInterrupt as interrupt:
                followed.end("interrupted")
                return Judgement(Report(question.seed, [*report.targets, followed.report]), interrupt)
            followed.report.seconds = followed.report.seconds or round(time.perf_counter() - begun, 3)
            report.targets.append(followed.report)
        return Judgement(report, faults[0] if faults else None)

    def _judge(self, followed: Followed, question: Question, progress: Progress) -> None:
        for _ in range(ATTEMPTS):
            try:
                last = self._follow(followed, question, progress)
                if "unusable" in last:
                    raise TargetError(last["unusable"])
                if "fault" in last:
                    raise WorkerFault(last["fault"])
                report = last["report"]
                results = [Result(**r) for r in report["requirements"]]
                followed.finish(TargetReport(**report | {"requirements": results}), question.strongest)
            except Lost as loss:
                followed.lose(str(loss))
                if not followed.undecided:
                    break
            else:
                return
            finally:
                self._end_worker()
        followed.give_up()

    def _follow(self, followed: Followed, question: Question, progress: Progress) -> dict[str, Any]:
        """Let the worker judge a target; return its last answer."""
        worker = self._worker = Worker(self.limits.memory)
        decided = [asdict(r) for r in followed.report.requirements]
        worker.ask(target=followed.report.target, question=question.in_words(), decided=decided)
        followed.doing = "importing"
        while not FINAL.intersection(answer := worker.answer(self.limits.timeout)):
            followed.take(answer, progress)
        return answer


def place_of(fault: WorkerFault) -> str:
    """Return the innermost line of our own in a fault, for a note; no text if there is none."""
    ours = re.findall(r'File "[^"]*?((?:conformance_tests|encoder_spec)/[^"]*)", line (\d+)', str(fault))
    return " ({}:{})".format(*ours[-1]) if ours else ""


def demand_usable(target: str) -> None:
    """Check a name as far as that is possible without running anything.

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


class ThisProcess:
    """Judges targets in this process, without limits: a debugger finds them, and what they print is shown."""

    def judge(self, targets: list[str], question: Question, progress: Progress = silent) -> Judgement:
        """See ``Judge``."""
        from conformance_tests.engine.judging import check_all

        return Judgement(check_all(targets, question, progress))


def judge_of(targets: Iterable[str], limits: Limits | None) -> AbstractContextManager[Judge]:
    """Return what judges these targets: worker processes, or this process if there are no limits.

    Raises:
        TargetError: if a name cannot be used, as far as that shows without running anything.
    """
    for name in targets:
        demand_usable(name)
    return nullcontext(ThisProcess()) if limits is None else Workers(limits)
