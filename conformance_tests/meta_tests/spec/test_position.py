"""Sinusoidal and learned positions, by hand, and the properties that they are praised for."""

import inspect
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import close, normal, random_parameters, refused, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import equation_of
from encoder_spec.position import (
    convolution,
    convolutions,
    in_attention,
    learned,
    learned_offset,
    sinusoidal,
    sinusoidal_concatenated,
    sinusoidal_grid,
    sinusoidal_grid_inclusive,
    sinusoidal_tensor2tensor,
    told_in_attention,
    without_position,
)
from encoder_spec.profiles import VASWANI_2017
from encoder_spec.rotation import columns_first, rows_first


def sequence(n: int, d: int) -> Tensor:
    """Embed a sequence somehow: its content must not matter."""
    return torch.from_numpy(np.random.default_rng(n).normal(size=(2, n, d)))


@shows("POS-1")
def test_the_first_positions_are_those_derived_by_hand() -> None:
    """d_model = 4: i = 0 turns by pos/10000⁰ = pos, i = 1 by pos/10000^{2/4} = pos/100.

    PE(0) = (0, 1, 0, 1), PE(1) = (sin 1, cos 1, sin 0.01, cos 0.01); sin 1 = 0.84147…, cos 1 = 0.54030…,
    sin 0.01 = 0.01 − 0.01³/6 + …, cos 0.01 = 1 − 0.01²/2 + ….
    """
    PE = sinusoidal(sequence(2, 4))
    close(PE[0], tensor([0, 1, 0, 1]))
    close(PE[1], tensor([0.8414709848078965, 0.5403023058681398, 0.0099998333341667, 0.9999500004166653]))


@shows("POS-1")
def test_the_exponent_counts_pairs_of_features() -> None:
    """d_model = 6: the pairs turn by 1, 10000^{−1/3} = 1/21.5443469 and 10000^{−2/3} = 1/464.1588834.

    Hence PE(100)[2] = sin 4.6415888336 and PE(100)[5] = cos 0.2154434690.
    """
    PE = sinusoidal(sequence(101, 6))
    close(PE[100, 2], torch.sin(tensor(100 / 21.544346900318832)))
    close(PE[100, 5], torch.cos(tensor(100 / 464.1588833612777)))


@shows("POS-1")
def test_an_odd_width_ends_with_a_sine() -> None:
    """d_model = 3: pairs turn by pos and pos/10000^{2/3} = pos/464.1588834; the last cosine has no column."""
    PE = sinusoidal(sequence(8, 3))
    close(PE[7], tensor([math.sin(7), math.cos(7), math.sin(7 / 464.1588833612777)]))
    assert PE.shape == (8, 3), PE.shape


@shows("POS-1")
def test_the_table_in_single_precision_is_the_rounded_one() -> None:
    """PE(10007) for d_model = 6 has the angles 10007, 464.4837 and 21.5594; entries lie in [−1, 1].

    So rounding them costs at most u = 2⁻²⁴ ≈ 6e-8. Angles rounded themselves would be off by 464 u = 3e-5.
    """
    PE = sinusoidal(sequence(10008, 6).float())
    angles = [10007, 10007 / 21.544346900318832, 10007 / 464.1588833612777]
    expected = tensor([f(angle) for angle in angles for f in (math.sin, math.cos)])
    assert PE.dtype == torch.float32
    torch.testing.assert_close(PE[10007].double(), expected, rtol=0, atol=2**-24)


@shows("POS-2")
def test_the_table_has_no_parameters_and_no_end() -> None:
    """10007 positions are more than any published table has; the first five do not know how many follow."""
    assert equation_of(sinusoidal).parameters == {}
    PE = sinusoidal(sequence(10007, 4))
    same(sinusoidal(sequence(5, 4)), PE[:5])
    close(PE[10000, 2:], tensor([math.sin(100), math.cos(100)]))


@shows("POS-3")
def test_a_shift_is_a_rotation_of_every_pair() -> None:
    """(sin, cos)(pω + kω) = ((cos kω, sin kω), (−sin kω, cos kω)) (sin, cos)(pω), for every p."""
    d, k = 6, 3
    PE = sinusoidal(sequence(13, d))
    for i, omega in enumerate([1, 10000 ** (-1 / 3), 10000 ** (-2 / 3)]):
        c, s = math.cos(k * omega), math.sin(k * omega)
        pair = PE[:, 2 * i : 2 * i + 2]
        close(pair[k:], pair[:-k] @ tensor([[c, -s], [s, c]]))


