"""The report as one HTML page: no script, nothing from elsewhere, everything from the subject escaped."""

from conformance_tests.reports.report import Report
from conformance_tests.reports.templating import render


def write(report: Report) -> str:
    """Return the report as a page."""
    return render("report.html", report, autoescape=True, web=web)


def web(link: str) -> bool:
    """Return whether a text is an address to which a page may link: ``javascript:`` is not."""
    return link.startswith(("https://", "http://"))
