"""Attention and its mask, by hand and against torch."""

import inspect
import itertools
import math
from functools import partial

import torch

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import (
    EVERYTHING,
    LN_3,
    close,
    normal,
    refused,
    same,
    tensor,
)
from encoder_spec.attention import (
    across_heads,
    alibi,
    attention,
    bucketed,
    buckets,
    by_distance,
    by_grid,
    causal_reach,
    global_reach,
    local_reach,
    mask,
    mask_additive,
    normed,
    normed_across_heads,
    normed_by_head,
    output,
    projections,
    projections_linear_keys,
    projections_without_bias,
    row_of_bucket,
    row_of_distance,
    row_of_places,
    scores,
    scores_disentangled,
    scores_relative_keys,
    scores_unscaled,
    slopes,
    unbiased,
    weights,
)
from encoder_spec.dropout import identity
from encoder_spec.rotation import unturned

attend = partial(
    attention,
    rotation=unturned,
    scores=scores,
    bias=unbiased,
    reach=global_reach,
    mask=mask,
    weights=weights,
    dropout=identity,
    values=output,
)


X = tensor([[[1, 2]]])
W = {"W_Q": tensor([[1], [10]]), "W_K": tensor([[2], [0]]), "W_V": tensor([[0, 1], [3, 0]])}


@shows("ATT-1")
def test_three_affine_maps_of_the_same_input() -> None:
    """From x = (1, 2): Q = 1·1 + 2·10 + 100 = 121, K = 1·2 + 2·0 + 200 = 202, V = (306, 401)."""
    Q, K, V = projections(X, **W, b_Q=tensor([100]), b_K=tensor([200]), b_V=tensor([300, 400]))
    same((Q, K, V), (tensor([[[121]]]), tensor([[[202]]]), tensor([[[306, 401]]])))


@shows("ATT-2")
def test_three_linear_maps_of_the_same_input() -> None:
    """From x = (1, 2): Q = 1·1 + 2·10 = 21, K = 1·2 + 2·0 = 2, V = (2·3, 1·1) = (6, 1)."""
    same(projections_without_bias(X, **W), (tensor([[[21]]]), tensor([[[2]]]), tensor([[[6, 1]]])))


@shows("ATT-13")
def test_keys_alone_may_lack_a_bias() -> None:
    """From x = (1, 2): Q = 21 + 100 = 121, K = 2, V = (6 + 300, 1 + 400) = (306, 401)."""
    Q, K, V = projections_linear_keys(X, **W, b_Q=tensor([100]), b_V=tensor([300, 400]))
    same((Q, K, V), (tensor([[[121]]]), tensor([[[2]]]), tensor([[[306, 401]]])))


Q_BY_HAND = tensor([[[[1, 0, 1, 0], [0, 2, 0, 0]], [[2, 0, 2, 0], [0, 4, 0, 0]]]])
K_BY_HAND = tensor([[[[1, 1, 0, 0], [2, 3, 4, 5]]]]).expand(1, 2, 2, 4)


@shows("ATT-3")
def test_scores_are_products_over_the_root_of_the_head_width() -> None:
    """d_k = 4, so √d_k = 2. Head 0: (1, 0, 1, 0) · (1, 1, 0, 0) = 1 → 1/2 and · (2, 3, 4, 5) = 6 → 3.

    (0, 2, 0, 0) · the same keys = 2 → 1 and 6 → 3. Head 1 asks twice as much; the root stays that of one
    head, not √8.
    """
    same(scores(Q_BY_HAND, K_BY_HAND), tensor([[[[0.5, 3], [1, 3]], [[1, 6], [2, 6]]]]))


@shows("ATT-4")
def test_products_of_unit_variance_have_the_variance_of_the_head_width() -> None:
    """Entries ±1, equally likely, have mean 0 and variance 1. All 8 · 8 pairs (q, k) for d_k = 3 enumerate the law.

    The mean of (q · k)² is d_k = 3 exactly; after the division by √3 it is 1.
    """
    signs = tensor([[list(itertools.product((-1, 1), repeat=3))]])
    products = scores_unscaled(signs, signs)
    close((products.mean(), products.square().mean()), (tensor(0), tensor(3)))
    close(scores(signs, signs).square().mean(), tensor(1))


