"""The two orders of sublayer, sum and norm, by hand and against torch."""

import math
from typing import Any

import torch

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import (
    EVERYTHING,
    KEEP,
    close,
    layer_in_torchs_names,
    normal,
    random_parameters,
    same,
    tensor,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.layer import parallel, parallel_two_norms, post_ln, pre_ln, pre_ln_bare, res_post_ln, sandwich_ln
from encoder_spec.profiles import TORCH_POST_LN, TORCH_PRE_LN
from encoder_spec.residual import residual

SIZES = Dimensions(d_model=21, h=3, d_ff=11, N=1)


def agree_with_torch(layer: str) -> None:
    """Compare output and every gradient of a layer with those of torch's, with padding."""
    encoder = Encoder(TORCH_POST_LN.replace(layer=layer), SIZES)
    p = {path: a.requires_grad_() for path, a in random_parameters(encoder).items()}
    theirs = torch.nn.TransformerEncoderLayer(
        21, 3, 11, dropout=0.0, batch_first=True, norm_first=layer == "pre-ln", dtype=torch.float64
    )
    theirs.load_state_dict(layer_in_torchs_names(p, "layers.0."))
    x, weight = normal(90, 2, 5, 21).requires_grad_(), normal(91, 2, 5, 21)
    ours, expected = encoder(p, x, keep=KEEP), theirs(x, src_key_padding_mask=~KEEP)
    close(ours, expected)
    values = list(theirs.parameters())
    found = dict(zip(p, torch.autograd.grad((weight * ours).sum(), list(p.values()), retain_graph=True), strict=True))
    wanted = torch.autograd.grad((weight * expected).sum(), values, retain_graph=True)
    names = [name for name, _ in theirs.named_parameters()]
    # The key bias cancels: its gradient is rounding in both.
    close(layer_in_torchs_names(found, "layers.0."), dict(zip(names, wanted, strict=True)), rtol=1e-11, atol=1e-11)
    inputs = [torch.autograd.grad((weight * y).sum(), x)[0] for y in (ours, expected)]
    close(inputs[0], inputs[1])


BY_HAND: dict[str, Any] = {
    "multihead": lambda x, _: 2 * x,
    "ffn": lambda x: 3 * x,
    "norm_1": lambda x: x + 1,
    "norm_2": lambda x: 10 * x,
    "residual_1": residual,
    "residual_2": residual,
    "dropout": lambda x: x - 1,
}


@shows("LAYER-1")
def test_a_post_ln_layer_norms_each_sum() -> None:
    """With MHA 2x, FFN 3x, dropout x − 1, norm_1 x + 1 and norm_2 10x, from x = 1.

    MHA 2, dropout 1, sum 1 + 1 = 2, norm_1 3; FFN 9, dropout 8, sum 3 + 8 = 11, norm_2 110.
    """
    same(post_ln(tensor([[[1]]]), EVERYTHING, **BY_HAND), tensor([[[110]]]))


@shows("LAYER-4")
def test_a_pre_ln_layer_norms_what_each_sublayer_reads() -> None:
    """With the same parts, from x = 1.

    norm_1 2, MHA 4, dropout 3, sum 1 + 3 = 4; norm_2 40, FFN 120, dropout 119, sum 4 + 119 = 123: neither
    sum is normed.
    """
    same(pre_ln(tensor([[[1]]]), EVERYTHING, **BY_HAND), tensor([[[123]]]))


@shows("LAYER-5")
def test_a_layer_behind_a_norm_reads_its_input_as_it_is() -> None:
    """With the same parts but the first norm, from x = 1.

    MHA 2, dropout 1, sum 1 + 1 = 2; norm_2 20, FFN 60, dropout 59, sum 2 + 59 = 61.
    """
    parts = {name: part for name, part in BY_HAND.items() if name != "norm_1"}
    same(pre_ln_bare(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[61]]]))


@shows("LAYER-6")
def test_a_layer_with_normed_results_norms_what_it_adds() -> None:
    """With the same parts, from x = 1.

    MHA 2, norm_1 3, dropout 2, sum 1 + 2 = 3; FFN 9, norm_2 90, dropout 89, sum 3 + 89 = 92.
    """
    same(res_post_ln(tensor([[[1]]]), EVERYTHING, **BY_HAND), tensor([[[92]]]))


