"""The verdict as a badge: an SVG image that needs no font and no server."""

from dataclasses import dataclass

from conformance_tests.reports.arranged import summary
from conformance_tests.reports.report import Report
from conformance_tests.reports.templating import render

COLOURS = {"conformant": "#2b7a3d", "nonconformant": "#b3261e", "undetermined": "#8a5a00", "error": "#b3261e"}
LABEL = "encoder-spec"
LETTER, MARGIN = 7, 9
"""Width of a letter at 11 px, and the space beside a text; ``textLength`` makes every font keep to it."""


@dataclass(frozen=True)
class Part:
    """One half of the badge: its text, where its middle is, and its width."""

    text: str
    start: int

    @property
    def length(self) -> int:
        """The width of the text."""
        return len(self.text) * LETTER

    @property
    def width(self) -> int:
        """The width of the half."""
        return self.length + 2 * MARGIN

    @property
    def middle(self) -> float:
        """The middle of the half."""
        return self.start + self.width / 2


def write(report: Report) -> str:
    """Return the verdict over all targets as an SVG image."""
    left = Part(LABEL, 0)
    right = Part(summary(report), left.width)
    return render("badge.svg", report, autoescape=True, left=left, right=right, colour=COLOURS[report.verdict])
