"""Where two tensors are compared, how large a difference is, and which one is allowed."""

import math

import pytest
import torch

from conformance_tests.errors import Disagreement
from conformance_tests.meta_tests.spec.values import tensor
from conformance_tests.numerics.compare import Comparison, demand_equal, difference_at

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("got", "want", "difference"),
    [
        (1, 3, 2),
        (3, 1, 2),
        (-2, 3, 5),
        (NAN, NAN, 0),
        (NAN, 1, INF),
        (1, NAN, INF),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (INF, -INF, INF),
        (-INF, INF, INF),
        (INF, 1, INF),
        (-INF, 1, INF),
        (NAN, -INF, INF),
        (NAN, INF, INF),
        (1, INF, INF),
        (-INF, NAN, INF),
        (-1e9, -INF, INF),
    ],
)
def test_difference_of_two_numbers_is_their_distance_and_that_to_no_number_infinite(
    got: float, want: float, difference: float
) -> None:
    """|got − want|; equal infinities and two NaN differ by 0, and without kept scores −10⁹ is not −∞."""
    assert difference_at(tensor([got]), tensor([want]), None).tolist() == [difference]


@pytest.mark.parametrize(
    ("got", "difference"), [(-743.0, 0.0), (-744.0, 0.0), (-1e9, 0.0), (-742.0, INF), (5.0, INF), (NAN, INF)]
)
def test_a_masked_score_may_be_any_whose_exponential_underflows_beside_the_least_kept_one(
    got: float, difference: float
) -> None:
    """exp(−745) is the last to round to more than 0: beside a kept score 2 all up to 2 − 745 = −743 vanish."""
    found = difference_at(tensor([[11, got, 2]]), tensor([[11, -INF, 2]]), None)
    assert found.tolist() == [[0, difference, 0]]


def test_only_minus_infinity_excuses_an_underflow() -> None:
    """−10⁹ where the specification has a number, +∞ or NaN is off; by 10⁹ + 2 where it has 2."""
    got, want = tensor([-1e9, -1e9, -1e9, 7]), tensor([2, INF, NAN, 7])
    assert difference_at(got, want, None).tolist() == [1e9 + 2, INF, INF, 0]


def test_a_difference_outside_of_the_valid_positions_is_0() -> None:
    """The mask (2, 3) holds for the whole vectors of its positions: of six vectors four are compared."""
    valid = torch.tensor([[True, False, True], [True, True, False]])
    got, want = torch.ones(2, 3, 5), torch.zeros(2, 3, 5)
    got[0, 1] = math.nan
    found = difference_at(got, want, valid)
    assert found.sum(-1).tolist() == [[5, 0, 5], [5, 5, 0]]


@pytest.mark.parametrize(
    ("want", "options", "budget"),
    [
        ([2, -7], {}, 7e-12),
        ([0.5, 0.25], {}, 1e-12),
        ([-INF, 3], {}, 3e-12),
        ([INF, NAN], {}, 1e-12),
        ([], {}, 1e-12),
        ([2, -7], {"amplification": 5.0}, 35e-12),
        ([2, -7], {"budget": 0.125}, 0.125),
        ([2, -7], {"budget": 0.125, "amplification": 3.0}, 0.375),
        ([2, -7], {"budget": 0.0}, 0.0),
    ],
)
def test_budget_is_relative_to_the_largest_finite_magnitude_and_at_least_absolute(
    want: list[float], options: dict[str, float], budget: float
) -> None:
    """10⁻¹² · max(1, largest finite |want|), or the one given, times the amplification; nothing is off by 0."""
    found = demand_equal(tensor(want), tensor(want), "x", **options)
    assert found == Comparison(0.0, pytest.approx(budget, rel=1e-15, abs=0))


def test_a_difference_as_large_as_the_budget_is_allowed_and_the_next_larger_one_not() -> None:
    """0.25 of 0.25 passes; the next double above 1.25 is off by 0.25 + 2⁻⁵²."""
    want = tensor([1, 2])
    assert demand_equal(tensor([1.25, 2]), want, "x", budget=0.25) == Comparison(0.25, 0.25)
    with pytest.raises(Disagreement):
        demand_equal(tensor([1.25 + 2**-52, 2]), want, "x", budget=0.25)


def test_a_disagreement_says_the_place_both_numbers_the_error_and_the_budget() -> None:
    """The largest difference counts: at [1, 2] it is 0.5, beside 0.25 elsewhere; 10⁻¹² · 6 is allowed."""
    want = tensor([[1, 2, 3], [4, 5, 6]])
    got = want + tensor([[0.25, 0, 0], [0, 0, -0.5]])
    with pytest.raises(Disagreement) as caught:
        demand_equal(got, want, "norm: y", context="B=2, probe plain")
    said = "norm: y[1, 2] = 5.5, but the spec gives 6 (off by 5.0e-01, allowed 6e-12) [B=2, probe plain]"
    assert str(caught.value) == said
    assert (caught.value.error, caught.value.budget) == (0.5, pytest.approx(6e-12, abs=0))


def test_values_of_lower_precision_are_compared_as_the_numbers_they_are() -> None:
    """Float16 has 1 + 2⁻¹⁰ beside 1; that of float32 for 0.1 is off by 1.5·10⁻⁹, which is too much."""
    pair = torch.tensor([1 + 2**-10], dtype=torch.float16), torch.tensor([1.0], dtype=torch.float16)
    assert demand_equal(*pair, "x", budget=0.5).error == 2**-10
    with pytest.raises(Disagreement):
        demand_equal(torch.tensor([0.1]), tensor([0.1]), "x")
    assert demand_equal(torch.tensor([3]), torch.tensor([3]), "x") == Comparison(0.0, pytest.approx(3e-12, abs=0))


def test_what_is_not_valid_is_not_compared() -> None:
    """The one wrong vector is masked; without the mask it is off by 9."""
    got, want = torch.zeros(2, 3), torch.zeros(2, 3)
    got[1] = 9
    assert demand_equal(got, want, "x", valid=torch.tensor([True, False])).error == 0
    with pytest.raises(Disagreement, match=r"^x\[1, 0\] = 9, but the spec gives 0 \(off by 9"):
        demand_equal(got, want, "x", valid=torch.tensor([True, True]))


@pytest.mark.parametrize(
    ("shape", "valid", "said"),
    [
        ((2, 5), None, "x has shape (2, 5), but the spec gives (2, 3) [here]"),
        ((2, 3, 1), None, "x has shape (2, 3, 1), but the spec gives (2, 3) [here]"),
        ((2, 3), (3,), "x has shape (2, 3), which the mask (3,) does not fit [here]"),
        ((2, 3), (2, 1), "x has shape (2, 3), which the mask (2, 1) does not fit [here]"),
        ((2, 3), (2, 3, 5), "x has shape (2, 3), which the mask (2, 3, 5) does not fit [here]"),
    ],
)
def test_another_shape_is_a_disagreement_without_numbers(
    shape: tuple[int, ...], valid: tuple[int, ...] | None, said: str
) -> None:
    """Nothing is broadcast, neither values nor masks; no error can be measured."""
    mask = None if valid is None else torch.ones(valid, dtype=torch.bool)
    with pytest.raises(Disagreement) as caught:
        demand_equal(torch.zeros(shape), torch.zeros(2, 3), "x", valid=mask, context="here")
    assert (str(caught.value), caught.value.error, caught.value.budget) == (said, None, None)
