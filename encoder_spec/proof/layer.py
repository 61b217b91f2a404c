"""Proof of chapter 9."""

from sympy import simplify

from encoder_spec.cost import customary, parameters, symbol
from encoder_spec.profiles import TORCH_POST_LN, TORCH_PRE_LN
from encoder_spec.proof import proves

WITHOUT_BIASES = {"projections": "linear", "output": "linear", "ffn": "linear"}


@proves("LAYER-3")
def parameters_of_a_layer() -> None:
    """Attention 4d² + 4d, feed-forward network 2·d·d_ff + d_ff + d, two norms of γ and β 4d.

    The matrices alone are 4d² + 2·d·d_ff; the vectors add (4 + 1 + 4)·d + d_ff. The heads only
    cut up widths of d_model, so h cancels. The order of norm and sublayer changes nothing.
    """
    d, d_ff = symbol("d_model"), symbol("d_ff")
    for profile in (TORCH_POST_LN, TORCH_PRE_LN):
        layer = customary(parameters(profile)["layer"])
        bare = parameters(profile.replace(**WITHOUT_BIASES))
        matrices = customary(bare["layer"] - bare["norms"])
        assert simplify(matrices - (4 * d**2 + 2 * d * d_ff)) == 0
        assert simplify(layer - matrices - (9 * d + d_ff)) == 0
        assert symbol("h") not in layer.free_symbols
