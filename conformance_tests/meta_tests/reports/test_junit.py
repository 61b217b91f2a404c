"""One case of the JUnit file at a time: what is in it for each outcome, and for a target without a verdict."""

from typing import Any
from xml.etree import ElementTree

import pytest

from conformance_tests.reports.junit import case_of, case_of_verdict, details, suite_of, write
from conformance_tests.reports.report import Report, Result, TargetReport
from encoder_spec.equation import requirements


def result(outcome: str, **more: Any) -> Result:
    return Result("ATT-3", "attention.scores", "test", "trace", outcome, **more)


@pytest.mark.parametrize(
    ("outcome", "tag", "message"),
    [
        ("fail", "failure", "off"),
        ("xpass", "failure", "off"),
        ("error", "error", "off"),
        ("xfail", "skipped", "expected failure: known"),
        ("unsupported", "skipped", "off"),
        ("blocked", "skipped", "off"),
    ],
)
def test_an_outcome_has_its_own_element_with_message_and_details(outcome: str, tag: str, message: str) -> None:
    """Its type is the outcome, that of a failure the verdict that follows from it."""
    case = case_of(result(outcome, message="off", reason="known"))
    assert (case.name, case.classname) == ("ATT-3", "attention.scores")
    (ended,) = case.result
    kind = "nonconformant" if outcome == "fail" else outcome
    assert (ended._tag, ended.type, ended.message) == (tag, kind, message)
    assert ended.text.startswith(requirements()["ATT-3"].statement)


def test_a_pass_has_no_element() -> None:
    assert case_of(result("pass")).result == []


def test_details_say_all_that_is_known_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statement, message, expectation with its link, smallest input, explanation, command."""
    monkeypatch.delenv("ENCODER_SPEC_SITE", raising=False)
    full = result("fail", message="off", repro="again", smallest=[1, 2, 3], reason="known", link="there")
    assert details(full).split("\n") == [
        requirements()["ATT-3"].statement,
        "off",
        "Expected: known there",
        "The smallest input with a wrong output: (1, 2, 3)",
        "Explained: encoder-spec requirements ATT-3 (on the site: attention.html#ATT-3)",
        "Again: again",
    ]
    assert [line.partition(":")[0] for line in details(result("pass")).split("\n")[1:]] == ["Explained"]
    assert "Expected: known\n" in details(result("xfail", reason="known"))
    assert "Expected" not in details(result("fail", link="there"))


@pytest.mark.parametrize(
    ("target", "tag", "message"),
    [
        (TargetReport("x", "error", notes=["one", "two"]), "error", "one; two"),
        (TargetReport("x", "undetermined", "black-box"), "failure", "the evidence reached only the level black-box"),
    ],
)
def test_a_missing_verdict_is_a_case_that_says_why(target: TargetReport, tag: str, message: str) -> None:
    case = case_of_verdict(target)
    (ended,) = case.result
    assert (case.name, case.classname) == ("verdict", "encoder")
    assert (ended._tag, ended.type, ended.message) == (tag, target.verdict, message)


@pytest.mark.parametrize(
    ("verdict", "names"),
    [
        ("conformant", ["ATT-3"]),
        ("nonconformant", ["ATT-3"]),
        ("undetermined", ["ATT-3", "verdict"]),
        ("error", ["ATT-3", "verdict"]),
    ],
)
def test_only_what_has_no_verdict_has_a_case_for_it(verdict: str, names: list[str]) -> None:
    """Where the suite is judged, the facts about it are properties."""
    suite = suite_of(TargetReport("x", verdict, "trace", {"name": "bert"}, [result("pass")]), 7)
    assert [case.name for case in suite] == names
    facts = {p.name: p.value for p in suite.properties()}
    assert facts == {"verdict": verdict, "level": "trace", "profile": "bert", "seed": "7"}


def test_times_are_those_of_the_targets_and_their_sum() -> None:
    """1.25 and 2.5006 seconds are 3.7506, rounded to milliseconds; a file ends with a line end."""
    xml = write(Report(0, [TargetReport("a", seconds=1.25), TargetReport("b", seconds=2.5006)]))
    root = ElementTree.fromstring(xml)
    assert root.get("name") == "encoder-spec"
    assert float(root.get("time", "0")) == 3.751
    assert [float(suite.get("time", "0")) for suite in root] == [1.25, 2.5006]
    assert xml.endswith(">\n")
