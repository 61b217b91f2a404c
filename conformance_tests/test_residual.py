"""Checks of chapter 8: the residual connection."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("RES-1", level="trace")
def test_residual_adds_the_sublayers_own_input(run: Run) -> None:
    """Both sums of every layer stand among the encoder's intermediates."""
    run.demand_intermediate("residual")
