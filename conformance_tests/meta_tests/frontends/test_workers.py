"""The command line with workers: what it says and its exit status where targets are imported in processes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conformance_tests.frontends.command_line import main

TARGETS = """
import torch
from torch import nn

from conformance_tests.meta_tests.encoders.catalogue import all_defects

fine = nn.TransformerEncoder(nn.TransformerEncoderLayer(30, 5, 44, batch_first=True), 2, enable_nested_tensor=False)
make = lambda: fine
broken = all_defects()["ScaledByModelWidth"].make
linear = nn.Linear(3, 5)
relu = nn.ReLU()
text = "encoder"
nothing = None

def raises():
    raise RuntimeError("no weights\\nin two lines")

def leaves():
    raise SystemExit(7)

def gives_none():
    return None

def needs(width, heads=2):
    return width

class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty current folder with files that name targets."""
    monkeypatch.chdir(tmp_path)
    files = {
        "targets.py": TARGETS,
        "imports_nothing.py": "import module_that_nobody_has",
        "no_python.py": "def f(:",
        "leaves.py": "raise SystemExit(7)",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def run(*arguments: str) -> Result:
    """Call the command in this process; its workers are others."""
    return CliRunner().invoke(main, arguments)


def report(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON report of a check."""
    result = run("check", *arguments, "--json", str(folder / "report.json"))
    return result.exit_code, json.loads((folder / "report.json").read_text())


UNUSABLE = {
    "check targets.py:nobody": "targets.py has no attribute 'nobody'; it has make",
    "check targets.py:fine.nobody": "targets.py has no attribute 'fine.nobody'",
    "check targets:nobody": "targets has no attribute 'nobody'",
    "identify targets.py:nobody": "has no attribute 'nobody'",
    "check torch-post-ln --profile absent.toml": "profile file absent.toml",
    "check torch-post-ln --device nowhere": "there is no device 'nowhere' here",
}


@pytest.mark.parametrize("command", UNUSABLE)
def test_what_a_worker_cannot_use_is_said_in_one_line_with_status_2(command: str, folder: Path) -> None:
    """What a module has shows when it is imported, and what torch has when the question is asked."""
    result = run(*command.split())
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert UNUSABLE[command] in result.stderr


def test_a_name_that_proves_unusable_costs_no_verdict(folder: Path) -> None:
    """The others are judged, shown and written; the line about it comes behind them, with status 2."""
    result = run(
        "check", "targets.py:nobody", "torch-post-ln", "--level", "static", "--json", str(folder / "report.json")
    )
    assert result.exit_code == 2
    assert [line.split()[0] for line in result.stdout.splitlines() if "conformant  " in line] == ["torch-post-ln"]
    assert result.stderr.startswith("Error: targets.py has no attribute 'nobody'; it has make")
    assert result.stderr.count("\n") == 1
    written = json.loads((folder / "report.json").read_text())
    assert [t["target"] for t in written["targets"]] == ["torch-post-ln"]


NO_ENCODER = {
    "targets.py:raises": ("error", "raises() raised RuntimeError: no weights"),
    "targets.py:leaves": ("error", "leaves() raised SystemExit: 7"),
    "targets.py:needs": ("error", "needs needs the arguments width: name a function without required arguments"),
    "targets.py:Needs": ("error", "Needs needs the arguments width"),
    "targets.py:text": ("error", "str is not an encoder"),
    "targets.py:nothing": ("error", "NoneType is not an encoder"),
    "targets.py:gives_none": ("error", "NoneType is not an encoder"),
    "imports_nothing.py:f": ("error", "No module named 'module_that_nobody_has'"),
    "no_python.py:f": ("error", "SyntaxError"),
    "leaves.py:f": ("error", "importing leaves.py raised SystemExit: 7"),
    "targets.py:linear": ("undetermined", "no attention projections"),
    "targets.py:relu": ("undetermined", "no attention projections"),
}


def test_target_that_is_no_encoder_costs_nothing_to_the_others(folder: Path) -> None:
    """Each gets one note and its verdict; the sound encoder after them is judged all the same."""
    status, found = report(folder, *NO_ENCODER, "targets.py:make")
    assert status == 1
    assert len(found["targets"]) == len(NO_ENCODER) + 1
    for target in found["targets"][:-1]:
        verdict, said = NO_ENCODER[target["target"]]
        assert (target["verdict"], len(target["notes"]), target["requirements"]) == (verdict, 1, []), target["target"]
        assert said in target["notes"][0]
        assert "\n" not in target["notes"][0]
    assert found["targets"][-1]["verdict"] == "conformant"


def test_statuses_say_whether_every_target_is_conformant(folder: Path) -> None:
    """0 for a sound encoder, however it is named; 1 for a broken one, alone or beside a sound one."""
    assert run("check", "-q", "targets.py:fine", "targets:make", f"{folder}/targets.py:make").exit_code == 0
    assert run("check", "-q", "targets.py:broken").exit_code == 1
    result = run("check", "-q", "torch-post-ln", "targets.py:broken", "--level", "agreement")
    assert (result.exit_code, "1 of 2 conformant" in result.stdout) == (1, True)


def test_the_report_is_the_same_whatever_the_number_of_jobs(folder: Path) -> None:
    """In the order of the targets, byte for byte but for the seconds: sound, broken, crashing and unusable ones."""
    (folder / "ends.py").write_text("import os\nmake = lambda: os._exit(3)\n")
    targets = ["targets.py:broken", "ends.py:make", "targets.py:fine", "targets.py:text", "torch-pre-ln", "targets:nil"]
    reports = []
    for jobs in ("1", "3"):
        result = run("check", *targets, "--jobs", jobs, "--json", f"{jobs}.json")
        assert result.exit_code == 2  # one has no such attribute
        without_seconds = re.compile(r"\b\d+\.\d+ s\b|\"seconds\": [\d.]+")
        reports.append([without_seconds.sub("", t) for t in (result.output, (folder / f"{jobs}.json").read_text())])
    assert reports[0] == reports[1]
    assert [t["target"] for t in json.loads((folder / "3.json").read_text())["targets"]] == targets[:-1]


def test_module_is_the_command(folder: Path) -> None:
    """``python -m conformance_tests`` judges with the same statuses, in a process of its own, without a traceback."""
    command = [sys.executable, "-m", "conformance_tests", "check", "--level", "static"]
    for target, status in {"targets.py:fine": 0, "targets.py:text": 1, "targets.py:nobody": 2}.items():
        done = subprocess.run([*command, target], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr
