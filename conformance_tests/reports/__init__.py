"""Reports as files: JSON, JUnit XML, Markdown, one HTML page and a badge, all made from one ``Report``.

A name, message or note of a subject may hold any characters. ``printable`` makes it harmless text once for all formats;
each format then escapes it in its own way.
"""

import importlib

from conformance_tests.reports.report import Report

FORMATS = {
    "json": "JSON (schema 1)",
    "junit": "JUnit XML",
    "markdown": "Markdown",
    "html": "one self-contained HTML page",
    "badge": "an SVG badge",
}
"""Formats by the names of their options, each with a description."""


def written(report: Report, form: str) -> str:
    """Return the report as text in one of the ``FORMATS``."""
    if form == "json":
        return report.to_json() + "\n"
    from conformance_tests.reports.printable import printable

    write = importlib.import_module(f"conformance_tests.reports.{form}").write
    return str(write(printable(report)))
