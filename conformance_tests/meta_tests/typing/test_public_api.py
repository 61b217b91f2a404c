"""The public API under mypy, strict, in a project that has only installed the packages."""

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

Checked = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Copy a file into a user's project, which has no configuration, and return mypy's exit status and output."""
    project = tmp_path_factory.mktemp("project")

    def run(name: str) -> tuple[int, str]:
        text = (HERE / name).read_text(encoding="utf-8")
        (project / name).write_text(text, encoding="utf-8")
        command = (sys.executable, "-m", "mypy", "--strict", "--show-error-codes", "--hide-error-context", name)
        done = subprocess.run(
            [*command, "--config-file=", "--follow-imports=silent", f"--cache-dir={project / 'cache'}"],
            cwd=project,
            env={"MYPYPATH": str(ROOT), "PATH": "", "HOME": str(project)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_right_uses_have_the_types_that_users_rely_on(checked: Checked) -> None:
    """Every ``assert_type`` of the file holds, and nothing in it is an error."""
    assert (HERE / "right_uses.py").read_text(encoding="utf-8").count("assert_type(") > 20
    assert checked("right_uses.py") == (0, "Success: no issues found in 1 source file\n")


def test_wrong_uses_are_errors_where_they_stand_and_nowhere_else(checked: Checked) -> None:
    """Each comment ``E: kind`` is one error of that kind in its line."""
    lines = (HERE / "wrong_uses.py").read_text(encoding="utf-8").splitlines()
    marks = [(number, re.search(r"# E: ([\w-]+)$", line)) for number, line in enumerate(lines, start=1)]
    expected = [(number, mark[1]) for number, mark in marks if mark]
    status, output = checked("wrong_uses.py")
    found = re.findall(r"^wrong_uses\.py:(\d+): error: .*\[([\w-]+)\]$", output, re.MULTILINE)
    assert (status, [(int(number), kind) for number, kind in found]) == (1, expected), output


@pytest.mark.parametrize("package", ["encoder_spec", "conformance_tests"])
def test_both_packages_say_that_they_are_typed(package: str) -> None:
    """Without the marker a user's mypy takes everything for ``Any``, and the tests above would see no error."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "py.typed").is_file()
