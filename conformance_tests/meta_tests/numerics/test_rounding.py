"""The budget of a precision is the largest distance of several ways to compute the same, times a margin.

Encoders of one equation make the distances countable: ``stack`` maps the given input, and nothing else is computed.
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from conformance_tests.meta_tests.spec.values import random_parameters, tensor
from conformance_tests.numerics.rounding import (
    Way,
    budget,
    computing,
    distance,
    permuted,
    search_budget,
    way_of,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import BERT, TORCH_POST_LN, VASWANI_2017, Profile

SIZES = Dimensions(d_model=6, h=3, d_k=5, d_v=7, d_ff=11, N=1, V=13, max_len=17)
EVERYWHERE = slice(None)


def stack(function: Callable[[Tensor], Tensor]) -> Encoder:
    """An encoder that gives a function of its input (B, n, 6)."""

    def whole(keep: Tensor, X: Tensor) -> Tensor:
        return function(X)

    return Encoder(TORCH_POST_LN.replace(stack=whole), SIZES)


def given(value: float, n: int = 2) -> tuple[Tensor, ...]:
    """An input (1, n, 6) of one number."""
    return (torch.full((1, n, 6), value, dtype=torch.float64),)


def third(X: Tensor) -> Tensor:
    return X / 3


def forgetting(X: Tensor) -> Tensor:
    """X, but for what a sum with 1024 has no digits for."""
    return X + 1024 - 1024


def by_place(X: Tensor) -> Tensor:
    """Another factor for each feature: permuted features are another input."""
    return X * torch.arange(1, 7, dtype=X.dtype)


def overflowing(X: Tensor) -> Tensor:
    return X * 1024 / 1024


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float64, 1e-12),
        (torch.float32, 100 * 2**-23),
        (torch.float16, 100 * 2**-10),
        (torch.bfloat16, 100 * 2**-7),
    ],
)
def test_a_variant_is_sought_within_a_hundred_roundoffs(dtype: torch.dtype, expected: float) -> None:
    """The significands have 23, 10 and 7 bits behind the point; float64 has the budget of all comparisons."""
    assert search_budget(dtype) == expected


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (("n", "d_model"), [[4, 2, 3], [7, 5, 6]]),
        (("d_ff", "d_model"), [[7, 5, 6], [4, 2, 3]]),
        (("d_ff", "n"), [[5, 6, 7], [2, 3, 4]]),
        (("n", "B"), [[2, 3, 4], [5, 6, 7]]),
    ],
)
def test_each_axis_with_an_order_is_put_into_it(axes: tuple[str, str], expected: list[list[int]]) -> None:
    """Entry i of the result is entry order[i] of the array, along its own axis."""
    orders = {"d_model": torch.tensor([2, 0, 1]), "d_ff": torch.tensor([1, 0])}
    assert permuted(torch.tensor([[2, 3, 4], [5, 6, 7]]), axes, orders).tolist() == expected


def test_a_way_permutes_features_units_heads_and_the_entries_of_all_heads_alike() -> None:
    """In blocks of d_k = 5 and d_v = 7 stand the same three heads, and in each block the entries in one order."""
    for seed in range(5):
        orders = way_of(Encoder(TORCH_POST_LN, SIZES), seed).orders
        assert set(orders) == {"d_group", "d_model", "d_ff", "hd_k", "hd_v"}
        for axis, size in {"d_model": 6, "d_ff": 11, "hd_k": 15, "hd_v": 21}.items():
            assert orders[axis].sort().values.tolist() == list(range(size))
        by_k, by_v = orders["hd_k"].reshape(3, 5), orders["hd_v"].reshape(3, 7)
        assert torch.equal(by_k // 5, (by_v // 7)[:, :5])
        assert torch.equal(by_k // 5, (by_k // 5)[:, :1].expand(3, 5))
        assert torch.equal(by_k % 5, (by_k % 5)[:1].expand(3, 5))
        assert torch.equal(by_v % 7, (by_v % 7)[:1].expand(3, 7))


def test_a_way_permutes_groups_of_features_and_the_features_of_all_groups_alike() -> None:
    """In blocks of d_c = 2 stand the three groups, and in each block the features in the order of a group."""
    orders = [way_of(Encoder(TORCH_POST_LN, SIZES.replace(d_group=2)), seed).orders for seed in range(10)]
    for each in orders:
        blocks = each["d_model"].reshape(3, 2)
        assert torch.equal(blocks // 2, (blocks // 2)[:, :1].expand(3, 2))
        assert torch.equal(blocks % 2, each["d_group"].expand(3, 2))
    assert len({tuple((each["d_model"][::2] // 2).tolist()) for each in orders}) > 3
    assert len({tuple(each["d_group"].tolist()) for each in orders}) == 2


def test_ways_differ_by_their_seed_alone_and_in_all_their_orders() -> None:
    """Each axis has more than one order among ten, the heads as well; factors lie on both sides of 1, near it."""
    encoder = Encoder(TORCH_POST_LN, SIZES)
    ways = [way_of(encoder, seed) for seed in range(10)]
    for axis in ("d_model", "d_ff", "hd_k", "hd_v"):
        assert len({tuple(way.orders[axis].tolist()) for way in ways}) > 5
    assert len({tuple((way.orders["hd_k"][::5] // 5).tolist()) for way in ways}) > 3
    factors = [way.factor for way in ways]
    assert len(set(factors)) == 10
    assert math.sqrt(0.5) <= min(factors) < 0.9 < 1.1 < max(factors) < math.sqrt(2)
    again = way_of(encoder, 3)
    assert again.factor == ways[3].factor
    assert all(torch.equal(again.orders[axis], order) for axis, order in ways[3].orders.items())


def test_a_factor_multiplies_the_queries_and_divides_the_keys() -> None:
    """Scores that are the queries, or the keys, show it: 3 becomes 12 and 5 becomes 1.25 with a factor of 4."""
    Q, K = tensor([3]), tensor([5])
    encoder = Encoder(TORCH_POST_LN, SIZES)
    for of, expected in ((lambda Q, K: Q, 12), (lambda Q, K: K, 1.25)):
        changed = computing(encoder.replace(scores=of), Way(factor=4))
        assert changed.profile["scores"].function(Q, K).tolist() == [expected]
    assert computing(encoder, Way(factor=4)).profile["scores"].id == "attention.scores"
    shifted = computing(encoder.replace(scores=lambda Q, K, by: Q + K + by), Way(factor=4))
    assert shifted.profile["scores"].function(Q, K, by=7).tolist() == [12 + 1.25 + 7]


def test_computed_positions_stand_in_the_order_of_the_features() -> None:
    """The first row of sinusoids is 0, 1, 0, 1, 0, 1: evens first it is 0, 0, 0, 1, 1, 1."""
    orders = {"d_model": torch.tensor([0, 2, 4, 1, 3, 5])}
    changed = computing(Encoder(VASWANI_2017, SIZES), Way(orders))
    assert changed.profile["position"].function(torch.zeros(1, 2, 6))[0].tolist() == [0, 0, 0, 1, 1, 1]
    counted = Encoder(VASWANI_2017, SIZES).replace(position=lambda X, offset: torch.arange(6) + offset)
    assert computing(counted, Way(orders)).profile["position"].function(None, offset=7).tolist() == [
        7,
        9,
        11,
        8,
        10,
        12,
    ]


@pytest.mark.parametrize(
    ("encoder", "way"),
    [
        (Encoder(VASWANI_2017, SIZES), Way()),
        (Encoder(TORCH_POST_LN, SIZES), Way({"d_model": torch.arange(6)})),
        (Encoder(BERT, SIZES), Way({"d_model": torch.arange(6)})),
    ],
    ids=["nothing", "given", "learned"],
)
def test_equations_are_exchanged_only_where_the_way_needs_it(encoder: Encoder, way: Way) -> None:
    """Without factor and order; without embedding; and where positions are parameters, which are permuted as such."""
    assert computing(encoder, way).profile is encoder.profile


def measured(
    function: Callable[[Tensor], Tensor],
    value: float,
    way: Way | None = None,
    dtype: torch.dtype = torch.float32,
    valid: Tensor | slice = EVERYWHERE,
) -> float | None:
    """The distance of an encoder of one equation for one number."""
    encoder, inputs = stack(function), given(value)
    exact = encoder({}, *inputs)
    return distance(encoder, {}, inputs, None, dtype, exact, way or Way(), valid)


SHIFT = Way({"d_model": torch.tensor([1, 2, 3, 4, 5, 0])})


@pytest.mark.parametrize("way", [Way(), SHIFT])
def test_the_distance_is_that_of_the_rounded_result_from_float64(way: Way) -> None:
    """Float32 has 11184811/2²⁵ for 1/3, which is off by 1/(3 · 2²⁵); a sum with 1024 has no digit for 2⁻¹⁵."""
    assert measured(third, 1, way) == pytest.approx(1 / (3 * 2**25), rel=1e-6, abs=0)
    assert measured(forgetting, 2**-15, way) == 2**-15
    assert measured(third, 1, way, torch.float64) == 0


def test_a_way_that_computes_something_else_has_no_distance() -> None:
    """Where features are multiplied by their place, their order matters; without an order there is nothing to ask."""
    assert measured(by_place, 1, SHIFT) is None
    assert measured(by_place, 0.5) == 0


@pytest.mark.parametrize(("off", "counts"), [(1.5e-9, False), (0.7e-9, True)])
@pytest.mark.parametrize("scale", [1, 1024])
def test_a_way_is_one_up_to_a_billionth_of_the_largest_result(off: float, counts: bool, scale: int) -> None:
    """The first feature is enlarged by 1.5 parts in 10⁹, or by 0.7: the one is another computation."""
    factors = tensor([1 + off, 1, 1, 1, 1, 1])
    assert (measured(lambda X: X * factors.to(X.dtype), scale, SHIFT) is not None) == counts


@pytest.mark.parametrize(("off", "counts"), [(1.5e-9, False), (0.7e-9, True)])
def test_small_results_are_one_way_up_to_a_billionth(off: float, counts: bool) -> None:
    """Of results of 10⁻⁵ a difference of 1.5 · 10⁻⁹ is too much and one of 0.7 · 10⁻⁹ is not: the measure is 1."""
    moved = tensor([off, 0, 0, 0, 0, 0])
    assert (measured(lambda X: X + moved.to(X.dtype), 1e-5, SHIFT) is not None) == counts


def test_a_result_that_a_precision_has_no_number_for_is_infinitely_far() -> None:
    """100 · 1024 is beyond 65,504, the largest float16; where float64 has no number either, nothing is lost."""
    assert measured(overflowing, 100, dtype=torch.float16) == math.inf
    assert measured(lambda X: X * torch.inf, 1, dtype=torch.float16) == 0


def test_only_valid_positions_count() -> None:
    """The second position is off by 2⁻¹⁵, the first by nothing."""

    def second(X: Tensor) -> Tensor:
        return torch.cat([X[:, :1], forgetting(X[:, 1:])], dim=1)

    assert measured(second, 2**-15, SHIFT, valid=torch.tensor([[True, False]])) == 0
    assert measured(second, 2**-15, SHIFT, valid=torch.tensor([[False, True]])) == 2**-15


FOUR_UNITS = 4 * 2**-23


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (third, 1, FOUR_UNITS),
        (third, 24, 8 * FOUR_UNITS),
        (forgetting, 2**-15, 4 * 2**-15),
        (by_place, 1, 6 * FOUR_UNITS),
    ],
)
def test_the_budget_is_four_times_the_largest_distance_and_at_least_four_roundoffs(
    function: Callable[[Tensor], Tensor], value: float, expected: float
) -> None:
    """Off by less than 2⁻²³ times the largest result, 1 or 8 or 6; or by 2⁻¹⁵, where digits are lost."""
    assert budget(stack(function), {}, given(value), None, torch.float32) == expected


def test_the_budget_is_that_of_the_valid_positions() -> None:
    """Results 24 and 8, the larger one padded: 4 · 2⁻²³ · 8."""
    inputs = (torch.cat([given(72, 1)[0], given(24, 1)[0]], dim=1),)
    assert budget(stack(third), {}, inputs, torch.tensor([[False, True]]), torch.float32) == 8 * FOUR_UNITS
    assert budget(stack(third), {}, inputs, None, torch.float32) == 24 * FOUR_UNITS


def with_head(function: Callable[[Tensor], Tensor]) -> Encoder:
    """An encoder with a head, that gives a function of its input."""
    return stack(function).replace(head=lambda Z, keep: Z)


def test_the_mask_is_given_to_all_ways() -> None:
    """The input is multiplied by the number of keys kept: 3 · 2 is 6 with two of three, and 3 if nothing is said."""

    def counting(keep: Tensor, X: Tensor) -> Tensor:
        return X * keep.sum()

    encoder = Encoder(TORCH_POST_LN.replace(stack=counting), SIZES)
    keep = torch.tensor([[True, False, True]])
    assert budget(encoder, {}, given(3, 3), keep, torch.float32) == 6 * FOUR_UNITS
    assert budget(encoder, {}, given(3, 3), None, torch.float32) == 3 * FOUR_UNITS


def test_parameters_that_are_not_used_do_not_matter() -> None:
    """A mapping of all weights may hold those of parts beside the encoder."""
    found = budget(stack(third), {"pooler.W": torch.ones(5, 7).double()}, given(24), None, torch.float32)
    assert found == 8 * FOUR_UNITS


def test_an_output_without_positions_has_no_padding() -> None:
    """One number for each sample, from the last position: 6 · 24 / 3 is 48, whatever is masked."""
    inputs = (torch.cat([given(9, 1)[0], given(24, 1)[0]], dim=1),)
    encoder = with_head(lambda X: X[:, -1].sum(-1, keepdim=True) / 3)
    assert budget(encoder, {}, inputs, torch.tensor([[True, False]]), torch.float32) == 48 * FOUR_UNITS


def test_the_output_of_a_head_does_not_have_the_order_of_the_features() -> None:
    """The sum of the features, times 1 to 6: the same in any order."""
    encoder, inputs = with_head(lambda X: by_place(X.sum(-1, keepdim=True).expand(-1, -1, 6))), given(1)
    exact = encoder({}, *inputs)
    assert distance(encoder, {}, inputs, None, torch.float32, exact, SHIFT, EVERYWHERE) == 0


def test_the_budget_is_infinite_where_the_specification_overflows() -> None:
    assert budget(stack(overflowing), {}, given(100), None, torch.float16) == math.inf


LAYER = Dimensions(d_model=15, h=3, d_ff=11, N=1, V=41, max_len=23)


def of_one_layer(profile: Profile) -> tuple[Encoder, dict[str, Tensor], tuple[Tensor, ...]]:
    """An encoder of one layer with parameters in numbers that float32 has, and inputs: two of seven positions."""
    encoder = Encoder(profile, LAYER)
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(41, (2, 7), generator=generator)
    inputs = {
        "torch-post-ln": (torch.randn(2, 7, 15, generator=generator).double(),),
        "vaswani-2017": (ids,),
        "bert": (ids, ids % 2),
    }
    parameters = {path: p.float().double() for path, p in random_parameters(encoder).items()}
    return encoder, parameters, inputs[profile.name]


@pytest.mark.parametrize("profile", [TORCH_POST_LN, VASWANI_2017, BERT], ids=lambda profile: profile.name)
@pytest.mark.parametrize("keep", [None, torch.tensor([[True] * 7, [True] * 4 + [False] * 3])])
def test_all_ways_of_a_whole_layer_compute_the_same(keep: Tensor | None, profile: Profile) -> None:
    """In float64 each is as far as sums in another order are, and in float32 some 10⁻⁷ of the result."""
    encoder, parameters, inputs = of_one_layer(profile)
    exact = encoder(parameters, *inputs, keep=keep)
    valid = EVERYWHERE if keep is None else keep
    for seed in range(3):
        way = way_of(encoder, seed)
        double = distance(encoder, parameters, inputs, keep, torch.float64, exact, way, valid)
        single = distance(encoder, parameters, inputs, keep, torch.float32, exact, way, valid)
        assert double is not None
        assert double < 1e-13
        assert single is not None
        assert 1e-8 < single < 1e-4


def scores_of(X: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The budget of scores of an input with itself, in float32."""

    def whole(keep: Tensor, X: Tensor, *, scores: Callable[..., Tensor]) -> Tensor:
        return scores(X, X)

    encoder = Encoder(TORCH_POST_LN.replace(stack=whole, scores=function), SIZES)
    return budget(encoder, {}, (X,), None, torch.float32)


def test_the_ways_scale_the_queries() -> None:
    """Float32 rounds f · 1/f by 2⁻²⁴ or not at all: (f · 1/f − 1) · 2²⁰ is off by 2⁻⁴ then, and by 0 for f = 1."""
    assert scores_of(*given(1), lambda Q, K: (Q * K - 1) * 2**20) >= 4 * 2**-4


def in_turn(X: Tensor) -> Tensor:
    """The sum of the features, one after the other."""
    total = X[..., 0]
    for feature in X.unbind(-1)[1:]:
        total = total + feature
    return total[..., None].expand(X.shape)


def test_scores_that_read_the_queries_otherwise_are_tried_in_other_orders_all_the_same() -> None:
    """Scores that are the sum of a query are others with a factor: then the factor 1 is tried.

    2²⁴ − 2²⁴ + 1 is 1 in this order; where the 1 stands between the others, float32 gives 0, which is off by 1.
    """
    X = tensor([2**24, -(2**24), 1, 0, 0, 0]).reshape(1, 1, 6)
    assert scores_of(X, lambda Q, K: in_turn(Q)) == 4
