"""Errata on parameters and operations: counts follow from the declared shapes alone."""

from collections.abc import Callable
from math import prod

import sympy
from jaxtyping import Float
from torch import Tensor

from encoder_spec.assembly import Encoder
from encoder_spec.cost import customary, flops_by_equation, symbol
from encoder_spec.dimensions import Dimensions
from encoder_spec.errata.erratum import Finding, Findings, entries, erratum
from encoder_spec.profiles import TORCH_POST_LN, VASWANI_2017

BASE = Encoder(VASWANI_2017, Dimensions())
WITH_BIASES = Encoder(TORCH_POST_LN, Dimensions())


def ffn_with_wide_b_2(
    x: Tensor,
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_ff"],
) -> Tensor:
    """The only FFN with S0's total: its second bias is as wide as the first, and cannot be added."""
    return dropout(activation(x @ W_1 + b_1)) @ W_2 + b_2


@erratum(
    "ERR-1",
    "The parameters of the FFN",
    source="S0 §5",
    said="With d_model = 512 and d_ff = 2048, W₁, b₁, W₂ and b₂ have about 2,101,248 entries.",
    right="By the shapes given there they have 2·512·2048 + 2048 + 512 = 2,099,712. "
    "The total of S0 counts d_ff entries for b₂, which has d_model.",
    equations=("ffn",),
)
def ffn_parameters() -> Findings:
    """Count the entries of both."""
    wrong = BASE.replace(ffn=ffn_with_wide_b_2)
    return (
        Finding("entries of the FFN", entries(wrong, "ffn"), entries(BASE, "ffn")),
        Finding("entries of b₂", *(prod(e.parameter_shapes()["layers.0.b_2"]) for e in (wrong, BASE))),
    )


n, d = symbol("n"), symbol("d_model")


def flops_of(*starts: str) -> sympy.Expr:
    """FLOPs of one sequence in the base model's layer, with d_ff = 4·d_model, by equations whose ids start so."""
    spent = [cost for id, cost in flops_by_equation(VASWANI_2017).items() if id.startswith(starts)]
    return customary(sympy.Add(*spent)).subs({symbol("B"): 1, symbol("d_ff"): 4 * d})


def crossover(left: sympy.Expr, right: sympy.Expr) -> int:
    """The length, at d_model = 512, below which ``left`` costs less than ``right``."""
    (length,) = sympy.solve(sympy.Eq(left, right), n)
    return int(length.subs(d, BASE.dimensions.d_model))


@erratum(
    "ERR-2",
    "The length up to which attention is cheaper",
    source="S0 §10",
    said="Self-attention is more efficient (than the FFN, which is the comparison made there) when n < d_model.",
    right="Attention with its projections costs less than the FFN for n < 2·d_model; its quadratic part alone costs "
    "less than its projections for n < 2·d_model, and less than the FFN for n < 4·d_model (d_ff = 4·d_model). "
    "n < d_model is where n²·d < n·d²: the comparison with a recurrent layer in Vaswani et al. 2017, table 1.",
    equations=("attention", "multihead", "ffn"),
)
def crossovers() -> Findings:
    """Solve each comparison for n; S0's bound is the solution of the comparison with recurrence."""
    recurrent = crossover(n**2 * d, n * d**2)
    quadratic, linear = flops_of("attention.scores", "attention.output"), flops_of("attention.proj", "multihead")
    network = flops_of("ffn")
    return (
        Finding("n below which attention costs less than the FFN", recurrent, crossover(quadratic + linear, network)),
        Finding("n below which its quadratic part costs less than the FFN", recurrent, crossover(quadratic, network)),
        Finding("n below which that costs less than its projections", recurrent, crossover(quadratic, linear)),
    )


@erratum(
    "ERR-10",
    "Biases left out of the counts",
    source="S0 §3, S3 §2, S3 §4, S3 §6",
    said="S3: the FFN has 2,097,152 parameters and a layer 3,147,776, although formula and code there have b₁ and b₂. "
    "S0 and S3: multi-head attention has 1,048,576.",
    right="With biases the FFN has 2,099,712, attention 1,050,624 and the layer 3,152,384. "
    "Attention without biases, as S0 writes it, is a variant; the code of S1, S2 and S3 has them.",
    equations=("ffn", "ffn.without_bias", "multihead.output", "attention.projections"),
)
def biases() -> Findings:
    """Count each part with the equations without biases and with those that have them."""
    without = WITH_BIASES.replace(projections="linear", output="linear", ffn="linear")
    return tuple(
        Finding(f"entries of {part}", entries(without, slot), entries(WITH_BIASES, slot))
        for part, slot in (("the FFN", "ffn"), ("attention", "multihead"), ("one layer", "layer"))
    )


@erratum(
    "ERR-14",
    "The cost of the projections",
    source="S0 §10",
    said="Self-attention costs O(n²·d_model).",
    right="It costs O(n²·d_model + n·d_model²): the four projections take 8·n·d_model² FLOPs, scores and weighted "
    "values 4·n²·d_model. For n < 2·d_model the part that S0 leaves out is the larger one.",
    equations=("attention.projections", "multihead.output", "multihead"),
)
def projections() -> Findings:
    """FLOPs at n = 64 and their growth when n doubles, in the base model."""

    def at(cost: sympy.Expr, length: int) -> int:
        return int(cost.subs({n: length, d: BASE.dimensions.d_model}))

    said, right = flops_of("attention.scores", "attention.output"), flops_of("attention", "multihead")
    return (
        Finding("FLOPs at n = 64", at(said, 64), at(right, 64)),
        Finding("growth from n = 64 to n = 128", at(said, 128) / at(said, 64), at(right, 128) / at(right, 64)),
    )


def direct_map(x: Tensor, *, W: Float[Tensor, "d_model d_model"], b: Float[Tensor, "d_model"]) -> Tensor:
    """One affine map from width d_model to width d_model."""
    return x @ W + b


@erratum(
    "ERR-18",
    "The FFN against a direct map",
    source="S2 §3.4",
    said="Although its inner width is larger, the FFN has about as many parameters as a direct map.",
    right="A direct map has d² + d parameters, the FFN with d_ff = 4·d has 8·d² + 5·d: eight times as many. "
    "The FFN holds two thirds of the layer's parameters.",
    equations=("ffn",),
)
def ffn_against_direct_map() -> Findings:
    """Count both in the slot of the FFN, in the base model with biases."""
    direct = WITH_BIASES.replace(ffn=direct_map)

    def share(encoder: Encoder) -> float:
        return entries(encoder, "ffn") / entries(encoder, "layer")

    return (
        Finding("entries in the slot of the FFN", entries(direct, "ffn"), entries(WITH_BIASES, "ffn")),
        Finding("their share of the layer", share(direct), share(WITH_BIASES)),
    )
