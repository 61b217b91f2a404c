"""Checks of chapter 2: positions."""

from conformance_tests.checks import decides
from conformance_tests.run import Run


@decides("POS-1", "POS-6", "POS-7", "POS-9", "POS-10", level="trace")
def test_each_position_has_its_own_vector(run: Run) -> None:
    """The value of the slot ``position`` stands among the encoder's intermediates."""
    run.demand_intermediate("position")