@shows("POS-4")
def test_every_position_has_the_norm_of_half_the_width() -> None:
    """Each of d/2 pairs adds sin² + cos² = 1: 3 for d_model = 6. An odd width breaks it: PE(0) = (0, 1, 0)."""
    close(sinusoidal(sequence(997, 6)).square().sum(dim=-1), torch.full((997,), 3, dtype=torch.float64))
    close(sinusoidal(sequence(2, 3)).square().sum(dim=-1)[0], tensor(1))


@shows("POS-5")
def test_products_of_positions_depend_on_their_distance() -> None:
    """PE(p) · PE(q) = Σ_i cos((p − q) ω_i): for d_model = 4 and distance 2, cos 2 + cos 0.02."""
    PE = sinusoidal(sequence(11, 4))
    products = PE @ PE.mT
    for distance in range(-10, 11):
        along = products.diagonal(distance)
        close(along, torch.full_like(along, math.cos(distance) + math.cos(distance / 100)))


@shows("POS-6")
def test_concatenated_sines_stand_before_the_cosines() -> None:
    """d_model = 4, pos = 1: angles 1 and 0.01, hence (sin 1, sin 0.01, cos 1, cos 0.01)."""
    PE = sinusoidal_concatenated(sequence(2, 4))
    close(PE, tensor([[0, 0, 1, 1], [0.8414709848078965, 0.0099998333341667, 0.5403023058681398, 0.9999500004166653]]))
    X = sequence(7, 10)
    same(sinusoidal_concatenated(X), sinusoidal(X)[:, [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]])


@shows("POS-6", "POS-10")
def test_concatenated_tables_in_single_precision_are_the_rounded_ones() -> None:
    """d_model = 4, pos = 1: sin 1 and cos 1 are no float32, and must be rounded to one: off by 2⁻²⁵ at most.

    Their second angle is 1/100 in one layout, and 1/10000 in the other.
    """
    X = sequence(2, 4).float()
    for PE, omega in ((sinusoidal_concatenated(X), 1e-2), (sinusoidal_tensor2tensor(X, offset=0), 1e-4)):
        assert PE.dtype == torch.float32
        expected = tensor([math.sin(1), math.sin(omega), math.cos(1), math.cos(omega)])
        torch.testing.assert_close(PE[1].double(), expected, rtol=0, atol=2**-25)


@shows("POS-6")
def test_concatenated_sinusoids_of_an_odd_width_are_refused() -> None:
    """Three features cannot be as many sines as cosines."""
    with refused(match="d_model must be even, but is 3"):
        sinusoidal_concatenated(sequence(2, 3))


@shows("POS-10")
def test_frequencies_of_tensor2tensor_end_at_a_ten_thousandth() -> None:
    """d_model = 6: three frequencies, 1, 1/100 and 1/10000; position 100 has the angles 100, 1 and 0.01."""
    PE = sinusoidal_tensor2tensor(sequence(101, 6), offset=0)
    close(PE[0], tensor([0, 0, 0, 1, 1, 1]))
    close(
        PE[100, [1, 2, 4, 5]], tensor([0.8414709848078965, 0.0099998333341667, 0.5403023058681398, 0.9999500004166653])
    )
    close(PE[100, [0, 3]], tensor([math.sin(100), math.cos(100)]))


@shows("POS-10")
def test_frequencies_of_tensor2tensor_have_the_precision_of_positions() -> None:
    """d_model = 8: the frequencies are 10000^{−i/3}, 1/21.5443469 and 1/464.1588834 between 1 and 1/10000.

    Neither 1/3 nor 2/3 is a float32: exponents rounded to one would put the angle 46.4158883 of position 1000
    off by some 10⁻⁶.
    """
    PE = sinusoidal_tensor2tensor(sequence(1001, 8), offset=0)
    angles = [1000, 1000 / 21.544346900318832, 1000 / 464.1588833612777, 0.1]
    close(PE[1000], tensor([*map(math.sin, angles), *map(math.cos, angles)]))


