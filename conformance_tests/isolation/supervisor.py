"""Subjects in separate processes: a crash of one costs neither results nor other targets.

Nothing here imports torch: only the worker does, and each serves one target. What a
subject prints is not shown; of a subject that ended its process the last line is quoted.
"""

import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, Self

from conformance_tests.engine.reproduction import again
from conformance_tests.errors import Lost, TargetError, WorkerFault
from conformance_tests.harness.question import Question
from conformance_tests.isolation.process import Worker, warm
from conformance_tests.reports.expected import apply_expected, expected_failures
from conformance_tests.reports.report import Level, Report, Result, TargetReport, verdict_of
from conformance_tests.reports.watching import Display, Progress
from conformance_tests.subjects.spread.launched import processes_launched
from conformance_tests.targets.resolving import module_exists, resolve

DEFAULT_QUESTION = Question()

UNSEEN = Display()

ATTEMPTS = 2
"""How many workers one target may cost before the rest of its checks is blocked."""


WAKING = 0.2
"""Seconds after which a wait for a report looks for Ctrl-C again: a delay that nobody notices."""


@dataclass(frozen=True)
class Limits:
    """The part of the machine that targets may use.

    Attributes:
        timeout: seconds for every step: import, making, identification, and each check.
        memory: GiB that a target may allocate, on systems that can limit it (Linux); None for its share in three
            quarters of what is free.
        jobs: targets that are judged at the same time.
    """

    timeout: float = 60.0
    memory: float | None = None
    jobs: int = 1


@dataclass(frozen=True)
class Judgement:
    """A report of what was decided, and the fault that ended the run early or happened in it, if one did."""

    report: Report
    fault: BaseException | None = None


DEFAULT_LIMITS = Limits()


class Judge(Protocol):
    """Judges targets by their names."""

    def judge(self, targets: list[str], question: Question, display: Display = UNSEEN) -> Judgement:
        """Judge targets as ``engine.judging.check_all`` does.

        Raises:
            TargetError: if a target's name, the profile or the expected failures cannot be used.
        """


