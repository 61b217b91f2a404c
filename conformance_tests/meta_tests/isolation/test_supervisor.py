"""What becomes of a target whose worker answers, is lost, or fails: decided results stay, the rest is blocked."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, ClassVar

import pytest

from conformance_tests.engine import judging
from conformance_tests.errors import Lost, TargetError, WorkerFault
from conformance_tests.harness.question import Question
from conformance_tests.isolation import supervisor
from conformance_tests.isolation.supervisor import (
    ATTEMPTS,
    UNSEEN,
    Followed,
    Judgement,
    Limits,
    ThisProcess,
    Workers,
    judge_of,
    place_of,
)
from conformance_tests.reports.report import Report, Result, TargetReport
from conformance_tests.reports.watching import Display, Progress

STATIC = Result("FFN-9", "ffn", "test_ffn::test", "static", "pass")
TRACE = Result("ATT-3", "attention.scores", "test_attention::test", "trace", "blocked")
LAST = Result("ENC-9", "encoder", "test_encoder::test", "gradient", "blocked")
NEXT = Result("ENC-2", "encoder", "test_encoder::other", "gradient", "blocked")
AGREES = Result("ENC-2", "encoder", "test_encoder::agreement", "agreement", "pass")
FAILS = Result("ENC-3", "encoder", "test_encoder::padded", "agreement", "fail", error=0.5, budget=1e-12)


def answer(*results: Result, **about: Any) -> TargetReport:
    """Return a worker's last answer: a passing result, then these."""
    return TargetReport("theirs", "conformant", requirements=[STATIC, *results], **about)


def followed(*undecided: Result, expected: Any = None) -> Followed:
    return Followed(TargetReport("theirs", requirements=[STATIC]), Question(expected=expected), list(undecided))


def test_answers_are_kept_and_progress_is_shown() -> None:
    heard: list[tuple[str, int, int]] = []
    target = Followed(TargetReport("theirs"))
    target.take({"doing": "theirs: ATT-3", "done": 2, "of": 7}, lambda *said: heard.append(said))
    target.take(
        {"results": [asdict(STATIC)], "undecided": [asdict(TRACE)], "profile": {"name": "bert"}}, lambda *_: None
    )
    assert (target.doing, heard) == ("ATT-3", [("theirs: ATT-3", 2, 7)])
    assert (target.report.requirements, target.undecided) == ([STATIC], [TRACE])
    assert target.report.profile == {"name": "bert"}


def test_check_in_progress_ends_in_an_error_when_the_worker_is_lost() -> None:
    """The results before it stay, and those after it are still to be decided by the next worker."""
    target = followed(TRACE, LAST)
    target.doing = "ATT-3"
    target.lose("hung")
    assert [(r.id, r.outcome, r.message) for r in target.report.requirements[1:]] == [
        ("ATT-3", "error", "the subject hung")
    ]
    assert target.undecided == [LAST]
    assert target.report.notes == ["the subject hung, while deciding ATT-3"]


def test_worker_lost_before_any_check_costs_no_result() -> None:
    target = followed()
    target.doing = "making"
    target.lose("ended")
    assert (target.report.requirements, target.report.notes) == ([STATIC], ["the subject ended, while making it"])


def test_target_that_cost_a_worker_stays_in_error() -> None:
    target = Followed(TargetReport("theirs", requirements=[STATIC, AGREES]))
    target.lose("ended")
    target.finish(answer(AGREES, notes=["said later"]))
    assert (target.report.verdict, target.report.notes[-1]) == ("error", "said later")
    sound = Followed(TargetReport("theirs", requirements=[STATIC, AGREES]))
    sound.finish(answer(AGREES))
    assert sound.report.verdict == "conformant"


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("fail", "nonconformant"), ("error", "nonconformant"), ("blocked", "undetermined")]
)
def test_verdict_follows_from_the_results_whatever_a_worker_says(outcome: str, verdict: str) -> None:
    decided = replace(AGREES, outcome=outcome)
    target = Followed(TargetReport("theirs", requirements=[STATIC, decided]))
    target.finish(answer(decided))
    assert target.report.verdict == verdict


