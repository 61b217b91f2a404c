"""Deciding requirements: which checks apply to a run, how each ends, and what verdict that gives."""

from itertools import islice

from conformance_tests.errors import Blocked, Departs, Disagreement, Unsupported, one_line
from conformance_tests.harness.checks import Check, registry
from conformance_tests.harness.run import Run
from conformance_tests.reports.report import Level, Result
from encoder_spec.equation import REQUIREMENTS


def applicable_requirements(run: Run, check: Check) -> list[str]:
    """Return the requirements of a check whose equation the run judges."""
    return [id for id in check.requirements if REQUIREMENTS[id].equation in run.all_equations]


def planned(run: Run, level: Level) -> list[tuple[Check, str]]:
    """List the checks that apply up to a level, each with a requirement that it decides, weakest evidence first."""
    checks = sorted((c for c in registry().checks.values() if c.level <= level), key=lambda c: c.level)
    return [(check, id) for check in checks for id in applicable_requirements(run, check)]


def decide(run: Run, check: Check, id: str, repro: str = "") -> Result:
    """Run one check and return how it ended."""
    run = run.of_equation(REQUIREMENTS[id].equation)
    outcome, message = "pass", ""
    error = budget = None
    with run.measured() as comparisons:
        try:
            if id in run.documented_otherwise:
                raise Unsupported(run.documented_otherwise[id])
            check.function(run)
        except Disagreement as failure:
            outcome, message, error, budget = "fail", str(failure), failure.error, failure.budget
        except AssertionError as failure:
            # Under pytest an assertion goes on, on further lines, about the objects compared.
            outcome, message = "fail", str(failure).split("\n")[0]
        except Unsupported as reason:
            outcome, message = "unsupported", str(reason)
        except Blocked as reason:
            outcome, message = "blocked", str(reason)
        except Exception as fault:
            outcome, message = "error", f"the check itself failed: {one_line(fault)}"
    if outcome == "pass" and comparisons:
        worst = max(comparisons, key=lambda c: c.error / c.budget)
        error, budget = worst.error, worst.budget
    stated = REQUIREMENTS[id]
    repro = repro if outcome in ("fail", "error") else ""
    return Result(id, stated.equation, check.name, str(check.level), outcome, message, error, budget, repro)


def departures(found: Departs, repro: str = "") -> list[Result]:
    """Return a failure for each departure that a computation shows by itself, of the first requirement that shows it.

    Args:
        found: what it says of each equation.
        repro: the command that repeats the run.
    """
    failures = []
    for equation, says in found.departures:
        checks = sorted(registry().checks.values(), key=lambda check: check.level != Level.TRACE)
        deciding = ((c, id) for c in checks for id in c.requirements if REQUIREMENTS[id].equation == equation)
        for check, id in islice(deciding, 1):
            message = f"{equation}: {says}"
            failures.append(Result(id, equation, check.name, str(Level.TRACE), "fail", message, repro=repro))
    return failures
