"""The stack: against torch, in its gradients, and in what changes nothing."""

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from conformance_tests.harness.checks import shows
from conformance_tests.meta_tests.spec.values import (
    EVERYTHING,
    KEEP,
    agree_with_differences,
    close,
    layer_in_torchs_names,
    normal,
    random_parameters,
    refused,
    same,
    tensor,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.encoder import checkpointed, encoder, final_norm, no_final_norm, shared, shared_bias, unshared
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES, TORCH_POST_LN, TORCH_PRE_LN, VASWANI_2017

SIZES = Dimensions(d_model=6, h=3, d_ff=11, N=2, V=13, max_len=17)
POST, PRE = Encoder(TORCH_POST_LN, SIZES), Encoder(TORCH_PRE_LN, SIZES)
SMOOTH = Encoder(TORCH_PRE_LN.replace(activation="gelu"), SIZES)


def module(subject: Encoder) -> EncoderModule:
    """Make a module with random parameters, in evaluation."""
    made = EncoderModule(subject, dtype=torch.float64).eval()
    made.load(random_parameters(subject))
    return made


@shows("ENC-2", "ENC-12")
def test_the_stack_composes_input_layers_norm_and_head() -> None:
    """Input x + 1, layers 2x and x + 3, norm 10x, head −x, on x = 1: 2, 4, 7, 70, −70. Layers swapped: −100."""
    layers: list[Callable[..., Tensor]] = [lambda x, _: 2 * x, lambda x, _: x + 3]
    for stack in (encoder, checkpointed):
        around = partial(stack, input=lambda x: x + 1, final_norm=lambda x: 10 * x, head=lambda Z, _: -Z)
        same(around(EVERYTHING, tensor([[[1]]]), layers=layers), tensor([[[-70]]]))


@shows("ENC-1")
def test_the_output_has_shape_and_dtype_of_the_input() -> None:
    """Sizes all different, and one of each; a stack on given embeddings keeps both."""
    for dtype in (torch.float32, torch.float64):
        p = {path: a.to(dtype) for path, a in random_parameters(POST).items()}
        for shape in [(2, 5, 6), (1, 1, 6), (7, 1, 6), (1, 3, 6)]:
            y = POST(p, normal(0, *shape).to(dtype))
            assert (y.shape, y.dtype) == (shape, dtype), (y.shape, y.dtype)


@shows("ENC-2", "ENC-3", "ENC-13", "ENC-14")
def test_the_stack_equals_that_of_torch_with_and_without_padding() -> None:
    """Another implementation: two layers, Post-LN without and Pre-LN with a final norm of its own."""
    x = normal(1, 2, 5, 6)
    for ours in (POST, PRE):
        p = random_parameters(ours)
        pre = ours is PRE
        layer = torch.nn.TransformerEncoderLayer(6, 3, 11, 0.0, batch_first=True, norm_first=pre, dtype=x.dtype)
        norm = torch.nn.LayerNorm(6, dtype=x.dtype) if pre else None
        theirs = torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
        for l, layer in enumerate(theirs.layers):
            layer.load_state_dict(layer_in_torchs_names(p, f"layers.{l}."))
        if norm is not None:
            norm.load_state_dict({"weight": p["norm_final.gamma"], "bias": p["norm_final.beta"]})
        close(ours(p, x), theirs(x))
        close(ours(p, x, keep=KEEP)[KEEP], theirs(x, src_key_padding_mask=~KEEP)[KEEP])


@shows("ENC-4")
def test_the_gradient_mode_does_not_change_the_output() -> None:
    """The same tensors through the same sums: equal in every bit."""
    subject, x = module(POST), normal(2, 2, 5, 6)
    y = subject(x.requires_grad_(), keep=KEEP)
    assert y.requires_grad
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            same(subject(x, keep=KEEP), y.detach())


@shows("ENC-18")
def test_large_inputs_equal_those_of_torch() -> None:
    """Another implementation, on 257 positions and on 67 sequences."""
    p = random_parameters(POST)
    layer = torch.nn.TransformerEncoderLayer(6, 3, 11, 0.0, batch_first=True, dtype=torch.float64)
    theirs = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for l, layer in enumerate(theirs.layers):
        layer.load_state_dict(layer_in_torchs_names(p, f"layers.{l}."))
    for shape in ((2, 257, 6), (67, 5, 6)):
        x = normal(1, *shape)
        close(POST(p, x), theirs(x))


@shows("ENC-19")
def test_lower_precision_rounds_and_changes_nothing_else() -> None:
    """Its numbers of order 1 end within some roundings of float64: 1.2e-7 in float32, 7.8e-3 in bfloat16."""
    for dtype, rounding in ((torch.float32, 2.0**-23), (torch.bfloat16, 2.0**-7)):
        p = {path: a.to(dtype) for path, a in random_parameters(POST).items()}
        x = normal(2, 2, 5, 6).to(dtype)
        exact = POST({path: a.double() for path, a in p.items()}, x.double())
        error = float((POST(p, x).double() - exact).abs().max())
        assert 0 < error < 20 * rounding, (dtype, error)


@shows("ENC-5")
def test_samples_of_a_batch_are_independent() -> None:
    """Each of three alone, with its own mask, and cut to its valid tokens where they stand in front."""
    subject, x = module(POST), normal(3, 3, 5, 6)
    keep = torch.cat([KEEP, torch.tensor([[True, True, False, False, False]])])
    y = subject(x, keep=keep)
    for b in range(3):
        close(subject(x[b : b + 1], keep=keep[b : b + 1]), y[b : b + 1])
    close(subject(x[2:, :2]), y[2:, :2])


@shows("ENC-6")
def test_the_callers_input_and_mask_stay() -> None:
    """Forward and backward, in training and in evaluation."""
    for training in (False, True):
        x, keep = normal(4, 2, 5, 6).requires_grad_(), KEEP.clone()
        module(POST).train(training)(x, keep=keep).sum().backward()
        same((x.detach(), keep), (normal(4, 2, 5, 6), KEEP))


@shows("ENC-7")
def test_memory_layout_is_irrelevant() -> None:
    """The same numbers with transposed batch and position, reversed axes, or gaps between the features."""
    subject, x = module(POST), normal(5, 2, 5, 6)
    y = subject(x, keep=KEEP)
    swapped, reversed = (x.permute(axes).contiguous().permute(axes) for axes in ((1, 0, 2), (2, 1, 0)))
    for layout in (swapped, reversed, torch.stack([x, 0 * x], dim=-1)[..., 0]):
        assert not layout.is_contiguous()
        close(subject(layout, keep=KEEP.mT.contiguous().mT), y)


@shows("ENC-8")
def test_every_parameter_but_the_key_bias_influences_the_output() -> None:
    """As q · (k + b) = q · k + q · b, it shifts a whole row of scores, which the softmax ignores (ATT-8)."""
    x = normal(7, 2, 5, 6)
    for subject in (POST, PRE):
        p = random_parameters(subject)
        y = subject(p, x)
        for path in p:
            change = (subject(p | {path: p[path] + normal(8, *p[path].shape)}, x) - y).abs().max()
            assert (change < 1e-12) if path.endswith("b_K") else (change > 1e-3), f"{path}: {change:.1e}"


@shows("ENC-9")
def test_the_gradient_of_the_input_equals_central_differences() -> None:
    """With padding; a padded key passes no gradient from other positions."""
    p, weight = random_parameters(SMOOTH), normal(9, 2, 5, 6)
    valid = KEEP[..., None]
    agree_with_differences(lambda x: (weight * valid * SMOOTH(p, x, keep=KEEP)).sum(), normal(10, 2, 5, 6))


@shows("ENC-10")
def test_gradients_of_the_parameters_equal_central_differences() -> None:
    """All of the first layer's, which the gradient reaches through the second, and of the final norm."""
    p, weight, x = random_parameters(SMOOTH), normal(11, 1, 2, 6), normal(12, 1, 2, 6)
    for path in [path for path in p if not path.startswith("layers.1")]:
        agree_with_differences(
            lambda a: (weight * SMOOTH(p | {path: a}, x)).sum(),  # noqa: B023 (called in this turn of the loop)
            p[path].clone(),
        )


@shows("ENC-11")
def test_an_appended_token_changes_every_earlier_output() -> None:
    """Its key enters every row of weights, so every output of the first layer changes.

    The first layer's keys and values are maps of their own token and stay; those of the second rest on
    outputs that have changed, so a cache of them is stale.
    """
    p, x = random_parameters(POST), normal(13, 1, 5, 6)
    before, after = POST.trace(p, x[:, :4]), POST.trace(p, x)
    assert (after[-1].value[:, :4] - before[-1].value).abs().amax(dim=-1).min() > 1e-3, "an output is unchanged"
    for which, name in [(1, "keys"), (2, "values")]:
        old, new = ([qkv[which] for qkv in t.of("attention.projections")] for t in (before, after))
        close(new[0][:, :4], old[0])
        assert (new[1][:, :4] - old[1]).abs().amax(dim=-1).min() > 1e-3, f"{name} of the second layer are unchanged"


@shows("ENC-12")
def test_checkpointing_keeps_less_and_changes_nothing() -> None:
    """Output and gradients are equal in every bit, dropout included; of N layers only the inputs are kept.

    Kept without it are at least the weights, N h n² · 8 bytes; with it N n d · 8 bytes of inputs.
    """
    results, kept = [], []
    for stack in ("plain", "checkpointed"):
        subject = module(Encoder(TORCH_POST_LN.replace(stack=stack), SIZES.replace(N=3))).train()
        x = normal(14, 1, 41, 6).requires_grad_()
        held: dict[int, int] = {}

        def pack(saved: Tensor, held: dict[int, int] = held) -> Tensor:
            held[saved.untyped_storage().data_ptr()] = saved.untyped_storage().nbytes()
            return saved

        torch.manual_seed(0)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            y = subject(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *subject.parameters()])])
        kept.append(sum(held.values()))
    same(results[1], results[0])
    assert kept[0] > 3 * 3 * 41**2 * 8, kept
    assert 0 < kept[1] < 2 * 3 * 41 * 6 * 8, kept