@pytest.mark.parametrize(
    "told",
    [
        (replace(FAILS, outcome="pass"),),
        (),
        (FAILS, AGREES),
        (replace(FAILS, outcome="xpass"),),
        (FAILS, replace(STATIC, error=1e-3, budget=1e-12)),
    ],
)
def test_no_worker_takes_back_what_was_decided_or_passes_beyond_a_budget(told: tuple[Result, ...]) -> None:
    """Neither a failure that is a success in the end, nor one left out, nor a success that was never decided."""
    target = Followed(TargetReport("theirs", requirements=[STATIC, FAILS]))
    with pytest.raises(Lost, match="other results than were decided"):
        target.finish(answer(*told))


def test_no_worker_ends_before_all_is_decided() -> None:
    with pytest.raises(Lost, match="other results than were decided"):
        followed(TRACE).finish(answer())


def test_a_known_failure_is_what_was_decided() -> None:
    target = Followed(TargetReport("theirs", requirements=[STATIC, AGREES, FAILS]))
    target.finish(answer(AGREES, replace(FAILS, outcome="xfail", reason="known")))
    assert target.report.verdict == "conformant"


def test_departures_that_the_computation_shows_are_told_at_once() -> None:
    """Nothing was decided one by one where no encoder can be evaluated."""
    target = Followed(TargetReport("theirs"))
    target.finish(TargetReport("theirs", "nonconformant", requirements=[FAILS]))
    assert target.report.verdict == "nonconformant"


def test_a_worker_that_is_lost_while_it_explains_costs_nothing_that_was_decided() -> None:
    """Its verdict stands, with a note; a fault of the suite, or Ctrl-C, costs no more."""
    for end in (lambda t: (t.lose("hung"), t.give_up()), lambda t: t.end("interrupted")):
        target = Followed(TargetReport("theirs", requirements=[STATIC, FAILS]), doing="explaining")
        target.judged = answer(FAILS, notes=["said before"], explained=False)
        end(target)
        assert (target.report.verdict, target.report.requirements) == ("nonconformant", [STATIC, FAILS])
        assert target.report.notes[0] in ("the subject hung, while explaining it", "interrupted")
        assert target.report.notes[1:] == ["said before"]


def test_no_worker_answers_for_another_target() -> None:
    target = followed()
    with pytest.raises(Lost, match="another target, ours"):
        target.finish(replace(answer(AGREES), target="ours"))
    assert target.report.verdict == "error"


def test_rest_is_blocked_with_the_reason_and_the_level_is_that_of_what_passed() -> None:
    target = followed(TRACE, LAST)
    target.end("interrupted")
    assert [(r.id, r.outcome, r.message) for r in target.report.requirements[1:]] == [
        ("ATT-3", "blocked", "interrupted"),
        ("ENC-9", "blocked", "interrupted"),
    ]
    assert (target.report.level, target.undecided, target.report.notes) == ("static", [], ["interrupted"])


def test_known_failures_are_held_against_what_was_decided() -> None:
    """A requirement that passes although it was expected to fail counts, whatever ended the run."""
    target = followed(TRACE, expected={"FFN-9": "known"})
    target.end("interrupted")
    assert {r.id: r.outcome for r in target.report.requirements} == {"FFN-9": "xpass", "ATT-3": "blocked"}


class Scripted:
    """Answers as a worker does, by a script for each target."""

    started = 0
    running: ClassVar[list["Scripted"]] = []
    meeting: ClassVar[threading.Barrier]

    def __init__(self, memory: float | None, share: int) -> None:
        type(self).started += 1
        self.running.append(self)
        self.memory = memory
        self.share = share
        self.script: list[Any] = []
        self.killed = threading.Event()

    def ask(self, target: str, question: dict[str, Any], decided: list[Any]) -> None:
        known = [r["id"] for r in decided]
        assert (question["profile"], question["seed"]) == ("auto", 3)
        decided = {"results": [asdict(AGREES)], "undecided": [], "profile": {}}
        fine = {"report": asdict(TargetReport(target, verdict="conformant", requirements=[AGREES]))}
        self.script = {
            "fine": [decided, fine],
            "lost": [{"doing": "lost: making", "done": 0, "of": 1}, Lost("ended")],
            "unusable": [{"unusable": "no such profile"}],
            "fault": [{"fault": "ZeroDivisionError"}],
            "crashing": self.crashing(known),
            "interrupted": [self.interrupt],
            "waiting": [decided, self.wait],
            "meeting": [self.meet, decided, fine],
            "meeting too": [self.meet, decided, fine],
        }[target]

    def interrupt(self) -> dict[str, Any]:
        """Ctrl-C while the target is judged, which then waits for its end."""
        os.kill(os.getpid(), signal.SIGINT)
        return self.wait()

    def wait(self) -> dict[str, Any]:
        assert self.killed.wait(10)
        raise Lost("was killed")

    def meet(self) -> dict[str, Any]:
        """Go on only when another target is judged at the same time."""
        self.meeting.wait(10)
        return {"doing": "meeting: all", "done": 1, "of": self.share}

    @staticmethod
    def crashing(decided: list[str]) -> list[Any]:
        """One result, and then a crash in the first check that is not decided yet."""
        left = [asdict(r) for r in (STATIC, TRACE, LAST, NEXT) if r.id not in decided]
        news = [r for r in left if r["outcome"] == "pass"]
        undecided = [r for r in left if r["outcome"] == "blocked"]
        return [
            {"results": news, "undecided": undecided, "profile": {}},
            {"doing": f"crashing: {undecided[0]['id']}", "done": 0, "of": 4},
            Lost("ended"),
        ]

    def answer(self, seconds: float) -> dict[str, Any]:
        assert seconds == 5
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        found: dict[str, Any] = answer() if callable(answer) else answer
        return found

    def kill(self) -> None:
        self.killed.set()

    def end(self) -> None:
        self.running.remove(self)


