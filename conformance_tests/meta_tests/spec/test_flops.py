"""FLOPs, activations and crossovers against counts by hand and torch's FLOP counter."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from encoder_spec.cost import activations, crossovers, customary, flops, flops_by_equation, number, symbol
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SpecificationError
from encoder_spec.primes import SIZES, letters_of
from encoder_spec.profiles import (
    BERT,
    PROFILES,
    TORCH_POST_LN,
    TORCH_PRE_LN,
    UNIVERSAL,
    VASWANI_2017,
    VIT,
    WAV2VEC2,
    Profile,
)

BARE = TORCH_POST_LN.replace(projections="linear", output="linear", ffn="linear")
B, n, N, h, d, d_k, d_v, d_ff = map(symbol, ("B", "n", "N", "h", "d_model", "d_k", "d_v", "d_ff"))


# FLOPs -----------------------------------------------------------------------------------


def counted(module: nn.Module, *inputs: Tensor, **options: bool) -> dict[str, int]:
    """The FLOPs of a module by kind of product, as torch's own counter sees them on the unfused path."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs, **options)
    return {str(kind).removeprefix("aten."): count for kind, count in counter.get_flop_counts()["Global"].items()}


@pytest.mark.parametrize(
    ("width", "heads", "inner", "layers", "length", "batch"),
    [(6, 2, 11, 1, 5, 3), (15, 5, 7, 3, 11, 2), (14, 1, 53, 2, 3, 7)],
)
@pytest.mark.parametrize("profile", [TORCH_POST_LN, TORCH_PRE_LN], ids=lambda profile: profile.name)
def test_flops_equal_those_of_the_flop_counter(
    profile: Profile, width: int, heads: int, inner: int, layers: int, length: int, batch: int
) -> None:
    """The judge counts the products that torch.nn.TransformerEncoder really executes."""
    layer = nn.TransformerEncoderLayer(width, heads, inner, 0.0, batch_first=True, norm_first=profile is TORCH_PRE_LN)
    stack = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    sizes = Dimensions(d_model=width, h=heads, d_ff=inner, N=layers)
    judged = counted(stack, torch.zeros(batch, length, width))
    assert number(flops(profile)["whole"], sizes, length, batch) == sum(judged.values())


def test_patches_cost_what_the_convolution_costs() -> None:
    """The judge counts a convolution with kernel = stride = p = 3 over 6·15 pixels: 2·5 patches, and n = 10 + 1."""
    sizes = Dimensions(d_model=7, h=1, channels=2, patch=3)
    judged = counted(nn.Conv2d(2, 7, kernel_size=3, stride=3), torch.zeros(5, 2, 6, 15))
    assert number(flops(VIT)["input"], sizes, 2 * 5 + 1, 5) == sum(judged.values())


def test_stages_of_a_waveform_cost_what_the_convolutions_cost() -> None:
    """The judge counts wav2vec 2.0's seven convolutions of the samples for n = 3 positions, and the map behind them."""
    sizes, n_positions, batch = Dimensions(d_model=6, h=1, channels=2), 3, 5
    channels = (1, *[2] * 7)
    stages = [
        nn.Conv1d(*channels[l : l + 2], k, s) for l, (k, s) in enumerate(zip(sizes.widths, sizes.strides, strict=True))
    ]
    judged = counted(nn.Sequential(*stages), torch.zeros(batch, 1, sizes.samples(n_positions)))
    mapped = counted(nn.Linear(2, 6), torch.zeros(batch, n_positions, 2))
    cost = flops(WAV2VEC2.replace(position="none"))["input"]
    assert number(cost, sizes, n_positions, batch) == sum(judged.values()) + sum(mapped.values())


def test_convolved_positions_cost_what_the_convolution_costs() -> None:
    """Each of B·n·d_model results takes K·d_c multiply-adds. The judge counts K = 5 and three groups of d_c = 2."""
    cost = flops(WAV2VEC2.replace(embedding="vectors"))["input"]
    assert cost == 2 * B * n * d * symbol("kernel") * symbol("d_group")
    judged = counted(nn.Conv1d(6, 6, 5, padding=2, groups=3), torch.zeros(7, 6, 11))
    assert number(cost, Dimensions(d_model=6, h=1, kernel=5, d_group=2), 11, 7) == sum(judged.values())


