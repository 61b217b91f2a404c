"""Deciding requirements: which checks apply to a run, how each ends, and what verdict that gives."""

from conformance_tests.errors import Blocked, Disagreement, Unsupported, one_line
from conformance_tests.harness.checks import Check, registry
from conformance_tests.harness.run import Run
from conformance_tests.reports.report import Level, Result
from encoder_spec.equation import requirements


def applicable_requirements(run: Run, check: Check) -> list[str]:
    """The requirements of a check whose equation the run's encoder uses."""
    return [id for id in check.requirements if requirements()[id].equation in run.equations]


def planned(run: Run, level: Level) -> list[tuple[Check, str]]:
    """Every check that applies up to a level, with the requirement that it decides, weakest evidence first."""
    checks = sorted((c for c in registry().checks.values() if c.level <= level), key=lambda c: c.level)
    return [(check, id) for check in checks for id in applicable_requirements(run, check)]


def decide(run: Run, check: Check, id: str, repro: str = "") -> Result:
    """Run one check and say how it ended."""
    outcome, message = "pass", ""
    error = budget = None
    with run.measured() as comparisons:
        try:
            check.function(run)
        except Disagreement as found:
            outcome, message, error, budget = "fail", str(found), found.error, found.budget
        except AssertionError as found:
            # Under pytest an assertion goes on, on further lines, about the objects compared.
            outcome, message = "fail", str(found).split("\n")[0]
        except Unsupported as reason:
            outcome, message = "unsupported", str(reason)
        except Blocked as reason:
            outcome, message = "blocked", str(reason)
        except Exception as fault:
            outcome, message = "error", f"the check itself failed: {one_line(fault)}"
    if outcome == "pass" and comparisons:
        worst = max(comparisons, key=lambda c: c.error / c.budget)
        error, budget = worst.error, worst.budget
    stated = requirements()[id]
    repro = repro if outcome == "fail" else ""
    return Result(id, stated.equation, check.name, str(check.level), outcome, message, error, budget, repro)
