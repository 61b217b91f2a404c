"""Several heads: the split, the concatenation, the output projection and the whole sublayer, by hand."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import (
    EVERYTHING,
    KEEP,
    LN_3,
    attention_in_torchs_names,
    close,
    normal,
    random_parameters,
    refused,
    same,
    tensor,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.multihead import concat, groups, output, output_without_bias, split
from encoder_spec.position import sinusoidal
from encoder_spec.profiles import TORCH_POST_LN, VASWANI_2017, Profile


def sublayer(profile: Profile, **sizes: int) -> tuple[Callable[..., Tensor], dict[str, Tensor]]:
    """Draw parameters for a profile's slot ``multihead``, and bind them."""
    encoder = Encoder(profile, Dimensions(N=1, V=2, **sizes))
    p = random_parameters(encoder, "multihead")
    return encoder.bind(p, slot="multihead"), p


@shows("MH-1")
def test_head_i_holds_the_i_th_block_of_columns() -> None:
    """Width 6 in h = 3 heads of 2: (0 … 5) becomes (0, 1), (2, 3), (4, 5); the second position adds 10."""
    X = tensor([[[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]]])
    same(split(X, h=3), tensor([[[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]]]))


@shows("MH-1")
def test_splitting_one_projection_equals_separate_projections() -> None:
    """Columns of a product are products with columns: (X W)[:, block i] = X W[:, block i]."""
    X, W = normal(0, 2, 5, 7), normal(1, 7, 3 * 11)
    separate = torch.stack([X @ W[:, i * 11 : (i + 1) * 11] for i in range(3)], dim=1)
    close(split(X @ W, h=3), separate)


@shows("MH-2")
def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    """7 = 3 · 2 + 1: one feature would belong to no head. Widths of heads that are given need no division."""
    with refused(match="3 heads do not divide a width of 7"):
        split(normal(2, 2, 5, 7), h=3)
    with refused(match="3 heads do not divide d_model = 7"):
        Dimensions(d_model=7, h=3)
    assert Dimensions(d_model=7, h=3, d_k=2, d_v=5).shape(("hd_k", "hd_v")) == (6, 15)


@shows("MH-3")
def test_concatenation_puts_the_heads_side_by_side() -> None:
    """Heads (1, 2) and (3, 4) at the first position, primes of them at the second."""
    heads = tensor([[[[1, 2], [10, 20]], [[3, 4], [30, 40]]]])
    same(concat(heads), tensor([[[1, 2, 3, 4], [10, 20, 30, 40]]]))


@shows("MH-3")
def test_concatenation_undoes_the_split() -> None:
    """For any number of heads, one and all columns included."""
    X = normal(3, 2, 5, 42)
    for h in (1, 2, 3, 7, 42):
        same(concat(split(X, h=h)), X)


@shows("MH-4", "MH-5")
def test_the_output_projection_is_the_one_derived_by_hand() -> None:
    """(1, 2) W_O with rows (10, 100) and (1000, 10000): (10 + 2000, 100 + 20000) = (2010, 20100); b_O adds (5, 7)."""
    C, W_O = tensor([[[1, 2]]]), tensor([[10, 100], [1000, 10000]])
    same(output_without_bias(C, W_O=W_O), tensor([[[2010, 20100]]]))
    same(output(C, W_O=W_O, b_O=tensor([5, 7])), tensor([[[2015, 20107]]]))


@shows("MH-4", "MH-5")
def test_the_output_projection_is_a_sum_over_heads() -> None:
    """Concat(head_1 … head_h) W_O = Σ_i head_i W_i^O, with W_i^O the rows of head i, as a block product."""
    heads, W_O, b_O = normal(4, 2, 3, 5, 7), normal(5, 21, 11), normal(6, 11)
    total = torch.stack([heads[:, i] @ W_O[7 * i : 7 * i + 7] for i in range(3)]).sum(dim=0)
    close(output_without_bias(concat(heads), W_O=W_O), total)
    close(output(concat(heads), W_O=W_O, b_O=b_O), total + b_O)


@shows("MH-6")
def test_the_sublayer_of_two_tokens_is_the_one_derived_by_hand() -> None:
    """d_model = h = 2, d_k = 1, X = I, so the columns of the maps are the heads' queries, keys and values.

    Head 0: q = (ln 3, 0), k = (1, 0): scores ((ln 3, 0), (0, 0)), weights ((3/4, 1/4), (1/2, 1/2)); values
    (4, 0) give (3, 2). Head 1: q = 0, weights 1/2; values (0, 8) give (4, 4).
    Concat: (3, 4), (2, 4). With W_O = ((1, 1), (0, 1)): (3, 3 + 4), (2, 2 + 4).
    """
    encoder = Encoder(VASWANI_2017, Dimensions(d_model=2, h=2))
    maps = {"W_Q": [[LN_3, 0], [0, 0]], "W_K": [[1, 0], [0, 1]], "W_V": [[4, 0], [0, 8]], "W_O": [[1, 1], [0, 1]]}
    mha = encoder.bind({name: tensor(value) for name, value in maps.items()}, slot="multihead")
    close(mha(torch.eye(2, dtype=torch.float64)[None], EVERYTHING), tensor([[[3, 7], [2, 6]]]))


