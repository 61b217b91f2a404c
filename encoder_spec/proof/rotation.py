"""Proofs of rotary positions: what turning keeps, and what a product of two turned vectors knows."""

from sympy import Expr, Matrix, cos, eye, simplify, sin, symbols

from encoder_spec.proof import proves

m, n, k = symbols("m n k", integer=True)
frequency = symbols("omega", real=True)
q = Matrix(symbols("q_0 q_1", real=True))
key = Matrix(symbols("k_0 k_1", real=True))


def R(position: Expr) -> Matrix:
    """What turns one pair of features; the whole matrix has these blocks along its diagonal, and ones."""
    angle = position * frequency
    return Matrix([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])


@proves("ROT-3")
def turning_keeps_lengths() -> None:
    """R(m)ᵀ R(m) = I, so that |R(m) q|² = qᵀ q in each pair, and in their sum."""
    assert simplify(R(m).T * R(m)) == eye(2)
    assert simplify((R(m) * q).dot(R(m) * q) - q.dot(q)) == 0


@proves("ROT-4")
def product_of_turned_vectors_depends_on_their_distance() -> None:
    """R(m)ᵀ R(n) = R(n − m): with n = m + k the product of each pair is free of m, and so is their sum."""
    assert simplify(R(m).T * R(n) - R(n - m)) == Matrix([[0, 0], [0, 0]])
    product = simplify((R(m) * q).dot(R(m + k) * key))
    assert m not in product.free_symbols


@proves("ROT-8")
def product_on_an_image_depends_on_the_distance_of_rows_and_of_columns() -> None:
    """A pair at coordinate a + b·m, of row or column m, leaves a product that is free of m beside one k further.

    Every coordinate of a patch is such a multiple of its row, or of its column. The whole product is the sum over
    pairs, each of which tells one of the two.
    """
    a, b = symbols("a b", real=True)
    product = simplify((R(a + b * m) * q).dot(R(a + b * (m + k)) * key))
    assert product.free_symbols.isdisjoint({m, a})
    assert k in product.free_symbols