@shows("POS-10")
def test_counting_may_start_behind_zero() -> None:
    """With o = 2 the first of the positions is number 2: for d_model = 4 its angles are 2 and 2/10000."""
    PE = sinusoidal_tensor2tensor(sequence(3, 4), offset=2)
    close(PE[0], tensor([math.sin(2), math.sin(2e-4), math.cos(2), math.cos(2e-4)]))
    close(PE[1:], sinusoidal_tensor2tensor(sequence(5, 4), offset=0)[3:])


@shows("POS-15")
def test_halves_of_the_features_tell_row_and_column() -> None:
    """d_model = 4: the only frequency is 1, so that the patch in row 1 and column 2 gets sin 1, cos 1, sin 2, cos 2.

    Columns first, the halves change places. The class token in front gets zeros. d_model = 8: the second frequency is
    10000^(−1/2) = 1/100.
    """
    PE = sinusoidal_grid(sequence(7, 4), axes=rows_first, rows=2, columns=3)
    same(PE[0], tensor([0, 0, 0, 0]))
    close(PE[6], tensor([math.sin(1), math.cos(1), math.sin(2), math.cos(2)]))
    close(
        sinusoidal_grid(sequence(6, 4), axes=columns_first, rows=2, columns=3)[5],
        tensor([math.sin(2), math.cos(2), math.sin(1), math.cos(1)]),
    )
    PE = sinusoidal_grid(sequence(6, 8), axes=rows_first, rows=2, columns=3)
    close(PE[5, :4], tensor([math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)]))


@shows("POS-16")
def test_frequencies_of_a_grid_may_end_at_a_ten_thousandth() -> None:
    """d_model = 12: 1, 1/100 and 1/10000 of the column, which comes first: 2 at the last of six patches."""
    PE = sinusoidal_grid_inclusive(sequence(6, 12), axes=columns_first, rows=2, columns=3)
    angles = [2, 2e-2, 2e-4]
    close(PE[5, :6], tensor([*map(math.sin, angles), *map(math.cos, angles)]))


@shows("POS-15", "POS-16")
def test_sinusoids_of_a_grid_have_the_precision_and_the_device_of_their_tokens() -> None:
    """In single precision they are the rounded ones; ``meta`` stands for any device."""
    for function in (sinusoidal_grid, sinusoidal_grid_inclusive):
        exact = function(sequence(6, 12), axes=rows_first, rows=2, columns=3)
        same(function(sequence(6, 12).float(), axes=rows_first, rows=2, columns=3), exact.float())
        assert function(sequence(6, 12).to("meta"), axes=rows_first, rows=2, columns=3).device.type == "meta"


@shows("POS-15", "POS-16")
def test_sinusoids_of_a_grid_need_whole_quarters_and_a_grid_that_fits() -> None:
    """6 features are no four parts; of 4 the second exponent would be 0/0; six patches are more than five positions."""
    for function in (sinusoidal_grid, sinusoidal_grid_inclusive):
        with refused(match="must be a multiple of 4, but is 10"):
            function(sequence(6, 10), axes=rows_first, rows=2, columns=3)
        with refused(match="6 patches does not fit a sequence of 5"):
            function(sequence(5, 8), axes=rows_first, rows=2, columns=3)
    with refused(match="must be at least 8, but is 4"):
        sinusoidal_grid_inclusive(sequence(6, 4), axes=rows_first, rows=2, columns=3)


@shows("POS-10")
def test_sinusoids_of_tensor2tensor_need_two_frequencies() -> None:
    """With d_model = 2 the exponent is 0/0; with 5 the halves differ."""
    for d in (2, 5):
        with refused(match=f"d_model must be even and at least 4, but is {d}"):
            sinusoidal_tensor2tensor(sequence(3, d), offset=0)


@shows("POS-7")
def test_position_j_reads_row_j() -> None:
    """Of the rows (1, 2), (3, 4), (5, 6) a sequence of two gets the first two, whatever it contains."""
    P = tensor([[1, 2], [3, 4], [5, 6]])
    same(learned(sequence(2, 2), P=P), tensor([[1, 2], [3, 4]]))
    same(learned(sequence(3, 2), P=P), P)


@shows("POS-8")
def test_a_sequence_longer_than_the_table_is_refused() -> None:
    """Three positions need three rows; two are there."""
    with refused(match="a sequence of 3 is longer than the table's 2 rows"):
        learned(sequence(3, 2), P=torch.zeros(2, 2, dtype=torch.float64))


