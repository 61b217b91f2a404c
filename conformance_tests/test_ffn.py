"""Checks of chapter 7: the feed-forward network."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Case, Run
from conformance_tests.harness.weight_sets import LOUD


@decides("FFN-1", "FFN-2", "FFN-4", "FFN-11", "FFN-12", level="trace")
def test_activation_is_its_variant(run: Run) -> None:
    """f(x W₁ + b₁), f being ReLU, GELU, …: an intermediate, also where it is large, and what W₂ reads."""
    run.expect("activation", Case(), Case(LOUD)).reaches("ffn").is_formed()


@decides("FFN-6", "FFN-10", "FFN-13", "FFN-14", "FFN-15", level="trace")
def test_ffn_is_two_maps_around_the_activation(run: Run) -> None:
    """f(x W₁ + b₁) W₂ + b₂, gated or not: an intermediate, and what the residual connection adds."""
    run.expect("ffn").reaches("residual").is_formed()


@decides("FFN-9", level="static")
def test_number_of_ffn_parameters_is_as_declared(run: Run) -> None:
    """W₁, b₁, W₂ and b₂ have as many entries as the declared shapes say."""
    run.demand_parameter_count("ffn", "W_1", "b_1", "W_2", "b_2")
