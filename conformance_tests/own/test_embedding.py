"""How tokens and patches become vectors, by hand."""

from functools import partial

import torch

from conformance_tests.checks import shows
from conformance_tests.own.values import close, normal, random_parameters, refused, same, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.embedding import (
    cls,
    embedded,
    embedding_norm,
    given,
    lookup,
    no_cls,
    no_embedding_norm,
    no_segments,
    patches,
    patches_without_bias,
    scale,
    segments,
    unscaled,
)
from encoder_spec.profiles import BERT, TORCH_POST_LN, VASWANI_2017, VIT


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
    X = patches(image, patch=2, W_patch=tensor([[1], [10], [100], [1000]]), b_patch=tensor([0.5]))
    close(X, tensor([[[6521.5], [8743.5]]]))


@shows("EMB-4")
def test_patches_equal_a_strided_convolution() -> None:
    """A convolution whose stride is the side of its kernel sees each patch once."""
    images, kernel, b = normal(0, 2, 3, 10, 15), normal(1, 7, 3, 5, 5), normal(2, 7)
    X = patches(images, patch=5, W_patch=kernel.flatten(1).mT, b_patch=b)
    close(X, torch.nn.functional.conv2d(images, kernel, b, stride=5).flatten(2).mT)
    with refused(match="side 5 do not tile an image of 10 × 14"):
        patches(images[..., :14], patch=5, W_patch=kernel.flatten(1).mT, b_patch=b)


@shows("EMB-13")
def test_patches_without_bias_are_maps_alone() -> None:
    """A 2 × 2 image of one channel is one patch (1, 2, 3, 4) of side 2; W = (1, 10, 100, 1000)ᵀ gives 4321."""
    image = tensor([[[[1, 2], [3, 4]]]])
    same(patches_without_bias(image, patch=2, W_patch=tensor([[1], [10], [100], [1000]])), tensor([[[4321]]]))


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


@shows("EMB-7")
def test_the_input_is_the_sum_of_embedding_and_position() -> None:
    """Embed (1), (2); scale by 10: (10), (20); class token 5 first: (5), (10), (20).

    Positions 0.1, 0.2, 0.3, one for each place, the class token's too: 5.1, 10.2, 20.3. Dropout, here the
    negative, sees the sum.
    """
    X = embedded(
        torch.tensor([[0, 1], [1, 1]]),
        embedding=partial(lookup, E=tensor([[1], [2]])),
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
