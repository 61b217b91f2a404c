"""The reports that programs read: JSON and its schema, JUnit XML, the badge, and the options that write them."""

import copy
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from click.testing import CliRunner

from conformance_tests.engine.judging import check
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.encoders.catalogue import all_defects
from conformance_tests.meta_tests.reports.hostile import HOSTILE, SHOWN, report_saying
from conformance_tests.reports import FORMATS, written
from conformance_tests.reports.report import OUTCOMES, Report, Result, TargetReport

SCHEMA = json.loads((files("conformance_tests.reports") / "schema.json").read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def real() -> Report:
    """A sound encoder, a broken one with an expected failure and an unexpected pass, one that is none."""
    broken = all_defects()["ScaledByModelWidth"].make
    expected = {"ATT-3": "known", "ENC-5": "once true"}
    sound, bad, none = check("torch-post-ln"), check(broken, expected=expected), check(dict)
    weak = TargetReport("weak", "undetermined", notes=["no attention projections"])
    return Report(0, [*sound.targets, *bad.targets, *none.targets, weak])


def red(report: Report) -> list[bool]:
    """For each suite of the JUnit file, whether a build would stop at it."""
    suites = ElementTree.fromstring(written(report, "junit")).findall("testsuite")
    return [suite.find("testcase/failure") is not None or suite.find("testcase/error") is not None for suite in suites]


def test_command_writes_every_format(tmp_path: Path) -> None:
    """One run, five files, each in its own format."""
    options = [part for form in FORMATS for part in (f"--{form}", str(tmp_path / form))]
    result = CliRunner().invoke(main, ["check", "-q", "torch-post-ln", "--level", "static", *options])
    assert result.exit_code == 0, result.output
    found = {form: (tmp_path / form).read_text(encoding="utf-8") for form in FORMATS}
    jsonschema.validate(json.loads(found["json"]), SCHEMA)
    assert ElementTree.fromstring(found["junit"]).tag == "testsuites"
    assert ElementTree.fromstring(found["badge"]).tag == f"{SVG}svg"
    assert found["markdown"].startswith("# Conformance report: conformant\n")
    assert found["html"].lstrip().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("form", FORMATS)
def test_file_that_cannot_be_written_is_refused_before_the_work(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 2 and one line, and no encoder has been judged."""
    monkeypatch.setattr("conformance_tests.engine.judging.check_all", lambda *_: pytest.fail("the work was begun"))
    result = CliRunner().invoke(main, ["check", "torch-post-ln", "--in-process", f"--{form}", "absent/report"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: absent/report cannot be written: No such file or directory\n"


def test_file_for_two_reports_is_refused(tmp_path: Path) -> None:
    """Otherwise the second would silently replace the first."""
    file = str(tmp_path / "report")
    result = CliRunner().invoke(main, ["check", "torch-post-ln", "--json", file, "--html", file])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot hold two reports" in result.stderr


def test_json_of_every_kind_of_verdict_fits_the_schema(real: Report) -> None:
    """All four verdicts and five of the outcomes occur in it; the schema itself is sound."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(real.to_json()), SCHEMA)
    assert {t.verdict for t in real.targets} == {"conformant", "nonconformant", "undetermined", "error"}
    assert {r.outcome for r in real.requirements} == set(OUTCOMES) - {"unsupported", "error"}


def undescribed(data: Any, schema: dict[str, Any]) -> list[str]:
    """Keys in the data for which the schema has no entry."""
    schema = SCHEMA["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    if isinstance(data, list):
        return [key for item in data for key in undescribed(item, schema["items"])]
    if not isinstance(data, dict) or "additionalProperties" in schema:
        return []
    known = schema["properties"]
    below = [key for name, value in data.items() if name in known for key in undescribed(value, known[name])]
    return [*(set(data) - set(known)), *below]


def test_schema_describes_every_key_that_is_written(real: Report) -> None:
    """A key that nobody described would be noticed by nobody when it goes."""
    assert undescribed(json.loads(real.to_json()), SCHEMA) == []
    assert undescribed({"targets": [{"new": 1}]}, SCHEMA) == ["new"]


WRONG = {
    "verdict": "fine",
    "level": "strong",
    "requirements": [],
    "departs_at": 3,
    "notes": None,
    "seconds": -1,
    "profile": {},
}


@pytest.mark.parametrize("key", WRONG)
def test_schema_refuses_what_no_run_reports(key: str, real: Report) -> None:
    """One value of a true report exchanged, or left out."""
    data = json.loads(real.to_json())
    changed, shorter = copy.deepcopy(data), copy.deepcopy(data)
    changed["targets"][0][key] = WRONG[key]
    del shorter["targets"][0][key]
    for wrong in (changed, shorter):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_schema_refuses_a_failure_without_message_and_a_conformant_target_with_one(real: Report) -> None:
    """What a failure owes to its reader, and what a verdict means, are part of the format."""
    data = json.loads(real.to_json())
    data["targets"][0]["requirements"][0] |= {"outcome": "fail", "message": "off", "repro": "again"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
    data["targets"][0]["verdict"] = "nonconformant"
    jsonschema.validate(data, SCHEMA)
    data["targets"][0]["requirements"][0]["message"] = ""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


def test_junit_has_a_case_for_each_requirement(real: Report) -> None:
    """Named by requirement and equation; with what every outcome is in JUnit's words, and counted rightly."""
    root = ElementTree.fromstring(written(real, "junit"))
    kinds = {"fail": "failure", "xpass": "failure", "xfail": "skipped", "blocked": "skipped", "pass": None}
    for suite, target in zip(root.findall("testsuite"), real.targets, strict=True):
        assert suite.get("name") == target.target
        assert float(suite.get("time", "nan")) == target.seconds
        cases = {case.get("name"): case for case in suite.findall("testcase")}
        assert set(cases) - {"verdict"} == {r.id for r in target.requirements}
        for r in target.requirements:
            case = cases[r.id]
            assert case.get("classname") == r.equation
            assert [child.tag for child in case] == [kinds[r.outcome]] * (r.outcome != "pass")
            if r.counts_against:
                assert case[0].get("message") == r.message
                assert r.repro in (case[0].text or "")
        for kind in ("failure", "error", "skipped"):
            count = suite.get({"failure": "failures", "error": "errors", "skipped": "skipped"}[kind])
            assert int(count or -1) == len(suite.findall(f"testcase/{kind}"))
    assert root.find("testsuite/testcase/skipped[@message='expected failure: known']") is not None


def test_junit_is_red_exactly_where_a_target_is_not_conformant(real: Report) -> None:
    """So that a build which reads the file stops where the command's exit status would have stopped it."""
    assert red(real) == [t.verdict != "conformant" for t in real.targets] == [False, True, True, True]


def test_junit_says_why_a_target_has_no_verdict(real: Report) -> None:
    """A case named ``verdict`` holds the notes."""
    root = ElementTree.fromstring(written(real, "junit"))
    error = root.find("testsuite[@name='dict']/testcase[@name='verdict']/error")
    weak = root.find("testsuite[@name='weak']/testcase[@name='verdict']/failure")
    assert error is not None
    assert "dict is not an encoder" in (error.get("message") or "")
    assert weak is not None
    assert weak.get("message") == "no attention projections"


def test_junit_keeps_targets_of_one_name_apart() -> None:
    """Equal suites would be merged to one."""
    twin = TargetReport("make", "conformant", "gradient")
    root = ElementTree.fromstring(written(Report(0, [twin, replace(twin), replace(twin)]), "junit"))
    assert [suite.get("name") for suite in root] == ["make", "make (2)", "make (3)"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_junit_holds_any_text_and_gives_it_back(kind: str) -> None:
    """A parser finds the same elements as with a harmless text, and in them what a reader should see."""
    root, plain = (ElementTree.fromstring(written(report_saying(t), "junit")) for t in (HOSTILE[kind], "plain"))
    assert [(e.tag, list(e.attrib)) for e in root.iter()] == [(e.tag, list(e.attrib)) for e in plain.iter()]
    assert [suite.get("name") for suite in root] == [SHOWN[kind], f"{SHOWN[kind]} (2)"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_json_gives_any_text_back_unchanged(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs get the text itself, lone surrogates included, through a file in UTF-8."""
    monkeypatch.setattr("conformance_tests.engine.judging.check_all", lambda *_: report_saying(HOSTILE[kind]))
    file = tmp_path / "report.json"
    CliRunner().invoke(main, ["check", "-q", "torch-post-ln", "--in-process", "--json", str(file)])
    data = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(data, SCHEMA)
    assert [(t["target"], t["notes"][0]) for t in data["targets"]] == [(HOSTILE[kind], HOSTILE[kind])] * 2


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` or ``#rgb``, as WCAG 2 defines it."""
    digits = colour.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("verdict", ["conformant", "nonconformant", "undetermined", "error"])
def test_badge_says_the_verdict_in_white_on_a_colour_that_carries_it(verdict: str) -> None:
    """The word stands in text and label; white on each half has a contrast of at least 4.5:1; halves fit together."""
    badge = ElementTree.fromstring(written(Report(0, [TargetReport("x", verdict)]), "badge"))
    assert [t.text for t in badge.iter(f"{SVG}text")] == ["encoder-spec", verdict]
    assert badge.get("aria-label") == f"encoder-spec: {verdict}"
    halves = badge.findall(f"{SVG}g/{SVG}rect")
    assert all(1.05 / (luminance(half.get("fill", "")) + 0.05) >= 4.5 for half in halves)
    assert sum(int(half.get("width", "0")) for half in halves) == int(badge.get("width", "0"))
    assert int(halves[0].get("width", "0")) == int(halves[1].get("x", "0"))


def test_badge_of_several_targets_counts_them(real: Report) -> None:
    """One of four; nothing of a subject's own text is in it."""
    assert "<title>encoder-spec: 1 of 4 conformant</title>" in written(real, "badge")
    assert written(report_saying("<i>"), "badge") == written(report_saying("plain"), "badge")


def test_measured_numbers_that_are_not_finite_are_null_in_json() -> None:
    """An output of NaN is off by infinity, which JSON cannot say."""
    failed = Result("ENC-2", "encoder", "t", "agreement", "fail", "Z is nan", float("inf"), 1e-12, "again")
    report = report_saying("plain")
    report.targets[0] = replace(report.targets[0], requirements=[failed])
    data = json.loads(report.to_json(), parse_constant=pytest.fail)
    jsonschema.validate(data, SCHEMA)
    assert data["targets"][0]["requirements"][0]["error"] is None
