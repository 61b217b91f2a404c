"""A report in Python prints as the command shows it, and is a page in a notebook."""

from html import unescape

from conformance_tests import check
from conformance_tests.reports import html, terminal
from conformance_tests.reports.printed import PrintedReport
from conformance_tests.reports.report import Report, TargetReport

TARGETS = [TargetReport(name, "conformant") for name in "abcdefg"]


def test_what_check_gives_prints_as_the_command_does() -> None:
    """Without colours, and with as many columns as a pipe has."""
    report = check("torch-post-ln", level="static")
    lines = str(report).splitlines()
    assert lines[0].startswith("torch-post-ln  conformant  evidence: static")
    assert lines[-1] == "1 of 1 conformant · seed 0"
    assert "\x1b" not in str(report)
    assert str(report) == terminal.text_of(report)


def test_the_short_form_is_one_line_of_verdicts() -> None:
    """Of the first five targets."""
    assert repr(Report(0, TARGETS[:1])) == "<Report: a conformant>"
    named = ", ".join(f"{name} conformant" for name in "abcde")
    assert repr(Report(0, TARGETS[:5])) == f"<Report: {named}>"
    assert repr(PrintedReport(0, TARGETS)) == f"<Report: {named}, …>"


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    """Escaped as an attribute, so that nothing in it ends the frame."""
    report = PrintedReport(0, [TargetReport('"></iframe><script>', "error", notes=["<b>"])])
    shown = report._repr_html_()
    assert shown.count('"') == 4
    assert "<script>" not in shown
    begin, _, rest = shown.partition('srcdoc="')
    assert begin == "<iframe "
    assert unescape(rest.partition('"')[0]) == html.write(report)
