"""The processes that judge an encoder together: this one alone, unless the encoder is spread over several."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from conformance_tests.errors import SubjectError
from conformance_tests.reports.report import TargetReport
from conformance_tests.subjects.guard import Guard
from conformance_tests.subjects.spread.ranks import is_spread
from conformance_tests.subjects.subject import Subject

if TYPE_CHECKING:
    from conformance_tests.subjects.spread.subject import SpreadSubject


class Company:
    """The processes of one target. Rank 0 judges; the others do as it orders, and end with its report."""

    def __init__(self) -> None:
        self._spread: SpreadSubject | None = None

    def meet(self, subject: Subject, guard: Guard) -> bool:
        """Find the other processes, if the encoder is spread over several; return whether this one judges.

        Raises:
            SubjectError, Undetermined: if their parts are those of no encoder, as far as that is known.
        """
        if not is_spread():
            return True
        from conformance_tests.subjects.spread.subject import SpreadSubject

        if not isinstance(subject, SpreadSubject):
            return True
        with guard.undisturbed():
            subject.meet()
            self._spread = subject
            if subject.ranks.rank == 0:
                subject.join()
        return subject.ranks.rank == 0

    def follow(self, report: TargetReport) -> None:
        """Do as rank 0 orders until it has judged, and take over its report.

        Raises:
            SubjectError: if it ends without one.
        """
        assert self._spread is not None
        told = self._spread.ranks.follow(self._spread.part)
        if told is None:
            raise SubjectError(self._spread.ranks.lost or "rank 0 ended without a report")
        vars(report).update(vars(TargetReport.from_data(told)))

    def share(self, report: TargetReport) -> None:
        """Give the report of rank 0 to the others, and let them go."""
        if self._spread is not None and self._spread.ranks.rank == 0:
            self._spread.ranks.end(asdict(report))
