"""Proofs of chapter 2: what the sinusoids know about distance."""

from sympy import Expr, Matrix, Sum, cos, eye, simplify, sin, symbols

from encoder_spec.cost import symbol
from encoder_spec.proof import proves

d = symbol("d_model")
i = symbols("i", integer=True, nonnegative=True)
p, q, k = symbols("p q k", integer=True)
frequency = 10000 ** (-2 * i / d)


def pair(pos: Expr) -> Matrix:
    """Features 2i and 2i + 1 of PE(pos); an even d_model has the pairs i = 0 … d_model/2 − 1 and nothing else."""
    return Matrix([sin(pos * frequency), cos(pos * frequency)])


@proves("POS-3")
def shifted_position_is_a_rotation_by_the_shift_alone() -> None:
    """The addition theorems, pair by pair.

    sin((p+k)ω) = cos(kω) sin(pω) + sin(kω) cos(pω), and likewise for the cosine: R has these
    coefficients, free of p, is orthogonal and has determinant 1. The whole PE(p+k) is PE(p)
    times the block-diagonal matrix of the R of all pairs, which is orthogonal as its blocks are
    and has determinant 1 as their product: a rotation.
    """
    angle = k * frequency
    R = Matrix([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
    assert simplify(R * pair(p) - pair(p + k)) == Matrix([0, 0])
    assert simplify(R * R.T) == eye(2)
    assert simplify(R.det()) == 1
    assert p not in R.free_symbols


@proves("POS-4")
def squared_length_is_half_the_width() -> None:
    """Each pair contributes sin² + cos² = 1, and there are d_model/2 pairs."""
    contribution = simplify(pair(p).dot(pair(p)))
    assert Sum(contribution, (i, 0, d / 2 - 1)).doit() == d / 2


@proves("POS-5")
def inner_product_depends_on_the_distance_alone() -> None:
    """Each pair contributes sin(pω)sin(qω) + cos(pω)cos(qω) = cos((p−q)ω).

    Their sum over i is thus a function of p − q: with p = q + k it is free of q.
    """
    contribution = simplify(pair(p).dot(pair(q)))
    assert simplify(contribution - cos((p - q) * frequency)) == 0
    inner_product = Sum(contribution, (i, 0, d / 2 - 1))
    assert q not in simplify(inner_product.subs(p, q + k)).free_symbols
