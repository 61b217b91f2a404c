"""Checks of chapter 5: several heads."""

from conformance_tests.errors import Unsupported
from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Case, Run
from conformance_tests.harness.wiring import demand_handed_on


@decides("MH-1", level="trace")
def test_heads_hold_consecutive_columns(run: Run) -> None:
    """The split Q, K and V stand among the encoder's intermediates, and are what the scores read."""
    demand_handed_on(run, "split")


@decides("MH-3", level="trace")
def test_heads_stand_side_by_side_in_their_order(run: Run) -> None:
    """The concatenation stands among the encoder's intermediates, with and without padding."""
    run.demand_intermediate("merge", *run.with_and_without_padding())


@decides("MH-4", "MH-5", level="trace")
def test_output_projection_follows_the_concatenation(run: Run) -> None:
    """Concat · W_O stands among the encoder's intermediates, with and without padding."""
    demand_handed_on(run, "output", *run.with_and_without_padding())


@decides("MH-7", level="black-box")
def test_permuted_positions_give_permuted_outputs(run: Run) -> None:
    """An encoder of given embeddings knows no order: reversing the input reverses the output."""
    if run.encoder.profile["input"].variant != "given":
        raise Unsupported("the encoder adds positions itself, so that order does matter")
    run.demand_output_per_position()
    for case in run.cases(Case(), Case(gradients=False)):
        reversed_output = run.encode(case, run.probes[case.probe].reversed())
        run.demand_equal(reversed_output, run.output(case).flip(1), "multihead: Z of the reversed input", case)


@decides("MH-8", level="static")
def test_number_of_attention_parameters_is_as_declared(run: Run) -> None:
    """The maps and biases of attention have as many entries as the declared shapes say."""
    run.demand_parameter_count("multihead", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
