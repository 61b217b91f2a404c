"""What the command line prints, and the report that it writes."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conformance_tests.engine.judging import check
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.encoders.catalogue import all_defects
from conformance_tests.reports.report import OUTCOMES
from conformance_tests.targets.builtin import BUILTIN, runnable
from encoder_spec.equation import equations, requirements
from encoder_spec.profiles import PROFILES

VERDICTS = {"conformant", "nonconformant", "undetermined", "error"}
LEVELS = {"static", "black-box", "agreement", "trace", "gradient"}
REQUIREMENT = {"id", "equation", "test", "outcome", "message", "error", "budget", "repro"}
TARGET = {"target", "verdict", "level", "profile", "requirements", "diagnosis", "departs_at", "seconds"}


def printed(*arguments: str, status: int = 0) -> str:
    """What a command prints, which must end with ``status`` and say nothing on standard error."""
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (status, ""), result.output
    assert "\x1b" not in result.stdout, "colour codes where no terminal is"
    return result.stdout


def without_seconds(report: dict[str, Any]) -> dict[str, Any]:
    """A report but for the time it took."""
    return report | {"targets": [t | {"seconds": 0} for t in report["targets"]]}


def test_json_report_has_every_key_of_schema_1(tmp_path: Path) -> None:
    """For a sound and for a broken encoder; a strict parser reads it, since no number in it is infinite."""
    file = tmp_path / "report.json"
    printed("check", "torch-pre-ln", "reference-vit", "--seed", "3", "--json", str(file))
    sound = json.loads(file.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert {"schema", "spec_version", "suite_version", "seed", "targets"} <= set(sound)
    assert (sound["schema"], sound["seed"]) == (1, 3)
    assert [t["target"] for t in sound["targets"]] == ["torch-pre-ln", "reference-vit"]
    broken = json.loads(check(all_defects()["MaskAsFactor"].make).to_json(), parse_constant=pytest.fail)
    for target in sound["targets"] + broken["targets"]:
        assert set(target) >= TARGET
        assert target["verdict"] in VERDICTS
        assert target["level"] in LEVELS
        assert set(target["profile"]) >= {"name", "choices"}
        assert target["seconds"] > 0
        for r in target["requirements"]:
            assert set(r) >= REQUIREMENT
            assert r["outcome"] in OUTCOMES
            assert requirements()[r["id"]].equation == r["equation"]
            assert (r["message"] == "") == (r["outcome"] == "pass")
            assert all(r[k] is None or math.isfinite(r[k]) for k in ("error", "budget"))
    assert broken["targets"][0]["departs_at"] == "attention.mask"


def test_requirement_is_reported_once_for_each_target() -> None:
    """No id twice, and every id that the encoder's equations have and a check decides."""
    ids = [r.id for r in check("torch-post-ln").requirements]
    assert len(ids) == len(set(ids)) > 40


def test_same_seed_gives_the_same_report(tmp_path: Path) -> None:
    """Two runs in one process, in JSON, but for the seconds; another seed gives other numbers and no other verdict."""
    files = [tmp_path / f"{i}.json" for i in range(3)]
    for file, seed in zip(files, "557", strict=True):
        printed("check", "torch-post-ln", "reference", "--seed", seed, "--json", str(file))
    first, again, other = (without_seconds(json.loads(f.read_text())) for f in files)
    assert first == again
    assert [t["verdict"] for t in other["targets"]] == ["conformant", "conformant"]
    errors = [[r["error"] for t in report["targets"] for r in t["requirements"]] for report in (first, other)]
    assert errors[0] != errors[1]


def test_failing_report_names_a_command_that_fails_again() -> None:
    """``repro`` is a call with the target, the profile and the seed."""
    result = CliRunner().invoke(main, ["check", "torch-post-ln", "--profile", "pre-ln", "--seed", "5"])
    assert result.exit_code == 1
    again = re.search(r"encoder-spec (check torch-post-ln .*--seed 5)", result.stdout)
    assert again, result.stdout
    assert CliRunner().invoke(main, again[1].split()).exit_code == 1


def test_check_without_target_judges_every_built_in_encoder() -> None:
    """One line for each that can run here, all conformant."""
    lines = printed("check", "-q", "--level", "static").splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [[name, "conformant"] for name in runnable()]
    assert lines[-1].startswith(f"{len(runnable())} of {len(runnable())} conformant")


def test_quiet_prints_a_line_and_verbose_every_requirement() -> None:
    """-q: the verdict alone; default: a row for each topic; -v: a row for each requirement."""
    quiet, usual, verbose = (printed("check", "--in-process", "torch-post-ln", *flag) for flag in (["-q"], [], ["-v"]))
    assert quiet.count("\n") == 1
    assert re.search(r"^ ?attention +ATT-1 ATT-3", usual, re.MULTILINE)
    assert not re.search(r"^ ?ATT-3 +pass", usual, re.MULTILINE)
    assert len(re.findall(r"^ ?[A-Z]+-\d+ +pass", verbose, re.MULTILINE)) > 40
    assert re.search(r"^ ?ATT-3 +pass +trace", verbose, re.MULTILINE)


def test_identify_says_the_variant_of_each_target() -> None:
    """Post-LN and Pre-LN are told apart; what is nothing that can be identified has status 1."""
    found = printed("identify", "torch-post-ln", "torch-pre-ln")
    post, pre = found.split("torch-pre-ln", 1)
    assert "layer post-ln" in post
    assert "layer pre-ln" in pre
    broken = "conformance_tests.meta_tests.encoders.example:scaled_by_model_width"
    assert "agree with no choice of equations" in " ".join(printed("identify", broken, status=1).split())


def test_listings_name_everything() -> None:
    """Every built-in encoder, equation, requirement and profile; the traceability table has no hole."""
    listed = {"encoders": BUILTIN, "equations": equations(), "requirements": requirements(), "profiles": PROFILES}
    for command, known in listed.items():
        shown = printed(command)
        assert [name for name in known if name not in shown] == [], command
    assert f"{len(equations())} equations, {len(requirements())} requirements, 0 holes" in printed("traceability")


def test_one_entry_is_shown_with_all_that_stands_behind_it() -> None:
    """An equation with formula, code and requirements; a requirement, in any case, with its check; a profile."""
    scores = printed("equations", "attention.scores")
    assert all(part in scores for part in (r"\frac{Q K^\top}{\sqrt{d_k}}", "Q @ K.mT", "ATT-3", "Vaswani"))
    assert "test_scores_have_the_scale_of_their_variant" in printed("requirements", "att-3")
    bert = printed("profiles", "bert")
    assert re.search(r"activation +gelu\b", bert)
    assert re.search(r"eps +1e-12\b", bert)


def test_count_prints_formula_and_number() -> None:
    """4·512² = 1,048,576 without biases, 4·512 = 2,048 more with; with d_model = 64, h = 4: 4·64² + 4·64 = 16,640."""
    assert "1,048,576" in printed("count")
    with_biases = printed("count", "--profile", "torch-post-ln")
    assert re.search(r"4·d_model² \+ 4·d_model +1,050,624", with_biases)
    assert "3,152,384" in with_biases
    smaller = printed("count", "--profile", "bert", "--set", "d_model=64", "--set", "num_heads=4")
    assert re.search(r"4·d_model² \+ 4·d_model +16,640", smaller)
