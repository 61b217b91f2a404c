"""How tokens and patches become vectors, by hand."""

from functools import partial
from inspect import unwrap
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import conv1d, gelu, group_norm, layer_norm

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import EVERYTHING, close, normal, random_parameters, refused, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.embedding import (
    cls,
    cls_and_distillation,
    convolutions,
    embedded,
    embedding_norm,
    factorised,
    feature_norm,
    features,
    features_without_bias,
    given,
    lookup,
    no_cls,
    no_embedding_norm,
    no_feature_norm,
    no_registers,
    no_segments,
    no_token_activation,
    no_token_norm,
    patches,
    patches_without_bias,
    registers,
    registers_behind,
    scale,
    segments,
    stage,
    stage_norm,
    stage_norm_over_time,
    token_activation,
    token_dropout,
    token_norm,
    unscaled,
    vectors,
)
from encoder_spec.ffn import relu
from encoder_spec.position import sinusoidal
from encoder_spec.profiles import ALBERT, BERT, DEIT, DINOV2_REGISTERS, TORCH_POST_LN, VASWANI_2017, VIT

AS_IT_IS = {"token_norm": no_token_norm, "token_activation": no_token_activation, "registers": no_registers}
"""The slots that leave each token, or all of them, as they are."""


@shows("EMB-1")
def test_a_token_embeds_to_its_row_of_the_table() -> None:
    """Rows 0, 1, 2 of E are (1, 2), (3, 4), (5, 6): the tokens 2, 0, 2 read (5, 6), (1, 2), (5, 6)."""
    E = tensor([[1, 2], [3, 4], [5, 6]])
    X = lookup(torch.tensor([[2, 0, 2], [1, 1, 0]]), E=E)
    same(X, tensor([[[5, 6], [1, 2], [5, 6]], [[3, 4], [3, 4], [1, 2]]]))


@shows("EMB-1")
def test_a_token_outside_the_vocabulary_is_refused() -> None:
    """With three rows the last id is 2; −1 must not count from the end, as indexing would."""
    for tokens in ([[0, 3]], [[-1, 2]]):
        with refused(match="ids must lie in 0 … 2, the rows of the table, but range from"):
            lookup(torch.tensor(tokens), E=torch.eye(3))


@shows("EMB-2")
def test_the_scale_is_the_root_of_the_width() -> None:
    """d_model = 4: the factor is √4 = 2, whatever n is."""
    same(scale(tensor([[[1, 2, 3, 4], [0, -1, 0, 5]]])), tensor([[[2, 4, 6, 8], [0, -2, 0, 10]]]))


@shows("EMB-34")
def test_tokens_without_ids_and_masks_of_other_positions_are_refused() -> None:
    """Vectors have no ids, and neither has a class token, which the mask counts. One query may have another mask."""
    plain = partial(unwrap(token_dropout), tensor([[[8], [16]]]), mask_id=7, p_mask=0.25)
    ids = torch.tensor([[5, 7]])
    for others in (torch.ones(1, 2, 1), torch.tensor([[5, 7, 7]])):
        with refused(match="each token needs an id"):
            plain(keep=EVERYTHING, ids=others)
    for shape in ((1, 2, 2), (1, 1, 3)):
        with refused(match="must be one for all queries"):
            plain(keep=torch.ones(shape, dtype=torch.bool), ids=ids)


@shows("EMB-34")
def test_each_sequence_has_a_share_of_masked_tokens_of_its_own() -> None:
    """With p = 1/2, a quarter masked in the first: (1/2)/(3/4) = 2/3. None of the second, two of the third."""
    X = tensor([[[3, 6]] * 4, [[2, 4]] * 4, [[1, 5]] * 4])
    ids = torch.tensor([[7, 5, 5, 5], [1, 2, 3, 4], [7, 5, 7, 5]])
    want = tensor([[[0, 0], *[[2, 4]] * 3], [[1, 2]] * 4, [[0, 0], [1, 5]] * 2])
    for keep in (EVERYTHING, torch.ones(3, 1, 4, dtype=torch.bool)):
        close(token_dropout(X, keep=keep, ids=ids, mask_id=7, p_mask=0.5), want)
    keep[0, 0, 2:] = False  # one of two is masked: (1/2)/(1/2)
    want[0, 1:] = tensor([3, 6])
    close(token_dropout(X, keep=keep, ids=ids, mask_id=7, p_mask=0.5), want)


@shows("EMB-34")
def test_masked_tokens_are_found_where_their_vectors_are() -> None:
    """Ids may lie elsewhere: the device ``meta`` stands for any other."""
    keep = torch.ones(1, 1, 2, dtype=torch.bool, device="meta")
    made = token_dropout(
        torch.zeros(1, 2, 3, device="meta"), keep=keep, ids=torch.tensor([[5, 7]]), mask_id=7, p_mask=0.1
    )
    assert made.device.type == "meta"