@shows("ATT-5")
def test_unscaled_scores_are_the_products() -> None:
    """The products of ATT-3 before the root: 1, 6, 2, 6, and twice that in head 1."""
    same(scores_unscaled(Q_BY_HAND, K_BY_HAND), tensor([[[[1, 6], [2, 6]], [[2, 12], [4, 12]]]]))


@shows("ATT-6", "ATT-7")
def test_weights_are_the_softmax_over_the_keys() -> None:
    """Scores (0, ln 3) have exponentials 1 and 3, sum 4: weights (1/4, 3/4). Equal scores: (1/2, 1/2).

    Hence A = ((1/4, 3/4), (1/2, 1/2)), which is not symmetric; its columns sum to 3/4 and 5/4.
    """
    close(weights(tensor([[[[0, LN_3], [7, 7]]]])), tensor([[[[0.25, 0.75], [0.5, 0.5]]]]))


@shows("ATT-7")
def test_every_row_of_weights_is_a_distribution() -> None:
    """For any size; one position alone gets the weight 1."""
    for n, h in [(1, 1), (1, 3), (2, 5), (7, 2), (31, 3), (257, 1)]:
        A = weights(5 * normal(n, 2, h, n, n))
        assert ((A >= 0) & (A <= 1)).all(), f"weights outside [0, 1] for n = {n}"
        close(A.sum(dim=-1), torch.ones(2, h, n, dtype=torch.float64))


@shows("ATT-8")
def test_a_constant_added_to_a_row_of_scores_cancels() -> None:
    """Each row gets a constant of its own; 500 rounds the scores to 500 · 2⁻⁵³ ≈ 6e-14."""
    S = normal(1, 2, 3, 5, 5)
    close(weights(S + tensor([500, -500, 0.25, 3, -7])[:, None]), weights(S))


@shows("ATT-9")
def test_huge_scores_give_finite_weights_and_gradients() -> None:
    """Between 10⁴ and −10⁴ lies a factor of exp(20000), beyond any float: the weights are 1/2, 0, 1/2.

    dA/dS = diag(A) − A Aᵀ: for the sum of the first weight alone (1/4, 0, −1/4).
    """
    for dtype in (torch.float32, torch.float64):
        S = torch.tensor([[[[1e4, -1e4, 1e4], [-1e4, -1e4, -1e4], [0, 1e4, -1e4]]]], dtype=dtype, requires_grad=True)
        A = weights(S)
        expected = torch.tensor([[[[1 / 2, 0, 1 / 2], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]]]], dtype=dtype)
        torch.testing.assert_close(A, expected, rtol=1e-6, atol=0)
        (gradient,) = torch.autograd.grad(A[0, 0, 0, 0], S)
        torch.testing.assert_close(gradient[0, 0, 0], torch.tensor([0.25, 0, -0.25], dtype=dtype), rtol=0, atol=1e-6)


@shows("ATT-10")
def test_a_head_is_the_weighted_average_of_its_values() -> None:
    """(1/4)(4, 0) + (3/4)(0, 8) = (1, 6); weights (1, 0) give the first value itself."""
    A, V = tensor([[[[0.25, 0.75], [1, 0]]]]), tensor([[[[4, 0], [0, 8]]]])
    same(output(A, V), tensor([[[[1, 6], [4, 0]]]]))


@shows("ATT-11", "ATT-12")
def test_attention_of_two_tokens_is_the_one_derived_by_hand() -> None:
    """d_k = 4, d_v = 1. q₀ = (2 ln 3, 0, 0, 0), k₀ = 0, k₁ = (1, 0, 0, 0): scores (0, 2 ln 3 / 2) = (0, ln 3).

    Weights (1/4, 3/4) of the values 4 and 8 make 1 + 6 = 7; q₁ = 0 averages them to 6.
    """
    Q, K = tensor([[[[2 * LN_3, 0, 0, 0], [0, 0, 0, 0]]]]), tensor([[[[0, 0, 0, 0], [1, 0, 0, 0]]]])
    close(attend(Q, K, tensor([[[[4], [8]]]]), EVERYTHING), tensor([[[[7], [6]]]]))


