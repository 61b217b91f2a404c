"""Proof of chapter 8, second half."""

from sympy import Min, Piecewise, integrate, simplify, symbols

from encoder_spec.proof import proves


@proves("DROP-3")
def expectation_of_dropout_is_the_identity() -> None:
    """E = ∫₀¹ [u ≥ P] · x/(1 − P) du = (1 − P) · x/(1 − P) = x, for 0 ≤ P < 1.

    Every entry has a noise u of its own, uniform on [0, 1), so one entry speaks for all.
    """
    x, u = symbols("x u", real=True)
    P = symbols("P", nonnegative=True)
    kept = Piecewise((x / (1 - P), u >= P), (0, True))
    below_1 = {Min(1, P): P}
    expectation = integrate(kept, (u, 0, 1)).subs(below_1)
    assert simplify(expectation - x) == 0