@shows("EMB-34")
def test_masked_tokens_are_zero_and_the_others_scaled_by_their_share() -> None:
    """With p = 1/4 and one of three valid tokens masked, the others are multiplied by (3/4)/(2/3) = 9/8.

    The last position is padding, and counts as none. Without masked tokens the factor is 3/4.
    """
    X, ids = tensor([[[8], [16], [24], [32]]]), torch.tensor([[5, 7, 6, 6]])
    keep = torch.tensor([[[True, True, True, False]]])
    close(token_dropout(X, keep=keep, ids=ids, mask_id=7, p_mask=0.25), tensor([[[9], [0], [27], [36]]]))
    close(token_dropout(X, keep=keep, ids=ids, mask_id=8, p_mask=0.25), tensor([[[6], [12], [18], [24]]]))
    # As many masked as valid, or none valid: r counts as 0.
    for valid in (keep & (torch.arange(4) == 0), torch.zeros(1, 1, 4, dtype=torch.bool)):
        close(token_dropout(X, keep=valid, ids=ids, mask_id=7, p_mask=0.25), tensor([[[6], [0], [18], [24]]]))
    # With a mask that keeps all by broadcasting one of four is masked: (3/4)/(3/4) = 1.
    close(token_dropout(X, keep=EVERYTHING, ids=ids, mask_id=7, p_mask=0.25), tensor([[[8], [0], [24], [32]]]))


@shows("EMB-2", "EMB-7")
def test_positions_are_added_after_the_scale() -> None:
    """d_model = 4, E[0] = (1, 0, 0, 2), PE(0) = (sin 0, cos 0, sin 0, cos 0) = (0, 1, 0, 1).

    X⁰ = 2 · (1, 0, 0, 2) + (0, 1, 0, 1) = (2, 1, 0, 5); scaling the sum would give (2, 2, 0, 6).
    """
    encoder = Encoder(VASWANI_2017, Dimensions(d_model=4, h=2, d_ff=3, N=1, V=2))
    E = tensor([[1, 0, 0, 2], [7, 7, 7, 7]])
    X = encoder.bind({"E": E}, slot="input")(torch.tensor([[0]]))
    close(X, tensor([[[2, 1, 0, 5]]]))


@shows("EMB-3")
def test_an_unscaled_embedding_stays() -> None:
    """BERT and ViT add positions to the rows of E as they are: (1, 2, 3, 4) stays (1, 2, 3, 4)."""
    X = tensor([[[1, 2, 3, 4]]])
    same(unscaled(X), tensor([[[1, 2, 3, 4]]]))
    encoder = Encoder(VIT, Dimensions(d_model=4, h=2, N=1, patch=1, channels=1, max_len=2))
    parameters = {"W_patch": torch.ones(1, 4, dtype=torch.float64), "b_patch": tensor([0, 1, 2, 3])}
    parameters |= {"x_cls": tensor([9, 9, 9, 9]), "P": torch.zeros(2, 4, dtype=torch.float64)}
    Z = encoder.bind(parameters, slot="input")(tensor([[[[1]]]]))
    same(Z, tensor([[[9, 9, 9, 9], [1, 2, 3, 4]]]))


@shows("EMB-4")
def test_patches_are_read_row_by_row() -> None:
    """Patches of side 2 of the one-channel image (1 2 3 4 / 5 6 7 8) are (1, 2, 5, 6) and (3, 4, 7, 8).

    Weights (1, 10, 100, 1000) make 1 + 20 + 500 + 6000 = 6521 and 3 + 40 + 700 + 8000 = 8743; b adds 0.5.
    """
    image = tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]]]])
    maps = {"W_patch": tensor([[1], [10], [100], [1000]]), "b_patch": tensor([0.5])}
    X = patches(image, patch=2, patch_width=2, feature_norm=no_feature_norm, **maps)
    close(X, tensor([[[6521.5], [8743.5]]]))


@shows("EMB-4")
def test_patches_may_be_rectangles() -> None:
    """Patches of 2 × 1 of the image (1 2 / 3 4) are its columns (1, 3) and (2, 4); W = (1, 10)ᵀ makes 31 and 42."""
    image = tensor([[[[1, 2], [3, 4]]]])
    maps = {"W_patch": tensor([[1], [10]]), "b_patch": tensor([0.5])}
    X = patches(image, patch=2, patch_width=1, feature_norm=no_feature_norm, **maps)
    close(X, tensor([[[31.5], [42.5]]]))