@shows("ATT-11", "ATT-12")
def test_attention_equals_that_of_torch() -> None:
    """Another implementation, with five heads, d_k = 3, d_v = 2 and a mask for each query."""
    Q, K, V = 2 * normal(0, 2, 5, 7, 3), normal(1, 2, 5, 7, 3), normal(2, 2, 5, 7, 2)
    keep = (normal(3, 2, 7, 7) > 0) | torch.eye(7, dtype=torch.bool)
    close(attend(Q, K, V, keep), torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=keep[:, None]))


@shows("MASK-1", "MASK-5")
def test_a_masked_key_gets_no_weight() -> None:
    """Scores (0, ln 3, 5) without the third key: exponentials 1, 3, and weights (1/4, 3/4, 0), the 0 exactly."""
    S = tensor([[[[0, LN_3, 5]] * 3]])
    keep = torch.tensor([[[True, True, False]]])
    A = weights(mask(S, keep))
    close(A, tensor([[[[0.25, 0.75, 0]] * 3]]))
    assert (A[..., 2] == 0).all(), "the masked key has weight left"
    same(mask(S, keep)[..., :2], S[..., :2])


@shows("MASK-1", "MASK-5")
def test_every_head_obeys_the_mask_of_its_own_sequence() -> None:
    """Two sequences, three heads, a mask for each query: query j keeps keys up to j, or from j on."""
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    keep = torch.stack([causal, causal.mT])
    A = weights(mask(normal(4, 2, 3, 5, 5), keep))
    same(A > 0, keep[:, None].expand(2, 3, 5, 5))
    close(A.sum(dim=-1), torch.ones(2, 3, 5, dtype=torch.float64))


@shows("MASK-2")
def test_the_content_of_padding_never_reaches_a_valid_position() -> None:
    """Its weight is exactly 0, and 0 times any finite value adds exactly nothing."""
    Q, K, V = normal(5, 2, 3, 5, 7), normal(6, 2, 3, 5, 7), normal(7, 2, 3, 5, 2)
    keep = torch.tensor([[[True, False, True, True, False]], [[False, True, True, False, True]]])
    padding = ~keep[..., None]
    garbled = attend(Q, K.masked_fill(padding, 1e6), V.masked_fill(padding, -1e200), keep)
    same(garbled, attend(Q, K, V, keep))


@shows("MASK-3")
def test_a_mask_that_keeps_everything_changes_nothing() -> None:
    """Whether it is written for every query, for every key, or once for all."""
    S = normal(8, 2, 3, 5, 5)
    for shape in [(2, 5, 5), (2, 1, 5), (1, 1, 1)]:
        for masked in (mask, mask_additive):
            same(masked(S, torch.ones(shape, dtype=torch.bool)), S)


@shows("MASK-4")
def test_the_additive_mask_equals_the_boolean_one() -> None:
    """By hand: (1, 2) with the second key masked is (1 + 0, 2 − ∞) = (1, −∞); and so on random masks."""
    S, keep = tensor([[[[1, 2], [3, 4]]]]), torch.tensor([[[True, False]]])
    same(mask_additive(S, keep), tensor([[[[1, -math.inf], [3, -math.inf]]]]))
    S, keep = normal(9, 2, 3, 5, 5), normal(10, 2, 5, 5) > 0
    same(mask_additive(S, keep), mask(S, keep))


@shows("MASK-6")
def test_a_fully_masked_sequence_leaves_the_others_untouched() -> None:
    """The second of two sequences is all padding; what its own rows hold is undefined: here 0 times every value."""
    Q, K, V = normal(11, 2, 3, 5, 7), normal(12, 2, 3, 5, 7), normal(13, 2, 3, 5, 2)
    keep = torch.tensor([[[True] * 4 + [False]], [[False] * 5]])
    heads = attend(Q, K, V, keep)
    same(heads[0], attend(Q[:1], K[:1], V[:1], keep[:1])[0])
    same(heads[1], torch.zeros(3, 5, 2, dtype=torch.float64))


