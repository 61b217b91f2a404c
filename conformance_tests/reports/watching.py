"""Progress of a judgement in whichever process: the steps, and the results as they are decided."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from conformance_tests.reports.report import Result, TargetReport

Progress = Callable[[str, int, int], None]
"""Called with what is being done, and how much of how much."""


def silent(_what: str, _done: int, _of: int) -> None:
    """Show no progress."""


class Display:
    """Shows a run over several targets; this one shows nothing."""

    def row(self) -> AbstractContextManager[Progress]:
        """Open a row for progress; each target that is being judged has one."""
        return nullcontext(silent)

    def judged(self, report: TargetReport) -> None:
        """Show the report of a target; reports come in the order of the targets."""


class Watcher:
    """Sees what is being done and what is decided; this one ignores both."""

    def doing(self, what: str, done: int, of: int) -> None:
        """Take note of what is being done, and how much of how much."""

    def decided(self, report: TargetReport, undecided: list[Result]) -> None:
        """Take note of what the report has now, and which results are still open, as blocked."""

    def judged(self, report: TargetReport) -> None:
        """Take note of a report that lacks only the explanation of its failures."""


@dataclass(frozen=True)
class Showing(Watcher):
    """Shows what is being done."""

    progress: Progress

    def doing(self, what: str, done: int, of: int) -> None:
        """See ``Watcher``."""
        self.progress(what, done, of)
