"""Checks of chapter 7: the feed-forward network."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Case, Run
from conformance_tests.harness.weight_sets import LOUD
from conformance_tests.harness.wiring import demand_handed_on


@decides("FFN-1", "FFN-2", "FFN-4", "FFN-11", "FFN-12", level="trace")
def test_activation_is_its_variant(run: Run) -> None:
    """The activation's output stands among the encoder's intermediates, also where it is large."""
    demand_handed_on(run, "activation", Case(), Case(LOUD))


@decides("FFN-6", "FFN-10", "FFN-13", "FFN-14", level="trace")
def test_ffn_is_two_maps_around_the_activation(run: Run) -> None:
    """The network's output stands among the encoder's intermediates."""
    demand_handed_on(run, "ffn")


@decides("FFN-9", level="static")
def test_number_of_ffn_parameters_is_as_declared(run: Run) -> None:
    """W₁, b₁, W₂ and b₂ have as many entries as the declared shapes say."""
    run.demand_parameter_count("ffn", "W_1", "b_1", "W_2", "b_2")
