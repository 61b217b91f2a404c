"""Checks of chapter 11: heads on top."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("HEAD-1", "HEAD-2", "HEAD-3", "HEAD-4", "HEAD-5", level="trace")
def test_head_computes_its_variant(run: Run) -> None:
    """The value of the slot ``head`` stands among the encoder's intermediates, and is what is returned."""
    run.demand_intermediate("head", *run.with_and_without_padding())
    case = run.case()
    run.demand_equal(run.output(case), run.expected(case), f"{run.encoder.profile['head'].id}: y", case)