@shows("ENC-13", "ENC-14")
def test_a_final_norm_has_parameters_of_its_own() -> None:
    """With the norm 10x, (1, 2) becomes (10, 20); without, it stays. Only the former adds γ and β, in no layer."""
    same(final_norm(tensor([[[1, 2]]]), norm_final=lambda X: 10 * X), tensor([[[10, 20]]]))
    same(no_final_norm(tensor([[[1, 2]]])), tensor([[[1, 2]]]))
    assert PRE.parameter_shapes().keys() - POST.parameter_shapes().keys() == {"norm_final.gamma", "norm_final.beta"}


@shows("ENC-17")
def test_the_parameters_are_those_that_the_equations_declare() -> None:
    """One layer with h d_v = 15: maps, biases, norms, and E of 13 rows; a turned array is refused."""
    declared: dict[str, tuple[int, ...]]
    declared = {"W_Q": (6, 6), "W_K": (6, 6), "W_V": (6, 15), "W_O": (15, 6), "W_1": (6, 11), "W_2": (11, 6)}
    declared |= {"b_1": (11,), "b_2": (6,)} | {f"norm_{i}.{a}": (6,) for i in (1, 2) for a in ("gamma", "beta")}
    subject = Encoder(VASWANI_2017, Dimensions(d_model=6, h=3, d_v=5, d_ff=11, N=1, V=13))
    p, tokens = dict(EncoderModule(subject).named_parameters()), torch.tensor([[3, 1, 4]])
    expected = {"E": (13, 6)} | {f"layers.0.{name}": shape for name, shape in declared.items()}
    assert {path: tuple(a.shape) for path, a in p.items()} == expected
    with refused(match=r"layers.0.W_O has shape \(6, 15\), but the specification needs \(15, 6\)"):
        subject(p | {"layers.0.W_O": p["layers.0.W_O"].mT}, tokens)