@shows("EMB-4")
def test_patches_equal_a_strided_convolution() -> None:
    """A convolution whose strides are the sides of its kernel sees each patch once."""
    images, kernel, b = normal(0, 2, 3, 10, 12), normal(1, 7, 3, 5, 4), normal(2, 7)
    maps = {"feature_norm": no_feature_norm, "W_patch": kernel.flatten(1).mT, "b_patch": b}
    X = patches(images, patch=5, patch_width=4, **maps)
    close(X, torch.nn.functional.conv2d(images, kernel, b, stride=(5, 4)).flatten(2).mT)
    with refused(match="5 × 4 do not tile an image of 10 × 11"):
        patches(images[..., :11], patch=5, patch_width=4, **maps)
    with refused(match="5 × 4 do not tile an image of 9 × 12"):
        patches(images[..., :9, :], patch=5, patch_width=4, **maps)


@shows("EMB-13")
def test_patches_without_bias_are_maps_alone() -> None:
    """A 2 × 2 image of one channel is one patch (1, 2, 3, 4) of side 2; W = (1, 10, 100, 1000)ᵀ gives 4321."""
    image = tensor([[[[1, 2], [3, 4]]]])
    same(
        patches_without_bias(
            image,
            patch=2,
            patch_width=2,
            feature_norm=no_feature_norm,
            W_patch=tensor([[1], [10], [100], [1000]]),
        ),
        tensor([[[4321]]]),
    )


@shows("EMB-14")
def test_a_token_of_sound_reads_what_lies_around_two_samples() -> None:
    """One channel (1, 2, 3, 4), maps (1, 10, 100): U = (0+10+200, 1+20+300, 2+30+400, 3+40+0) = (210, 321, 432, 43).

    Every second U with maps (1, 2, 3): 0 + 420 + 963 = 1383 and 321 + 864 + 129 = 1314; b adds 0.5. Behind 10,
    GELU leaves a float64 number as it is: 1 − Φ(10) < 10⁻²³.
    """
    maps = {"W_conv": tensor([[[1]], [[10]], [[100]]]), "W_step": tensor([[[1]], [[2]], [[3]]])}
    X = convolutions(tensor([[[1, 2, 3, 4]]]), **maps, b_conv=tensor([0]), b_step=tensor([0.5]))
    close(X, tensor([[[1383.5], [1314.5]]]))


@shows("EMB-14")
def test_the_stem_equals_two_convolutions_of_torch() -> None:
    """Widths 3 → 7 → 7 over 11 times: ⌈11/2⌉ = 6 tokens, with GELU behind each convolution."""
    signal, first, second = normal(0, 2, 3, 11), normal(1, 7, 3, 3), normal(2, 7, 7, 3)
    b_conv, b_step = normal(3, 7), normal(4, 7)
    maps = {"W_conv": first.permute(2, 1, 0), "W_step": second.permute(2, 1, 0)}
    X = convolutions(signal, **maps, b_conv=b_conv, b_step=b_step)
    U = gelu(conv1d(signal, first, b_conv, padding=1))
    close(X, gelu(conv1d(U, second, b_step, stride=2, padding=1)).mT)
    assert X.shape == (2, 6, 7), X.shape


# Waveforms ------------------------------------------------------------------------------

GELU_1 = 0.8413447460685429
"""GELU(1) = Φ(1); GELU(−1) = Φ(1) − 1."""


def in_one_channel(*samples: float) -> Tensor:
    """Make a sound (1, T, 1)."""
    return tensor(samples)[None, :, None]


@shows("EMB-30")
def test_a_stage_reads_as_many_times_as_its_kernel_is_long() -> None:
    """(1, 2, 3, 4, 5) with W = (1, 10, 100) in steps of 2: 1 + 20 + 300 = 321 and 3 + 40 + 500 = 543; b adds 0.5.

    Behind 10, GELU leaves a float64 number as it is: 1 − Φ(10) < 10⁻²³.
    """
    W = tensor([[[1]], [[10]], [[100]]])
    X = stage(in_one_channel(1, 2, 3, 4, 5), stride=2, W_stage=W, b_stage=tensor([0.5]))
    close(X, in_one_channel(321.5, 543.5))


@shows("EMB-30")
def test_a_stage_is_activated() -> None:
    """Sums of 1 and −1 become Φ(1) and Φ(1) − 1."""
    X = stage(in_one_channel(1, -1), stride=1, W_stage=tensor([[[1]]]), b_stage=tensor([0]))
    close(X, in_one_channel(GELU_1, GELU_1 - 1))


@shows("EMB-31")
def test_a_stage_reads_nothing_outside_of_its_signal() -> None:
    """Of 5 and 6 times, a kernel of 3 in steps of 2 gives ⌊(5 − 3)/2⌋ + 1 = ⌊(6 − 3)/2⌋ + 1 = 2, of 7 it gives 3.

    Of 2 times it gives nothing: they are refused.
    """
    maps = {"stride": 2, "W_stage": torch.ones(3, 4, 1).double(), "b_stage": tensor([0])}
    assert [stage(normal(0, 1, T, 4), **maps).shape[1] for T in (3, 4, 5, 6, 7)] == [1, 1, 2, 2, 3]
    with refused(match="a stage reads 3 times at once, but there are 2"):
        stage(normal(0, 1, 2, 4), **maps)


