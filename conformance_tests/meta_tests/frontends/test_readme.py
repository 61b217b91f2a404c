"""The reports in the README are what the commands print today."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance_tests.frontends.command_line import main
from encoder_spec.profiles import PROFILES, profile

ROOT = Path(__file__).parents[3]
REPORT = re.compile(r"<!-- report: (.+?) -->\n```\n(.*?)```", re.DOTALL)
README = ROOT / "README.md"


def printed(command: str) -> str:
    """What a command prints where there is no terminal, without trailing space."""
    arguments = [
        a.replace("conformance_tests/meta_tests", str(ROOT / "conformance_tests/meta_tests")) for a in command.split()
    ]
    result = CliRunner().invoke(main, arguments)
    output = result.output.replace(str(ROOT) + "/", "")
    return "\n".join(line.rstrip() for line in output.strip().splitlines()) + "\n"


def without_measurements(report: str) -> str:
    """The report with errors, times and column widths taken out: they differ between machines."""
    report = re.sub(r"\d(?:\.\d+)?e[+-]\d+|\d+\.\d s|-?\d+\.\d+", "#", report)
    return re.sub(r"[ ─]+", " ", report)


@pytest.mark.parametrize(("command", "shown"), REPORT.findall(README.read_text(encoding="utf-8")))
def test_the_reports_are_those_of_a_real_run(command: str, shown: str) -> None:
    """Up to measured numbers; ``UPDATE_README=1`` writes today's reports into the README."""
    report = printed(command)
    if os.environ.get("UPDATE_README"):
        text = README.read_text(encoding="utf-8")
        README.write_text(
            text.replace(f"{command} -->\n```\n{shown}```", f"{command} -->\n```\n{report}```"), encoding="utf-8"
        )
        return
    assert without_measurements(report) == without_measurements(shown)
    assert "pass" in report


def test_the_readme_has_a_conformant_and_a_nonconformant_report() -> None:
    commands = dict(REPORT.findall(README.read_text(encoding="utf-8")))
    assert any(" conformant " in report for report in commands.values())
    assert any(" nonconformant " in report for report in commands.values())


def test_the_profile_of_the_guide_is_one(tmp_path: Path) -> None:
    """It differs from its base in what it says, and nowhere else."""
    guide = (ROOT / "docs/test-your-encoder.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(# roberta-pre-ln\.toml\n.*?)```", guide, re.DOTALL)
    (tmp_path / "roberta-pre-ln.toml").write_text(text)
    theirs, base = profile(str(tmp_path / "roberta-pre-ln.toml")), PROFILES["roberta"].choices()
    differing = {slot: choice for slot, choice in theirs.choices().items() if base.get(slot) != choice}
    wanted = {"layer": "pre-ln", "final_norm": "norm", "activation": "gelu-tanh", "eps": 1e-6, "norm_final.eps": 1e-5}
    assert (theirs.name, theirs.source, differing) == ("roberta-pre-ln", "ours, 2026", wanted)
