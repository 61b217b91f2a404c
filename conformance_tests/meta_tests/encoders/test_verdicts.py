"""Every encoder that is broken on purpose gets its verdict, and every sound one is acquitted."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.catalogue import all_defects
from conformance_tests.meta_tests.encoders.subjects import PreNormEncoder, Sound

PLACE_GOT_WANT_ALLOWED = re.compile(
    r"^[a-z_.]+: .+\[[\d, ]+\] = \S+, but the spec gives \S+ \(off by \S+, allowed \S+\) \[.*d_k=\d+.*; seed 0\]$"
)

WORKER = """
import json, re, sys
from itertools import groupby
from pathlib import Path
from click.testing import CliRunner
from conformance_tests.frontends.command_line import main
from conformance_tests.meta_tests.encoders.catalogue import all_defects

globals().update({name: defect.make for name, defect in all_defects().items()})
file = Path(f"report-{sys.argv[1]}.json")
judged = {}
half = list(all_defects().items())[int(sys.argv[1])::2] if __name__ == "__main__" else ()
profile_of = lambda item: item[1].profile
for profile, defects in groupby(sorted(half, key=profile_of), key=profile_of):
    names = [name for name, _ in defects]
    targets = [f"worker.py:{name}" for name in names]
    called = CliRunner().invoke(main, ["check", *targets, "--profile", profile, "--json", str(file)])
    printed = {part.split()[0]: part for part in re.split(r"^(?=worker[.]py:)", called.output, flags=re.M) if part}
    reports = json.loads(file.read_text())["targets"] if file.exists() else [None] * len(names)
    file.unlink(missing_ok=True)
    for name, target, report in zip(names, targets, reports, strict=True):
        judged[name] = called.exit_code, printed[target] if report else called.output, report
if judged:
    print(json.dumps(judged))
"""
"""Calls the command line for every second broken encoder; the same file, imported, holds the encoders as targets."""

Judged = dict[str, tuple[int, str, dict[str, Any] | None]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """What the command line says of every broken encoder: exit status, its part of the output, its report.

    Two processes share the work. All encoders with one declared profile are targets of one call, so that a
    broken encoder that disturbed the next one would be noticed too.
    """
    folder = tmp_path_factory.mktemp("verdicts")
    (folder / "worker.py").write_text(WORKER)
    (folder / "torch-post-ln-gelu.toml").write_text('base = "torch-post-ln"\nactivation = "gelu"\n')
    commands = [[sys.executable, "-W", "error", "worker.py", half] for half in "01"]
    workers = [subprocess.Popen(c, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for c in commands]
    said = [worker.communicate() for worker in workers]
    assert [(w.returncode, err) for w, (_, err) in zip(workers, said, strict=True)] == [(0, b"")] * 2
    return {name: tuple(found) for out, _ in said for name, found in json.loads(out.splitlines()[-1]).items()}


@pytest.mark.parametrize("name", all_defects())
def test_broken_encoder_is_found_out(name: str, judged: Judged) -> None:
    """Exit status 1, the equation it departs at, the requirements it fails, and messages that show numbers."""
    defect = all_defects()[name]
    status, printed, target = judged[name]
    assert target is not None, printed
    failed = {r["id"]: r for r in target["requirements"] if r["outcome"] == "fail"}
    assert (status, target["verdict"]) == (1, "nonconformant"), target["notes"]
    assert target["departs_at"] == defect.departs_at, sorted(failed)
    assert set(defect.fails) <= set(failed), sorted(failed)
    assert [r["message"] for r in failed.values() if not r["message"] or "\n" in r["message"]] == []
    assert [id for id, r in failed.items() if f"FAIL {id}  {r['message']}" not in printed] == []
    assert f"Departs from the specification at {defect.departs_at}" in printed
    output = failed.get("ENC-2") or failed.get("ENC-3")
    if output and output["error"] is not None:
        assert PLACE_GOT_WANT_ALLOWED.match(output["message"]), output["message"]
        assert output["error"] > output["budget"]
        assert any(r["equation"] == defect.departs_at for r in failed.values()), sorted(failed)


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
