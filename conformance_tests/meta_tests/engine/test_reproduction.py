"""The reproduction in a report repeats the failure when it is pasted."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance_tests.engine.reproduction import again
from conformance_tests.frontends.command_line import main
from conformance_tests.harness.question import Question
from conformance_tests.meta_tests.encoders.subjects import Encoder, Sound
from encoder_spec.profiles import BERT

BROKEN = """
from conformance_tests.meta_tests.encoders.catalogue import all_defects
make = all_defects()["ScaledByModelWidth"].make
def wrapped(): return make()
"""


def test_command_runs_as_it_is_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a profile with spaces and quotes in their names; the same status and the same failures again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my $broken 'one'.py").write_text(BROKEN)
    (tmp_path / "my profile.toml").write_text('base = "torch-post-ln"\n')
    options = ["--profile", "my profile.toml", "--seed", "5"]
    first = CliRunner().invoke(main, ["check", "my $broken 'one'.py:make", *options])
    line = next(line for line in first.stdout.splitlines() if line.startswith("Again: "))
    words = shlex.split(line.removeprefix("Again: "))
    assert words[0] == "encoder-spec"
    second = CliRunner().invoke(main, words[1:])
    assert (first.exit_code, second.exit_code) == (1, 1)
    failed = [[line for line in r.stdout.splitlines() if line.startswith("FAIL")] for r in (first, second)]
    assert failed[0] == failed[1] != []


def test_function_of_a_package_is_named_as_a_target() -> None:
    """What was given as an object can be imported, and so be named."""
    assert (
        again(Encoder, Question(seed=3))
        == "encoder-spec check conformance_tests.meta_tests.encoders.subjects:Encoder --seed 3"
    )


def test_function_of_a_lone_file_is_named_by_its_path(tmp_path: Path) -> None:
    """Its folder is on the path while the program runs, but not where the line is pasted."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "lone.py").write_text(
        "from conformance_tests.engine.reproduction import again\n"
        "from conformance_tests.harness.question import Question\n"
        "def make(): ...\nprint(again(make, Question('bert', seed=2)))\n"
    )
    command = [sys.executable, "code/lone.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "encoder-spec check code/lone.py:make --profile bert --seed 2\n"


def test_object_that_nothing_names_is_reproduced_where_it_is() -> None:
    """The lines run as soon as ``encoder`` stands for it."""
    lines = again(lambda: Sound(), Question(BERT, seed=3))
    assert lines.splitlines()[1] == "print(check(encoder, profile='bert', seed=3).to_json())"
    assert lines.splitlines()[2] == "# encoder is the object that was judged"
    compile(lines, "pasted", "exec")


def test_a_profile_that_has_no_name_is_left_to_who_asked() -> None:
    """A variable stands for it, and a remark says so; what is typed into an interpreter has no file to name."""
    lines = again("torch-post-ln", Question(BERT.replace(name="mine", eps=1e-3))).splitlines()
    assert lines[1:] == [
        "print(check('torch-post-ln', profile=profile, seed=0).to_json())",
        "# profile is the one that was asked for",
    ]


def test_reasons_in_a_mapping_are_reproduced_in_python() -> None:
    """No command can say them; the call gives the same unexpected pass."""
    lines = again("torch-post-ln", Question(seed=3, expected={"ENC-5": "it's known"}))
    printed: list[str] = []
    exec(lines, {"print": printed.append})
    assert '"outcome": "xpass"' in printed[0]
    assert '"reason": "it\'s known"' in printed[0]
