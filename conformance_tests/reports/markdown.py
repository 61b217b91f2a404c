"""The report as Markdown, for a pull request or a job's summary."""

import re

from conformance_tests.reports.printable import line
from conformance_tests.reports.report import Report
from conformance_tests.reports.templating import render


def write(report: Report) -> str:
    """Return the report as Markdown (CommonMark with tables)."""
    return render("report.md", report, autoescape=False, filters=(code, cell, fenced, prose, line))


def code(text: str) -> str:
    """Set one line as a code span that shows it unchanged: the fence is longer than any in the text."""
    if not text.strip():
        return ""
    fence = "`" * (longest_run(text) + 1)
    gap = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def cell(text: str) -> str:
    """Return a code span for a table, where a bar would end the cell."""
    return code(text).replace("|", r"\|")


def fenced(text: str) -> str:
    """Set several lines as a block of code."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def prose(text: str) -> str:
    """Set a text as one paragraph in which nothing is markup."""
    escaped = re.sub(r"([\\`*_\[\]<>|#~&!@])", r"\\\1", " ".join(text.split()))
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", escaped)
