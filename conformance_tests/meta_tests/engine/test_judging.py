"""One question in, one report out: verdicts, what goes wrong on the way, and who hears of it."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from conformance_tests.deviations import deviations
from conformance_tests.engine.judging import Target, check, check_all, check_one, requirements_of, verdict
from conformance_tests.errors import SubjectError, TargetError, Undetermined
from conformance_tests.harness.question import Question
from conformance_tests.quality.kill_matrix import SMALL, deviating
from conformance_tests.reports.report import Level, Result, TargetReport
from conformance_tests.reports.watching import Watcher
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import PROFILES


def result(outcome: str, level: str = "agreement") -> Result:
    return Result("ATT-3", "attention.scores", "test_attention::test", level, outcome)


def reference() -> nn.Module:
    return EncoderModule(Encoder(PROFILES["torch-post-ln"], SMALL))


def broken() -> nn.Module:
    return deviating(deviations()["scores-scaled-by-d-model"], "torch-post-ln")


@pytest.mark.parametrize(
    ("results", "asked", "reached"),
    [
        ([], "gradient", ("static", "undetermined")),
        ([result("pass", "static")], "static", ("static", "conformant")),
        ([result("pass", "static")], "gradient", ("static", "undetermined")),
        ([result("pass", "black-box")], "trace", ("black-box", "undetermined")),
        ([result("pass", "agreement")], "gradient", ("agreement", "conformant")),
        ([result("pass", "trace"), result("unsupported", "gradient")], "gradient", ("trace", "conformant")),
        ([result("pass", "trace"), result("blocked")], "gradient", ("trace", "conformant")),
        ([result("pass", "trace"), result("xfail")], "gradient", ("trace", "conformant")),
        ([result("pass", "trace"), result("fail", "static")], "gradient", ("trace", "nonconformant")),
        ([result("pass", "trace"), result("xpass")], "gradient", ("trace", "nonconformant")),
        ([result("pass", "trace"), result("error")], "gradient", ("trace", "nonconformant")),
        ([result("error"), result("fail")], "gradient", ("static", "nonconformant")),
    ],
)
def test_verdict_follows_from_the_results(results: list[Result], asked: str, reached: tuple[str, str]) -> None:
    """Agreement suffices, or less if less was asked for; one failure, or one error of a check, outweighs all."""
    assert verdict(results, Level.named(asked)) == reached


def raising(fault: Exception) -> Callable[[], Any]:
    def load() -> Any:
        raise fault

    return load


@pytest.mark.parametrize(
    ("fault", "ended", "note"),
    [
        (SubjectError("it is no encoder"), "error", "it is no encoder"),
        (Undetermined("nothing tells"), "undetermined", "nothing tells"),
        (ValueError("a bad\nvalue"), "error", "making the encoder raised ValueError: a bad"),
        (SystemExit(3), "error", "making the encoder raised SystemExit: 3"),
    ],
)
def test_what_loading_raises_is_a_verdict_with_one_line(fault: Exception, ended: str, note: str) -> None:
    report = check_one(Target("theirs", raising(fault)), Question())
    assert (report.target, report.verdict, report.notes, report.requirements) == ("theirs", ended, [note], [])


def test_name_that_cannot_be_used_is_no_verdict() -> None:
    """It ends the command with status 2: nothing has been judged."""
    with pytest.raises(TargetError, match="no such thing"):
        check_one(Target("theirs", raising(TargetError("no such thing"))), Question())
    with pytest.raises(TargetError, match="absent"):
        check_all([reference, "absent.py:make"], Question())


def test_question_that_cannot_be_asked_is_refused_before_any_work() -> None:
    loaded: list[str] = []
    with pytest.raises(SpecificationError, match="int8"):
        check(lambda: loaded.append("loaded"), dtype="int8")
    assert loaded == []


class Listening(Watcher):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.left: list[int] = []

    def doing(self, what: str, done: int, of: int) -> None:
        self.done.append(what)

    def decided(self, report: TargetReport, undecided: list[Result]) -> None:
        self.left.append(len(undecided))


def test_watcher_hears_each_step_and_how_many_results_are_open() -> None:
    """From importing to explaining; one result less is open each time, and none at the end."""
    watcher = Listening()
    report = check_one(Target("ours", reference), Question(level="static"), watcher)
    ids = [r.id for r in report.requirements]
    steps = ["importing", "making", "identifying", *ids, "explaining"]
    assert watcher.done == [f"ours: {step}" for step in steps]
    assert watcher.left == list(range(len(ids), -1, -1))


def test_results_of_an_earlier_run_are_taken_over_and_not_decided_again() -> None:
    first = check_one(Target("ours", reference), Question(level="static"))
    kept = [r for r in first.requirements if r.id != "FFN-9"]
    marked = [Result(r.id, r.equation, r.test, r.level, r.outcome, "decided before") for r in kept]
    again = check_one(Target("ours", reference), Question(level="static"), decided=marked)
    assert [r.id for r in again.requirements] == [*(r.id for r in kept), "FFN-9"]
    assert {r.message for r in again.requirements if r.id != "FFN-9"} == {"decided before"}


def test_failure_is_placed_and_repeated_also_where_nobody_wants_it_explained() -> None:
    """The catalogue is not searched; where the encoder departs follows from its values alone."""
    report = check(broken, explain=False).targets[0]
    assert (report.verdict, report.departs_at, report.diagnosis) == ("nonconformant", "attention.scores", [])
    failed = {r.id: r for r in report.of("fail")}
    assert failed["ATT-3"].repro.endswith("test_judging:broken --seed 0")
    assert failed["ATT-3"].smallest


def test_explained_failure_names_the_deviation() -> None:
    report = check(broken).targets[0]
    assert [d["deviation"] for d in report.diagnosis] == ["scores-scaled-by-d-model"]
    assert report.diagnosis[0]["equation"] == "attention.scores"


def test_known_failure_is_expected_and_does_not_count() -> None:
    known = {"ATT-3": "known since 2017", "ENC-2": "follows from it", "ENC-17": "never"}
    report = check(broken, expected=known, explain=False).targets[0]
    outcomes = {r.id: r.outcome for r in report.requirements}
    assert (outcomes["ATT-3"], outcomes["ENC-2"], outcomes["ENC-17"]) == ("xfail", "xfail", "xpass")


def test_requirements_are_listed_without_being_decided() -> None:
    question = Question(level="trace")
    decided = [r.id for r in check(reference, level="trace").targets[0].requirements]
    assert requirements_of(reference, question) == decided
    assert {"ATT-3", "ENC-2"} < set(decided)
    assert "ENC-9" not in decided