@dataclass
class Followed:
    """One target while it is judged: what is decided, what is not, and what is being done.

    Attributes:
        report: what is decided.
        question: what is asked.
        undecided: the results that are open.
        doing: what the worker does.
        loss: how a worker was lost.
        judged: the whole report but for the explanation of its failures, as soon as there is one.
        fault: why there is no report, or not all of one, if that is not for the subject to answer.
    """

    report: TargetReport
    question: Question = DEFAULT_QUESTION
    undecided: list[Result] = field(default_factory=list)
    doing: str = "importing"
    loss: str = ""
    judged: TargetReport | None = None
    fault: TargetError | WorkerFault | None = None

    def take(self, answer: dict[str, Any], progress: Progress) -> None:
        """Keep what an answer holds."""
        if "doing" in answer:
            self.doing = answer["doing"].removeprefix(f"{self.report.target}: ")
            progress(answer["doing"], answer["done"], answer["of"])
        if "results" in answer:
            self.report.profile = answer["profile"]
            self.report.requirements += [Result(**r) for r in answer["results"]]
            self.undecided = [Result(**r) for r in answer["undecided"]]
        if "judged" in answer:
            judged = TargetReport.from_data(answer["judged"])
            self._demand_consistent(judged)
            self.judged = judged

    def lose(self, reason: str) -> None:
        """Record that the worker is lost: the check in progress, if any, ends in an error.

        A worker that is lost while it explains failures costs nothing that is decided.
        """
        loss = f"the subject {reason}"
        deciding = bool(self.undecided) and self.undecided[0].id == self.doing
        step, _, part = self.doing.partition(", ")
        phase = f"deciding {step}" if deciding else f"{step} it{f' ({part})' if part else ''}"
        self.report.notes.append(f"{loss}, while {phase}")
        if self.judged is not None:
            return
        self.loss = loss
        if deciding:
            repro = again(self.report.target, self.question)
            fatal = replace(self.undecided.pop(0), outcome="error", message=self.loss, repro=repro)
            self.report.requirements.append(fatal)

    def finish(self, report: TargetReport) -> None:
        """Take over the whole report; a target that cost a worker stays in error.

        The verdict on an encoder that could be judged is not the worker's to give: it follows from the results.

        Raises:
            Lost: if it is about another target, or has other results than were decided.
        """
        self._demand_consistent(report)
        if report.verdict in JUDGED:
            report.level, report.verdict = verdict_of(report.requirements, self.question.strongest)
        report.notes = self.report.notes + report.notes
        if self.loss:
            report.verdict = "error"
        self.report = report

    def _demand_consistent(self, report: TargetReport) -> None:
        """Go on only with a report of this target whose results were decided one by one, and pass within their budgets.

        Departures that the computation shows are told at once, and none of them passes.

        Raises:
            Lost: if it is about another target, or others are told at the end.
        """
        if report.target != self.report.target:
            raise Lost(f"answered for another target, {report.target}")
        if report.verdict not in JUDGED:
            return
        results = report.requirements
        decided = {(r.test, r.id): r.outcome for r in self.report.requirements}
        told = {(r.test, r.id): AS_DECIDED.get(r.outcome, r.outcome) for r in results}
        is_close = all(r.error is None or r.budget is None or r.error <= r.budget for r in results if r.passes)
        if self.undecided or not is_close or (told != decided and "pass" in told.values()):
            raise Lost("answered with other results than were decided")

    def end(self, loss: str) -> None:
        """Record why there will be no more, and leave the rest undecided."""
        self.loss = "" if self.judged else loss
        self.report.notes.append(loss)
        self.give_up()

    def give_up(self) -> None:
        """Leave the rest undecided, or unexplained."""
        if self.judged is not None:
            self.finish(self.judged)
            return
        self.report.requirements += [replace(r, message=self.loss) for r in self.undecided]
        if self.question.expected is not None and self.report.requirements:
            known = expected_failures(self.question.expected)
            self.report.requirements, notes = apply_expected(self.report.requirements, known, self.report.target)
            self.report.notes += notes
        passed = [Level.named(r.level) for r in self.report.of("pass")]
        self.report.level = str(max(passed, default=Level.STATIC))
        self.undecided = []


JUDGED = ("conformant", "nonconformant")
"""The verdicts on encoders that could be judged."""

AS_DECIDED = {"xfail": "fail", "xpass": "pass"}
"""How results were decided that are expected to fail."""

INTERRUPTED = "interrupted"

NOT_BEGUN = "interrupted before it was begun"

FINAL = {"report", "unusable", "fault"}
"""One of these is in the last answer of a worker."""