@shows("MASK-1")
def test_a_mask_of_the_wrong_kind_is_refused() -> None:
    """Ones and zeros could mean either polarity; four keys say nothing about the fifth, nor do four queries.

    Where neither fits, the keys are named. Unwrapped, since a run that executes the annotations refuses
    them before the equation does.
    """
    S = normal(14, 2, 3, 5, 5)
    for masked in (inspect.unwrap(mask), inspect.unwrap(mask_additive)):
        with refused(match=r"must be boolean \(True = keep\), not torch.float32"):
            masked(S, torch.ones(2, 1, 5))
        with refused(match="covers 4 keys, but the sequence has 5 positions"):
            masked(S, torch.ones(2, 1, 4, dtype=torch.bool))
        with refused(match="covers 4 queries, but the sequence has 5 positions"):
            masked(S, torch.ones(2, 4, 5, dtype=torch.bool))
        with refused(match="covers 4 keys, but the sequence has 5 positions"):
            masked(S, torch.ones(2, 3, 4, dtype=torch.bool))


@shows("ATT-15")
def test_scores_without_a_bias_are_what_they_were() -> None:
    """The very array."""
    S = tensor([[[[1, 2], [3, 4]]]])
    assert unbiased(S) is S


@shows("ATT-16", "ATT-17")
def test_scores_fall_with_the_distance_by_the_slope_of_their_head() -> None:
    """Of four heads the slopes are 2^(−2), 2^(−4), 2^(−6) and 2^(−8): at distance 2 the first score loses ½."""
    got = alibi(torch.zeros(1, 4, 3, 3, dtype=torch.float64))
    close(got[0, 0], -tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 4)
    close(got[0, :, 0, 1], -tensor([2**-2, 2**-4, 2**-6, 2**-8]))


@shows("ATT-16")
def test_heads_beyond_a_power_of_two_have_every_second_slope_of_the_next_one() -> None:
    """Of six: those of four, and of those of eight, 2^(−1), 2^(−2), 2^(−3), … the first and the third."""
    close(slopes(6), tensor([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]))
    close(slopes(1), tensor([2**-8]))
    close(slopes(12)[[0, -1]], tensor([2**-1, 2**-3.5]))


@shows("ATT-16")
def test_scores_keep_their_type_and_their_device() -> None:
    """Slopes and distances are made for each call."""
    for S in (torch.zeros(1, 12, 2, 2), torch.zeros(1, 12, 2, 2, dtype=torch.float64, device="meta")):
        got = alibi(S)
        assert (got.dtype, got.device) == (S.dtype, S.device)


@shows("ATT-18", "ATT-19")
def test_distances_share_the_rows_derived_by_hand() -> None:
    """Of 8 rows two tell distances 0 and 1, and 2 (Δ/2)^(i/2) is where row 2 + i begins: with Δ = 8 at 2 and 4.

    Keys behind the query have the other four rows.
    """
    rows = buckets(7, rows=8, farthest=8.0)
    assert rows[0].tolist() == [0, 5, 6, 6, 7, 7, 7]
    assert rows[6].tolist() == [3, 3, 3, 2, 2, 1, 0]


@shows("ATT-18", "ATT-19")
def test_rows_of_released_encoders_begin_at_powers_of_two() -> None:
    """32 rows and Δ = 128: row 8 + i begins at 8 · 16^(i/8), which are 8, 11.3, 16, 22.6, 32, 45.3, 64 and 90.5."""
    to_the_left = buckets(200, rows=32, farthest=128.0)[:, 0]
    begins = [int((to_the_left == row).nonzero()[0]) for row in range(16)]
    assert begins == [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]


