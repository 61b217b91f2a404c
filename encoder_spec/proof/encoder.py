"""Proofs of chapter 10."""

from sympy import simplify

from encoder_spec.cost import parameters, symbol
from encoder_spec.profiles import T5_ENCODER, UNIVERSAL, VASWANI_2017
from encoder_spec.proof import proves

N = symbol("N")


@proves("ENC-15")
def unshared_parameters_grow_by_one_layer_with_each_layer() -> None:
    """The count is affine in N, and its slope is the count of one layer, which is positive."""
    count = parameters(VASWANI_2017)
    growth = simplify(count["whole"].subs(N, N + 1) - count["whole"])
    assert simplify(growth - count["layer"]) == 0
    assert growth.is_positive


@proves("ENC-16")
def shared_parameters_do_not_depend_on_the_depth() -> None:
    """The walk of N layers meets the same paths for every N, so N does not occur in the count.

    It is the count of the unshared encoder with one layer.
    """
    count = parameters(UNIVERSAL)["whole"]
    assert N not in count.free_symbols
    assert simplify(count - parameters(VASWANI_2017)["whole"].subs(N, 1)) == 0


@proves("ENC-20")
def one_table_is_counted_once() -> None:
    """Beside layers without a shared table N layers have (N − 1) n_b h entries less."""
    alone, shared = (parameters(T5_ENCODER.replace(sharing=s))["whole"] for s in ("none", "bias"))
    assert simplify(alone - shared - (N - 1) * symbol("buckets") * symbol("h")) == 0