@shows("POS-9")
def test_an_offset_skips_the_first_rows() -> None:
    """With o = 2 the two positions read rows 2 and 3 of four; rows 0 and 1 get no gradient."""
    P = tensor([[1, 2], [3, 4], [5, 6], [7, 8]]).requires_grad_()
    PE = learned_offset(sequence(2, 2), P=P, offset=2)
    same(PE, tensor([[5, 6], [7, 8]]))
    (gradient,) = torch.autograd.grad(PE.sum(), P)
    same(gradient, tensor([[0, 0], [0, 0], [1, 1], [1, 1]]))


@shows("POS-9")
def test_an_offset_shortens_the_longest_sequence() -> None:
    """Four rows from row 2 on serve two positions, not three."""
    with refused(match="a sequence of 3 needs 5 rows, but the table has 4"):
        learned_offset(sequence(3, 2), P=torch.zeros(4, 2, dtype=torch.float64), offset=2)


@shows("POS-11")
def test_without_positions_the_sum_is_the_embedding() -> None:
    """0 is added to each of 3 vectors, so that X⁰ is what the map of the features gives: (1, 2) and (3, 4), mapped."""
    same(without_position(sequence(3, 2)), torch.zeros(3, 2, dtype=torch.float64))
    profile = VASWANI_2017.replace(embedding="features", embedding_scale="none", position="none")
    encoder = Encoder(profile, Dimensions(d_model=2, h=1, d_ff=3, N=1, channels=2))
    held = {"W_feature": tensor([[1, 0], [0, 10]]), "b_feature": tensor([100, 200])}
    same(encoder.bind(held, slot="input")(tensor([[[1, 2], [3, 4]]])), tensor([[[101, 220], [103, 240]]]))


@shows("POS-11")
def test_without_positions_an_encoder_reads_a_set() -> None:
    """Turning the 5 vectors round by two turns their outputs round by two; with sinusoids it does not.

    A class token reads the same set, so that its output stays.
    """
    sizes, u = Dimensions(d_model=8, h=2, d_ff=5, N=2, channels=3), sequence(5, 3)
    profile = VASWANI_2017.replace(embedding="features", position="none", cls="cls")
    bare, placed = Encoder(profile, sizes), Encoder(profile.replace(position="sinusoidal"), sizes)
    held = random_parameters(bare)
    (Z, turned), (other, moved) = ((e(held, u), e(held, u.roll(2, dims=1))) for e in (bare, placed))
    close(turned, torch.cat([Z[:, :1], Z[:, 1:].roll(2, dims=1)], dim=1))
    assert (moved[:, 1:] - other[:, 1:].roll(2, dims=1)).abs().max() > 0.01


@shows("POS-12")
def test_attention_tells_positions_by_rotation_by_scores_or_by_their_bias() -> None:
    """Of slots that are not among the choices nothing is said."""
    assert told_in_attention({"rotation": "halves"}) is True
    assert told_in_attention({"rotation": "none", "scores": "relative-keys", "bias": "none"}) is True
    assert told_in_attention({"scores": "unscaled", "bias": "alibi"}) is True
    assert told_in_attention({"rotation": "none", "scores": "unscaled", "bias": "none", "reach": "causal"}) is False
    assert told_in_attention({}) is False


@shows("POS-12")
def test_where_attention_tells_positions_nothing_is_added() -> None:
    """Zeros for every position; the rotation alone then tells a reversed sequence from the sequence."""
    same(in_attention(sequence(5, 4)), torch.zeros(5, 4, dtype=torch.float64))
    profile = VASWANI_2017.replace(position="in-attention", rotation="halves")
    encoder = Encoder(profile, Dimensions(d_model=12, h=3, d_ff=7, N=1, V=11))
    p, ids = random_parameters(encoder), torch.tensor([[1, 5, 3, 8]])
    turned, unturned = encoder(p, ids), encoder.replace(rotation="none")(p, ids)
    close(encoder.replace(rotation="none")(p, ids.flip(1)), unturned.flip(1))
    assert float((encoder(p, ids.flip(1)) - turned.flip(1)).abs().max()) > 1e-3


def kept(*numbers: int) -> Tensor:
    """Make a mask (1, 1, n) of ones and zeros."""
    return torch.tensor(numbers, dtype=torch.bool)[None, None]


