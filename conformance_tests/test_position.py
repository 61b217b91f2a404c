"""Checks of chapter 2: positions."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import PADDED, Run
from encoder_spec.position import sinusoidal


@decides("POS-1", "POS-6", "POS-7", "POS-9", "POS-10", "POS-12", "POS-13", "POS-15", "POS-16", "POS-17", level="trace")
def test_each_position_has_its_own_vector(run: Run) -> None:
    """PE[j], sinusoidal, a row of P, heard, or nothing: one of the encoder's intermediates, and what the sum reads."""
    expected = run.expect("position").reaches("input")
    if run.encoder.profile["position"].variant == "in-attention":
        expected.is_not_changed_by(sinusoidal)  # what is nothing is not formed
    else:
        expected.is_formed()


@decides("POS-14", "POS-18", level="trace")
def test_padding_is_not_heard(run: Run) -> None:
    """PE[j] beside padding: what is heard there is 0."""
    run.demand_mask()
    run.expect("position", *PADDED).is_formed()


@decides("POS-11", level="black-box")
def test_without_positions_a_permuted_sequence_gives_permuted_outputs(run: Run) -> None:
    """A set is encoded: reversing it reverses the output, behind the class tokens."""
    run.expect("position").reaches("input")
    run.demand_a_set("position.none")