@shows("EMB-29", "EMB-30", "EMB-31")
def test_stages_equal_convolutions_of_torch_and_a_map() -> None:
    """One channel → 3 → 3 by kernels of 5 and 2 in steps of 3 and 2: 37 samples become ⌊32/3⌋ + 1 = 11, and 5 times."""
    profile = VASWANI_2017.replace(embedding="waveform")
    encoder = Encoder(profile, Dimensions(d_model=4, h=2, N=1, channels=3, widths=(5, 2), strides=(3, 2)))
    p, samples = random_parameters(encoder), normal(1, 2, 37)
    X = encoder.bind(p, slot="embedding")(samples)
    u = samples[:, None]
    for l, stride in ((0, 3), (1, 2)):
        W, b = p[f"stages.{l}.W_stage"], p[f"stages.{l}.b_stage"]
        u = gelu(conv1d(u, W.permute(2, 1, 0), b, stride=stride))
    close(X, u.mT @ p["W_feature"] + p["b_feature"])
    assert X.shape == (2, 5, 4), X.shape


@shows("EMB-32")
def test_a_stage_with_a_norm_normalises_the_channels_of_each_time() -> None:
    """Channels (3, 1) have mean 2 and variance 1: (1, −1), with γ = (1, 2) and β = (0, 3) that is (1, 1)."""

    def norm(x: Tensor) -> Tensor:
        return layer_norm(x, (2,), eps=0.0) * tensor([1, 2]) + tensor([0, 3])

    W, b = tensor([[[3, 1]]]), tensor([0, 0])
    close(stage_norm(in_one_channel(1), stride=1, W_stage=W, b_stage=b, norm_stage=norm), tensor([[[GELU_1, GELU_1]]]))


@shows("EMB-33")
def test_a_norm_over_time_takes_each_channel_by_itself() -> None:
    """Channel 0 is (3, 1) over time, mean 2, variance 1: (1, −1). Channel 1 is (30, 10), variance 100: the same.

    With γ = (1, 1) and β = (0, 0) both are (1, −1) before GELU. With ε = 3 channel 0 is ±1/√(1 + 3) = ±1/2, and
    GELU(1/2) = 0.5·Φ(0.5) = 0.34573123063700656.
    """
    maps = {"stride": 1, "W_stage": tensor([[[1, 10]]]), "b_stage": tensor([0, 0])}
    weights = {"gamma_stage": tensor([1, 1]), "beta_stage": tensor([0, 0])}
    X = stage_norm_over_time(in_one_channel(3, 1), **maps, **weights, eps=0.0)
    close(X, tensor([[[GELU_1, GELU_1], [GELU_1 - 1, GELU_1 - 1]]]))
    X = stage_norm_over_time(in_one_channel(3, 1), **maps, **weights, eps=3.0)
    close(X[0, 0, 0], tensor(0.34573123063700656))


@shows("EMB-33")
def test_a_norm_over_time_is_a_group_norm_with_a_group_for_each_channel() -> None:
    """torch's, with ε = 10⁻⁵ and random γ and β."""
    u, W, b, gamma, beta = (
        normal(seed, *shape) for seed, shape in enumerate([(2, 23, 1), (5, 1, 3), (3,), (3,), (3,)])
    )
    X = stage_norm_over_time(u, stride=2, W_stage=W, b_stage=b, gamma_stage=gamma, beta_stage=beta, eps=1e-5)
    z = conv1d(u.mT, W.permute(2, 1, 0), b, stride=2)
    close(X, gelu(group_norm(z, 3, gamma, beta)).mT)


@shows("EMB-31")
def test_samples_and_positions_are_counted_stage_by_stage() -> None:
    """Of wav2vec 2.0: 400 samples give one position, each further 320 another, and 16000 give 49."""
    sizes = Dimensions()
    assert [sizes.frames(T) for T in (399, 400, 719, 720, 16000)] == [0, 1, 1, 2, 49]
    assert [sizes.samples(n) for n in (1, 2, 49)] == [400, 720, 15760]
    with refused(match="each stage needs a width and a stride"):
        Dimensions(widths=(3,), strides=(2, 2))
    with refused(match="each stage needs a width and a stride"):
        Dimensions(widths=(3, 0), strides=(2, 2))


