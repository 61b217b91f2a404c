"""The report that a call in Python gives: printed it is what the command prints, and a notebook shows it as a page."""

from html import escape

from conformance_tests.reports import html, terminal
from conformance_tests.reports.report import Report


class PrintedReport(Report):
    """A report that prints as the terminal shows it."""

    def __str__(self) -> str:
        return terminal.text_of(self)

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it: a page in a frame, whose styles touch nothing around it."""
        return f'<iframe srcdoc="{escape(html.write(self))}" style="width: 100%; height: 40rem; border: 0"></iframe>'
