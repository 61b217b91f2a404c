"""The pytest plugin, as those who install the package use it: from a folder of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests.harness.checks import registry

BROKEN = """
from conformance_tests.meta_tests.encoders.catalogue import all_defects

make = all_defects()["MaskNeverUsed"].make
"""

THEIR_TEST = """
import pytest

@pytest.fixture
def run():
    return "mine"

def test_mine(run):
    assert run == "mine"
"""


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and all output of pytest in a folder; warnings are errors there too."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def counted(output: str) -> dict[str, int]:
    """The numbers of pytest's last line, by outcome."""
    last = output.strip().splitlines()[-1]
    return {what: int(number) for number, what in re.findall(r"(\d+) (\w+)", last)}


def test_sound_encoder_passes_every_check_and_nothing_else_runs(tmp_path: Path) -> None:
    """One item for each check; skipped are those of equations that the encoder does not use, and nothing fails."""
    status, output = run_pytest(tmp_path, "--pyargs", "conformance_tests", "--encoder", "torch-post-ln", "-v", "-rs")
    assert status == 0, output
    numbers = counted(output)
    assert numbers["passed"] > 35
    assert numbers["passed"] + numbers["skipped"] == len(registry().checks)
    items = re.findall(r"^\S*test_\w+\.py::\w+(\[\S+\])? ", output, re.MULTILINE)
    assert set(items) == {"[torch-post-ln]"}
    reasons = re.findall(r"^SKIPPED .*?: (.*)$", output, re.MULTILINE)
    assert [r for r in reasons if not r.startswith("no equation of this encoder has ")] == []


def test_broken_encoder_fails_and_the_requirement_is_named(tmp_path: Path) -> None:
    """With numbers, in one line, and without a traceback."""
    (tmp_path / "mine.py").write_text(BROKEN)
    status, output = run_pytest(tmp_path, "--pyargs", "conformance_tests", "--encoder", "mine.py:make")
    assert status == 1, output
    assert counted(output)["failed"] == 5
    assert re.search(r"MASK-1: attention\.mask: S\[[\d, ]+\] = \S+, but the spec gives -inf", output)
    failing = set(re.findall(r"^(?:E +)?([A-Z]+-\d+): ", output, re.MULTILINE))
    assert failing == {"MASK-1", "MASK-2", "ENC-3", "ENC-18", "ENC-19"}
    assert "Traceback" not in output
    assert "demand_equal" not in output
    # The summary at the end repeats the whole message where pytest knows that it runs in CI, its first line elsewhere.
    failures = output.partition("short test summary info")[0]
    assert failures.count("Departs from the specification at attention.mask") == 5
    assert failures.count("the specification in which the mask is accepted and never used.") == 5
    assert failures.count("Again: encoder-spec check mine.py:make --seed 0") == 5


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "in two processes"])
def test_encoder_that_cannot_be_judged_fails_once_and_is_skipped_elsewhere(
    processes: list[str], tmp_path: Path
) -> None:
    """It is made once, by whichever process comes first, and all other checks are skipped."""
    (tmp_path / "mine.py").write_text(
        "def make():\n    with open('made', 'a') as made:\n        made.write('made ')\n    return {}\n"
    )
    status, output = run_pytest(
        tmp_path, "--pyargs", "conformance_tests", "--encoder", "mine.py:make", "-rs", "-q", *processes
    )
    assert status == 1, output
    assert counted(output) == {"failed": 1, "skipped": len(registry().checks) - 1}
    assert output.count("mine.py:make: error; dict is not an encoder") == 1
    assert "the encoder could not be judged" in output
    assert (tmp_path / "made").read_text() == "made "


