"""Proofs of chapters 3 and 4: scores, weights, mask."""

from collections.abc import Callable

from sympy import (
    Expr,
    IndexedBase,
    Integer,
    Matrix,
    Rational,
    Sum,
    exp,
    expand_log,
    eye,
    limit,
    log,
    oo,
    simplify,
    sqrt,
    symbols,
)

from encoder_spec.cost import symbol
from encoder_spec.proof import proves
from encoder_spec.proof.moments import mean, variance

n = symbol("n")
j, k, m = symbols("j k m", integer=True, nonnegative=True)
S = IndexedBase("S", real=True)


def weight(row: Callable[[Expr], Expr], key: Expr) -> Expr:
    """The softmax of a row of n scores, at one key."""
    return exp(row(key)) / Sum(exp(row(m)), (m, 0, n - 1))


@proves("ATT-4")
def variance_of_an_inner_product_is_its_width() -> None:
    """Induction on d_k with the moments E[q] = E[k] = 0 and E[q²] = E[k²] = 1.

    The sum s of no products has mean 0 and variance 0. If the sum s of d_k products
    has mean 0 and variance d_k, then s + q·k, with a further q and k that are independent of
    s and of each other, has mean 0 and variance d_k + 1. Hence S = q·k/√d_k has variance 1.
    """
    d_k = symbol("d_k")
    s, query, key = symbols("s q k")
    standard = (Integer(0), Integer(1))
    moments = {s: (Integer(0), d_k), query: standard, key: standard}
    assert mean(s + query * key, moments) == 0
    assert variance(s + query * key, moments) == d_k + 1
    assert variance(s / sqrt(d_k), moments) == 1


@proves("ATT-7")
def weights_are_a_distribution_and_not_symmetric() -> None:
    """The denominator does not depend on the key, so the sum of a row is Z/Z.

    Write a = exp S[j,k] > 0 for one entry and r ≥ 0 for the sum of the row's others, which is
    empty for n = 1: A = a/(a+r) > 0 and 1 − A = r/(a+r) ≥ 0. A is not symmetric in general: the
    symmetric S = [[ln 2, 0], [0, 0]], which Q = S and K = √2·I give for d_k = 2, has
    A = [[2/3, 1/3], [1/2, 1/2]].
    """
    row_sum = simplify(Sum(weight(lambda key: S[j, key], k), (k, 0, n - 1)))
    numerator, denominator = row_sum.as_numer_denom()
    assert numerator.dummy_eq(denominator, m)

    a, r = symbols("a", positive=True), symbols("r", nonnegative=True)
    assert (a / (a + r)).is_positive
    assert simplify(1 - a / (a + r)).is_nonnegative

    Q, K = Matrix([[log(2), 0], [0, 0]]), sqrt(2) * eye(2)
    scores = Q * K.T / sqrt(2)
    A = Matrix(2, 2, lambda row, key: exp(scores[row, key]) / sum(exp(score) for score in scores[row, :]))
    expected = Matrix([[Rational(2, 3), Rational(1, 3)], [Rational(1, 2), Rational(1, 2)]])
    assert scores.is_symmetric()
    assert (A - expected).is_zero_matrix
    assert not A.is_symmetric()


@proves("ATT-8")
def constant_added_to_a_row_of_scores_cancels() -> None:
    """exp(S + c) = e^c · exp S in the numerator and in each term of the denominator, whatever n is."""
    c = symbols("c", real=True)
    shifted = weight(lambda key: S[j, key] + c, k)
    assert simplify(shifted - weight(lambda key: S[j, key], k)) == 0


@proves("MASK-4")
def additive_mask_equals_the_boolean_mask() -> None:
    """The masked scores agree, entry by entry, and a finite fill tends to the same weights.

    S + 0 = S where a key is kept. S + (−∞) = −∞ for every finite S where it is masked, and
    exp(−∞) = 0. With a finite fill M on masked keys, of exponentials b in all, and with kept
    keys of exponentials r besides a, the weights of a masked and of a kept key tend to 0 and to
    a/(a+r) as M → −∞: the softmax over the kept keys alone.
    """
    score = symbols("S", real=True)
    assert score + Integer(0) == score
    assert score + -oo == -oo
    assert exp(-oo) == 0

    M = symbols("M", real=True)
    a, b, r = symbols("a b r", positive=True)
    kept, masked = a / (a + r + b * exp(M)), b * exp(M) / (a + r + b * exp(M))
    assert limit(masked, M, -oo) == 0
    assert simplify(limit(kept, M, -oo) - a / (a + r)) == 0


@proves("ATT-19")
def rows_on_a_logarithmic_scale_begin_as_a_geometric_sequence() -> None:
    """Row e + e ln(δ/e) / ln(Δ/e) = e + i where δ = e (Δ/e)^(i/e): i = 0 continues the exact rows, and i = e is Δ.

    For n_b = 32 and Δ = 128 every second row begins at a power of two: 8, 16, 32, 64.
    """
    e, i, farthest = symbols("e i Delta", positive=True)
    begins = e * (farthest / e) ** (i / e)
    row = e + e * log(begins / e) / log(farthest / e)
    assert simplify(expand_log(row, force=True) - (e + i)) == 0
    assert begins.subs(i, 0) == e
    assert simplify(begins.subs(i, e)) == farthest
    assert [begins.subs({e: 8, farthest: 128, i: k}) for k in (0, 2, 4, 6)] == [8, 16, 32, 64]


@proves("ATT-25")
def buckets_on_a_logarithmic_scale_end_as_a_geometric_sequence() -> None:
    """Bucket e + (e − 1) ln(δ/e) / ln((Δ − 1)/e) = e + i where δ = e ((Δ − 1)/e)^(i/(e − 1)): from e up to Δ − 1.

    Bucket e + i is the last one for this distance, since the ceiling of a whole number is itself.
    """
    e, i, farthest = symbols("e i Delta", positive=True)
    ends = e * ((farthest - 1) / e) ** (i / (e - 1))
    bucket = e + (e - 1) * log(ends / e) / log((farthest - 1) / e)
    assert simplify(expand_log(bucket, force=True) - (e + i)) == 0
    assert ends.subs(i, 0) == e
    assert simplify(ends.subs(i, e - 1)) == farthest - 1
    assert [ends.subs({e: 3, farthest: 49, i: k}) for k in range(3)] == [3, 12, 48]


@proves("ATT-17")
def slopes_are_a_geometric_sequence() -> None:
    """2^(−8(i+1)/h) / 2^(−8i/h) = 2^(−8/h) for every i: the first one is that, and the one of i = h is 2^(−8)."""
    h = symbol("h")
    i = symbols("i", integer=True, positive=True)
    slope = 2 ** (-8 * i / h)
    assert simplify(slope.subs(i, i + 1) / slope) == 2 ** (-8 / h)
    assert slope.subs(i, 1) == 2 ** (-8 / h)
    assert slope.subs(i, h) == Rational(1, 2**8)