def test_flops_of_a_layer_are_those_derived_by_hand() -> None:
    """A product of (a × b) and (b × c) has a·c entries of b multiply-adds each: 2·a·b·c FLOPs.

    Q and K: B·n rows, d_model → h·d_k, twice; V: d_model → h·d_v. Scores: B·h products
    (n × d_k)(d_k × n). Values: B·h products (n × n)(n × d_v). Output: h·d_v → d_model.
    FFN: d_model → d_ff and back.
    """
    assert flops_by_equation(VASWANI_2017) == {
        "attention.projections_without_bias": 4 * B * n * d * h * d_k + 2 * B * n * d * h * d_v,
        "attention.scores": 2 * B * h * n**2 * d_k,
        "attention.output": 2 * B * h * n**2 * d_v,
        "multihead.output_without_bias": 2 * B * n * h * d_v * d,
        "ffn": 4 * B * n * d * d_ff,
    }


def test_parts_of_a_layer_add_up_to_its_flops() -> None:
    """Norms, residuals and softmax have no matrix products."""
    cost = flops(BERT)
    assert cost["attention"] + cost["FFN"] == cost["layer"]
    assert sum(flops_by_equation(BERT).values()) == cost["layer"]


def test_sharing_parameters_saves_no_flops() -> None:
    """One layer used N times computes N times."""
    assert flops(UNIVERSAL)["whole"] == flops(VASWANI_2017)["whole"]


@pytest.mark.parametrize(
    ("head", "cost"),
    [
        ("none", 0 * n),
        ("pooled", 0 * n),
        ("classifier", 2 * B * d * symbol("classes")),
        ("nsp", 2 * B * d**2 + 4 * B * d),
        ("mlm", 2 * B * n * d**2 + 2 * B * n * d * symbol("V")),
    ],
)
def test_heads_cost_their_maps(head: str, cost: object) -> None:
    """The classifiers read one position, B rows; the head for masked tokens all B·n rows. nsp has 2 classes."""
    assert flops(BERT.replace(head=head))["head"] == cost


def test_product_added_to_an_equation_is_seen() -> None:
    """A third map d_model → d_ff in the slot of the FFN costs 2·B·n·d_model·d_ff more."""
    linear = BARE["ffn"].function

    def gated(
        x: Tensor, *, activation: Callable[..., Tensor], dropout: Callable[..., Tensor], W_1: Tensor, W_2: Tensor
    ) -> Tensor:
        hidden = x @ W_1
        return linear(x * hidden.sum(), activation=activation, dropout=dropout, W_1=W_1, W_2=W_2)

    gated.__annotations__ = linear.__annotations__
    assert flops(BARE.replace(ffn=gated))["FFN"] == 6 * B * n * d * d_ff


