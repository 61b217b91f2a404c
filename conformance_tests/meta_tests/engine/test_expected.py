"""Failures that are expected: the file, the outcomes, and the verdict."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch import nn

from conformance_tests.engine.judging import check
from conformance_tests.frontends.command_line import main
from conformance_tests.reports.expected import ExpectedFailure, apply_expected, expected_failures
from conformance_tests.reports.report import OUTCOMES, Result
from encoder_spec.notation import SpecificationError

FILE = """
[[expected]]
requirement = "ENC-4"
reason = "the fast path computes the exact GELU"
link = "https://example.org/151"

[[expected]]
requirement = "ENC-5"
reason = "only here"
target = "two.py:make"
"""


def fast_path_encoder() -> nn.Module:
    """Torch's encoder with tanh-GELU: its fast path, for even numbers of heads only, takes the exact GELU instead."""
    layer = nn.TransformerEncoderLayer(28, 4, 44, activation=nn.GELU(approximate="tanh"), batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def result(id: str, outcome: str) -> Result:
    return Result(id, "encoder", "t", "trace", outcome, "" if outcome == "pass" else "said", repro="again")


def write(folder: Path, text: str) -> Path:
    file = folder / "expected.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_file_is_read_entry_by_entry(tmp_path: Path) -> None:
    """Reason and requirement, with link and target where they are given; a mapping says the same in Python."""
    first, second = expected_failures(write(tmp_path, FILE))
    assert first == ExpectedFailure("ENC-4", "the fast path computes the exact GELU", "https://example.org/151")
    assert second == ExpectedFailure("ENC-5", "only here", target="two.py:make")
    assert expected_failures({"ENC-4": "why"}) == (ExpectedFailure("ENC-4", "why"),)
    assert expected_failures([first, second]) == (first, second)
    assert expected_failures(write(tmp_path, "")) == expected_failures(None) == ()


ENTRY = '[[expected]]\nrequirement = "ENC-4"\nreason = "why"\n'
UNUSABLE = {
    "requirement is unknown": (ENTRY.replace("ENC-4", "ENC-99"), "entry 1: there is no requirement 'ENC-99'"),
    "requirement is missing": ('[[expected]]\nreason = "why"', "entry 1: requirement is missing"),
    "reason is missing": ('[[expected]]\nrequirement = "ENC-4"', "entry 1: reason is missing"),
    "reason is empty": (ENTRY.replace("why", " "), "entry 1: reason is missing"),
    "reason is a number": (ENTRY.replace('"why"', "3"), "entry 1: reason must be a text, but is 3"),
    "key is unknown": (ENTRY + 'until = "2027"', "entry 1: there is no key 'until'"),
    "second entry is wrong": (ENTRY + "[[expected]]\n", "entry 2: requirement is missing"),
    "entry is listed twice": (ENTRY + ENTRY, "ENC-4 is listed twice"),
    "table is unknown": ("[[expect]]\n", "every entry stands under [[expected]], but there is expect"),
    "table is no list": ("expected = 3", "every entry stands under [[expected]]"),
    "entry is no table": ("expected = [3]", "entry 1: an entry is a table"),
    "file is no TOML": ("[[expected", "expected failures expected.toml: "),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_file_that_cannot_be_used_is_refused_in_one_line(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, and the line names file, entry and fault; no encoder has been judged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("conformance_tests.engine.judging.check_one", lambda *_: pytest.fail("the work was begun"))
    text, said = UNUSABLE[fault]
    write(tmp_path, text)
    found = CliRunner().invoke(main, ["check", "torch-post-ln", "--expected", "expected.toml"])
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1), found.output
    assert found.stderr.startswith("Error: expected failures expected.toml")
    assert said in found.stderr


def test_file_that_is_not_there_is_refused() -> None:
    """As on the command line, so in Python."""
    with pytest.raises(SpecificationError, match=r"^expected failures absent\.toml: No such file or directory$"):
        check("torch-post-ln", expected="absent.toml")


@pytest.mark.parametrize("given", [{"ENC-99": "why"}, {"ENC-4": ""}, {"ENC-4": 3}, [ExpectedFailure("ENC-4", "")]])
def test_entries_in_python_are_held_to_the_same_rules(given: Any) -> None:
    """An unknown requirement or a missing reason."""
    with pytest.raises(SpecificationError):
        expected_failures(given)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_expectation_turns_fail_and_pass_and_nothing_else(outcome: str) -> None:
    """Fail becomes xfail and pass xpass; what says nothing stays, and a note tells that the entry was not decided."""
    entry = ExpectedFailure("ENC-4", "why", "https://example.org")
    (held, other), notes = apply_expected([result("ENC-4", outcome), result("ENC-5", outcome)], [entry], "t", "again")
    assert held.outcome == {"fail": "xfail", "pass": "xpass"}.get(outcome, outcome)
    assert other == result("ENC-5", outcome)
    if outcome in ("fail", "pass"):
        assert (held.reason, held.link, held.repro) == ("why", "https://example.org", "again")
        assert notes == []
    if outcome in ("unsupported", "blocked", "error"):
        assert held == result("ENC-4", outcome)
        assert notes == [f"ENC-4 was expected to fail (why), but is {outcome}"]


def test_message_of_a_failure_stays_and_an_unexpected_pass_says_what_to_do() -> None:
    """The failure is still told; the pass asks for its entry to be removed."""
    entries = expected_failures({"ENC-4": "why", "ENC-5": "why"})
    (failed, passed), _ = apply_expected([result("ENC-4", "fail"), result("ENC-5", "pass")], entries, "t")
    assert failed.message == "said"
    assert passed.message == "passes, but was expected to fail (why): remove it from the expected failures"


def test_entry_for_one_target_goes_before_one_for_all_and_leaves_others_alone() -> None:
    """ENC-4 fails everywhere, in ``two`` for another reason; ENC-5 only in ``two``."""
    entries = [
        ExpectedFailure("ENC-4", "here", target="two"),
        ExpectedFailure("ENC-4", "everywhere"),
        ExpectedFailure("ENC-5", "here", target="two"),
    ]
    results = [result("ENC-4", "fail"), result("ENC-5", "fail")]
    one, two = (apply_expected(results, entries, name)[0] for name in ("one", "two"))
    assert [(r.outcome, r.reason) for r in one] == [("xfail", "everywhere"), ("fail", "")]
    assert [(r.outcome, r.reason) for r in two] == [("xfail", "here"), ("xfail", "here")]


def test_entry_that_does_not_concern_the_encoder_is_noted() -> None:
    """Of no sinusoidal position can torch's encoder, which starts from given embeddings, say anything."""
    target = check("torch-post-ln", level="static", expected={"POS-1": "why"}).targets[0]
    assert target.verdict == "conformant"
    assert [n for n in target.notes if n.startswith("POS-1 was expected to fail (why), but was not checked")]


def test_encoder_whose_only_failure_is_expected_is_conformant() -> None:
    """Torch's fast path with tanh-GELU fails ENC-4, which compares with and without gradients, and what follows."""
    alone = check(fast_path_encoder, explain=False).targets[0]
    failed = [r.id for r in alone.of("fail")]
    assert (alone.verdict, "ENC-4" in failed) == ("nonconformant", True)
    excused = check(fast_path_encoder, expected=dict.fromkeys(failed, "known"), explain=False).targets[0]
    assert (excused.verdict, [r.id for r in excused.of("xfail")]) == ("conformant", failed)
    assert {r.id for r in excused.of("pass")} == {r.id for r in alone.of("pass")}


def test_unexpected_pass_has_status_1_and_is_said_clearly(tmp_path: Path) -> None:
    """Torch's default encoder meets ENC-4: an entry for it is out of date."""
    file = write(tmp_path, ENTRY)
    found = CliRunner().invoke(main, ["check", "torch-post-ln", "--level", "agreement", "--expected", str(file)])
    assert found.exit_code == 1, found.output
    assert "nonconformant" in found.stdout.splitlines()[0]
    assert "XPASS ENC-4  passes, but was expected to fail (why): remove it from the expected failures" in found.stdout
    assert f"Again: encoder-spec check torch-post-ln --level agreement --expected {file} --seed 0" in found.stdout
