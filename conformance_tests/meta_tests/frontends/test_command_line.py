"""The command line: exit statuses, one line for what cannot be used, and output that programs can read."""

import json
import os
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
    """An otherwise empty current folder with files that name targets and profiles."""
    monkeypatch.chdir(tmp_path)
    files = {
        "targets.py": TARGETS,
        "imports_nothing.py": "import module_that_nobody_has",
        "no_python.py": "def f(:",
        "leaves.py": "raise SystemExit(7)",
        "variant.toml": 'layer = "sideways"',
        "slot.toml": 'shape = "round"',
        "base.toml": 'base = "gpt"',
        "list.toml": "base = []",
        "number.toml": "name = 3",
        "eps.toml": 'eps = "small"',
        "broken.toml": "layer = = 3",
        "own.toml": 'base = "torch-post-ln"\nactivation = "gelu"\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    return tmp_path


def run(*arguments: str) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, arguments)


def report(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON report of a check."""
    result = run("check", *arguments, "--json", str(folder / "report.json"))
    return result.exit_code, json.loads((folder / "report.json").read_text())


UNUSABLE = {
    "check nobody": "Unknown target 'nobody'",
    "check targets.py:nobody": "targets.py has no attribute 'nobody'; it has make",
    "check targets.py:fine.nobody": "targets.py has no attribute 'fine.nobody'",
    "check targets:nobody": "targets has no attribute 'nobody'",
    "check targets.py:": "must have the form",
    "check :make": "must have the form",
    "check nobody.py:make": "there is no file nobody.py",
    "check no.body:make": "there is no module 'no.body'",
    "check torch-post-ln targets.py:nobody": "has no attribute 'nobody'",
    "identify nobody": "Unknown target 'nobody'",
    "identify targets.py:nobody": "has no attribute 'nobody'",
    "identify": "Missing argument",
    "check torch-post-ln --profile nobody": "there is no profile 'nobody'",
    "check torch-post-ln --profile absent.toml": "profile file absent.toml",
    "check torch-post-ln --profile variant.toml": "slot layer has no variant 'sideways': choose among post-ln, pre-ln",
    "check torch-post-ln --profile slot.toml": "there is no slot or constant named 'shape'",
    "check torch-post-ln --profile base.toml": "base must be one of vaswani-2017",
    "check torch-post-ln --profile list.toml": "base must be one of vaswani-2017",
    "check torch-post-ln --profile number.toml": "name must be a text, but is 3",
    "check torch-post-ln --profile eps.toml": "eps must be a non-negative number, but is 'small'",
    "check torch-post-ln --profile broken.toml": "profile file broken.toml",
    "check torch-post-ln --profile latin.toml": "profile file latin.toml",
    "check torch-post-ln --level strongest": "'strongest' is not one of 'static'",
    "check torch-post-ln --device nowhere": "there is no device 'nowhere' here",
    "check torch-post-ln --device meta": "there is no device 'meta' here",
    "check torch-post-ln --dtype int8": "'int8' is not one of 'float64'",
    "check torch-post-ln --seed many": "'many' is not a valid integer",
    "check torch-post-ln --seed -1": "-1 is not in the range",
    "check torch-post-ln --json absent/report.json": "absent/report.json cannot be written: No such file or directory",
    "check torch-post-ln --json .": "is a directory",
    "check --nothing": "No such option",
    "nothing": "No such command",
    "count --profile nobody": "there is no profile 'nobody'",
    "count --set h=7": "the 7 heads do not divide d_model = 512: choose h among its divisors",
    "count --set h=0": "--set h=0: write NAME=NUMBER with a positive number",
    "count --set width": "--set width: write NAME=NUMBER",
    "count --set width=3": "a name among d_model, h, d_ff",
    "equations attention.score": "Did you mean attention.scores",
    "requirements ATT-99": "there is no requirement 'ATT-99'",
    "profiles nobody": "there is no profile 'nobody'",
}


@pytest.mark.parametrize("command", UNUSABLE)
def test_what_cannot_be_used_is_said_in_one_line_with_status_2(command: str, folder: Path) -> None:
    """Nothing is judged, nothing is printed, and standard error has one line that says what is wrong."""
    result = run(*command.split())
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("Error: ")
    assert UNUSABLE[command] in result.stderr


def test_report_is_not_left_behind_where_nothing_is_judged(folder: Path) -> None:
    """Whether the file can be written is found out first, without leaving an empty one."""
    assert run("check", "nobody", "--json", "report.json").exit_code == 2
    assert not (folder / "report.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_report_into_a_closed_folder_is_refused(folder: Path) -> None:
    """The folder exists, and its owner has taken the right to write away."""
    (folder / "closed").mkdir(mode=0o500)
    result = run("check", "torch-post-ln", "--json", "closed/report.json")
    assert (result.exit_code, "cannot be written: Permission denied" in result.stderr) == (2, True)


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


def test_fault_of_the_suite_itself_has_status_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A division by zero inside the suite is shown with its traceback, and is no verdict."""
    monkeypatch.setattr("conformance_tests.engine.judging.check_all", lambda *_: 1 / 0)
    result = run("check", "torch-post-ln", "--in-process")
    assert (result.exit_code, "ZeroDivisionError" in result.stderr) == (3, True)
    assert result.stderr.endswith("encoder-spec itself failed: please report the lines above\n")


def test_module_is_the_command(folder: Path) -> None:
    """``python -m conformance_tests`` judges with the same statuses, in a process of its own, without a traceback."""
    command = [sys.executable, "-m", "conformance_tests", "check", "--level", "static"]
    for target, status in {"targets.py:fine": 0, "targets.py:text": 1, "targets.py:nobody": 2}.items():
        done = subprocess.run([*command, target], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr
