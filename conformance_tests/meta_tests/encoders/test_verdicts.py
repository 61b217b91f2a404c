"""Every encoder that is broken on purpose gets its verdict, and every sound one is acquitted."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from conformance_tests.engine.judging import check
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.encoders.catalogue import all_defects
from conformance_tests.meta_tests.encoders.subjects import PreNormEncoder, Sound
from conformance_tests.meta_tests.judgements import Judgements
from conformance_tests.reports.report import Report, TargetReport
from conformance_tests.reports.terminal import print_report

PLACE_GOT_WANT_ALLOWED = re.compile(
    r"^[a-z_.]+: .+\[[\d, ]+\] = \S+, but the spec gives \S+ \(off by \S+, allowed \S+\) \[.*d_k=\d+.*; seed 0\]$"
)


def shown(report: TargetReport) -> str:
    """A report as the terminal shows it, without line breaks inside a message."""
    console = Console(file=StringIO(), width=10_000)
    print_report(console, Report(0, [report]), quiet=False, verbose=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", all_defects())
def test_broken_encoder_is_found_out(
    name: str, judged: Judgements, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict, the equation it departs at, the requirements it fails, and messages that show numbers.

    The catalogue, which takes its time, is asked only where it is needed for that.
    """
    (tmp_path / "torch-post-ln-gelu.toml").write_text('base = "torch-post-ln"\nactivation = "gelu"\n')
    monkeypatch.chdir(tmp_path)
    defect = all_defects()[name]
    target = judged(defect.make, known_as=name, profile=defect.profile, explain=defect.located_by_catalogue)
    printed = shown(target)
    failed = {r.id: r for r in target.of("fail")}
    assert target.verdict == "nonconformant", target.notes
    assert target.departs_at == defect.departs_at, sorted(failed)
    assert set(defect.fails) <= set(failed), sorted(failed)
    assert [r.message for r in failed.values() if not r.message or "\n" in r.message] == []
    assert [id for id, r in failed.items() if f"FAIL {id}  {r.message}" not in printed] == []
    assert f"Departs from the specification at {defect.departs_at}" in printed
    output = failed.get("ENC-2") or failed.get("ENC-3")
    if output and output.error is not None:
        assert PLACE_GOT_WANT_ALLOWED.match(output.message), output.message
        assert output.error > output.budget
        assert any(r.equation == defect.departs_at for r in failed.values()), sorted(failed)


def test_command_says_the_same_of_broken_encoders(tmp_path: Path, judged: Judgements) -> None:
    """Every thirtieth without a declared profile: the exit status is 1, and each report is that of ``check``."""
    names = [name for name, defect in all_defects().items() if defect.profile == "auto"][::30]
    file = tmp_path / "encoders.py"
    file.write_text(
        f"from {all_defects.__module__} import all_defects\n"
        + "".join(f"{name} = all_defects()[{name!r}].make\n" for name in names)
    )
    command = ["check", *(f"{file}:{name}" for name in names), "--json", str(tmp_path / "report.json")]
    called = CliRunner().invoke(main, command)
    assert called.exit_code == 1, called.output
    reports = json.loads((tmp_path / "report.json").read_text())["targets"]
    for name, report in zip(names, reports, strict=True):
        here = judged(all_defects()[name].make, known_as=name)
        assert (report["verdict"], report["departs_at"]) == (here.verdict, here.departs_at), name
        assert [d["says"] for d in report["diagnosis"]] == [d["says"] for d in here.diagnosis], name
        assert [(r["id"], r["outcome"]) for r in report["requirements"]] == [
            (r.id, r.outcome) for r in here.requirements
        ], name
        assert f"Departs from the specification at {here.departs_at}" in called.output


@pytest.mark.parametrize("make", [Sound, PreNormEncoder])
def test_sound_encoder_is_acquitted(make: type[torch.nn.Module]) -> None:
    """What the broken encoders are made from passes every requirement; otherwise their verdicts would say nothing."""
    target = check(make).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient")
    assert {r.outcome for r in target.requirements} == {"pass"}


def test_legitimate_variant_is_a_defect_only_where_another_is_declared() -> None:
    """ε outside the root is S0's norm: conformant by itself, nonconformant where torch's norm is declared."""
    make = all_defects()["EpsilonOutsideTheRoot"].make
    free, declared = check(make), check(make, profile="torch-post-ln", explain=False)
    assert (free.verdict, declared.verdict) == ("conformant", "nonconformant")
    assert free.targets[0].profile["choices"]["norm"] == "std-plus-eps"


def test_fault_of_a_broken_encoder_is_laid_at_one_equation() -> None:
    """With scores divided by √d_model, what is computed before them passes and what follows is blocked, not failed."""
    target = check(all_defects()["ScaledByModelWidth"].make, explain=False).targets[0]
    outcomes = {r.id: r.outcome for r in target.requirements}
    assert {id for id, outcome in outcomes.items() if outcome == "fail"} == {"ENC-2", "ATT-3"}
    assert (outcomes["ATT-1"], outcomes["ATT-6"], outcomes["ENC-10"]) == ("pass", "blocked", "blocked")


def test_weaker_level_finds_no_more_than_its_evidence_shows() -> None:
    """Wrong gradients behind right outputs: conformant as far as ``trace`` looks, not beyond."""
    make = all_defects()["GradientOfTheResidualScaled"].make
    verdicts = [check(make, level=level, explain=False).verdict for level in ("trace", "gradient")]
    assert verdicts == ["conformant", "nonconformant"]
