"""Checks of chapter 9: the layer."""

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run


@decides("LAYER-1", "LAYER-4", "LAYER-5", "LAYER-6", "LAYER-7", "LAYER-8", "LAYER-9", level="trace")
def test_sublayer_residual_and_norm_have_the_order_of_their_variant(run: Run) -> None:
    """norm(x + sublayer(x)) twice, or x + sublayer(norm(x)) twice: intermediates, and no part reads another's input.

    Likewise where what the sublayers give is normed, or both read x.
    """
    run.expect("layer").reaches("stack").is_formed()


@decides("LAYER-3", level="static")
def test_number_of_layer_parameters_is_as_declared(run: Run) -> None:
    """All parameters of the layers together have as many entries as the declared shapes say."""
    paths = [path for path in run.encoder.symbolic_shapes() if path.startswith("layers.")]
    run.demand_parameter_count("layer", *{path.split(".", 2)[2] for path in paths})
