"""An encoder under pytest: judged once, when its report is first needed, and shared by all processes of one run.

``pytest-xdist`` runs the items of one encoder in several processes. The one that comes first judges it, the others wait
and read its report, from a folder that lasts as long as the run.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance_tests.errors import TargetError
from conformance_tests.harness.question import Question
from conformance_tests.reports.report import Result, TargetReport

if TYPE_CHECKING:
    from conformance_tests.isolation.supervisor import Limits

SHARED = "ENCODER_SPEC_SHARED"
"""The environment variable by which the plugin names the folder; it is unset where pytest runs in one process."""


@dataclass(eq=False)
class Judged:
    """An encoder and what is asked of it, with the report that answers.

    Attributes:
        target: the encoder, a function that makes one, or its name.
        question: what is asked.
        name: a name that no other encoder of the run has; the same in all processes.
    """

    target: Any
    question: Question
    name: str
    _is_told: bool = field(default=False, init=False)

    @cached_property
    def report(self) -> TargetReport:
        """The report on the encoder.

        Raises:
            TargetError: if the target's name cannot be used.
            SpecificationError: if the question cannot be asked.
        """
        file = self._file
        return self.judge() if file is None else shared(file, self.judge)

    def judge(self) -> TargetReport:
        """Judge the encoder."""
        from conformance_tests.engine.judging import check_all

        return check_all([self.target], self.question).targets[0]

    @property
    def complaint(self) -> str:
        """Why the encoder is not conformant, where that shows in no result; no text if it is, or if it shows in one."""
        report = self.report
        if report.verdict == "conformant" or any(r.counts_against for r in report.requirements):
            return ""
        return "; ".join([f"{report.target}: {report.verdict}", *report.notes])

    def failure_of(self, results: Iterable[Result]) -> str:
        """Return in full what is wrong by these results of one test; no text if all of them pass.

        Raises:
            Skipped, XFailed: as pytest does, if they are not decided, or fail as expected.
        """
        __tracebackhide__ = True
        from conformance_tests.reports import arranged

        worst = min(results, key=lambda r: arranged.WORST.index(r.outcome))
        if worst.counts_against:
            return self._in_full(worst)
        if worst.outcome == "xfail":
            pytest.xfail(" ".join(filter(None, (worst.reason, worst.link))))
        if worst.outcome != "pass":
            pytest.skip(f"{worst.id} {worst.outcome}: {worst.message}")
        return ""

    def _in_full(self, result: Result) -> str:
        """Return a failure with the statement of the requirement, what is wrong, and what repeats the run."""
        from conformance_tests.reports import arranged, site
        from encoder_spec.equation import requirements

        parts = [f"{result.id}: {result.message}", requirements()[result.id].statement, *arranged.headings(self.report)]
        parts += [f"Explained: {site.of_requirement(result)}"]
        return "\n".join([*parts, *([f"Again: {result.repro}"] if result.repro else [])])

    def tells_first(self) -> bool:
        """Return whether nobody has told yet that nothing could be decided; it is told once."""
        if self._file is None:
            before, self._is_told = self._is_told, True
            return not before
        try:
            self._file.with_suffix(".told").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @property
    def _file(self) -> Path | None:
        """The file for the report, if there is a folder that processes share: none elsewhere than on this machine."""
        folder = Path(os.environ.get(SHARED, ""))
        return folder / f"{sha256(self.name.encode()).hexdigest()}.json" if folder.name and folder.is_dir() else None


@dataclass(eq=False)
class JudgedByName(Judged):
    """An encoder that is known by its name, and is judged in a separate process: there it can end no other item.

    Attributes:
        limits: the part of the machine that it may use.
    """

    limits: "Limits" = field(kw_only=True)

    def judge(self) -> TargetReport:
        """Judge the encoder; a name that proves unusable has a report that says so."""
        from conformance_tests.isolation.supervisor import Workers

        try:
            with Workers(self.limits) as workers:
                judgement = workers.judge([self.target], self.question)
        except TargetError as unusable:
            return TargetReport(self.target, notes=[str(unusable)])
        if judgement.fault is not None:
            raise judgement.fault
        return judgement.report.targets[0]


def shared(file: Path, judge: Callable[[], TargetReport]) -> TargetReport:
    """Return the report in a file; judge and write it, if nobody has."""
    from filelock import FileLock

    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            file.write_text(json.dumps(asdict(judge())), encoding="utf-8")
        return TargetReport.from_data(json.loads(file.read_text(encoding="utf-8")))
