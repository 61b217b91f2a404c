"""Text of unknown origin, made harmless: all formats take their texts from here."""

from dataclasses import replace
from typing import Any

from conformance_tests.reports.report import Report, Result, TargetReport

LONGEST_LINE, LONGEST_BLOCK = 300, 4000


def visible(text: str) -> str:
    r"""Write out each character that cannot be seen, such as ``\x1b``, and leave line ends alone.

    XML allows no control characters, no encoding has lone surrogates, terminals obey escape
    sequences, and marks that turn the direction of writing make a name look like another one.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def block(text: str) -> str:
    """Return a text of several lines, cut if it is too long for a reader."""
    return cut(visible(text), LONGEST_BLOCK)


def line(text: str) -> str:
    r"""Return a text as one line: line ends are written out, ``\n``."""
    return cut(visible(text).replace("\n", r"\n"), LONGEST_LINE)


def cut(text: str, longest: int) -> str:
    """Return the text, or its beginning and how long it was."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def lines(value: Any) -> Any:
    """Turn every text in plain data into one line."""
    if isinstance(value, dict):
        return {line(str(k)): lines(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [lines(v) for v in value]
    return line(value) if isinstance(value, str) else value


def printable(report: Report) -> Report:
    """Return the report with every text fit to print."""
    return replace(report, targets=[printable_target(t) for t in report.targets])


def printable_target(target: TargetReport) -> TargetReport:
    """Return the report on one target with every text fit to print."""
    return replace(
        target,
        target=line(target.target),
        profile=lines(target.profile),
        notes=[block(note) for note in target.notes],
        diagnosis=lines(target.diagnosis),
        requirements=[printable_result(r) for r in target.requirements],
    )


def printable_result(result: Result) -> Result:
    """Return the result of one requirement with every text fit to print."""
    return replace(
        result,
        message=block(result.message),
        repro=block(result.repro),
        reason=line(result.reason),
        link=line(result.link),
    )