@shows("LAYER-7")
def test_a_sandwich_norms_what_it_reads_and_what_it_adds() -> None:
    """With the same parts, a norm x + 5 of what the attention gives and 7x of what the network gives, from x = 1.

    norm_1 2, MHA 4, its norm 9, dropout 8, sum 1 + 8 = 9; norm_2 90, FFN 270, its norm 1890, dropout 1889,
    sum 9 + 1889 = 1898.
    """
    parts = BY_HAND | {"norm_attention": lambda x: x + 5, "norm_ffn": lambda x: 7 * x}
    same(sandwich_ln(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[1898]]]))


@shows("LAYER-8")
def test_parallel_sublayers_read_one_normed_input() -> None:
    """With the same parts but the second norm, from x = 1.

    norm_1 2; MHA 4, dropout 3; FFN 6, dropout 5; 1 + 3 + 5 = 9.
    """
    parts = {name: part for name, part in BY_HAND.items() if name != "norm_2"}
    same(parallel(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[9]]]))


@shows("LAYER-9")
def test_parallel_sublayers_may_have_a_norm_each() -> None:
    """With the same parts, from x = 1.

    norm_1 2, MHA 4, dropout 3; norm_2 10, FFN 30, dropout 29; 1 + 3 + 29 = 33.
    """
    same(parallel_two_norms(tensor([[[1]]]), EVERYTHING, **BY_HAND), tensor([[[33]]]))


@shows("LAYER-5")
def test_one_layer_may_be_another_one_than_the_others() -> None:
    """It alone has no first norm; the choices of the encoder name it."""
    encoder = Encoder(TORCH_PRE_LN.replace(**{"layers.0": "pre-ln-bare"}), SIZES)
    with_first_norm = {path.split(".")[1] for path in encoder.parameter_shapes() if ".norm_1." in path}
    assert with_first_norm == {str(l) for l in range(1, SIZES.N)}
    assert encoder.choices()["layers.0"] == "pre-ln-bare"
    assert encoder.choices()["layer"] == "pre-ln"
    used = [place.equation.id for place in encoder.places() if place.equation.slot == "layer"]
    assert used == ["layer.pre_ln_bare", *["layer.pre_ln"] * (SIZES.N - 1)]


@shows("LAYER-8", "LAYER-9")
def test_each_sum_of_parallel_sublayers_has_its_residual() -> None:
    """With the "sums" x + 100 y and then x + 10000 y of the same parts, from x = 1.

    One norm: 1 + 100 · 3 = 301, 301 + 10000 · 5 = 50301. Two: 301 + 10000 · 29 = 290301.
    """
    parts = BY_HAND | {"residual_1": lambda x, y: x + 100 * y, "residual_2": lambda x, y: x + 10000 * y}
    same(parallel_two_norms(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[290301]]]))
    del parts["norm_2"]
    same(parallel(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[50301]]]))


@shows("LAYER-6", "LAYER-7")
def test_each_sum_of_normed_results_has_its_residual() -> None:
    """With the "sums" x + 100 y and then x + 10000 y of the same parts, from x = 1.

    Normed results: 1 + 100 · 2 = 201; FFN 603, norm_2 6030, dropout 6029, 201 + 60290000 = 60290201.
    A sandwich: 1 + 100 · 8 = 801; norm_2 8010, FFN 24030, its norm 168210, dropout 168209,
    801 + 1682090000 = 1682090801.
    """
    parts = BY_HAND | {"residual_1": lambda x, y: x + 100 * y, "residual_2": lambda x, y: x + 10000 * y}
    same(res_post_ln(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[60290201]]]))
    parts |= {"norm_attention": lambda x: x + 5, "norm_ffn": lambda x: 7 * x}
    same(sandwich_ln(tensor([[[1]]]), EVERYTHING, **parts), tensor([[[1682090801]]]))


