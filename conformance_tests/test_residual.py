"""Checks of chapter 8: the residual connection."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("RES-1", "RES-3", level="trace")
def test_residual_adds_the_sublayers_own_input(run: Run) -> None:
    """X + sublayer(x) or x + λ ⊙ sublayer(x), twice in each layer: each sum is one of the encoder's intermediates."""
    run.expect("residual").is_formed()
