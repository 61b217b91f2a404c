"""How a check ends: each way that it can end is an outcome, and nothing else is."""

from collections.abc import Callable

import pytest

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.checks import Check, registry
from conformance_tests.harness.deciding import applicable_requirements, decide, planned
from conformance_tests.harness.run import Run
from conformance_tests.meta_tests.harness.conftest import Runs
from conformance_tests.numerics.compare import Comparison
from conformance_tests.reports.report import Level


def raising(fault: Exception) -> Callable[[Run], None]:
    def check(run: Run) -> None:
        run.comparisons.append(Comparison(3.0, 2.0))
        raise fault

    return check


def comparing(*pairs: tuple[float, float]) -> Callable[[Run], None]:
    def check(run: Run) -> None:
        run.comparisons.extend(Comparison(error, budget) for error, budget in pairs)

    return check


def ended(function: Callable[[Run], None], run: Run) -> tuple[str, str, float | None, float | None, str]:
    result = decide(run, Check(("ATT-3",), Level.TRACE, function), "ATT-3", "once more")
    assert (result.id, result.equation, result.level) == ("ATT-3", "attention.scores", "trace")
    return result.outcome, result.message, result.error, result.budget, result.repro


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Disagreement("off", 0.5, 0.25), ("fail", "off", 0.5, 0.25, "once more")),
        (AssertionError("off\nand pytest's own lines"), ("fail", "off", None, None, "once more")),
        (Unsupported("cannot tell"), ("unsupported", "cannot tell", None, None, "")),
        (Blocked("wrong before"), ("blocked", "wrong before", None, None, "")),
        (ZeroDivisionError("by"), ("error", "the check itself failed: ZeroDivisionError: by", None, None, "once more")),
    ],
)
def test_each_exception_is_one_outcome(
    fault: Exception, outcome: tuple[str, str, float | None, float | None, str], run_of: Runs
) -> None:
    """Error and budget come with a disagreement alone; what counts against an encoder says how to repeat it."""
    assert ended(raising(fault), run_of()) == outcome


def test_pass_reports_the_comparison_that_is_nearest_to_its_budget(run_of: Runs) -> None:
    """3/4 is nearer to 1 than 10/100 and 1/2, though 10 is the largest error."""
    assert ended(comparing((10, 100), (3, 4), (1, 2)), run_of()) == ("pass", "", 3, 4, "")
    assert ended(comparing(), run_of()) == ("pass", "", None, None, "")


def test_comparisons_of_one_check_are_not_those_of_the_next(run_of: Runs) -> None:
    ended(comparing((1, 2)), run_of())
    assert ended(comparing((1, 8)), run_of())[2:4] == (1, 8)


def test_plan_goes_from_weak_evidence_to_strong_and_no_further_than_asked(run_of: Runs) -> None:
    run = run_of()
    levels = [check.level for check, _ in planned(run, Level.GRADIENT)]
    assert levels == sorted(levels)
    assert set(levels) == set(Level)
    assert {check.level for check, _ in planned(run, Level.BLACK_BOX)} == {Level.STATIC, Level.BLACK_BOX}


def test_requirement_applies_where_its_equation_is_used(run_of: Runs) -> None:
    """ATT-3 is about scaled scores, ATT-5 and others about other ones; the profile scales them."""
    check = registry().checks["test_attention::test_scores_have_the_scale_of_their_variant"]
    assert check.requirements == ("ATT-3", "ATT-5", "ATT-23", "ATT-24")
    assert applicable_requirements(run_of(), check) == ["ATT-3"]
