"""Test items of one encoder read one report, which all processes share; one item tells what no result tells."""

from pathlib import Path
from typing import Any

import pytest

from conformance_tests.frontends.decorator import Items
from conformance_tests.frontends.judged import SHARED, Judged, shared
from conformance_tests.harness.question import Question
from conformance_tests.reports.report import Result, TargetReport

PASSES = Result("ATT-1", "attention", "test_attention::test", "trace", "pass")
FAILS = Result("FFN-1", "ffn", "test_ffn::test", "trace", "fail", "f[0] = 1, but the spec gives 0", repro="again")


def judged(verdict: str, *results: Result, **about: Any) -> Judged:
    """An encoder with this report."""
    one = Judged(dict, Question(), "theirs.test_encoder")
    vars(one)["report"] = TargetReport("theirs", verdict, requirements=list(results), **about)
    return one


@pytest.mark.parametrize(
    ("verdict", "results", "ids"),
    [
        ("conformant", [PASSES], ["ATT-1"]),
        ("nonconformant", [PASSES, FAILS], ["ATT-1", "FFN-1"]),
        ("undetermined", [PASSES], ["ATT-1", "encoder"]),
        ("error", [], ["encoder"]),
        ("error", [FAILS], ["FFN-1"]),
    ],
)
def test_an_encoder_that_is_not_conformant_has_an_item_that_fails(
    verdict: str, results: list[Result], ids: list[str]
) -> None:
    """An item of the whole encoder says what no result says."""
    one = judged(verdict, *results, notes=["nobody knows"])
    assert Items(one).ids == ids
    assert one.complaint == (f"theirs: {verdict}; nobody knows" if "encoder" in ids else "")


def test_a_failure_is_told_with_what_is_wrong() -> None:
    about: dict[str, Any] = {"departs_at": "ffn.relu", "diagnosis": [{"deviation": "d", "says": "it is the tangent"}]}
    one = judged("nonconformant", PASSES, FAILS, **about)
    assert one.failure_of([PASSES]) == ""
    first, _, *more = one.failure_of([PASSES, FAILS]).splitlines()
    assert first == "FFN-1: f[0] = 1, but the spec gives 0"
    told = ["Departs from the specification at ffn.relu", "Diagnosis: it is the tangent."]
    explained = "Explained: encoder-spec requirements FFN-1 (on the site: ffn.html#FFN-1)"
    assert more == [*told, explained, "Again: again"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_concerns_the_whole_encoder_is_told_once(
    is_shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in a process, or in all processes that share a folder."""
    if is_shared:
        monkeypatch.setenv(SHARED, str(tmp_path))
    else:
        monkeypatch.delenv(SHARED, raising=False)
    one, other = judged("error"), judged("error")
    assert [one.tells_first(), one.tells_first()] == [True, False]
    assert other.tells_first() is not is_shared


def test_a_report_that_is_shared_is_made_once(tmp_path: Path) -> None:
    """And read as it was made."""
    made = judged("nonconformant", PASSES, FAILS, notes=["½"]).report
    file, times = tmp_path / "report.json", 0

    def judge() -> TargetReport:
        nonlocal times
        times += 1
        return made

    assert [shared(file, judge), shared(file, judge)] == [made, made]
    assert times == 1
