"""What a report is made of: levels, results, targets, the verdict over them, and the JSON."""

import json
import math
from typing import Any

import pytest

from conformance_tests.reports.report import OUTCOMES, Level, Report, Result, TargetReport, finite, verdict_of
from encoder_spec import SPEC_VERSION, __version__
from encoder_spec.notation import SpecificationError


def result(outcome: str = "pass", id: str = "ATT-3", equation: str = "attention.scores", **more: Any) -> Result:
    """One result, at level trace."""
    return Result(id, equation, "test_attention::test_x", "trace", outcome, **more)


def evidence(outcome: str, level: str = "agreement") -> Result:
    """One result, at any level."""
    return Result("ATT-3", "attention.scores", "test_attention::test_x", level, outcome)


LEVELS = ("static", "black-box", "agreement", "trace", "gradient")


def test_levels_grow_from_static_to_gradient() -> None:
    """In the order of the design: each is named, printed and compared as such."""
    assert [str(level) for level in sorted(Level)] == list(LEVELS)
    assert [Level.named(name) for name in LEVELS] == sorted(Level)
    assert max(Level.named("trace"), Level.named("black-box")) is Level.TRACE
    assert [int(level) for level in Level] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["", "strong", "black"])
def test_there_is_no_other_level(name: str) -> None:
    says = f"there is no level {name!r}: choose among static, black-box, agreement, trace, gradient"
    with pytest.raises(SpecificationError, match=f"^{says}$"):
        Level.named(name)


@pytest.mark.parametrize(
    ("equation", "page"),
    [
        ("attention.scores", "attention.html#ATT-3"),
        ("encoder", "encoder.html#ATT-3"),
        ("norm.rms.x", "norm.html#ATT-3"),
    ],
)
def test_a_requirement_is_explained_on_the_page_of_its_topic(equation: str, page: str) -> None:
    """The topic is what stands before the first point."""
    assert result(equation=equation).page == page


def test_there_are_seven_outcomes() -> None:
    """As the contract of the JSON report lists them."""
    assert OUTCOMES == ("pass", "fail", "xfail", "xpass", "unsupported", "blocked", "error")


def test_failures_unexpected_passes_and_errors_count_against_an_encoder() -> None:
    """An expected failure does not, nor what could not be decided."""
    assert [o for o in OUTCOMES if result(o).counts_against] == ["fail", "xpass", "error"]


SOME = [
    result("pass", "ATT-1"),
    result("fail", "ATT-3"),
    result("pass", "ATT-4"),
    result("fail", "ENC-2", smallest=[1, 2, 3]),
    result("fail", "ENC-3", smallest=[2, 5, 7]),
]


def test_a_target_counts_its_outcomes_and_finds_them() -> None:
    """Two passes, three failures; in their own order."""
    target = TargetReport("x", requirements=SOME)
    assert target.counts() == {"pass": 2, "fail": 3}
    assert [r.id for r in target.of("fail")] == ["ATT-3", "ENC-2", "ENC-3"]
    assert target.of("xfail") == []


def test_the_smallest_wrong_input_is_that_of_the_first_result_that_has_one() -> None:
    """ENC-2 has (1, 2, 3); without it ENC-3's, and without any none."""
    assert TargetReport("x", requirements=SOME).smallest == [1, 2, 3]
    assert TargetReport("x", requirements=SOME[4:]).smallest == [2, 5, 7]
    assert TargetReport("x", requirements=SOME[:3]).smallest is None


def test_a_target_of_which_nothing_is_known_is_in_error() -> None:
    """At the weakest level, without a profile, in float64; no two share their lists."""
    target, other = TargetReport("x"), TargetReport("x")
    target.notes.append("said")
    target.requirements.append(SOME[0])
    target.diagnosis.append({})
    target.profile["name"] = "bert"
    assert other == TargetReport("x", "error", "static", {}, [], [], None, [], 0.0, "float64")


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([], "error"),
        (["conformant"], "conformant"),
        (["conformant", "conformant"], "conformant"),
        (["conformant", "undetermined"], "undetermined"),
        (["nonconformant", "undetermined", "conformant"], "nonconformant"),
        (["nonconformant", "error", "undetermined"], "error"),
        (["undetermined", "nonconformant"], "nonconformant"),
    ],
)
def test_the_verdict_of_a_run_is_the_worst_of_its_targets(verdicts: list[str], verdict: str) -> None:
    """Error before nonconformant, before undetermined, before conformant; a run over nothing is in error."""
    assert Report(0, [TargetReport("x", v) for v in verdicts]).verdict == verdict