@shows("POS-13")
def test_a_convolution_reads_as_many_positions_before_as_half_its_kernel() -> None:
    """For x = (1, 2, 3), W = (1, 10, 100, 1000) and b = 0: ⌊4/2⌋ = 2 positions before j, j itself, and one behind it.

    z_0 = 100·1 + 1000·2 = 2100, z_1 = 10·1 + 100·2 + 1000·3 = 3210, z_2 = 1·1 + 10·2 + 100·3 = 321; GELU of such
    numbers is the identity. With the odd W = (1, 10, 100): ⌊3/2⌋ = 1 before, so that z_0 = 10·1 + 100·2 = 210,
    z_1 = 1·1 + 10·2 + 100·3 = 321 and z_2 = 1·2 + 10·3 = 32.
    """
    X, b, everything = tensor([[[1], [2], [3]]]), tensor([0]), kept(1, 1, 1)
    even, odd = tensor([[[1]], [[10]], [[100]], [[1000]]]), tensor([[[1]], [[10]], [[100]]])
    same(convolution(X, keep=everything, W_pos=even, b_pos=b), tensor([[[2100], [3210], [321]]]))
    same(convolution(X, keep=everything, W_pos=odd, b_pos=b), tensor([[[210], [321], [32]]]))


@shows("POS-13")
def test_a_convolution_adds_a_bias_before_its_activation() -> None:
    """X = 0 leaves b = 1 in each place: GELU(1) = Φ(1) = 0.8413447460685429."""
    PE = convolution(tensor([[[0], [0]]]), keep=kept(1, 1), W_pos=tensor([[[1]], [[1]]]), b_pos=tensor([1]))
    close(PE, tensor([[[0.8413447460685429], [0.8413447460685429]]]))


@shows("POS-13")
def test_each_group_of_a_convolution_reads_its_own_features() -> None:
    """For x = (1, 10, 100, 1000), two groups and a kernel of ones: 1 + 10 = 11 twice, 100 + 1000 = 1100 twice."""
    X, W = tensor([[[1, 10, 100, 1000]]]), torch.ones(1, 2, 4, dtype=torch.float64)
    PE = convolution(X, keep=kept(1), W_pos=W, b_pos=0 * X[0, 0])
    close(PE, tensor([[[11, 11, 1100, 1100]]]))


@shows("POS-13")
def test_groups_divide_the_width() -> None:
    """Groups of two features do not divide three."""
    with refused(match="groups of 2 features do not divide the 3 of X"):
        convolution(sequence(2, 3), keep=kept(1, 1), W_pos=torch.zeros(1, 2, 3).double(), b_pos=tensor([0, 0, 0]))


@shows("POS-14")
def test_a_convolution_with_the_mask_of_other_positions_is_refused() -> None:
    """Unwrapped, since the annotations refuse it before."""
    X, W = tensor([[[1], [2], [3]]]), tensor([[[1]]])
    with refused(match="position.convolution: the mask is of 4 positions, but X has 3"):
        inspect.unwrap(convolution)(X, keep=kept(1, 1, 1, 1), W_pos=W, b_pos=tensor([0]))


@shows("POS-14")
def test_a_convolution_does_not_hear_padding() -> None:
    """The middle one of (1, 2, 3) is padding: W = (1, 10, 100) gives 10·1 = 10, 1·1 + 100·3 = 301 and 10·3 = 30.

    With a mask for each query a position is padding if no query keeps it: the 2 is kept by the first query, so that
    all is as without a mask: 210, 321 and 32.
    """
    X, W, b = tensor([[[1], [2], [3]]]), tensor([[[1]], [[10]], [[100]]]), tensor([0])
    same(convolution(X, keep=kept(1, 0, 1), W_pos=W, b_pos=b), tensor([[[10], [301], [30]]]))
    for_each_query = torch.tensor([[[1, 1, 1], [1, 0, 1], [1, 0, 1]]], dtype=torch.bool)
    same(convolution(X, keep=for_each_query, W_pos=W, b_pos=b), tensor([[[210], [321], [32]]]))