@pytest.fixture
def told() -> list[TargetReport]:
    """The reports of the targets that a test has judged."""
    return []


@pytest.fixture
def judged(told: list[TargetReport], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Judge targets with scripted workers; say the verdicts, how many workers that took, and the fault."""
    # A shell that runs the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(supervisor, "Worker", Scripted)
    monkeypatch.setattr(supervisor, "warm", lambda: None)

    def judge(*targets: str, jobs: int = 1, display: Display = UNSEEN) -> Any:
        Scripted.started, Scripted.meeting = 0, threading.Barrier(2)
        with Workers(Limits(5, 2, jobs)) as workers:
            judgement = workers.judge(list(targets), Question(seed=3), display)
        told.extend(judgement.report.targets)
        return [t.verdict for t in judgement.report.targets], Scripted.started, judgement.fault

    yield judge
    signal.signal(signal.SIGINT, before)


def test_each_target_has_a_worker_that_is_ended_behind_it(judged: Callable[..., Any]) -> None:
    assert judged("fine", "fine") == (["conformant", "conformant"], 2, None)
    assert Scripted.running == []


def test_lost_target_costs_the_others_nothing(judged: Callable[..., Any]) -> None:
    """Nothing was left to decide, so that no second worker is tried for it."""
    assert judged("lost", "fine") == (["error", "conformant"], 2, None)
    assert Scripted.running == []
    assert ATTEMPTS == 2


def test_fault_of_the_suite_is_told_at_the_end(judged: Callable[..., Any], told: list[TargetReport]) -> None:
    """Of several the first one; the report of its target says whose fault it is."""
    verdicts, _, fault = judged("fault", "fine", "fault")
    assert (verdicts, str(fault)) == (["error", "conformant", "error"], "ZeroDivisionError")
    said = ["encoder-spec itself failed on this target: please report it"]
    assert [t.notes for t in told] == [said, [], said]


def test_a_fault_of_the_suite_is_placed_in_its_own_code() -> None:
    """In the innermost line of ours; torch fails where we call it."""
    trace = (
        'File "/x/lib/conformance_tests/engine/judging.py", line 3, in judge\n'
        'File "/x/lib/encoder_spec/module.py", line 5, in forward\n'
        'File "/x/lib/torch/nn/modules/module.py", line 7, in eval\nNotImplementedError: no'
    )
    assert place_of(WorkerFault(trace)) == " (encoder_spec/module.py:5)"
    assert place_of(WorkerFault("ZeroDivisionError")) == ""


def test_a_check_that_costs_a_second_worker_ends_the_judgement(
    judged: Callable[..., Any], told: list[TargetReport]
) -> None:
    """The next worker goes on behind the check that cost the first one; what then is left is blocked."""
    assert judged("crashing", "fine") == (["error", "conformant"], ATTEMPTS + 1, None)
    outcomes = [(r.id, r.outcome, r.message) for r in told[0].requirements]
    assert outcomes == [
        ("FFN-9", "pass", ""),
        ("ATT-3", "error", "the subject ended"),
        ("ENC-9", "error", "the subject ended"),
        ("ENC-2", "blocked", "the subject ended"),
    ]
    assert told[0].level == "static"


def test_interrupt_ends_the_run_and_keeps_what_was_judged(judged: Callable[..., Any], told: list[TargetReport]) -> None:
    verdicts, _, fault = judged("fine", "interrupted", "fine")
    assert (verdicts, type(fault)) == (["conformant", "error", "error"], KeyboardInterrupt)
    assert [t.notes for t in told] == [[], ["interrupted"], ["interrupted before it was begun"]]


class Kept(Display):
    """Keeps what is shown, in order."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.open = 0
        self.most = 0

    @contextmanager
    def row(self) -> Iterator[Progress]:
        self.open += 1
        self.most = max(self.most, self.open)
        yield lambda *said: self.shown.append(said)
        self.open -= 1

    def judged(self, report: TargetReport) -> None:
        self.shown.append(report.target)


def test_as_many_targets_are_judged_at_the_same_time_as_there_are_jobs(judged: Callable[..., Any]) -> None:
    """Two wait for each other. Each has a row, and half of the memory; a third job finds no target."""
    kept = Kept()
    assert judged("meeting", "meeting too", jobs=3, display=kept)[0] == ["conformant", "conformant"]
    assert kept.shown[:2] == [("meeting: all", 1, 2)] * 2
    assert (kept.shown[2:], kept.most, kept.open) == (["meeting", "meeting too"], 2, 0)


def test_reports_come_in_the_order_of_the_targets_whatever_ends_first(judged: Callable[..., Any]) -> None:
    """The second ends while the first waits for the third; each is shown once all before it have been."""
    kept = Kept()
    verdicts, _, _ = judged("meeting", "fine", "lost", "meeting too", jobs=2, display=kept)
    assert verdicts == ["conformant", "conformant", "error", "conformant"]
    assert [s for s in kept.shown if isinstance(s, str)] == ["meeting", "fine", "lost", "meeting too"]


def test_interrupt_ends_all_that_are_being_judged_and_keeps_those_that_were(
    judged: Callable[..., Any], told: list[TargetReport]
) -> None:
    """One behind an unfinished one, too. What was decided of an unfinished one stays; all are shown, in order."""
    kept = Kept()
    verdicts, started, fault = judged("waiting", "fine", "interrupted", "fine", jobs=2, display=kept)
    assert (verdicts, started, type(fault)) == (["error", "conformant", "error", "error"], 3, KeyboardInterrupt)
    assert [t.notes for t in told] == [["interrupted"], [], ["interrupted"], ["interrupted before it was begun"]]
    assert told[0].requirements == [AGREES]
    assert kept.shown == ["waiting", "fine", "interrupted", "fine"]
    assert Scripted.running == []


def test_what_cannot_be_shown_ends_the_run(judged: Callable[..., Any]) -> None:
    """The disk is full, say: nothing else is begun, and nothing runs on."""

    class Full(Display):
        def judged(self, report: TargetReport) -> None:
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        judged("fine", "waiting", "fine", display=Full())
    assert Scripted.running == []


def test_a_target_that_cannot_be_used_costs_the_others_nothing(judged: Callable[..., Any]) -> None:
    """It has no verdict; without any other, nothing was asked."""
    verdicts, _, fault = judged("fine", "unusable", "fine")
    assert (verdicts, type(fault), str(fault)) == (["conformant", "conformant"], TargetError, "no such profile")
    with pytest.raises(TargetError, match="no such profile"):
        judged("unusable", "unusable")


def test_judge_is_this_process_where_there_are_no_limits() -> None:
    with judge_of(["torch-post-ln"], None) as judge:
        assert isinstance(judge, ThisProcess)
    with pytest.raises(TargetError, match="Unknown target 'torch-post-lnn'"):
        judge_of(["torch-post-lnn"], None)


def test_this_process_judges_as_the_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same targets, question and progress; a fault of the suite is not caught here."""
    asked: list[Any] = []
    judged = Report(3, [TargetReport("a"), TargetReport("b")])

    def check_all(*question: Any) -> Report:
        asked.append(question)
        return judged

    monkeypatch.setattr(judging, "check_all", check_all)
    question, kept = Question(seed=3), Kept()
    assert ThisProcess().judge(["a", "b"], question, kept) == Judgement(judged, None)
    (targets, asks, progress), shown = asked[0], kept.shown
    assert (targets, asks, shown) == (["a", "b"], question, ["a", "b"])
    progress("a: ATT-3", 1, 2)
    assert kept.shown[2:] == [("a: ATT-3", 1, 2)]
