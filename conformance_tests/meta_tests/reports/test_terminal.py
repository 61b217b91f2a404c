"""What a terminal shows, part by part, in a console that records it."""

import io
import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from conformance_tests.reports import terminal
from conformance_tests.reports.report import OUTCOMES, Report, Result, TargetReport
from conformance_tests.reports.terminal import MARK, OUTCOME_STYLE, VERDICT_STYLE
from encoder_spec.equation import requirements


def shown(show: Callable[[Console], Any], width: int = 200) -> list[str]:
    """The lines that appear, without spaces at their ends."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def printed(thing: Any) -> list[str]:
    """The lines of something printed by itself."""
    return shown(lambda console: console.print(thing))


def words(lines: list[str]) -> list[list[str]]:
    """The words of each line that has some."""
    return [line.split() for line in lines if line.strip()]


def result(id: str, outcome: str = "pass", equation: str = "attention.scores", **more: Any) -> Result:
    return Result(id, equation, "test", "trace", outcome, **more)


JUDGED = TargetReport(
    "file.py:make",
    "nonconformant",
    "trace",
    {
        "name": "bert",
        "choices": {"layer": "post-ln", "eps": 1e-12, "num_heads": 5, "d_model": 35},
        "conventions": {"input": "(n, B, d_model)"},
    },
    [
        result("ATT-1", error=1e-14, budget=1e-12),
        result("ATT-3", "fail", message="too large [by 2]", repro="encoder-spec check x"),
        result("MASK-1", "xfail", equation="attention.mask", message="seen", reason="known"),
        result("MASK-2", "unsupported", equation="attention.mask", message="no mask"),
        result("NORM-1", "blocked", equation="norm", message="wrong before"),
        result("NORM-2", "blocked", equation="norm", message="wrong before"),
    ],
    [{"says": "scores [scaled] by d_model"}],
    "attention.scores",
    ["a [note]"],
    1.26,
)


def test_every_verdict_and_outcome_has_a_style_and_every_outcome_but_a_pass_a_mark() -> None:
    """No two outcomes have the same mark."""
    assert set(VERDICT_STYLE) == {"conformant", "nonconformant", "undetermined", "error"}
    assert set(OUTCOME_STYLE) == set(MARK) == set(OUTCOMES)
    assert [outcome for outcome, mark in MARK.items() if not mark] == ["pass"]
    assert len(set(MARK.values())) == len(MARK)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (
            JUDGED,
            "file.py:make  nonconformant  "
            "evidence: trace · 1 pass · 1 fail · 1 xfail · 1 unsupported · 2 blocked · 1.3 s",
        ),
        (TargetReport("x", "error", seconds=0.04), "x  error  0.0 s"),
        (TargetReport("x", "error", dtype="float16"), "x  error  float16 · 0.0 s"),
        (TargetReport("[b]x[/b]", "error"), "[b]x[/b]  error  0.0 s"),
    ],
)
def test_the_headline_has_verdict_evidence_counts_and_time(target: TargetReport, line: str) -> None:
    """No evidence where nothing was decided; the precision where it is not float64; no markup of a name is obeyed."""
    assert printed(terminal.headline(target)) == [line]


NOTES = ["Explained:", "test-your-encoder.html#what-the-notes-mean", "on", "the", "site"]


def explained(id: str) -> str:
    return f"     Explained: encoder-spec requirements {id} (on the site: attention.html#{id})"


def test_details_are_the_profile_in_words_and_the_notes() -> None:
    assert words(printed(terminal.details(JUDGED))) == [
        ["profile", "bert"],
        ["variant", "layer", "post-ln", "·", "eps", "1e-12"],
        ["sizes", "num_heads", "5", "·", "d_model", "35"],
        ["found", "input", "(n,", "B,", "d_model)"],
        ["note", "a", "[note]"],
        NOTES,
    ]
    assert words(printed(terminal.details(TargetReport("x", notes=["one", "two"])))) == [
        ["note", "one"],
        ["note", "two"],
        NOTES,
    ]
    without = TargetReport("x", profile={"name": "bert", "choices": {}})
    assert [line[0] for line in words(printed(terminal.details(without)))] == ["profile", "variant", "sizes"]


def test_a_row_for_each_topic_marks_what_did_not_pass() -> None:
    """✗ for a failure, ~ for an expected one, ? for what was not supported, – for what was blocked."""
    header, _, *rows = printed(terminal.by_topic(JUDGED))[1:]
    assert header.split() == ["equations", "requirements", "evidence", "largest", "error"]
    assert words(rows) == [
        ["attention", "ATT-1", "✗ATT-3", "~MASK-1", "?MASK-2", "trace", "1.0e-14", "≤", "1e-12"],
        ["norm", "–NORM-1", "–NORM-2", "none"],
    ]


def test_a_row_for_each_requirement_has_its_statement() -> None:
    rows = words(printed(terminal.by_requirement(JUDGED))[3:])
    assert [row[:3] for row in rows] == [
        ["ATT-1", "pass", "trace"],
        ["ATT-3", "fail", "trace"],
        ["MASK-1", "xfail", "trace"],
        ["MASK-2", "unsupported", "trace"],
        ["NORM-1", "blocked", "trace"],
        ["NORM-2", "blocked", "trace"],
    ]
    assert rows[0][3:6] == ["1.0e-14", "≤", "1e-12"]
    assert " ".join(rows[1][3:]) == requirements()["ATT-3"].statement


def test_failures_are_said_from_where_the_encoder_departs_to_the_command_that_repeats_it() -> None:
    assert shown(lambda console: terminal.print_failures(console, JUDGED)) == [
        "✗ fail   ~ xfail   ? unsupported   – blocked",
        "Departs from the specification at attention.scores",
        "Diagnosis: scores [scaled] by d_model.",
        "FAIL ATT-3  too large [by 2]",
        explained("ATT-3"),
        "MASK-1 fails, as expected (known): seen",
        "NORM-1, NORM-2 blocked: wrong before",
        "MASK-2 unsupported: no mask",
        "Again: encoder-spec check x",
    ]


def test_the_smallest_wrong_input_is_said_and_other_failures_by_their_own_word() -> None:
    target = TargetReport("x", requirements=[result("ATT-1", "xpass", message="m", smallest=[1, 2, 3], repro="r")])
    assert shown(lambda console: terminal.print_failures(console, target)) == [
        "✓ xpass",
        "The smallest input with a wrong output: (1, 2, 3)",
        "XPASS ATT-1  m",
        explained("ATT-1"),
        "Again: r",
    ]


def test_of_a_target_without_fault_nothing_is_said() -> None:
    target = TargetReport("x", "conformant", requirements=[result("ATT-1")])
    assert shown(lambda console: terminal.print_failures(console, target)) == []


SOUND = TargetReport("sound", "conformant", "trace", requirements=[result("ATT-1")])


@pytest.mark.parametrize(
    ("targets", "options", "first_words"),
    [
        ([SOUND], {"quiet": True, "verbose": False}, ["sound"]),
        ([SOUND, JUDGED], {"quiet": True, "verbose": False}, ["sound", "file.py:make", "1"]),
        ([SOUND], {"quiet": False, "verbose": False}, ["sound", "equations", "──", "attention", "1"]),
        ([SOUND], {"quiet": False, "verbose": True}, ["sound", "requirement", "──", "ATT-1", "1"]),
        ([TargetReport("none")], {"quiet": False, "verbose": False}, ["none", "0"]),
    ],
)
def test_a_report_is_as_long_as_it_is_asked_for(
    targets: list[TargetReport], options: dict[str, bool], first_words: list[str]
) -> None:
    """Quiet: one line for each target; else a row for each topic; verbose: for each requirement; a count at the end."""
    lines = shown(lambda console: terminal.print_report(console, Report(7, targets), **options))
    assert [line[0] if "──" not in line[0] else "──" for line in words(lines)] == first_words
    if len(first_words) > 1:
        conformant = sum(t.verdict == "conformant" for t in targets)
        assert lines[-1] == f"{conformant} of {len(targets)} conformant · seed 7"


def test_a_quiet_line_has_the_reason_where_there_is_no_judgement() -> None:
    """The first note, below a target in error or undetermined; of the others the verdict is enough."""
    targets = [
        TargetReport("a", "error", notes=["no way", "and more"]),
        TargetReport("b", "undetermined", notes=["who knows"]),
        TargetReport("c", "nonconformant", notes=["anything"]),
        TargetReport("d", "error"),
    ]
    lines = shown(lambda console: terminal.print_report(console, Report(7, targets), quiet=True, verbose=False))
    assert [line.split("  ")[:2] for line in lines] == [
        ["a", "error"],
        ["", "no way"],
        ["b", "undetermined"],
        ["", "who knows"],
        ["c", "nonconformant"],
        ["d", "error"],
        ["0 of 4 conformant · seed 7"],
    ]


def test_what_identify_found_is_name_and_details() -> None:
    """Without verdict, and with every text printable."""
    found = shown(lambda console: terminal.print_variant(console, TargetReport("a\x1bb", notes=["n"])))
    assert words(found) == [["a\\x1bb"], ["note", "n"], NOTES]


def test_a_table_has_a_header_and_its_rows_as_they_are() -> None:
    lines = shown(lambda console: terminal.print_table(console, ["one", "two"], [["a", "[b]"], ["c", "d"]]))
    assert words(lines)[0] == ["one", "two"]
    assert words(lines)[2:] == [["a", "[b]"], ["c", "d"]]


def test_a_pipe_has_no_colours_and_lines_of_120(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least; wider where the environment says so."""
    monkeypatch.setenv("COLUMNS", "80")
    assert (terminal.console().width, terminal.console().is_terminal) == (120, False)
    monkeypatch.setenv("COLUMNS", "150")
    assert terminal.console().width == 150


