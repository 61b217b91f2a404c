"""Text of unknown origin: what is seen of it, and how much."""

from dataclasses import fields
from typing import Any

import pytest

from conformance_tests.reports.printable import block, cut, line, lines, printable, visible
from conformance_tests.reports.report import Report, Result, TargetReport


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain ½ 注意", "plain ½ 注意"),
        ("a\nb", "a\nb"),
        ("a\tb\rc", r"a\tb\rc"),
        ("\x1b[31m\x00\x7f", r"\x1b[31m\x00\x7f"),
        ("\u202e\u2028\ud800", r"\u202e\u2028\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, seen: str) -> None:
    """All but line ends: control characters, marks of direction, lone surrogates."""
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [("abcde", 5, "abcde"), ("abcdef", 5, "abcde… (6 characters)"), ("a" * 1234, 2, "aa… (1,234 characters)")],
)
def test_text_is_cut_only_beyond_its_limit_and_says_how_long_it_was(text: str, longest: int, shown: str) -> None:
    assert cut(text, longest) == shown


def test_a_line_has_300_characters_and_a_block_4000() -> None:
    """As long as that they are whole; the next character is one too many. Characters written out count as such."""
    assert line("x" * 300) == "x" * 300
    assert line("x" * 301) == "x" * 300 + "… (301 characters)"
    assert block("x" * 4000) == "x" * 4000
    assert block("x" * 4001) == "x" * 4000 + "… (4,001 characters)"
    assert line("\n" * 151) == r"\n" * 150 + "… (302 characters)"
    assert block("a\nb\x00") == "a\nb" + r"\x00"
    assert line("a\nb\x00") == r"a\nb\x00"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("a\nb", r"a\nb"),
        (3, 3),
        (None, None),
        (2.5, 2.5),
        (["a\n", ("b\n",)], [r"a\n", [r"b\n"]]),
        ({"k\n": {"l": "v\n"}, 5: 7}, {r"k\n": {"l": r"v\n"}, "5": 7}),
    ],
)
def test_texts_in_plain_data_become_lines_keys_among_them(data: Any, shown: Any) -> None:
    """Numbers and None stay what they are; keys become text."""
    assert lines(data) == shown


LINE, BLOCK = "a\n\x00b", "a\n\x00b"
AS_LINE, AS_BLOCK = r"a\n\x00b", "a\n" + r"\x00b"


def test_each_text_of_a_report_is_a_line_or_a_block() -> None:
    """Messages, notes and commands keep their lines; names, reasons, links, profiles and diagnoses have one."""
    said = Result("ATT-3", "attention.scores", "t", "trace", "fail", BLOCK, 0.5, 0.25, BLOCK, [2], LINE, LINE)
    target = TargetReport(
        LINE, "error", "trace", {LINE: LINE}, [said], [{"says": LINE}], "attention.scores", [BLOCK], 1.5, "float16"
    )
    (shown,) = printable(Report(5, [target])).targets
    assert (shown.target, shown.profile, shown.notes) == (AS_LINE, {AS_LINE: AS_LINE}, [AS_BLOCK])
    assert shown.diagnosis == [{"says": AS_LINE}]
    (told,) = shown.requirements
    assert (told.message, told.repro, told.reason, told.link) == (AS_BLOCK, AS_BLOCK, AS_LINE, AS_LINE)
    assert target.target == LINE


def test_nothing_else_of_a_report_is_changed() -> None:
    """Numbers, ids and outcomes of a harmless report."""
    said = Result("ATT-3", "attention.scores", "t", "trace", "fail", "m", 0.5, 0.25, "again", [2], "why", "there")
    target = TargetReport("x", "error", "trace", {"name": "p"}, [said], [], "attention.scores", ["n"], 1.5, "float16")
    report = Report(5, [target])
    shown = printable(report)
    assert shown == report
    assert shown.targets[0].requirements[0] is not said
    assert [f.name for f in fields(Result)][-2:] == ["reason", "link"]