@shows("EMB-17")
def test_vectors_are_the_embedding_that_positions_are_added_to() -> None:
    """d_model = 4: the vector (1, 0, 0, 2) at position 0 gets PE(0) = (0, 1, 0, 1), which makes (1, 1, 0, 3).

    Scaled by √4 first it is 2 · (1, 0, 0, 2) + (0, 1, 0, 1) = (2, 1, 0, 5).
    """
    x = tensor([[[1, 0, 0, 2]]])
    same(vectors(x), tensor([[[1, 0, 0, 2]]]))
    sizes = Dimensions(d_model=4, h=2, d_ff=3, N=1)
    for scaled, first in (("none", [1, 1, 0, 3]), ("sqrt-d-model", [2, 1, 0, 5])):
        encoder = Encoder(VASWANI_2017.replace(embedding="vectors", embedding_scale=scaled), sizes)
        close(encoder.bind({}, slot="input")(x), tensor([[first]]))


@shows("EMB-17")
def test_a_class_token_stands_before_vectors() -> None:
    """x_cls = (7, 8) and x = (1, 2) with the rows (10, 20) and (30, 40) of P: (17, 28) and (31, 42)."""
    profile = VIT.replace(embedding="vectors")
    parameters = {"x_cls": tensor([7, 8]), "P": tensor([[10, 20], [30, 40]])}
    X = Encoder(profile, Dimensions(d_model=2, h=1, N=1, max_len=2)).bind(parameters, slot="input")(tensor([[[1, 2]]]))
    same(X, tensor([[[17, 28], [31, 42]]]))


@shows("EMB-18")
def test_features_are_mapped_moment_by_moment() -> None:
    """Two moments of three features, (1, 2, 3) and (0, 1, 0); W has the rows (1, 10), (2, 20), (3, 30), b = (100, 200).

    1·1 + 2·2 + 3·3 = 14 and 10 + 40 + 90 = 140, with b (114, 340); the second moment is row 2 of W with b: (102, 220).
    """
    u = tensor([[[1, 2, 3], [0, 1, 0]]])
    W_feature = tensor([[1, 10], [2, 20], [3, 30]])
    X = features(u, feature_norm=no_feature_norm, W_feature=W_feature, b_feature=tensor([100, 200]))
    same(X, tensor([[[114, 340], [102, 220]]]))


@shows("EMB-18")
def test_features_equal_a_convolution_of_width_one() -> None:
    """A kernel of width 1 over the moments reads the features of one moment."""
    u, W, b = normal(0, 2, 11, 3), normal(1, 3, 7), normal(2, 7)
    close(features(u, feature_norm=no_feature_norm, W_feature=W, b_feature=b), conv1d(u.mT, W.mT[..., None], b).mT)


@shows("EMB-19")
def test_features_without_bias_are_maps_alone() -> None:
    """(1, 2, 3) with the column (1, 10, 100)ᵀ gives 321, and no features give nothing."""
    u, W_feature = tensor([[[1, 2, 3], [0, 0, 0]]]), tensor([[1], [10], [100]])
    same(features_without_bias(u, feature_norm=no_feature_norm, W_feature=W_feature), tensor([[[321], [0]]]))


def halved(x: Tensor) -> Tensor:
    """Stand for a norm, so that numbers by hand stay simple."""
    return x / 2


@shows("EMB-20")
def test_features_are_normed_before_they_are_mapped() -> None:
    """Halved in the place of a norm, (2, 4) is (1, 2): with the column (1, 10)ᵀ and b = 100 it is mapped to 121.

    A norm behind the map would make (42 + 100)/2 = 71. A patch (2, 4, 6, 8) is (1, 2, 3, 4), and mapped to 4321.
    """
    same(feature_norm(tensor([[[2, 4]]]), norm_feature=halved), tensor([[[1, 2]]]))
    u, W_feature, b_feature = tensor([[[2, 4]]]), tensor([[1], [10]]), tensor([100])
    same(features(u, feature_norm=halved, W_feature=W_feature, b_feature=b_feature), tensor([[[121]]]))
    same(features_without_bias(u, feature_norm=halved, W_feature=W_feature), tensor([[[21]]]))
    image, W_patch = tensor([[[[2, 4], [6, 8]]]]), tensor([[1], [10], [100], [1000]])
    same(patches_without_bias(image, patch=2, patch_width=2, feature_norm=halved, W_patch=W_patch), tensor([[[4321]]]))
    same(
        patches(image, patch=2, patch_width=2, feature_norm=halved, W_patch=W_patch, b_patch=tensor([0.5])),
        tensor([[[4321.5]]]),
    )


@shows("EMB-20")
def test_the_norm_of_the_features_has_their_width() -> None:
    """Patches of side 2 with 3 channels have 12 entries, moments of 5 features have 5, whatever d_model is."""
    for embedding, sizes, width in (("patches", {"patch": 2, "channels": 3}, 12), ("features", {"channels": 5}, 5)):
        profile = VASWANI_2017.replace(embedding=embedding, feature_norm="norm")
        shapes = Encoder(profile, Dimensions(d_model=8, h=2, N=1, **sizes)).parameter_shapes()
        assert (shapes["norm_feature.gamma"], shapes["layers.0.norm_1.gamma"]) == ((width,), (8,))


