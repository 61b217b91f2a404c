"""Proofs of chapter 7."""

from sympy import erf, limit, oo, simplify, sqrt, symbols

from encoder_spec.cost import parameters, symbol
from encoder_spec.profiles import VASWANI_2017
from encoder_spec.proof import proves


@proves("FFN-3")
def gelu_lies_between_0_and_its_argument() -> None:
    """GELU(x) − GELU(−x) = x because erf is odd; the bounds because 0 < Φ < 1.

    Φ has a positive derivative and the limits 0 and 1, so Φ = φ with φ and 1 − φ positive.
    For x > 0 then 0 < xφ < x; for x < 0, with x = −t, −t < −tφ < 0; and GELU(0) = 0.
    """
    x = symbols("x", real=True)
    normal = (1 + erf(x / sqrt(2))) / 2
    gelu = x * normal
    assert simplify(gelu - gelu.subs(x, -x) - x) == 0

    assert normal.diff(x).is_positive
    assert limit(normal, x, -oo) == 0
    assert limit(normal, x, oo) == 1

    t, odds = symbols("t odds", positive=True)
    phi = odds / (1 + odds)
    assert (t * phi).is_positive
    assert simplify(t - t * phi).is_positive
    assert (-t * phi).is_negative
    assert simplify(-t * phi + t).is_positive
    assert gelu.subs(x, 0) == 0


@proves("FFN-9")
def parameters_of_the_ffn() -> None:
    """The declared shapes are d_model × d_ff, d_ff, d_ff × d_model and d_model: their products add up."""
    d, d_ff = symbol("d_model"), symbol("d_ff")
    assert simplify(parameters(VASWANI_2017)["FFN"] - (2 * d * d_ff + d_ff + d)) == 0
