"""The report as one HTML page: no script, nothing from elsewhere, everything from the subject escaped."""

from conformance_tests.reports.report import Report
from conformance_tests.reports.templating import render


def write(report: Report) -> str:
    """The report as a page."""
    return render("report.html", report, autoescape=True, web=web)


def web(link: str) -> bool:
    """Whether a text is an address that a page may link to: ``javascript:`` is none."""
    return link.startswith(("https://", "http://"))