@shows("EMB-21", "EMB-23", "EMB-25")
def test_without_norms_and_activation_nothing_happens_around_the_map() -> None:
    """(−2, 4) is neither normed nor activated."""
    x = tensor([[[-2, 4]]])
    for nothing in (no_feature_norm, no_token_norm, no_token_activation):
        same(nothing(x), tensor([[[-2, 4]]]))


@shows("EMB-22", "EMB-24")
def test_tokens_are_normed_then_activated_then_scaled() -> None:
    """d_model = 4: the row (2, −4, 0, 6) is normed to (1, −2, 0, 3), halved, and activated to (1, 0, 0, 3).

    √4 times that is (2, 0, 0, 6), and PE(0) = (0, 1, 0, 1) makes (2, 1, 0, 7).
    """
    X = tensor([[[2, -4, 0, 6]]])
    same(token_norm(X, norm_token=halved), tensor([[[1, -2, 0, 3]]]))
    same(token_activation(X, activation_token=relu), tensor([[[2, 0, 0, 6]]]))
    Z = embedded(
        torch.tensor([[0]]),
        embedding=partial(lookup, E=X[0]),
        token_norm=partial(token_norm, norm_token=halved),
        token_activation=partial(token_activation, activation_token=relu),
        embedding_scale=scale,
        cls=no_cls,
        position=lambda _: tensor([[0, 1, 0, 1]]),
        segment=no_segments,
        registers=no_registers,
        embedding_norm=no_embedding_norm,
        dropout=lambda X: X,
    )
    same(Z, tensor([[[2, 1, 0, 7]]]))


@shows("EMB-20", "EMB-22")
def test_norms_around_the_map_equal_torchs() -> None:
    """Dual PatchNorm: torch's layer norms of 5 features and of their map to width 4, each with γ, β and ε = 1e-5."""
    profile = VASWANI_2017.replace(embedding="features", feature_norm="norm", token_norm="norm", eps=1e-5)
    encoder = Encoder(profile.replace(embedding_scale="none"), Dimensions(d_model=4, h=2, d_ff=3, N=1, channels=5))
    held, u = random_parameters(encoder), normal(0, 2, 7, 5)
    normed = layer_norm(u, (5,), held["norm_feature.gamma"], held["norm_feature.beta"])
    mapped = normed @ held["W_feature"] + held["b_feature"]
    tokens = layer_norm(mapped, (4,), held["norm_token.gamma"], held["norm_token.beta"])
    close(encoder.bind(held, slot="input")(u), tokens + sinusoidal(tokens))


@shows("EMB-18", "EMB-17")
def test_an_input_of_another_width_is_refused() -> None:
    """Three features where the map reads five; vectors of width 3 where the layers have width 4."""
    sizes = Dimensions(d_model=4, h=2, d_ff=3, N=1, channels=5)
    for embedding, width in (("features", "channels = 5"), ("vectors", "d_model = 4")):
        encoder = Encoder(VASWANI_2017.replace(embedding=embedding), sizes)
        with refused(match=f"the input must have width {width}, but has shape"):
            encoder(random_parameters(encoder), normal(0, 2, 7, 3))


@shows("EMB-15")
def test_the_distillation_token_stands_second() -> None:
    """x_cls = (8, 9) and x_dist = (6, 7) before two tokens make four."""
    X = cls_and_distillation(tensor([[[1, 2], [3, 4]]]), x_cls=tensor([8, 9]), x_dist=tensor([6, 7]))
    same(X, tensor([[[8, 9], [6, 7], [1, 2], [3, 4]]]))


@shows("EMB-16")
def test_a_factorised_embedding_is_widened_last() -> None:
    """d_e = 1: token 2 at position 10 sums to 12, "norm" 10·x and "dropout" x + 1 make 121.

    The map (1, 2) and the bias (100, 200) widen it to (221, 442); token 5 at 20, 251, becomes (351, 702).
    """
    X = factorised(
        torch.tensor([[1, 0]]),
        embedding=partial(lookup, E=tensor([[5], [2]])),
        **AS_IT_IS,
        embedding_scale=unscaled,
        cls=no_cls,
        position=lambda _: tensor([[10], [20]]),
        segment=no_segments,
        embedding_norm=lambda X: 10 * X,
        dropout=lambda X: X + 1,
        W_e=tensor([[1, 2]]),
        b_e=tensor([100, 200]),
    )
    same(X, tensor([[[221, 442], [351, 702]]]))


