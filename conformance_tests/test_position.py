"""Checks of chapter 2: positions."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run
from conformance_tests.harness.wiring import demand_handed_on


@decides("POS-1", "POS-6", "POS-7", "POS-9", "POS-10", level="trace")
def test_each_position_has_its_own_vector(run: Run) -> None:
    """The value of the slot ``position`` stands among the encoder's intermediates, and is what goes on."""
    demand_handed_on(run, "position")