@shows("ATT-18", "ATT-19")
def test_a_row_that_begins_at_a_whole_distance_has_it() -> None:
    """5 · 32^(4/5) = 80, and in float64 a little more; whatever type numbers have by default."""
    assert 5 * 32 ** (4 / 5) > 80
    torch.set_default_dtype(torch.float64)
    try:
        row = buckets(81, rows=20, farthest=160.0)[80]
    finally:
        torch.set_default_dtype(torch.float32)
    assert row[:2].tolist() == [9, 8]


@shows("ATT-18")
def test_each_head_adds_its_column_of_the_table() -> None:
    """With 4 rows (1, 2, 3, 4) and ten times as much: the key itself is in row 0, one before in 1, one behind in 3."""
    R = tensor([[1, 10], [2, 20], [3, 30], [4, 40]])
    got = bucketed(tensor([[[[0, 1], [0, 0]], [[0, 0], [0, 0]]]]), R=R, farthest=128.0)
    same(got, tensor([[[[1, 5], [2, 1]], [[10, 40], [20, 10]]]]))


@shows("ATT-18")
def test_rows_that_tell_no_distances_are_refused() -> None:
    """Six rows have no quarters, and a table of 8 rows tells 0 and 1 without a scale."""
    S = torch.zeros(1, 1, 2, 2, dtype=torch.float64)
    for rows, farthest in ((6, 128.0), (8, 2.0)):
        with refused(match=f"{rows} rows do not tell distances up to {farthest:g}"):
            bucketed(S, R=torch.zeros(rows, 1, dtype=torch.float64), farthest=farthest)


@shows("ATT-21")
def test_each_distance_has_its_row_up_to_the_ends_of_the_table() -> None:
    """Of 5 rows the middle one is for the key itself, one before and one behind it for two to either side.

    With an even number of rows there is one more for keys before the query.
    """
    assert row_of_distance(4, 5).tolist() == [[2, 3, 4, 4], [1, 2, 3, 4], [0, 1, 2, 3], [0, 0, 1, 2]]
    assert row_of_distance(3, 2).tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    got = by_distance(tensor([[[[0, 1], [0, 0]], [[0, 0], [0, 0]]]]), R=tensor([[1, 10], [2, 20], [3, 30]]))
    same(got, tensor([[[[2, 4], [1, 2]], [[20, 30], [10, 20]]]]))


@shows("ATT-22")
def test_each_way_from_patch_to_patch_has_its_row() -> None:
    """Of 1 × 2 patches: one to the left, itself, one to the right; and three rows for a token in front of them.

    Of 2 × 2 patches a key is up to one row and one column away: from (0, 0) to (1, 1) it is the last of nine.
    """
    assert row_of_places(3, 1, 2).tolist() == [[5, 3, 3], [4, 1, 2], [4, 0, 1]]
    assert row_of_places(4, 2, 2)[0].tolist() == [4, 5, 7, 8]
    assert row_of_places(4, 2, 2)[3].tolist() == [0, 1, 3, 4]
    R = tensor([[1, 10], [2, 20], [3, 30]])
    same(
        by_grid(torch.zeros(1, 2, 2, 2, dtype=torch.float64), R=R, rows=1, columns=2)[0, 1],
        tensor([[20, 30], [10, 20]]),
    )


@shows("ATT-22")
def test_a_table_that_is_too_small_for_the_grid_is_refused() -> None:
    """2 × 3 patches lie in 3 · 5 ways apart, and a token in front of them needs three rows more."""
    for n, needed in ((6, 15), (7, 18)):
        S = torch.zeros(1, 1, n, n, dtype=torch.float64)
        with refused(match=f"give one of {needed} rows"):
            by_grid(S, R=torch.zeros(needed - 1, 1, dtype=torch.float64), rows=2, columns=3)