@shows("EMB-16", "EMB-22", "EMB-24")
def test_a_factorised_embedding_norms_and_activates_its_narrow_tokens() -> None:
    """The rows 4 and −4, halved in the place of a norm, are 2 and −2; ReLU makes 2 and 0, the map 20 and 0.

    Without the norm the first would be 40, without the activation the second −20.
    """
    X = factorised(
        torch.tensor([[0, 1]]),
        embedding=partial(lookup, E=tensor([[4], [-4]])),
        token_norm=halved,
        token_activation=relu,
        embedding_scale=unscaled,
        cls=no_cls,
        position=lambda _: tensor([[0], [0]]),
        segment=no_segments,
        registers=no_registers,
        embedding_norm=no_embedding_norm,
        dropout=lambda X: X,
        W_e=tensor([[10]]),
        b_e=tensor([0]),
    )
    same(X, tensor([[[20], [0]]]))


@shows("EMB-16")
def test_albert_base_has_its_published_number_of_parameters() -> None:
    """The released base model without its pooler of 768² + 768: 11 683 584 − 590 592 = 11 092 992.

    Tables and norm have width 128, (30 000 + 512 + 2 + 2)·128; the map to 768 adds 128·768 + 768, and the one
    layer 7 087 872.
    """
    sizes = Dimensions(d_model=768, h=12, d_ff=3072, N=12, V=30000, max_len=512, segments=2, d_e=128)
    shapes = Encoder(ALBERT, sizes).parameter_shapes()
    assert shapes["E"] == (30000, 128)
    assert shapes["norm_embedding.gamma"] == (128,)
    assert sum(map(prod, shapes.values())) == 11_092_992


@shows("EMB-16")
def test_a_head_that_needs_a_wide_table_is_refused() -> None:
    """E of width d_e cannot serve a head that multiplies with an E of width d_model."""
    with refused(match=r"head.mlm reads E as \('V', 'd_model'\), but its axes are \('V', 'd_e'\)"):
        Encoder(ALBERT.replace(head="mlm"), Dimensions()).parameter_shapes()


@shows("EMB-5")
def test_the_class_token_stands_first_in_every_sequence() -> None:
    """x_cls = (8, 9) before the two tokens of each of two sequences makes three."""
    X = cls(tensor([[[1, 2], [3, 4]], [[5, 6], [7, 0]]]), x_cls=tensor([8, 9]))
    same(X, tensor([[[8, 9], [1, 2], [3, 4]], [[8, 9], [5, 6], [7, 0]]]))


@shows("EMB-6")
def test_without_class_token_the_sequence_stays() -> None:
    """Two tokens in, the same two out; the profile has no x_cls to learn."""
    same(no_cls(tensor([[[1, 2], [3, 4]]])), tensor([[[1, 2], [3, 4]]]))
    assert "x_cls" not in Encoder(VASWANI_2017, Dimensions()).parameter_shapes()


@shows("EMB-26")
def test_registers_stand_between_class_token_and_tokens() -> None:
    """Two sequences of a class token and two tokens: five more rows than tokens make c = 1; without one, c = 0."""
    X = tensor([[[8, 9], [1, 2], [3, 4]], [[6, 9], [5, 6], [7, 0]]])
    R = tensor([[10, 11], [20, 21]])
    joined = registers(X, X[:, 1:], X_reg=R)
    same(joined[0], tensor([[8, 9], [10, 11], [20, 21], [1, 2], [3, 4]]))
    same(joined[1], tensor([[6, 9], [10, 11], [20, 21], [5, 6], [7, 0]]))
    same(registers(X[:1, 1:], X[:1, 1:], X_reg=R[:1]), tensor([[[10, 11], [1, 2], [3, 4]]]))


@shows("EMB-26")
def test_registers_get_no_positions_and_the_layers_see_them() -> None:
    """The encoder input has c + r + n rows, of which the r registers are those that are learned, whatever P is."""
    encoder = Encoder(DINOV2_REGISTERS, Dimensions(d_model=6, h=2, d_ff=4, N=1, patch=2, max_len=5, r=3))
    p = random_parameters(encoder)
    trace = encoder.trace(p, normal(7, 2, 3, 4, 4))
    (X,), (placed,) = trace.of("embedding.registers"), trace.of("embedding.no_segments")
    assert X.shape == (2, 1 + 3 + 4, 6)
    same(X[:, 1:4], p["X_reg"].expand(2, 3, 6))
    same(torch.cat([X[:, :1], X[:, 4:]], dim=1), placed)
    assert (encoder.class_tokens, encoder.prepended, encoder.choices()["num_registers"]) == (1, 4, 3)
    assert list(encoder.choices())[-4:] == ["num_heads", "num_registers", "d_model", "d_ff"]
    bare = encoder.replace(cls="none")
    assert (bare.class_tokens, bare.prepended) == (0, 3)
    given = encoder.replace(input="given")
    assert (given.class_tokens, given.prepended) == (0, 0)
    assert "num_registers" not in given.choices()
    deit = Encoder(DEIT, Dimensions(r=3))
    assert (deit.class_tokens, deit.prepended) == (2, 2)


