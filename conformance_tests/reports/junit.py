"""The report as JUnit XML: a suite for each target, a case for each requirement.

The file is red exactly where the command's exit status is 1. A target that could not be judged, or was judged with too
little evidence, has a case named ``verdict`` with the reason.
"""

import io
from collections import Counter
from dataclasses import replace

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from conformance_tests.reports.arranged import by_topic, diagnoses
from conformance_tests.reports.report import Report, Result, TargetReport
from conformance_tests.reports.site import of_note, of_requirement
from encoder_spec.equation import requirements


def write(report: Report) -> str:
    """Return the report as a JUnit XML file."""
    xml = JUnitXml("encoder-spec")
    named: Counter[str] = Counter()
    for target in report.targets:
        named[target.target] += 1
        # Two suites of one name would be one.
        again = f" ({named[target.target]})" if named[target.target] > 1 else ""
        xml.add_testsuite(suite_of(replace(target, target=f"{target.target}{again}"), report.seed))
    xml.update_statistics()
    # The statistics sum up the times of cases, but only whole targets are timed.
    xml.time = round(sum(t.seconds for t in report.targets), 3)
    for suite, target in zip(xml, report.targets, strict=True):
        suite.time = target.seconds
    file = io.BytesIO()
    xml.write(file)
    return file.getvalue().decode("utf-8") + "\n"


def suite_of(target: TargetReport, seed: int) -> TestSuite:
    """Return a suite for one target, with its results in the order of the specification."""
    suite = TestSuite(target.target)
    facts = {"verdict": target.verdict, "level": target.level, "profile": target.profile.get("name", ""), "seed": seed}
    for name, fact in facts.items():
        suite.add_property(name, str(fact))
    for said in diagnoses(target):
        suite.add_property("diagnosis", f"{said.sentence} Explained: {said.place}" if said.place else said.sentence)
    for note in target.notes:
        suite.add_property("note", f"{note}. Explained: {of_note(note)}")
    for topic in by_topic(target):
        for result in topic.results:
            suite.add_testcase(case_of(result))
    if target.verdict in ("error", "undetermined"):
        suite.add_testcase(case_of_verdict(target))
    return suite


def case_of(result: Result) -> TestCase:
    """Return a case for one requirement: its id is the name, its equation the class."""
    case = TestCase(result.id, classname=result.equation)
    ended = {
        "fail": Failure(result.message, "nonconformant"),
        "xpass": Failure(result.message, "xpass"),
        "error": Error(result.message, "error"),
        "xfail": Skipped(f"expected failure: {result.reason}", "xfail"),
        "unsupported": Skipped(result.message, "unsupported"),
        "blocked": Skipped(result.message, "blocked"),
    }.get(result.outcome)
    if ended is not None:
        ended.text = details(result)
        case.result = [ended]
    return case


def details(result: Result) -> str:
    """Return what a reader of the case needs besides its message."""
    parts = [requirements()[result.id].statement]
    parts += [result.message] if result.message else []
    parts += [f"Expected: {' '.join(filter(None, (result.reason, result.link)))}"] if result.reason else []
    parts += [f"The smallest input with a wrong output: {tuple(result.smallest)}"] if result.smallest else []
    parts += [f"Explained: {of_requirement(result)}"]
    parts += [f"Again: {result.repro}"] if result.repro else []
    return "\n".join(parts)


def case_of_verdict(target: TargetReport) -> TestCase:
    """Return a case for the reason why a target is not judged conformant."""
    case = TestCase("verdict", classname="encoder")
    reason = "; ".join(target.notes) or f"the evidence reached only the level {target.level}"
    kind = Error if target.verdict == "error" else Failure
    case.result = [kind(reason, target.verdict)]
    return case