def test_product_that_cannot_be_read_is_refused() -> None:
    """A count that leaves a product out would be wrong without a word."""

    def scores(Q: Tensor, K: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkc->bhqk", Q, K)

    with pytest.raises(SpecificationError, match="einsum"):
        flops(VASWANI_2017.replace(scores=scores))


def test_number_at_prime_sizes_reads_back_as_its_letters() -> None:
    """2·B·n·n·d_ff in, the same letters out; n + 1 is no product of sizes."""
    factor, letters = letters_of(2 * SIZES["B"] * SIZES["n"] ** 2 * SIZES["d_ff"])
    assert (factor, dict(letters)) == (2, {"B": 1, "n": 2, "d_ff": 1})
    with pytest.raises(SpecificationError, match="no product of sizes"):
        letters_of(SIZES["B"] * (SIZES["n"] + 1))


# Activations -----------------------------------------------------------------------------


def test_activations_are_those_counted_by_hand() -> None:
    """Arrays of one layer, for d_k = d_v = d_model/h.

    h·n² three times: scores, masked scores, weights. n·d_model eleven times: Q, K, V, the
    heads' outputs, their concatenation, the projection; residual sum and norm; FFN; residual
    sum and norm. n·d_ff once: the activation. n four times: μ and σ² of both norms. Heads
    are views of Q, K and V, and dropout without randomness is no array of its own.
    """
    cost = {part: customary(entries) for part, entries in activations(VASWANI_2017).items()}
    assert cost["attention"] == 3 * B * h * n**2 + 6 * B * n * d
    assert cost["FFN"] == B * n * d_ff + B * n * d
    assert cost["layer"] == 3 * B * h * n**2 + 11 * B * n * d + B * n * d_ff + 4 * B * n
    assert cost["all layers"] == (N * cost["layer"]).expand()


@pytest.mark.parametrize("name", PROFILES)
def test_memory_of_a_layer_is_quadratic_in_the_length_through_attention_alone(name: str) -> None:
    """O(n² + n·d): degree 2 in n, and what the FFN adds has degree 1."""
    cost = activations(PROFILES[name])
    assert cost["attention"].as_poly(n).degree() == 2
    assert cost["FFN"].as_poly(n).degree() == 1
    assert cost["layer"].coeff(n, 2) == cost["attention"].coeff(n, 2)


# Crossovers ------------------------------------------------------------------------------


def test_crossovers_are_those_solved_by_hand() -> None:
    """Per sequence attention spends 4·n²·d on scores and values, 8·n·d² on four maps, and the FFN 4·n·d·d_ff.

    4n²d < 8nd² iff n < 2d. 4n²d < 4nd·d_ff iff n < d_ff. 8nd² + 4n²d < 4nd·d_ff iff n < d_ff − 2d.
    """
    solved = [customary(bound) for bound in crossovers(VASWANI_2017).values()]
    assert solved == [2 * d, d_ff, d_ff - 2 * d]
    assert [number(bound, Dimensions()) for bound in solved] == [1024, 2048, 1024]


@pytest.mark.parametrize("length", range(29, 36))
def test_attention_is_cheaper_than_the_ffn_below_the_crossover(length: int) -> None:
    """The judge at d_model = 10, d_ff = 52: attention against FFN turns at 52 − 2·10 = 32."""
    attention, ffn = judged_parts(10, 52, length)
    bound = crossover_at("attention < FFN", 10, 52)
    assert (sum(attention.values()) < sum(ffn.values())) == (length < bound)


@pytest.mark.parametrize("length", range(17, 24))
def test_quadratic_part_is_cheaper_than_the_projections_below_the_crossover(length: int) -> None:
    """The judge's batched products are QKᵀ and AV, the others the projections: they turn at 2·10 = 20."""
    attention, _ = judged_parts(10, 52, length)
    quadratic = attention.pop("bmm")
    bound = crossover_at("n² part of attention < rest of attention", 10, 52)
    assert (quadratic < sum(attention.values())) == (length < bound)


@pytest.mark.parametrize("length", range(49, 56))
def test_quadratic_part_is_cheaper_than_the_ffn_below_the_crossover(length: int) -> None:
    """The judge's batched products against its FFN: they turn at d_ff = 52."""
    attention, ffn = judged_parts(10, 52, length)
    bound = crossover_at("n² part of attention < FFN", 10, 52)
    assert (attention["bmm"] < sum(ffn.values())) == (length < bound)


def judged_parts(width: int, inner: int, length: int) -> tuple[dict[str, int], dict[str, int]]:
    """What torch's counter sees in torch's attention and in a feed-forward network."""
    x = torch.zeros(3, length, width)
    attention = nn.MultiheadAttention(width, 2, batch_first=True)
    ffn = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
    return counted(attention, x, x, x, need_weights=False), counted(ffn, x)


def crossover_at(claim: str, width: int, inner: int) -> int | float:
    """The length below which the claim holds for two heads."""
    return number(crossovers(TORCH_POST_LN)[claim], Dimensions(d_model=width, h=2, d_ff=inner))


def test_layer_without_quadratic_part_has_no_crossover() -> None:
    """Where attention does nothing both costs are linear in n, and no length decides between them."""

    def values(_A: Tensor, V: Tensor) -> Tensor:
        return V

    def scores(Q: Tensor, K: Tensor) -> Tensor:
        return (Q * K).sum(dim=-1, keepdim=True).expand(*Q.shape[:-1], Q.shape[-2])

    assert crossovers(VASWANI_2017.replace(scores=scores, values=values)) == {}