@shows("POS-14")
def test_an_encoder_with_convolved_positions_is_told_of_its_padding() -> None:
    """A sequence of 5 and the same with 3 more positions behind it, which the mask hides, agree on the 5."""
    profile = VASWANI_2017.replace(embedding="vectors", position="convolution", embedding_scale="none")
    encoder = Encoder(profile, Dimensions(d_model=6, h=2, d_ff=5, N=2, kernel=4, d_group=3))
    held, X = random_parameters(encoder), sequence(8, 6)
    Z = encoder(held, X, keep=(torch.arange(8) < 5).expand(2, 8))
    close(Z[:, :5], encoder(held, X[:, :5]))
    assert (encoder(held, X)[:, :5] - Z[:, :5]).abs().max() > 0.01


# Several convolutions, one behind the other ------------------------------------------------


@shows("POS-17")
def test_convolutions_of_positions_read_what_the_one_before_gives() -> None:
    """One position with features (3, 1) in one group of two, and kernels W₀ = (1, 0; 0, 1), W₁ = (0, 1; 1, 0), K = 1.

    Mean 2 and variance 1 make (1, −1), and GELU (Φ(1), Φ(1) − 1) of it. Exchanged, normed and activated, that is
    (Φ(1) − 1, Φ(1)): its mean is Φ(1) − 1/2, its deviation 1/2, so that (−1, 1) is what the last GELU reads.
    """
    W, b = tensor([[[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]]), tensor([[0, 0], [0, 0]])
    PE = convolutions(tensor([[[3, 1]]]), keep=kept(1), W_around=W, b_around=b, eps=0.0)
    phi = 0.8413447460685429
    close(PE, tensor([[[phi - 1, phi]]]))
    one = convolutions(tensor([[[3, 1]]]), keep=kept(1), W_around=W[:1], b_around=b[:1], eps=3.0)
    half = 0.34573123063700656  # GELU(1/2), with ε = 3 under the root: 1/√(1 + 3)
    close(one, tensor([[[half, half - 0.5]]]))


@shows("POS-17")
def test_convolutions_of_positions_equal_those_of_torch() -> None:
    """Three convolutions of 4 positions in two groups, one result cut off, behind each a norm and GELU."""
    X, W, b = normal(0, 2, 7, 6), normal(1, 3, 4, 3, 6), normal(2, 3, 6)
    PE = convolutions(X, keep=kept(*[1] * 7), W_around=W, b_around=b, eps=1e-5)
    for kernel, bias in zip(W, b, strict=True):
        z = torch.nn.functional.conv1d(X.mT, kernel.permute(2, 1, 0), bias, padding=2, groups=2)[..., :-1].mT
        X = torch.nn.functional.gelu(torch.nn.functional.layer_norm(z, (6,)))
    close(PE, X)


@shows("POS-18")
def test_convolutions_of_positions_do_not_hear_padding() -> None:
    """Other content at a padded position changes nothing, at any position; without the mask it does at all of them."""
    X, W, b = normal(0, 1, 3, 4), normal(1, 2, 3, 4, 4), normal(2, 2, 4)
    other = X.clone()
    other[:, 1] += 1
    maps = {"W_around": W, "b_around": b, "eps": 1e-5}
    same(convolutions(X, keep=kept(1, 0, 1), **maps), convolutions(other, keep=kept(1, 0, 1), **maps))
    changed = convolutions(X, keep=kept(1, 1, 1), **maps) != convolutions(other, keep=kept(1, 1, 1), **maps)
    assert changed.any(-1).all()


@shows("POS-18")
def test_convolutions_of_positions_with_the_mask_of_other_positions_are_refused() -> None:
    """Unwrapped, since the annotations refuse it before."""
    with refused(match=r"position.convolutions: the mask is of 4 positions, but X has 3"):
        inspect.unwrap(convolutions)(
            normal(0, 1, 3, 1), keep=kept(1, 1, 1, 1), W_around=normal(1, 1, 1, 1, 1), b_around=normal(2, 1, 1), eps=1.0
        )


@shows("POS-17")
def test_each_convolution_of_positions_has_its_bias() -> None:
    """Unwrapped, since the annotations refuse it before."""
    with pytest.raises(ValueError, match="shorter"):
        inspect.unwrap(convolutions)(
            normal(0, 1, 3, 1), keep=kept(1, 1, 1), W_around=normal(1, 2, 1, 1, 1), b_around=normal(2, 1, 1), eps=1.0
        )
