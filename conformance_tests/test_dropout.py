"""Checks of chapter 8: dropout."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Case, Run


@decides("DROP-1", level="black-box")
def test_repeated_calls_in_evaluation_are_equal(run: Run) -> None:
    """Two calls on one input give the same output, with gradients and without."""
    for case in run.cases(Case(), Case(gradients=False)):
        again = run.encode(case, run.probes[case.probe])
        run.demand_equal(again, run.output(case), "dropout: Z of the second call", case)


@decides("DROP-6", level="agreement")
def test_dropout_in_evaluation_hands_its_input_on(run: Run) -> None:
    """dropout(x) = x: no equation is right for a thinned or rescaled x in the place of the x that it must read."""
    run.expect("dropout", *run.with_and_without_padding()).reaches("residual")