@shows("EMB-28")
def test_registers_may_stand_behind_the_tokens() -> None:
    """A class token and two tokens, and two registers behind them; how many the tokens are does not matter."""
    X, R = tensor([[[8, 9], [1, 2], [3, 4]]]), tensor([[10, 11], [20, 21]])
    same(registers_behind(X, X[:, 1:], X_reg=R), tensor([[[8, 9], [1, 2], [3, 4], [10, 11], [20, 21]]]))


@shows("EMB-27")
def test_without_registers_nothing_joins_the_sum() -> None:
    """Three rows in, the same three out; the profile has no X_reg to learn."""
    X = tensor([[[8, 9], [1, 2], [3, 4]]])
    same(no_registers(X, X[:, 1:]), X)
    assert "X_reg" not in Encoder(VASWANI_2017, Dimensions()).parameter_shapes()


@shows("EMB-7")
def test_the_input_is_the_sum_of_embedding_and_position() -> None:
    """Embed (1), (2); scale by 10: (10), (20); class token 5 first: (5), (10), (20).

    Positions 0.1, 0.2, 0.3, one for each place, the class token's too: 5.1, 10.2, 20.3. Dropout, here the
    negative, sees the sum.
    """
    X = embedded(
        torch.tensor([[0, 1], [1, 1]]),
        embedding=partial(lookup, E=tensor([[1], [2]])),
        **AS_IT_IS,
        embedding_scale=lambda X: 10 * X,
        cls=partial(cls, x_cls=tensor([5])),
        position=lambda X: tensor([[0.1], [0.2], [0.3]])[: X.shape[1]],
        segment=no_segments,
        embedding_norm=no_embedding_norm,
        dropout=lambda X: -X,
    )
    close(X, -tensor([[[5.1], [10.2], [20.3]], [[5.1], [20.2], [20.3]]]))


@shows("EMB-8", "EMB-10")
def test_berts_input_is_the_norm_of_three_vectors() -> None:
    """Token (1, 2) at position (10, 20) of segment (100, 200) sums to (111, 222).

    Token (5, 6) at (30, 40) of segment (300, 400) sums to (335, 446). The "norm" 10·x and then the
    "dropout" x + 1 give (1111, 2221) and (3351, 4461).
    """
    X = embedded(
        torch.tensor([[1, 0]]),
        torch.tensor([[0, 1]]),
        embedding=partial(lookup, E=tensor([[5, 6], [1, 2]])),
        **AS_IT_IS,
        embedding_scale=unscaled,
        cls=no_cls,
        position=lambda _: tensor([[10, 20], [30, 40]]),
        segment=partial(segments, E_seg=tensor([[100, 200], [300, 400]])),
        embedding_norm=partial(embedding_norm, norm_embedding=lambda X: 10 * X),
        dropout=lambda X: X + 1,
    )
    same(X, tensor([[[1111, 2221], [3351, 4461]]]))


@shows("EMB-10")
def test_berts_input_has_the_mean_of_beta() -> None:
    """The normed vector has mean 0 before γ and β; with γ = 1 its mean is that of β = (1, 2, 3, 6), which is 3."""
    encoder = Encoder(BERT, Dimensions(d_model=4, h=2, d_ff=3, N=1, V=5, max_len=7))
    parameters = random_parameters(encoder)
    parameters |= {"norm_embedding.gamma": tensor([1, 1, 1, 1]), "norm_embedding.beta": tensor([1, 2, 3, 6])}
    X = encoder.bind(parameters, slot="input")(torch.tensor([[4, 0, 4]]), torch.tensor([[0, 1, 1]]))
    close(X.mean(dim=-1), tensor([[3, 3, 3]]))


@shows("EMB-11", "EMB-12")
def test_without_segments_and_norm_the_sum_is_left_alone() -> None:
    """What goes in, (1, −2, 5), comes out."""
    X = tensor([[[1, -2, 5]]])
    same(no_segments(X), X)
    same(no_embedding_norm(X), X)


@shows("EMB-9")
def test_given_embeddings_enter_the_first_layer_unchanged() -> None:
    """One Pre-LN layer whose sublayers put out 0 is the identity: what comes out is what went in."""
    X = normal(4, 2, 3, 4)
    same(given(X), X.clone())
    silent = TORCH_POST_LN.replace(layer="pre-ln", multihead=lambda X, _: 0 * X, ffn=lambda X: 0 * X)
    encoder = Encoder(silent, Dimensions(d_model=4, h=2, N=1))
    same(encoder(random_parameters(encoder), X), X)