def test_an_encoder_is_judged_by_one_process_of_several_and_ends_none(tmp_path: Path) -> None:
    """Two processes, as on two machines: each gets whole encoders. Those that crash or hang fail one item."""
    (tmp_path / "mine.py").write_text("import os, time\ncrash = lambda: os._exit(3)\nhang = lambda: time.sleep(1000)\n")
    names = ["reference", "mine.py:crash", "torch-pre-ln", "mine.py:nobody", "mine.py:hang"]
    encoders = [word for name in names for word in ("--encoder", name)]
    spread = ["--dist", "load", "--tx", "2*popen", "-v", "-rs", "--encoder-timeout", "30"]
    status, output = run_pytest(tmp_path, "--pyargs", "conformance_tests", *encoders, *spread)
    assert status == 1, output
    ran = set(re.findall(r"^\[(gw\d)\] .*test_\w+\[(.+)\] *$", output, re.MULTILINE))
    assert sorted(name for _, name in ran) == sorted(names)  # each in one process
    assert {process for process, _ in ran} == {"gw0", "gw1"}
    assert counted(output)["failed"] == 3
    assert output.count("mine.py:hang: error; the subject hung: nothing came back within 30 s") == 1
    assert output.count("mine.py:crash: error; the subject ended its process with exit status 3") == 1
    assert output.count("mine.py:nobody: error; mine.py has no attribute 'nobody'") == 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--encoder", "nobody"], "Unknown target 'nobody'"),
        (["--encoder", "absent.py:make"], "there is no file absent.py"),
        (["--encoder", "torch-post-ln", "--encoder-profile", "nobody"], "there is no profile 'nobody'"),
        (["--encoder", "torch-post-ln", "--encoder-dtype", "fp16"], "there is no dtype 'fp16' here"),
        (["--encoder", "torch-post-ln", "--encoder-device", "gpu"], "there is no device 'gpu' here"),
    ],
)
def test_unusable_option_is_a_usage_error_in_one_line(option: list[str], said: str, tmp_path: Path) -> None:
    """Status 4 is pytest's for a command that cannot be used."""
    (tmp_path / "test_mine.py").write_text(THEIR_TEST)
    status, output = run_pytest(tmp_path, "--pyargs", "conformance_tests", *option)
    assert (status, output.count(said)) == (4, 1), output
    assert "Traceback" not in output


def test_without_an_encoder_the_package_is_collected_as_it_stands(tmp_path: Path) -> None:
    """Checks for the default encoders; the suite's own tests, which take long to collect, are looked at elsewhere."""
    own = f"--ignore={Path(__file__).parents[1]}"
    status, output = run_pytest(tmp_path, "--pyargs", "conformance_tests", "--collect-only", "-q", own)
    assert status == 0, output
    assert all(f"[{name}]" in output for name in ("reference", "torch-post-ln", "torch-pre-ln"))
    assert "test_layer_parameters" not in output


def test_fixture_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    """A test of one's own that takes a fixture ``run`` gets one's own."""
    (tmp_path / "test_mine.py").write_text(THEIR_TEST)
    status, output = run_pytest(tmp_path, "test_mine.py")
    assert (status, counted(output)) == (0, {"passed": 1}), output


def test_an_encoder_that_no_check_looks_at_is_a_usage_error(tmp_path: Path) -> None:
    """Tests of one's own would pass, and say nothing of it."""
    (tmp_path / "test_mine.py").write_text(THEIR_TEST)
    status, output = run_pytest(tmp_path, "test_mine.py", "--encoder", "torch-post-ln")
    assert status == 4, output
    assert "--encoder is given, but no check was collected: add `--pyargs conformance_tests`" in output


def test_own_tests_beside_the_checks_run_too(tmp_path: Path) -> None:
    """``--encoder`` deselects the suite's own tests, not those of whoever calls."""
    (tmp_path / "test_mine.py").write_text(THEIR_TEST)
    status, output = run_pytest(
        tmp_path, "test_mine.py", "--pyargs", "conformance_tests.test_ffn", "--encoder", "torch-post-ln", "-v"
    )
    assert status == 0, output
    assert "test_mine.py::test_mine PASSED" in output
    assert "test_activation_is_its_variant[torch-post-ln] PASSED" in output


def test_project_with_a_package_of_this_name_runs_its_own_tests(tmp_path: Path) -> None:
    """Theirs hides ours: it is not imported, its tests run, and ``--encoder`` says in one line what is in the way."""
    (tmp_path / "conformance_tests").mkdir()
    (tmp_path / "conformance_tests" / "__init__.py").write_text("THEIRS = True\n")
    (tmp_path / "conformance_tests" / "test_theirs.py").write_text(
        "from conformance_tests import THEIRS\ndef test_theirs(): assert THEIRS\n"
    )
    status, output = run_pytest(tmp_path)
    assert (status, counted(output)) == (0, {"passed": 1}), output
    status, output = run_pytest(tmp_path, "--encoder", "torch-post-ln")
    assert (status, output.count("\n")) == (4, 2), output
    assert "hides that of encoder-spec; run pytest from a folder without it" in output
