"""Checks of chapter 5: multi-head attention."""

from conformance_tests.errors import Unsupported
from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("MH-1", level="trace")
def test_heads_hold_consecutive_columns(run: Run) -> None:
    """Head i has columns i d_k to (i + 1) d_k − 1 of Q, K and V: intermediates, and what scores and values read."""
    run.expect("split").reaches("scores", "values").is_formed()


@decides("MH-9", level="trace")
def test_heads_of_keys_and_values_serve_neighbours(run: Run) -> None:
    """Head ⌊i g/h⌋ of K and V for head i of Q: intermediates, and what rotation and values read."""
    run.expect("groups").reaches("rotation", "values").is_formed()


@decides("MH-3", level="trace")
def test_heads_stand_side_by_side_in_their_order(run: Run) -> None:
    """[head_1, …, head_h], side by side: one of the encoder's intermediates, with and without padding."""
    run.expect("merge", *run.with_and_without_padding()).is_formed()


@decides("MH-4", "MH-5", level="trace")
def test_output_projection_follows_the_concatenation(run: Run) -> None:
    """[head_1, …, head_h] W_O, with or without b_O: an intermediate, and what the residual connection adds."""
    run.expect("output", *run.with_and_without_padding()).reaches("residual").is_formed()


@decides("MH-7", level="black-box")
def test_permuted_positions_give_permuted_outputs(run: Run) -> None:
    """An encoder that adds no positions knows no order: reversing the input reverses the output."""
    if run.encoder.choices().get("position", "none") != "none":
        raise Unsupported("the encoder tells positions itself, so that order does matter")
    run.demand_a_set("multihead")


@decides("MH-8", "MH-11", level="static")
def test_number_of_attention_parameters_is_as_declared(run: Run) -> None:
    """The maps and biases of attention have as many entries as the declared shapes say."""
    run.demand_parameter_count("multihead", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