@shows("ENC-15", "ENC-16")
def test_shared_layers_have_as_many_parameters_for_every_depth() -> None:
    """With d = 6 and d_ff = 11, without biases: 4 · 36 + 2 · 66 + 11 + 6 + 24 = 317 a layer, and 13 · 6 = 78 in E.

    N = 1, 2, 5: 395, 712, 1663 without sharing, 395 always with it.
    """
    same(tensor([unshared(l, "W_1") for l in range(5)]), tensor([0, 1, 2, 3, 4]))
    same(tensor([shared(l, "W_1") for l in range(5)]), tensor([0, 0, 0, 0, 0]))
    for sharing, counts in [("none", [395, 712, 1663]), ("all", [395, 395, 395])]:
        profile = VASWANI_2017.replace(sharing=sharing)
        modules = [EncoderModule(Encoder(profile, SIZES.replace(N=N))) for N in (1, 2, 5)]
        assert [sum(a.numel() for a in m.parameters()) for m in modules] == counts, sharing


@shows("ENC-20")
def test_one_table_of_distances_serves_all_layers() -> None:
    """R is that of layer 0, and so are D and its norm; W_1 and all else are the layer's own."""
    for name in ("R", "D", "norm_D.gamma"):
        assert [shared_bias(l, name) for l in range(3)] == [0, 0, 0]
    assert [shared_bias(l, "norm_1.gamma") for l in range(3)] == [0, 1, 2]
    assert [shared_bias(l, "W_1") for l in range(3)] == [0, 1, 2]
    profile = TORCH_PRE_LN.replace(bias="bucketed", sharing="bias")
    shapes = Encoder(profile, SIZES.replace(buckets=8)).parameter_shapes()
    assert [path for path in shapes if path.endswith(".R")] == ["layers.0.R"]
    assert {"layers.0.W_1", "layers.1.W_1"} <= shapes.keys()


@shows("ENC-16")
def test_shared_layers_equal_copies_with_summed_gradients() -> None:
    """The same parameters thrice compute the same; each copy's gradient is a summand of the shared one."""
    universal, copies = (Encoder(profile, SIZES.replace(N=3)) for profile in (PROFILES["universal"], VASWANI_2017))
    p = {path: a.requires_grad_() for path, a in random_parameters(universal).items()}
    original = {path: re.sub(r"layers\.\d", "layers.0", path) for path in copies.parameter_shapes()}
    copied = {path: p[source].detach().clone().requires_grad_() for path, source in original.items()}
    ours, theirs = (f(a, torch.tensor([[2, 7, 1, 8, 2]])) for f, a in ((universal, p), (copies, copied)))
    same(ours, theirs)
    gradient = dict(zip(p, torch.autograd.grad(ours.pow(3).sum(), list(p.values())), strict=True))
    summands = dict(zip(copied, torch.autograd.grad(theirs.pow(3).sum(), list(copied.values())), strict=True))
    for name in [path for path in p if path.startswith("layers.0.")]:
        close(gradient[name], sum(summands[name.replace("0", str(l), 1)] for l in range(3)), rtol=1e-10, atol=1e-10)