def test_no_progress_is_shown_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither for a quiet report nor for another."""
    for quiet in (True, False):
        with terminal.Screen(terminal.console(), quiet=quiet) as screen, screen.row() as advance:
            advance("ATT-1", 1, 3)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_shows_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, where the report goes elsewhere; with the text made harmless; not where it is not wanted."""
    monkeypatch.setattr(terminal, "Console", lambda stderr: Console(stderr=stderr, force_terminal=True, width=100))
    with terminal.Screen(terminal.console()) as screen, screen.row() as advance:
        advance("[b]ATT-1\x07[/b]", 2, 3)
        screen._bars.refresh()
    out, err = capsys.readouterr()
    assert out == ""
    assert r"[b]ATT-1\x07[/b]" in err
    assert re.search(r"2/3(?!\w)", err)
    with terminal.Screen(terminal.console(), quiet=True) as screen, screen.row() as advance:
        advance("ATT-1", 2, 3)
    assert capsys.readouterr() == ("", "")


def test_targets_in_progress_have_a_row_each_and_reports_stand_above_them() -> None:
    """On a terminal that takes both. What is printed begins where the two rows stood, and these follow it."""
    held = io.StringIO()
    out = Console(file=held, force_terminal=True, width=60, highlight=False)
    with terminal.Screen(out, quiet=False) as screen, screen.row() as one, screen.row() as other:
        one("a: ATT-1", 1, 3)
        other("b: ATT-2", 2, 3)
        screen._bars.refresh()
        rows = held.getvalue().rpartition("\x1b[2K")[2]
        assert [line.split()[0] for line in rows.splitlines()] == ["a:", "b:"]
        held.truncate(0)
        terminal.print_target(out, replace(JUDGED, target="done"), quiet=True, verbose=False)
        written = re.sub(r"\x1b\[[\d;]*m", "", held.getvalue().lstrip("\0"))
    up_and_erase = "\r\x1b[2K\x1b[1A\x1b[2K"
    assert written.startswith(f"{up_and_erase}done  ")
    assert [line.split()[0] for line in written.removeprefix(up_and_erase).splitlines()] == ["done", "a:", "b:"]


