"""The command line without any process: what it asks, its exit statuses, and one line for what cannot be used."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from conformance_tests.errors import TargetError
from conformance_tests.frontends.command_line import LEVELS, main
from conformance_tests.harness.question import Question
from conformance_tests.isolation import supervisor
from conformance_tests.isolation.process import usable_cores
from conformance_tests.isolation.supervisor import Judgement, Limits
from conformance_tests.reports import FORMATS, terminal
from conformance_tests.reports.report import Level, Report, TargetReport
from conformance_tests.reports.watching import Display
from conformance_tests.targets.builtin import runnable


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty current folder with files that name targets and profiles."""
    monkeypatch.chdir(tmp_path)
    files = {
        "targets.py": "make = None",
        "variant.toml": 'layer = "sideways"',
        "slot.toml": 'shape = "round"',
        "place.toml": "[norm_fnal]\neps = 1e-3",
        "base.toml": 'base = "gpt"',
        "list.toml": "base = []",
        "several.toml": 'activation = ["gelu", 3]',
        "endless.toml": "eps = inf",
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


UNUSABLE = {
    "check nobody": "Unknown target 'nobody'",
    "check targets.py:": "must have the form",
    "check :make": "must have the form",
    "check nobody.py:make": "there is no file nobody.py",
    "check no.body:make": "there is no module 'no.body'",
    "identify nobody": "Unknown target 'nobody'",
    "identify": "Missing argument",
    "check torch-post-ln --profile nobody": "there is no profile 'nobody'",
    "check torch-post-ln --profile absent.toml": "profile file absent.toml",
    "check torch-post-ln --profile variant.toml": "slot layer has no variant 'sideways': choose among post-ln, pre-ln",
    "check torch-post-ln --profile slot.toml": "there is no slot or constant named 'shape'",
    "check torch-post-ln --profile place.toml": "unknown place 'norm_fnal' for eps",
    "check torch-post-ln --profile base.toml": "base must be one of vaswani-2017",
    "check torch-post-ln --profile list.toml": "base must be one of vaswani-2017",
    "check torch-post-ln --profile several.toml": "slot activation has no variant 3: choose among relu",
    "check torch-post-ln --profile endless.toml": "eps must be a non-negative number, but is inf",
    "check torch-post-ln --profile nobody.toml": "profile file nobody.toml cannot be read: No such file or directory",
    "check torch-post-ln --timeout nan": "nan is not an amount",
    "check torch-post-ln --memory inf": "inf is not an amount",
    "check torch-post-ln --profile number.toml": "name must be a text, but is 3",
    "check torch-post-ln --profile eps.toml": "eps must be a non-negative number, but is 'small'",
    "check torch-post-ln --profile broken.toml": "profile file broken.toml",
    "check torch-post-ln --profile latin.toml": "profile file latin.toml",
    "check torch-post-ln --jobs 0": "0 is not in the range",
    "check torch-post-ln --jobs many": "'many' is not a valid number of targets",
    "check torch-post-ln --jobs 2": "--in-process judges one target after the other: leave out --jobs",
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
    "count --set width=3": "a name among d_model, h, g, d_ff",
    "equations attention.score": "Did you mean attention.scores",
    "requirements ATT-99": "there is no requirement 'ATT-99'",
    "profiles nobody": "there is no profile 'nobody'",
}


@pytest.mark.parametrize("command", UNUSABLE)
def test_what_cannot_be_used_is_said_in_one_line_with_status_2(command: str, folder: Path) -> None:
    """Nothing is judged, nothing is printed, and standard error has one line that says what is wrong."""
    here = ["--in-process"] if command.startswith("check torch") else []
    result = run(*command.split(), *here)
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


def test_fault_of_the_suite_itself_has_status_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A division by zero inside the suite is shown with its traceback, and is no verdict."""
    monkeypatch.setattr("conformance_tests.engine.judging.check_all", lambda *_: 1 / 0)
    result = run("check", "torch-post-ln", "--in-process")
    assert (result.exit_code, "ZeroDivisionError" in result.stderr) == (3, True)
    assert result.stderr.endswith("encoder-spec itself failed: please report the lines above\n")


# What is asked, and what is done with the answer ---------------------------------------

VERDICTS = {"fine": "conformant", "wrong": "nonconformant", "open": "undetermined", "lost": "error"}


class Scripted:
    """Judges targets by their names, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fault: BaseException | None = None

    @contextmanager
    def of(self, targets: Any, limits: Limits | None) -> Iterator["Scripted"]:
        self.asked.append((list(targets), limits))
        yield self

    def judge(self, targets: list[str], question: Question, display: Display = supervisor.UNSEEN) -> Judgement:
        self.asked.append(question)
        reports = [
            TargetReport(
                name, VERDICTS.get(name, "conformant"), profile={"name": "bert", "identified": name != "wrong"}
            )
            for name in targets
        ]
        for report in reports:
            display.judged(report)
        return Judgement(Report(question.seed, reports), self.fault)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Take the place of workers and of the engine."""
    scripted = Scripted()
    monkeypatch.setattr(supervisor, "judge_of", scripted.of)
    return scripted


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("check fine", 0),
        ("check fine fine", 0),
        ("check wrong", 1),
        ("check fine open", 1),
        ("check lost fine", 1),
        ("identify fine open", 0),
        ("identify fine wrong", 1),
    ],
)
def test_the_status_says_whether_all_targets_are_conformant_or_identified(
    command: str, status: int, judge: Scripted
) -> None:
    result = run(*command.split())
    assert (result.exit_code, result.stderr) == (status, "")
    assert all(name in result.stdout for name in command.split()[1:])


def test_a_question_is_asked_as_the_options_say(judge: Scripted) -> None:
    """By default the strongest evidence for any variant in the best precision, within a minute for each step."""
    run("check", "fine")
    assert judge.asked == [(["fine"], Limits(60.0, None)), Question()]
    judge.asked.clear()
    options = "--profile bert --level trace --seed 5 --expected known.toml --dtype float32 --device cuda"
    run("check", "fine", "wrong", *options.split(), "--timeout", "2.5", "--memory", "3", "--jobs", "4")
    question = Question("bert", "trace", 5, Path("known.toml"), "float32", "cuda")
    assert judge.asked == [(["fine", "wrong"], Limits(2.5, 3.0, 4)), question]
    judge.asked.clear()
    run("check", "fine", "--in-process", "--timeout", "2.5")
    assert judge.asked == [(["fine"], None), Question()]
    judge.asked.clear()
    run("identify", "fine", "--seed", "5", "--in-process")
    assert judge.asked == [(["fine"], None), Question(variant_alone=True, seed=5)]


@pytest.mark.parametrize("command", ["check", "identify"])
def test_there_are_as_many_jobs_as_cores_if_it_says_so(command: str, judge: Scripted) -> None:
    run(command, "fine", "-j", "auto")
    assert judge.asked[0] == (["fine"], Limits(jobs=usable_cores()))


def test_without_a_target_all_built_in_ones_are_judged_that_can_run_here(judge: Scripted) -> None:
    run("check", "-q")
    assert judge.asked[0][0] == list(runnable())


def test_levels_are_those_of_the_reports() -> None:
    """They are written out here so that help needs no other module."""
    assert [str(level) for level in Level] == list(LEVELS)


def test_a_report_is_quiet_or_verbose(judge: Scripted) -> None:
    """One line for each target, or a table for each; the last line counts them."""
    quiet, plain = run("check", "-q", "fine", "wrong").stdout, run("check", "fine", "wrong").stdout
    assert [line.split()[0] for line in quiet.splitlines()] == ["fine", "wrong", "1"]
    assert quiet.splitlines()[-1] == plain.splitlines()[-1] == "1 of 2 conformant · seed 0"
    assert len(plain.splitlines()) > 3


def test_each_format_is_written_to_its_file_and_the_rest_is_not(
    judge: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for form in FORMATS:
        assert run("check", "wrong", f"--{form}", f"report.{form}").exit_code == 1
        assert [file.name for file in tmp_path.iterdir()] == [f"report.{form}"]
        assert (tmp_path / f"report.{form}").stat().st_size > 0
        (tmp_path / f"report.{form}").unlink()


def test_a_report_goes_to_standard_output_and_what_people_read_to_standard_error(judge: Scripted) -> None:
    result = run("check", "fine", "--json", "-")
    assert json.loads(result.stdout)["targets"][0]["target"] == "fine"
    assert "1 of 1 conformant" in result.stderr


def test_a_target_that_is_named_twice_is_judged_once(judge: Scripted) -> None:
    run("check", "fine", "wrong", "fine")
    assert judge.asked[0][0] == ["fine", "wrong"]


def test_a_name_that_proves_unusable_is_said_behind_what_was_judged(judge: Scripted) -> None:
    """Each in one line, and with status 2."""
    judge.fault = TargetError("a.py has no attribute 'b'\nc.py has no attribute 'd'")
    result = run("check", "fine")
    assert (result.exit_code, "fine  conformant" in result.stdout) == (2, True)
    assert result.stderr == "Error: a.py has no attribute 'b'\nError: c.py has no attribute 'd'\n"


def test_a_reader_that_has_seen_enough_costs_no_file(
    judge: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is that of the verdicts."""
    closed, writing = os.pipe()
    os.close(closed)
    with os.fdopen(writing, "w") as file:
        monkeypatch.setattr(terminal, "console", lambda **_: terminal.Terminal(file=file))
        assert run("check", "fine", "--json", str(tmp_path / "report.json")).exit_code == 0
    assert (tmp_path / "report.json").exists()


def test_a_full_disk_is_no_fault_of_the_suite(judge: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(terminal, "print_target", full)
    result = run("check", "fine")
    assert (result.exit_code, result.stderr) == (2, "Error: nothing more can be written: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_encoding_will_do_for_what_is_printed(encoding: str) -> None:
    """A question mark stands for each letter that the encoding lacks."""
    command = [sys.executable, "-m", "conformance_tests", "requirements", "ATT-3"]
    variables = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run(command, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"S[j, k] = ?_c Q[j, c] K[k, c] / ?d_k" in done.stdout


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("check torch-p", {"torch-post-ln", "torch-pre-ln"}),
        ("check --profile ber", {"bert"}),
        ("check --profile aut", {"auto"}),
        ("identify reference-v", {"reference-vit"}),
        ("profiles vi", {"vit", "vit-22b"}),
        ("equations attention.scores_u", {"attention.scores_unscaled"}),
        ("requirements ENC-18", {"ENC-18"}),
        ("deviations mask-p", {"mask-poisons-with-nan"}),
        ("count --profile rob", {"roberta"}),
        ("count --set d_mo", {"d_model="}),
        ("check --level ag", {"agreement"}),
    ],
)
def test_the_shell_completes_what_is_known(begun: str, offered: set[str]) -> None:
    """Files too, where one can stand there."""
    *before, word = begun.split()
    items = ShellComplete(main, {}, "encoder-spec", "_ENCODER_SPEC_COMPLETE").get_completions(before, word)
    assert {item.value for item in items if item.type == "plain"} == offered
    may_be_a_file = before[0] in ("check", "identify", "count") and before[-1] in ("check", "identify", "--profile")
    assert any(item.type == "file" for item in items) is may_be_a_file


@pytest.mark.parametrize("command", ["check fine", "identify fine"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [(KeyboardInterrupt(), "interrupted\n"), (ZeroDivisionError("by 0"), "encoder-spec itself failed: please report")],
)
def test_what_was_judged_before_a_fault_is_shown(
    command: str, fault: BaseException, said: str, judge: Scripted
) -> None:
    """Also before Ctrl-C; the status is 3."""
    judge.fault = fault
    result = run(*command.split())
    assert (result.exit_code, "fine" in result.stdout, said in result.stderr) == (3, True, True)


def test_a_reader_that_has_shown_enough_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `head`: status 0, without another word."""

    def closed(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("conformance_tests.frontends.listing.equations", closed)
    assert run("equations").exit_code == 0


def test_help_and_version_are_said() -> None:
    """On `-h` too; the help of a command has its options."""
    assert run("-h").stdout == run("--help").stdout != ""
    assert run("--version").stdout.startswith("encoder-spec, version ")
    assert all(f"--{form}" in run("check", "-h").stdout for form in FORMATS)


@pytest.fixture
def scaffolds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The scaffolds that are asked for, with their arguments; each says one line."""
    asked: list[Any] = []

    def asking(kind: str) -> Callable[..., list[str]]:
        def ask(*arguments: Any) -> list[str]:
            asked.append((kind, *arguments))
            return ["wrote it", "next"]

        return ask

    for kind in ("new_equation", "new_deviation", "new_profile"):
        monkeypatch.setattr(f"conformance_tests.frontends.scaffold.{kind}", asking(kind))
    return asked


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("equation ffn.mish --slot activation", ("new_equation", "ffn.mish", "activation")),
        (
            "deviation cap-1 --of ffn.relu --of ffn.gelu --noticed-by FFN-1 --noticed-by FFN-2",
            ("new_deviation", "cap-1", ("ffn.relu", "ffn.gelu"), ("FFN-1", "FFN-2")),
        ),
        ("profile primer", ("new_profile", "primer", "vaswani-2017", {})),
        (
            "profile primer --base bert --set activation=relu --set norm_final.eps=1e-3 --set a=b=c",
            ("new_profile", "primer", "bert", {"activation": "relu", "norm_final.eps": "1e-3", "a": "b=c"}),
        ),
    ],
)
def test_a_scaffold_is_asked_for_with_what_was_given(command: str, asked: Any, scaffolds: list[Any]) -> None:
    """What was written and what is next is printed line by line."""
    result = run("new", *command.split())
    assert (result.exit_code, result.stdout, scaffolds) == (0, "wrote it\nnext\n", [asked])


@pytest.mark.parametrize("choices", ["activation", "activation=gelu --set eps"])
def test_a_choice_without_a_value_is_refused(choices: str, scaffolds: list[Any]) -> None:
    """Each is looked at, the last one too."""
    result = run("new", "profile", "primer", "--set", *choices.split())
    assert (result.exit_code, scaffolds) == (2, [])
    assert "is not written SLOT=VARIANT" in result.stderr