class Workers:
    """Judges targets in separate processes, as many at the same time as the limits allow."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._running: set[Worker] = set()
        self._ended = False
        self._changing = Lock()

    def __enter__(self) -> Self:
        warm()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_workers()

    def _end_workers(self) -> None:
        """End all workers, with what they have started, and begin no other one."""
        with self._changing:
            self._ended = True
            for worker in self._running:
                worker.kill()

    def judge(self, targets: list[str], question: Question, display: Display = UNSEEN) -> Judgement:
        """See ``Judge``. Ctrl-C ends the run; a fault of the suite and a wrong name cost that target alone."""
        self._ended = False
        jobs = max(1, min(self.limits.jobs, len(targets)))
        every = [Followed(TargetReport(name), question) for name in targets]
        interrupt = None
        pool = ThreadPoolExecutor(jobs)
        judging = deque([(followed, pool.submit(self._judge, followed, jobs, display)) for followed in every])
        try:
            show_in_order(judging, display)
        except KeyboardInterrupt as caught:
            interrupt = caught
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_workers()
            show_in_order(judging, display)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_workers()
        faults = [followed.fault for followed in every if followed.fault is not None]
        worst = next((f for f in faults if isinstance(f, WorkerFault)), None) or all_unusable(faults)
        report = Report(question.seed, [f.report for f in every if not isinstance(f.fault, TargetError)])
        if worst is not None and not report.targets:
            raise worst
        return Judgement(report, interrupt or worst)

    def _judge(self, followed: Followed, share: int, display: Display) -> None:
        """Judge a target; what is wrong with its name, or with the suite, is kept with it."""
        begun = time.perf_counter()
        try:
            with display.row() as progress:
                self._attempt(followed, share, progress)
        except TargetError as unusable:
            followed.fault = unusable
        except WorkerFault as fault:
            followed.fault = fault
            followed.end(f"encoder-spec itself failed on this target{place_of(fault)}: please report it")
        followed.report.seconds = followed.report.seconds or round(time.perf_counter() - begun, 3)

    def _attempt(self, followed: Followed, share: int, progress: Progress) -> None:
        for _ in range(ATTEMPTS):
            try:
                last = self._follow(followed, share, progress)
                if "unusable" in last:
                    raise TargetError(last["unusable"])
                if "fault" in last:
                    raise WorkerFault(last["fault"])
                followed.finish(TargetReport.from_data(last["report"]))
            except Lost as loss:
                if self._ended:
                    followed.end(INTERRUPTED)
                    return
                followed.lose(str(loss))
                if not followed.undecided:
                    break
            else:
                return
        followed.give_up()

    def _follow(self, followed: Followed, share: int, progress: Progress) -> dict[str, Any]:
        """Let a worker judge a target; return its last answer."""
        with self._worker(share) as worker:
            decided = [asdict(r) for r in followed.report.requirements]
            worker.ask(target=followed.report.target, question=followed.question.in_words(), decided=decided)
            followed.doing = "importing"
            while not FINAL.intersection(answer := worker.answer(self.limits.timeout)):
                followed.take(answer, progress)
            return answer

    @contextmanager
    def _worker(self, share: int) -> Iterator[Worker]:
        """Start a worker, and end it with all that it has started.

        Raises:
            Lost: if the run has ended.
        """
        with self._changing:
            if self._ended:
                raise Lost(INTERRUPTED)
            worker = Worker(self.limits.memory, share)
            self._running.add(worker)
        try:
            yield worker
        finally:
            worker.end()
            with self._changing:
                self._running.discard(worker)


def show_in_order(judging: deque[tuple[Followed, Future[None]]], display: Display) -> None:
    """Show the report of each target as soon as it is there, and all before it; take the target out of the queue."""
    while judging:
        followed, end = judging[0]
        # A signal that comes just before this thread begins to wait does not wake it: Ctrl-C would be seen at the end.
        while not end.done():
            wait([end], timeout=WAKING)
        try:
            end.result()
        except CancelledError:
            followed.report.notes.append(NOT_BEGUN)
        if not isinstance(followed.fault, TargetError):
            display.judged(followed.report)
        judging.popleft()


def all_unusable(faults: Sequence[Exception]) -> TargetError | None:
    """Return what is wrong with all names that cannot be used, one line each; None if there are none."""
    return TargetError("\n".join(dict.fromkeys(map(str, faults)))) if faults else None


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

    def judge(self, targets: list[str], question: Question, display: Display = UNSEEN) -> Judgement:
        """See ``Judge``."""
        from conformance_tests.engine.judging import check_all

        with display.row() as progress:
            report = check_all(targets, question, progress)
        for target in report.targets:
            display.judged(target)
        return Judgement(report)


def judge_of(targets: Iterable[str], limits: Limits | None) -> AbstractContextManager[Judge]:
    """Return what judges these targets: worker processes, or this process if there are no limits.

    Processes that a launcher started together are those over which an encoder is spread: it is judged in them.

    Raises:
        TargetError: if a name cannot be used, as far as that shows without running anything.
    """
    for name in targets:
        demand_usable(name)
    return nullcontext(ThisProcess()) if limits is None or processes_launched() > 1 else Workers(limits)
