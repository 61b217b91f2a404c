"""Means of polynomials in variables whose first two moments are known.

A mean is linear, and the mean of a product of independent variables is the product of
their means. Both sentences together turn the mean of any polynomial into a polynomial in
the moments; nothing else about the distribution, and no sample size, is used.
"""

from collections.abc import Mapping
from math import prod

from sympy import Expr, Integer, Poly, Symbol

Moments = Mapping[Symbol, tuple[Expr, Expr]]


def mean(polynomial: Expr, moments: Moments) -> Expr:
    """The mean of a polynomial of degree 2 or less in each of some independent variables.

    Args:
        polynomial: in the keys of ``moments``; every other symbol is a constant.
        moments: for each variable v its E[v] and E[v²].
    """
    terms = Poly(polynomial, *moments).terms()
    return sum(
        (
            coefficient * prod((Integer(1), *moments[v])[power] for v, power in zip(moments, powers, strict=True))
            for powers, coefficient in terms
        ),
        start=Integer(0),
    )


def variance(polynomial: Expr, moments: Moments) -> Expr:
    """The mean square of the deviation from the mean, for a polynomial of degree 1 in each variable."""
    return mean((polynomial - mean(polynomial, moments)) ** 2, moments).expand()
