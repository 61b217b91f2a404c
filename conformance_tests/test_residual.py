"""Checks of chapter 8: the residual connection."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("RES-1", "RES-3", "RES-4", "RES-6", level="trace")
def test_residual_adds_the_sublayers_own_input(run: Run) -> None:
    """X + sublayer(x), x + λ ⊙ sublayer(x) or αx + sublayer(x), twice in each layer: each sum is an intermediate."""
    run.expect("residual").is_formed()
