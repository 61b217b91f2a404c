"""The report as Markdown, for a pull request or a job's summary."""

import re

from conformance_tests.reports.printable import line
from conformance_tests.reports.report import Report
from conformance_tests.reports.templating import render


def write(report: Report) -> str:
    """The report as Markdown (CommonMark with tables)."""
    return render("report.md", report, autoescape=False, filters=(code, cell, fenced, prose, line))


def code(text: str) -> str:
    """Text of one line as a code span, which shows it as it is: its fence is longer than any in the text."""
    if not text.strip():
        return ""
    fence = "`" * (longest_run(text) + 1)
    gap = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def cell(text: str) -> str:
    """A code span inside a table, where a bar would end the cell."""
    return code(text).replace("|", r"\|")


def fenced(text: str) -> str:
    """Text of several lines as a block of code."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def prose(text: str) -> str:
    """Text as one paragraph in which nothing is markup."""
    escaped = re.sub(r"([\\`*_\[\]<>|#~&!@])", r"\\\1", " ".join(text.split()))
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", escaped)
