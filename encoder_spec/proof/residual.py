"""Proof of chapter 8, first half."""

from sympy import Expr, Function, Integer, Matrix, Rational, eye, limit, oo, simplify, sqrt, symbols, zeros

from encoder_spec.cost import N
from encoder_spec.proof import proves
from encoder_spec.proof.moments import variance


@proves("RES-2")
def jacobian_is_the_identity_plus_that_of_the_sublayer() -> None:
    """Differentiate y_j = x_j + F_j(x_1, x_2, x_3) for three arbitrary functions F_j.

    Entry (j, k) of the Jacobian involves y_j and x_k alone, so other widths only repeat
    the two cases that occur here, j = k and j ≠ k.
    """
    x = Matrix(symbols("x_1:4", real=True))
    sublayer = Matrix([Function(f"F_{j}")(*x) for j in (1, 2, 3)])
    J = sublayer.jacobian(x)
    assert (x + sublayer).jacobian(x) - J == eye(3)
    assert (x + zeros(3, 1)).jacobian(x) == eye(3)


@proves("RES-5")
def deepnorm_keeps_most_of_the_stream() -> None:
    """Take x and f independent, with mean 0 and variance 1: αx + f has variance α² + 1, of which α² comes from x.

    With α⁴ = 2N the share α²/(α² + 1) is √(2N)/(1 + √(2N)), which tends to 1; with α = 1 it is one half for each N.
    The norm behind the sum divides both parts by one number, so that their shares stay.
    """
    x, f = symbols("x f", real=True)
    moments = {x: (Integer(0), Integer(1)), f: (Integer(0), Integer(1))}

    def share(alpha: Expr) -> Expr:
        return variance(alpha * x, moments) / variance(alpha * x + f, moments)

    alpha = (2 * N) ** Rational(1, 4)
    assert simplify(share(alpha) - sqrt(2 * N) / (1 + sqrt(2 * N))) == 0
    assert limit(share(alpha), N, oo) == 1
    assert share(Integer(1)) == Rational(1, 2)
