"""The norms that the sources give under one name: by hand, apart from one another, and against torch."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, refused, same, tensor
from encoder_spec import norm
from encoder_spec.norm import layer_norm_without_bias, statistics

layer_norm: Callable[..., Tensor] = partial(norm.layer_norm, statistics=statistics)
std_plus_eps: Callable[..., Tensor] = partial(norm.std_plus_eps, statistics=statistics)
unbiased_std_plus_eps: Callable[..., Tensor] = partial(norm.unbiased_std_plus_eps, statistics=statistics)


def plain(d: int) -> dict[str, Tensor]:
    """γ = 1 and β = 0."""
    return {"gamma": torch.ones(d, dtype=torch.float64), "beta": torch.zeros(d, dtype=torch.float64)}


ONE_THREE = tensor([[1, 3]])
GAMMA_BETA = {"gamma": tensor([2, 10]), "beta": tensor([5, 7])}


@shows("NORM-1")
def test_statistics_are_mean_and_biased_variance() -> None:
    """(1, 3): μ = 4/2 = 2, σ² = (1 + 1)/2 = 1. (0, 0, 6): μ = 2, σ² = (4 + 4 + 16)/3 = 8; n − 1 would give 12."""
    same(statistics(ONE_THREE), (tensor([[2]]), tensor([[1]])))
    same(statistics(tensor([0, 0, 6])), (tensor([2]), tensor([8])))


@shows("NORM-2")
def test_every_position_has_statistics_of_its_own() -> None:
    """Rewriting all other positions and samples leaves the norm of sample 1, position 2 as it was."""
    x = normal(0, 2, 5, 7)
    rewritten = 100 + 3 * normal(1, 2, 5, 7)
    rewritten[1, 2] = x[1, 2]
    mu, var = statistics(x)
    assert mu.shape == var.shape == (2, 5, 1)
    same([s[1, 2] for s in statistics(rewritten)], [mu[1, 2], var[1, 2]])
    same(layer_norm(rewritten, **plain(7), eps=1e-5)[1, 2], layer_norm(x, **plain(7), eps=1e-5)[1, 2])


@shows("NORM-3")
def test_epsilon_stands_under_the_root() -> None:
    """(1, 3), ε = 3: ∓1/√(1 + 3) = ∓1/2; γ = (2, 10), β = (5, 7): (−1 + 5, 5 + 7) = (4, 12)."""
    close(layer_norm(ONE_THREE, **plain(2), eps=3.0), tensor([[-0.5, 0.5]]))
    close(layer_norm(ONE_THREE, **GAMMA_BETA, eps=3.0), tensor([[4, 12]]))


@shows("NORM-3")
def test_layer_norm_equals_that_of_torch() -> None:
    """Another implementation, at variances far above, near and far below ε."""
    gamma, beta = normal(2, 7), normal(3, 7)
    for spread in (10.0, 1e-3, 1e-6):
        x = spread * normal(4, 2, 5, 7)
        ours = layer_norm(x, gamma=gamma, beta=beta, eps=1e-6)
        close(ours, torch.nn.functional.layer_norm(x, (7,), gamma, beta, 1e-6))


@shows("NORM-4")
def test_the_normed_mean_is_zero_and_the_variance_short_of_one() -> None:
    """(x − μ)²/(σ² + ε) averages to σ²/(σ² + ε): one half for σ² = ε, 0 for a constant input."""
    x = normal(5, 2, 5, 7) * tensor([[[1], [10], [0.1], [1e-3], [0]]])
    sigma_2 = x.var(dim=-1, correction=0)
    for eps in (1.0, 1e-5, 1e-12):
        y = layer_norm(x, **plain(7), eps=eps)
        close(y.mean(dim=-1), torch.zeros(2, 5, dtype=torch.float64))
        torch.testing.assert_close(y.var(dim=-1, correction=0), sigma_2 / (sigma_2 + eps), rtol=1e-9, atol=1e-12)


@shows("NORM-5")
def test_a_constant_added_to_every_feature_changes_nothing() -> None:
    """A constant for each position. x and x + c are multiples of 1/64 here, so the sums are exact."""
    x = torch.round(64 * normal(6, 2, 5, 8)) / 64
    c = tensor([[[1], [-3], [0.5], [1000], [0]]])
    same(layer_norm(x + c, **plain(8), eps=1e-5), layer_norm(x, **plain(8), eps=1e-5))


@shows("NORM-6")
def test_a_large_offset_costs_no_digits_but_those_of_its_rounding() -> None:
    """For x = (−3, −1, 1, 3)/2 every x + c is exact, so no digit need be lost.

    μ may be off by 4 u c (u = 2⁻⁵³, four summands), which y = (x − μ)/σ with σ² = 5/4 passes on.

    E[x²] − μ² subtracts two numbers near c², each rounded to u c²: at c = 10⁸ that is 1.1, as large as σ²
    itself, and the variance is lost.
    """
    x = tensor([[-1.5, -0.5, 0.5, 1.5]])
    expected = x / math.sqrt(1.25)
    for c in (1e6, 1e8):
        y = layer_norm(x + c, **plain(4), eps=0.0)
        torch.testing.assert_close(y, expected, rtol=0, atol=4 * 2**-53 * c / math.sqrt(1.25))
    far = x + 1e8
    by_difference = far.square().mean() - far.mean().square()
    assert abs(by_difference - 1.25) > 0.1, f"E[x²] − μ² gives {by_difference}, which loses nothing"


@shows("NORM-7")
def test_the_norm_without_beta_is_centred() -> None:
    """(1, 3), ε = 3, γ = (2, 10): ∓1/2 becomes (−1, 5)."""
    y = layer_norm_without_bias(ONE_THREE, statistics=statistics, gamma=tensor([2, 10]), eps=3.0)
    close(y, tensor([[-1, 5]]))


@shows("NORM-8")
def test_epsilon_stands_outside_the_root() -> None:
    """(1, 3), ε = 3: ∓1/(√1 + 3) = ∓1/4; γ = (2, 10), β = (5, 7): (−0.5 + 5, 2.5 + 7) = (4.5, 9.5)."""
    close(std_plus_eps(ONE_THREE, **plain(2), eps=3.0), tensor([[-0.25, 0.25]]))
    close(std_plus_eps(ONE_THREE, **GAMMA_BETA, eps=3.0), tensor([[4.5, 9.5]]))


@shows("NORM-9")
def test_the_place_of_epsilon_is_a_factor() -> None:
    """The quotient of (x − μ)/(σ + ε) and (x − μ)/√(σ² + ε) is √(σ² + ε)/(σ + ε).

    For ε = 10⁻⁶: σ = 1: 1.0000005/1.000001 = 1 − 5·10⁻⁷, hardly visible; σ = 10⁻³: √2 · 10⁻³/1.001·10⁻³ = 1.4128007.
    """
    for sigma, factor in [(1.0, math.sqrt(1 + 1e-6) / (1 + 1e-6)), (1e-3, math.sqrt(2) / 1.001)]:
        x = sigma * tensor([[-1, 1]])
        outside, inside = std_plus_eps(x, **plain(2), eps=1e-6), layer_norm(x, **plain(2), eps=1e-6)
        close(outside, factor * inside)


@shows("NORM-10")
def test_the_unbiased_deviation_divides_by_one_less() -> None:
    """(1, 3): s² = (1 + 1)/(2 − 1) = 2. ε = 3: ∓1/(√2 + 3) = ∓0.2265409, 1/(√2 + 3) = (3 − √2)/7."""
    y = (3 - math.sqrt(2)) / 7
    close(unbiased_std_plus_eps(ONE_THREE, **plain(2), eps=3.0), tensor([[-y, y]]))
    close(unbiased_std_plus_eps(ONE_THREE, **GAMMA_BETA, eps=3.0), tensor([[5 - 2 * y, 7 + 10 * y]]))
    with refused(match="d − 1 must be positive, but d_model is 1"):
        unbiased_std_plus_eps(tensor([[1]]), **plain(1), eps=1e-6)


@shows("NORM-11")
def test_the_unbiased_deviation_is_a_factor() -> None:
    """σ/s = √((d − 1)/d): 0.7071 for d = 2, 0.9258 for d = 7, 0.9990 for d = 512, which hides it."""
    for d, factor in [(2, math.sqrt(1 / 2)), (7, math.sqrt(6 / 7)), (512, math.sqrt(511 / 512))]:
        x = normal(d, 3, d)
        close(
            unbiased_std_plus_eps(x, **plain(d), eps=0.0),
            factor * std_plus_eps(x, **plain(d), eps=0.0),
        )


@shows("NORM-3", "NORM-8", "NORM-10")
def test_three_norms_differ_at_small_width_and_variance() -> None:
    """At x = μ ∓ σ with σ = ε = 0.01 and d = 2 no two of them agree in the first digit.

    ε under the root: 0.01/√0.0101 = 0.0995; outside: 1/2; with n − 1: 1/(√2 + 1) = √2 − 1 = 0.4142.
    """
    x = 5 + 0.01 * tensor([[-1, 1]])
    found = [f(x, **plain(2), eps=0.01)[0, 1] for f in (layer_norm, std_plus_eps, unbiased_std_plus_eps)]
    expected = tensor([0.01 / math.sqrt(0.0101), 0.5, math.sqrt(2) - 1])
    torch.testing.assert_close(torch.stack(found), expected, rtol=1e-11, atol=0)


@shows("NORM-12")
def test_the_root_mean_square_has_no_mean_subtracted() -> None:
    """(1, 7): mean of squares (1 + 49)/2 = 25. ε = 11: divided by √36 = 6; γ = (6, 12): (1, 14)."""
    close(norm.rms(tensor([[1, 7]]), gamma=tensor([6, 12]), eps=11.0), tensor([[1, 14]]))
    close(norm.rms(tensor([[1, 7]]), gamma=tensor([1, 1]), eps=0.0), tensor([[0.2, 1.4]]))


@shows("NORM-13")
def test_the_root_mean_square_norm_ignores_the_scale_alone() -> None:
    """(c, 7c) has the root mean square 5c: always (0.2, 1.4). Shifted by −4, (−3, 3) has 3 and becomes (−1, 1)."""
    ones = tensor([1, 1])
    for c in (1e-3, 1.0, 1e5):
        close(norm.rms(c * tensor([[1, 7]]), gamma=ones, eps=0.0), tensor([[0.2, 1.4]]))
    close(norm.rms(tensor([[1, 7]]) - 4, gamma=ones, eps=0.0), tensor([[-1, 1]]))
