"""Proofs of chapter 6.

The mean over the d features of a position is linear, so the mean of a polynomial in a
feature x follows from its first two moments: μ and μ² + σ². No proof here fixes d.
σ and ε are positive; a position with σ = 0 has x − μ = 0 throughout, in every norm with a mean.
"""

from sympy import Expr, Integer, Rational, limit, simplify, sqrt, symbols

from encoder_spec.cost import symbol
from encoder_spec.proof import proves
from encoder_spec.proof.moments import mean, variance

d = symbol("d_model")
x, mu, beta, c = symbols("x mu beta c", real=True)
sigma, eps, gamma = symbols("sigma epsilon gamma", positive=True)
features = {x: (mu, mu**2 + sigma**2)}


def deviation(feature: Expr, scale: Expr) -> Expr:
    """What γ multiplies: the feature less its mean, over a scale."""
    return (feature - mean(feature, features)) / scale


def under_the_root(feature: Expr) -> Expr:
    """√(σ² + ε), with the variance of what is normalised."""
    return sqrt(variance(feature, features) + eps)


def outside_the_root(feature: Expr) -> Expr:
    """σ + ε, with the standard deviation of what is normalised."""
    return sqrt(variance(feature, features)) + eps


def unbiased_outside_the_root(feature: Expr) -> Expr:
    """The sum s + ε, where s² divides the sum of the d squared deviations by d − 1."""
    return sqrt(d * variance(feature, features) / (d - 1)) + eps


def normed(feature: Expr, scale: Expr) -> Expr:
    """The norm with γ and β."""
    return gamma * deviation(feature, scale) + beta


@proves("NORM-4")
def layer_norm_has_mean_0_and_almost_unit_variance() -> None:
    """The mean of (x − μ)/√(σ²+ε) is (μ − μ)/√(σ²+ε) = 0, its variance σ²/(σ²+ε).

    First that the moments say what μ and σ² are meant to be, then the statement.
    """
    assert mean(x, features) == mu
    assert variance(x, features) == sigma**2
    y = deviation(x, under_the_root(x))
    assert mean(y, features) == 0
    assert simplify(variance(y, features) - sigma**2 / (sigma**2 + eps)) == 0


@proves("NORM-5")
def constant_added_to_every_feature_changes_nothing() -> None:
    """The mean of x + c is μ + c, so x − μ stays, and with it σ²."""
    shifted = normed(x + c, under_the_root(x + c))
    assert simplify(shifted - normed(x, under_the_root(x))) == 0


@proves("NORM-9")
def the_place_of_epsilon_is_a_factor() -> None:
    """What γ multiplies has the same numerator x − μ in both norms; β is added to both alike."""
    factor = (normed(x, outside_the_root(x)) - beta) / (normed(x, under_the_root(x)) - beta)
    assert simplify(factor - sqrt(sigma**2 + eps) / (sigma + eps)) == 0


@proves("NORM-11")
def unbiased_deviation_shrinks_by_a_factor_free_of_the_input() -> None:
    """With s = σ √(d/(d−1)) the factor against the norm with ε outside the root is (σ+ε)/(s+ε).

    It tends to √((d−1)/d) as ε → 0, and so does the factor against ε under the root.
    """
    width = symbols("d", integer=True, positive=True) + 1
    unbiased = deviation(x, unbiased_outside_the_root(x)).subs(d, width)
    for scale in (outside_the_root(x), under_the_root(x)):
        factor = simplify(unbiased / deviation(x, scale))
        assert simplify(limit(factor, eps, 0) - sqrt((width - 1) / width)) == 0


@proves("NORM-13")
def root_mean_square_norm_ignores_scale_and_sees_shifts() -> None:
    """Scaling by c > 0 does what dividing ε by c² does, so nothing at ε = 0.

    The mean of the outputs is m/√(m² + σ² + ε) for inputs of mean m: its derivative in m,
    (σ² + ε)/(m² + σ² + ε)^{3/2}, is positive, so every shift changes it.
    """

    def output(feature: Expr, stability: Expr) -> Expr:
        return feature / sqrt(mean(feature**2, features) + stability)

    scale = symbols("c", positive=True)
    assert simplify(output(scale * x, eps) - output(x, eps / scale**2)) == 0
    assert simplify(output(scale * x, Integer(0)) - output(x, Integer(0))) == 0

    growth = simplify(mean(output(x, eps), features).diff(mu))
    assert simplify(growth - (sigma**2 + eps) / (mu**2 + sigma**2 + eps) ** Rational(3, 2)) == 0
    assert growth.is_positive