@shows("LAYER-1", "LAYER-4")
def test_the_input_and_the_sublayers_output_are_told_apart() -> None:
    """With the "sum" x + 100 y of the same parts, from x = 2, since a sum does not tell which of them is which.

    Post-LN: MHA 4, dropout 3, sum 2 + 300 = 302, norm_1 303; FFN 909, dropout 908, sum 303 + 90800 = 91103,
    norm_2 911030. Pre-LN: norm_1 3, MHA 6, dropout 5, sum 2 + 500 = 502; norm_2 5020, FFN 15060, dropout 15059,
    sum 502 + 1505900 = 1506402.
    """
    parts = BY_HAND | {f"residual_{i}": lambda x, y: x + 100 * y for i in (1, 2)}
    same(post_ln(tensor([[[2]]]), EVERYTHING, **parts), tensor([[[911030]]]))
    same(pre_ln(tensor([[[2]]]), EVERYTHING, **parts), tensor([[[1506402]]]))


@shows("LAYER-1")
def test_the_output_of_a_post_ln_layer_is_normed() -> None:
    """With γ = 1, β = (1, 2, …, 21) and ε = 0 its mean is 11 and its deviation from β has the variance 1."""
    encoder = Encoder(TORCH_POST_LN.replace(eps=0.0), SIZES)
    beta = torch.arange(1, 22, dtype=torch.float64)
    p = random_parameters(encoder) | {"layers.0.norm_2.gamma": torch.ones_like(beta), "layers.0.norm_2.beta": beta}
    y = encoder(p, normal(1, 2, 5, 21))
    close(y.mean(dim=-1), torch.full((2, 5), 11, dtype=torch.float64))
    close((y - beta).square().mean(dim=-1), torch.ones(2, 5, dtype=torch.float64))


@shows("LAYER-4")
def test_a_pre_ln_layer_carries_an_offset_through() -> None:
    """Norms hide a constant from the sublayers, the residual path keeps it: layer(x + c) = layer(x) + c."""
    encoder = Encoder(TORCH_PRE_LN.replace(final_norm="none"), SIZES)
    p, x = random_parameters(encoder), normal(2, 2, 5, 21)
    close(encoder(p, x + 8), encoder(p, x) + 8)


@shows("LAYER-1")
def test_a_post_ln_layer_equals_that_of_torch() -> None:
    """Another implementation, its gradients included; see ``agree_with_torch``."""
    agree_with_torch("post-ln")


@shows("LAYER-4")
def test_a_pre_ln_layer_equals_that_of_torch() -> None:
    """Another implementation, its gradients included; see ``agree_with_torch``."""
    agree_with_torch("pre-ln")


@shows("LAYER-2")
def test_length_and_width_stay() -> None:
    """(B, n, 21) in, (B, n, 21) out, for any batch and length, though d_ff = 11 and h d_v = 15."""
    for layer in ("post-ln", "pre-ln"):
        encoder = Encoder(TORCH_POST_LN.replace(layer=layer), Dimensions(d_model=21, h=3, d_ff=11, N=1, d_v=5))
        p = random_parameters(encoder)
        for B, n in [(1, 1), (2, 1), (1, 3), (5, 7)]:
            assert encoder(p, normal(3, B, n, 21)).shape == (B, n, 21), f"{layer}, B = {B}, n = {n}"


@shows("LAYER-3")
def test_a_layer_has_the_counted_parameters() -> None:
    """With d = 512, d_ff = 2048: 4 · 262144 + 2 · 1048576 = 3145728 weights; 9 · 512 + 2048 = 6656 more: 3152384.

    torch's own layer of these sizes has as many; so has one with any other number of heads.
    """
    theirs = torch.nn.TransformerEncoderLayer(512, 8, 2048, device="meta")
    assert sum(p.numel() for p in theirs.parameters()) == 3_152_384
    for h in (1, 8, 64):
        shapes = Encoder(TORCH_POST_LN, Dimensions(N=1, h=h)).parameter_shapes().values()
        matrices = sum(math.prod(shape) for shape in shapes if len(shape) == 2)
        vectors = sum(math.prod(shape) for shape in shapes if len(shape) == 1)
        assert (matrices, vectors) == (3_145_728, 6_656), f"h = {h}: {matrices} + {vectors}"
