"""Checks of chapter 8: dropout."""

from conformance_tests.checks import decides
from conformance_tests.run import Case, Run


@decides("DROP-1", level="black-box")
def test_repeated_calls_in_evaluation_are_equal(run: Run) -> None:
    """Two calls on one input give the same output, with gradients and without."""
    for case in run.cases(Case(), Case(gradients=False)):
        again = run.encode(case, run.probes[case.probe])
        run.demand_equal(again, run.output(case), "dropout: Z of the second call", case)