@shows("ATT-23")
def test_queries_are_multiplied_with_the_relative_key_of_each_distance() -> None:
    """Of 3 rows the middle one is for the key itself: with q = 1, k = 0 and d_k = 1 the scores are the rows.

    With d_k = 4 a query (1, 0, 0, 0) and a key (3, …) at relative key (5, …) give (3 + 5)/2.
    """
    one, none = torch.ones(1, 1, 3, 1, dtype=torch.float64), torch.zeros(1, 1, 3, 1, dtype=torch.float64)
    got = scores_relative_keys(one, none, D=tensor([[1], [2], [3]]))
    same(got[0, 0], tensor([[2, 3, 3], [1, 2, 3], [1, 1, 2]]))
    query, key = tensor([[[[1, 0, 0, 0]]]]), tensor([[[[3, 9, 9, 9]]]])
    same(scores_relative_keys(query, key, D=tensor([[5, 7, 7, 7]])), tensor([[[[4]]]]))


@shows("ATT-24", "ATT-25")
def test_distances_have_rows_to_either_side_of_the_middle() -> None:
    """Of 8 rows number 4 is for the query itself, 5 and 6 for one and two before it, and 7 for all up to Δ and beyond.

    In released encoders the exact rows end at 128, and the last one begins at 128 · (511/128)^(126/127) = 505.4.
    """
    row = row_of_bucket(5, rows=8, farthest=4.0)
    assert row[:, 0].tolist() == [4, 5, 6, 7, 7]
    assert row[0].tolist() == [4, 3, 2, 1, 0]
    released = row_of_bucket(600, rows=512, farthest=512.0)
    assert released[[127, 128, 129, 505, 506, 599], 0].tolist() == [383, 384, 385, 510, 511, 511]
    assert released[0, [128, 129, 506, 511, 512, 599]].tolist() == [128, 127, 1, 1, 0, 0]


@shows("ATT-24", "ATT-25")
def test_a_bucket_that_ends_at_a_whole_distance_has_it() -> None:
    """4 · 27^(2/3) = 36, and in float64 a little less; whatever type numbers have by default."""
    assert 4 * 27 ** (2 / 3) < 36
    torch.set_default_dtype(torch.float64)
    try:
        row = row_of_bucket(38, rows=16, farthest=109.0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert row[[4, 5, 12, 13, 36, 37], 0].tolist() == [12, 13, 13, 14, 14, 15]


@shows("ATT-24")
def test_three_terms_are_added_and_divided_by_the_root_of_three_widths() -> None:
    """One head, d_k = 3: q = (1, 0, 0), k = (2, 0, 0), queries of distances are their rows, and keys ten times that.

    The rows are 0 to 7 in the first feature: 4 for the query itself, 3 for a key behind it, 5 for one before it.
    """
    Q, K = (torch.zeros(1, 1, 2, 3, dtype=torch.float64) for _ in range(2))
    Q[..., 0], K[..., 0] = 1, 2
    D = torch.zeros(8, 3, dtype=torch.float64)
    D[:, 0] = torch.arange(8)
    I, zero = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    got = scores_disentangled(
        Q, K, D=D, W_Q=I, W_K=10 * I, b_Q=zero, b_K=zero, farthest=64.0, norm_D=lambda table: table
    )
    same(3 * got[0, 0], tensor([[2 + 40 + 8, 2 + 30 + 6], [2 + 50 + 10, 2 + 40 + 8]]))


@shows("ATT-24")
def test_vectors_that_tell_no_distances_are_refused() -> None:
    """Ten rows have no quarters, four no scale beside the exact ones, and 8 rows tell distances up to 2 exactly."""
    Q = torch.zeros(1, 1, 2, 3, dtype=torch.float64)
    I, zero = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for rows, farthest in ((10, 128.0), (4, 128.0), (8, 3.0)):
        D = torch.zeros(rows, 3, dtype=torch.float64)
        with refused(match=f"{rows} rows do not tell distances up to {farthest:g}"):
            scores_disentangled(
                Q, Q, D=D, W_Q=I, W_K=I, b_Q=zero, b_K=zero, farthest=farthest, norm_D=lambda table: table
            )


@shows("MASK-9")
def test_without_a_window_scores_are_what_they_were() -> None:
    """The very array."""
    S = tensor([[[[1, 2], [3, 4]]]])
    assert global_reach(S) is S


@shows("MASK-10")
def test_a_window_lies_to_either_side() -> None:
    """Of width 2: one key before the query, itself, and one behind it. One of width 3 has no half key more."""
    S = tensor([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]])
    for window in (2.0, 3.0):
        want = tensor([[[[1, 2, -math.inf], [4, 5, 6], [-math.inf, 8, 9]]]])
        same(local_reach(S, window=window), want)