def test_a_reader_that_is_gone_ends_nothing() -> None:
    """`head` has read enough after the first line; the pipe then takes whatever is written."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as file:
        out = terminal.Terminal(file=file)
        out.print("nobody reads this")
        assert out.quiet
        file.write("nor this")


def test_a_report_says_what_failed_with_an_empty_line_behind_each_target() -> None:
    lines = shown(lambda console: terminal.print_report(console, Report(7, [JUDGED]), quiet=False, verbose=False))
    assert "FAIL ATT-3  too large [by 2]" in lines
    assert lines[-3:] == ["Again: encoder-spec check x", "", "0 of 1 conformant · seed 7"]


def test_long_sentences_are_not_broken_into_lines() -> None:
    """They are copied from a terminal, and searched in a log: in 40 columns each is still one line."""
    long = "x " * 30 + "end"
    judged = [
        result("ATT-1", "fail", message=long, repro=long),
        result("ATT-3", "xfail", message=long, reason="known"),
        result("ATT-4", "blocked", message=long),
    ]
    target = TargetReport(long, requirements=judged, diagnosis=[{"says": long}])
    lines = shown(lambda console: terminal.print_failures(console, target), width=40)
    assert [line[-3:] for line in lines[1:] if line != explained("ATT-1")] == ["nd.", "end", "end", "end", "end"]
    assert explained("ATT-1") in lines
    report = Report(7, [target, target])
    assert shown(lambda c: terminal.print_report(c, report, quiet=True, verbose=False), width=40)[0].startswith(long)