def test_a_report_begins_without_targets() -> None:
    """No two share their list."""
    one, other = Report(5), Report(5)
    one.targets.append(TargetReport("x"))
    assert other == Report(5, [])


def test_a_report_has_all_results_and_diagnoses_target_by_target() -> None:
    first = TargetReport("a", requirements=SOME[:2], diagnosis=[{"deviation": "one"}])
    second = TargetReport("b", requirements=SOME[2:], diagnosis=[{"deviation": "two"}, {"deviation": "three"}])
    report = Report(0, [first, second])
    assert report.requirements == SOME
    assert [d["deviation"] for d in report.diagnosis] == ["one", "two", "three"]


WHOLE = Report(
    7,
    [
        TargetReport(
            "file.py:make",
            "nonconformant",
            "trace",
            {"name": "bert", "choices": {"eps": 1e-12}},
            [
                result(
                    "fail", message="off by ½", error=0.25, budget=1e-12, repro="again", smallest=[1, 2], reason="why"
                )
            ],
            [{"deviation": "d", "residual": 3e-15}],
            "attention.scores",
            ["a note"],
            1.5,
            "float32",
        )
    ],
)


def test_the_json_of_schema_1_has_every_field_under_its_name() -> None:
    """The page of each requirement among them; versions and seed beside the targets."""
    data = json.loads(WHOLE.to_json())
    requirement = {
        "id": "ATT-3",
        "equation": "attention.scores",
        "test": "test_attention::test_x",
        "level": "trace",
        "outcome": "fail",
        "message": "off by ½",
        "error": 0.25,
        "budget": 1e-12,
        "repro": "again",
        "smallest": [1, 2],
        "reason": "why",
        "link": "",
        "page": "attention.html#ATT-3",
    }
    target = {
        "target": "file.py:make",
        "verdict": "nonconformant",
        "level": "trace",
        "profile": {"name": "bert", "choices": {"eps": 1e-12}},
        "requirements": [requirement],
        "diagnosis": [{"deviation": "d", "residual": 3e-15}],
        "departs_at": "attention.scores",
        "notes": ["a note"],
        "seconds": 1.5,
        "dtype": "float32",
        "extent": {},
        "explained": True,
    }
    versions = {"schema": 1, "spec_version": SPEC_VERSION, "suite_version": __version__}
    assert data == versions | {"seed": 7, "targets": [target]} == WHOLE.to_dict()


def test_the_json_shows_letters_as_they_are_and_one_entry_a_line() -> None:
    assert '"message": "off by ½"' in WHOLE.to_json()
    assert WHOLE.to_json().startswith('{\n "schema": 1,\n')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, None),
        (-math.inf, None),
        (math.nan, None),
        (-2.5, -2.5),
        (3, 3),
        (True, True),
        ("inf", "inf"),
        (None, None),
        ([1.0, math.inf, [math.nan]], [1.0, None, [None]]),
        ({"a": math.inf, "b": [{"c": -math.inf, "d": 2.0}]}, {"a": None, "b": [{"c": None, "d": 2.0}]}),
    ],
)
def test_numbers_that_are_not_finite_become_null_wherever_they_stand(value: Any, expected: Any) -> None:
    assert finite(value) == expected


@pytest.mark.parametrize(
    ("results", "asked", "reached"),
    [
        ([], "gradient", ("static", "undetermined")),
        ([evidence("pass", "static")], "static", ("static", "conformant")),
        ([evidence("pass", "static")], "gradient", ("static", "undetermined")),
        ([evidence("pass", "black-box")], "trace", ("black-box", "undetermined")),
        ([evidence("pass", "agreement")], "gradient", ("agreement", "conformant")),
        ([evidence("pass", "trace"), evidence("unsupported", "gradient")], "gradient", ("trace", "conformant")),
        ([evidence("pass", "trace"), evidence("blocked")], "gradient", ("trace", "conformant")),
        ([evidence("pass", "trace"), evidence("xfail")], "gradient", ("trace", "conformant")),
        ([evidence("pass", "trace"), evidence("fail", "static")], "gradient", ("trace", "nonconformant")),
        ([evidence("pass", "trace"), evidence("xpass")], "gradient", ("trace", "nonconformant")),
        ([evidence("pass", "trace"), evidence("error")], "gradient", ("trace", "nonconformant")),
        ([evidence("error"), evidence("fail")], "gradient", ("static", "nonconformant")),
    ],
)
def test_verdict_follows_from_the_results(results: list[Result], asked: str, reached: tuple[str, str]) -> None:
    """Agreement suffices, or less if less was asked for; one failure, or one error of a check, outweighs all."""
    assert verdict_of(results, Level.named(asked)) == reached
