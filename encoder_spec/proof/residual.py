"""Proof of chapter 8, first half."""

from sympy import Function, Matrix, eye, symbols, zeros

from encoder_spec.proof import proves


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