@shows("MH-6")
def test_the_sublayer_equals_that_of_torch() -> None:
    """Another implementation: its in_proj_weight stacks the transposed maps, and its mask is True where masked."""
    ours, p = sublayer(TORCH_POST_LN, d_model=21, h=3)
    theirs = torch.nn.MultiheadAttention(21, 3, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(attention_in_torchs_names(p))
    X = normal(20, 2, 5, 21)
    close(ours(X, KEEP[:, None]), theirs(X, X, X, key_padding_mask=~KEEP, need_weights=False)[0])


@shows("MH-6")
def test_heads_may_have_widths_of_their_own() -> None:
    """d_model = 5, h = 3, d_k = 2, d_v = 7: the sum over heads of softmax(q kᵀ/√2) v W_i^O, head by head."""
    mha, p = sublayer(VASWANI_2017, d_model=5, h=3, d_k=2, d_v=7)
    X = normal(21, 2, 11, 5)
    expected = torch.zeros(2, 11, 5, dtype=torch.float64)
    for i in range(3):
        qk, v = slice(2 * i, 2 * i + 2), slice(7 * i, 7 * i + 7)
        S = (X @ p["W_Q"][:, qk]) @ (X @ p["W_K"][:, qk]).mT / math.sqrt(2)
        expected += S.softmax(dim=-1) @ X @ p["W_V"][:, v] @ p["W_O"][v]
    close(mha(X, EVERYTHING), expected)


@shows("MH-7")
def test_permuted_inputs_give_permuted_outputs() -> None:
    """Row j reads X as a set; so it is for any permutation, the mask permuted likewise.

    Positions end it: with PE added before, the permuted outputs are others.
    """
    mha, _ = sublayer(TORCH_POST_LN, d_model=6, h=3)
    X = normal(22, 2, 5, 6)
    keep = torch.tensor([[[True, True, False, True, False]]]).expand(2, 1, 5)
    order = [3, 0, 4, 1, 2]
    close(mha(X[:, order], keep[..., order]), mha(X, keep)[:, order])
    PE = sinusoidal(X)
    assert (mha(X[:, order] + PE, keep[..., order]) - mha(X + PE, keep)[:, order]).abs().max() > 0.1


@shows("MH-8")
def test_the_sublayer_has_four_square_matrices() -> None:
    """d_model = 512: 4 · 262144 = 1048576, with biases 4 · 512 = 2048 more: 1050624, whatever h is."""
    for h in (1, 2, 8, 512):
        for profile, count in ((VASWANI_2017, 1_048_576), (TORCH_POST_LN, 1_050_624)):
            shapes = Encoder(profile, Dimensions(N=1, h=h)).parameter_shapes()
            mine = [math.prod(shape) for path, shape in shapes.items() if path[-1] in "QKVO"]
            assert sum(mine) == count, f"{profile.name}, h = {h}: {sum(mine)}"


@shows("MH-9")
def test_a_head_of_keys_serves_neighbours() -> None:
    """Two heads of keys, (0, 1) and (2, 3), for four of queries: each for two that stand side by side.

    For three the first two share one: ⌊0 · 2/3⌋ = ⌊1 · 2/3⌋ = 0, and ⌊2 · 2/3⌋ = 1.
    """
    K = tensor([[[0, 1, 2, 3]]])
    same(groups(K, h=4, g=2)[0, :, 0], tensor([[0, 1], [0, 1], [2, 3], [2, 3]]))
    same(groups(K, h=3, g=2)[0, :, 0], tensor([[0, 1], [0, 1], [2, 3]]))
    same(groups(K, h=2, g=2), split(K, h=2))
    assert groups(K.to("meta"), h=4, g=2).device.type == "meta"


@shows("MH-9")
def test_heads_that_do_not_divide_the_keys_are_refused() -> None:
    with refused(match="3 heads do not divide a width of 4"):
        groups(tensor([[[0, 1, 2, 3]]]), h=6, g=3)


@shows("MH-10")
def test_shared_keys_equal_repeated_ones() -> None:
    """With each head's columns of W_K and W_V written as often as they are read, nothing is shared."""
    sizes = {"d_model": 6, "h": 4, "d_k": 3, "d_v": 2}
    grouped, p = sublayer(VASWANI_2017.replace(multihead="grouped-query"), g=2, **sizes)
    encoder = Encoder(VASWANI_2017, Dimensions(N=1, V=2, **sizes))
    written = {"W_K": p["W_K"].unflatten(-1, (2, 3)), "W_V": p["W_V"].unflatten(-1, (2, 2))}
    repeated = {name: W.repeat_interleave(2, 1).flatten(1) for name, W in written.items()}
    X = normal(23, 2, 5, 6)
    close(grouped(X, EVERYTHING), encoder.bind(p | repeated, slot="multihead")(X, EVERYTHING))


@shows("MH-11")
def test_heads_that_share_keys_have_smaller_maps() -> None:
    """d_model = 512, h = 8, g = 2: 2 · 262144 for W_Q and W_O, and a quarter of as much for W_K and W_V."""
    profile = VASWANI_2017.replace(multihead="grouped-query")
    shapes = Encoder(profile, Dimensions(N=1, g=2)).parameter_shapes()
    assert sum(math.prod(shape) for path, shape in shapes.items() if path[-1] in "QKVO") == 655_360