@shows("MASK-11")
def test_a_causal_query_reads_no_later_key() -> None:
    """What stands behind the diagonal is hidden."""
    S = tensor([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]])
    same(causal_reach(S), tensor([[[[1, -math.inf, -math.inf], [4, 5, -math.inf], [7, 8, 9]]]]))


@shows("ATT-14")
def test_queries_and_keys_are_normed_before_they_are_compared() -> None:
    """With norms that double and that add 1, Q = 1, K = (2, 4): scores 2·3 and 2·5, weights 1/(1 + e⁴) and the rest.

    Values 0 and 1 give the second weight.
    """
    parts = {"norm_q": lambda x: 2 * x, "norm_k": lambda x: x + 1}
    Q, K, V = (tensor(x).reshape(1, 1, 2, 1) for x in ([1, 1], [2, 4], [0, 1]))
    got = normed(Q, K, V, EVERYTHING, **attend.keywords, **parts)
    close(got.flatten(), torch.full((2,), 1 / (1 + math.exp(-4)), dtype=torch.float64))


@shows("ATT-26")
def test_a_norm_sees_the_features_of_all_heads_side_by_side() -> None:
    """Two positions, two heads of two features: 1, 2 and 5, 6 of the first, 3, 4 and 7, 8 of the other.

    The norm multiplies four features by 1, 10, 100, 1000, those of the first head first.
    """
    X = tensor([[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]])
    want = tensor([[[[1, 20], [5, 60]], [[300, 4000], [700, 8000]]]])
    same(across_heads(lambda x: x * tensor([1, 10, 100, 1000]), X), want)


@shows("ATT-26")
def test_queries_and_keys_are_normed_over_all_heads() -> None:
    """Two heads of one feature. The norm divides by the sum of all entries, and multiplies the heads by 1 and 2.

    Q = (1, 3) at every position gives 1/4 and 2·3/4, K = (1, 1) and (3, 1) give 1/2, 2·1/2 and 3/4, 2·1/4.
    Scores are 1/8 and 3/16 in one head, 3/2 and 3/4 in the other.
    """

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x / x.sum(-1, keepdim=True) * tensor([1, 2])

    Q, K, V = (tensor(x).reshape(1, 2, 2, 1) for x in ([1, 1, 3, 3], [1, 3, 1, 1], [0, 1, 0, 1]))
    got = normed_across_heads(Q, K, V, EVERYTHING, **attend.keywords, norm_q=norm, norm_k=norm)
    want = [[1 / (1 + math.exp(1 / 8 - 3 / 16))] * 2, [1 / (1 + math.exp(3 / 2 - 3 / 4))] * 2]
    close(got.squeeze(), torch.tensor(want, dtype=torch.float64))


@shows("ATT-20")
def test_each_head_multiplies_its_normed_queries_and_keys() -> None:
    """With norms that add 1, Q = 0 and K = (0, 1), and values (0, 1), of which the second weight remains.

    Factors 2 and 3 of one head give scores 2·3 and 2·6, hence 1/(1 + e⁻⁶); 1 and 5 of the other give 5 and 10, hence
    1/(1 + e⁻⁵).
    """
    parts = {f"norm_{letter}": lambda x: x + 1 for letter in "qk"}
    factors = {"gamma_q": tensor([[2], [1]]), "gamma_k": tensor([[3], [5]])}
    Q, K, V = (tensor([x, x]).reshape(1, 2, 2, 1) for x in ([0, 0], [0, 1], [0, 1]))
    got = normed_by_head(Q, K, V, EVERYTHING, **attend.keywords, **parts, **factors)
    want = [[1 / (1 + math.exp(-6))] * 2, [1 / (1 + math.exp(-5))] * 2]
    close(got.squeeze(), torch.tensor(want, dtype=torch.float64))
