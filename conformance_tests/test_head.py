"""Checks of chapter 11: heads on top."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("HEAD-1", "HEAD-2", "HEAD-3", "HEAD-4", "HEAD-5", level="trace")
def test_head_computes_its_variant(run: Run) -> None:
    """The head's value for Z: one of the encoder's intermediates, and what is returned."""
    run.expect("head", *run.with_and_without_padding()).is_formed()
    case = run.case()
    run.demand_equal(run.output(case), run.expected(case), f"{run.encoder.profile['head'].id}: y", case)
