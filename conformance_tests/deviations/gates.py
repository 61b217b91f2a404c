"""Wrong feed-forward networks with a gate, and those without biases."""

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.ffn import ffn, gated, gated_with_biases, gated_with_output_bias, without_bias

LINEAR, GATED, BIASED = "ffn.without_bias", "ffn.gated", "ffn.gated_with_biases"
ONE_BIAS = "ffn.gated_with_output_bias"

Function: TypeAlias = Callable[..., Tensor]
Inwards: TypeAlias = Float[Tensor, "d_model d_ff"]
Inner: TypeAlias = Float[Tensor, "d_ff"]
Outwards: TypeAlias = Float[Tensor, "d_ff d_model"]
Outer: TypeAlias = Float[Tensor, "d_model"]

deviation(
    "ffn-gate-missing",
    GATED,
    ("ENC-17", "FFN-13"),
    definition="The feed-forward network has no second map that gates the first.",
)(without_bias)
deviation(
    "linear-ffn-gated",
    LINEAR,
    ("ENC-17", "FFN-10"),
    definition="A second map gates the feed-forward network.",
)(gated)


@deviation("linear-ffn-tied-maps", LINEAR, "FFN-10")
def tied(x: Tensor, *, activation: Function, W_1: Inwards, W_2: Outwards) -> Tensor:
    """The second map of the feed-forward network, which has no biases, is the first one transposed."""
    return activation(x @ W_1) @ W_1.mT


@deviation("linear-ffn-halved", LINEAR, "FFN-10")
def halved(x: Tensor, *, activation: Function, W_1: Inwards, W_2: Outwards) -> Tensor:
    """The output of the feed-forward network, which has no biases, is halved."""
    return activation(x @ W_1) @ (W_2 / 2)


@deviation("gated-ffn-maps-exchanged", GATED, ("FFN-13", "FFN-1", "FFN-2", "FFN-4", "FFN-12"), "commonly seen")
def exchanged(x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards) -> Tensor:
    """The map that gates is activated instead of the other one."""
    return (x @ W_1 * activation(x @ W_G)) @ W_2


@deviation("gated-ffn-both-activated", GATED, "FFN-13")
def both_activated(x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards) -> Tensor:
    """Both maps of the gated feed-forward network are activated."""
    return (activation(x @ W_1) * activation(x @ W_G)) @ W_2


@deviation("gated-ffn-summed", GATED, "FFN-13")
def summed(x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards) -> Tensor:
    """The gate is added instead of multiplied."""
    return (activation(x @ W_1) + x @ W_G) @ W_2


@deviation("gated-ffn-gate-unused", GATED, ("FFN-13", "ENC-8"))
def gate_unused(x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards) -> Tensor:
    """The map that gates exists and is never applied."""
    return activation(x @ W_1) @ W_2


deviation(
    "gate-without-biases",
    BIASED,
    ("ENC-17", "FFN-14"),
    definition="The maps of the gated feed-forward network have no biases.",
)(gated)
deviation(
    "gate-with-biases-missing",
    BIASED,
    ("ENC-17", "FFN-14"),
    definition="The feed-forward network has biases and no second map that gates the first.",
)(ffn)
deviation(
    "gate-with-biases",
    GATED,
    ("ENC-17", "FFN-13"),
    definition="The maps of the gated feed-forward network have biases.",
)(gated_with_biases)


@deviation("gate-bias-ignored", BIASED, ("FFN-14", "ENC-8"))
def gate_bias_ignored(
    x: Tensor,
    *,
    activation: Function,
    W_1: Inwards,
    b_1: Inner,
    W_G: Inwards,
    b_G: Inner,
    W_2: Outwards,
    b_2: Outer,
) -> Tensor:
    """The bias of the map that gates exists and is never added."""
    return (activation(x @ W_1 + b_1) * (x @ W_G)) @ W_2 + b_2


@deviation("gate-halves-exchanged", BIASED, ("FFN-14", "FFN-1", "FFN-12"), "commonly seen")
def halves_exchanged(
    x: Tensor,
    *,
    activation: Function,
    W_1: Inwards,
    b_1: Inner,
    W_G: Inwards,
    b_G: Inner,
    W_2: Outwards,
    b_2: Outer,
) -> Tensor:
    """Of the two inner maps, which are stored in one array, the wrong one is activated."""
    return ((x @ W_1 + b_1) * activation(x @ W_G + b_G)) @ W_2 + b_2


deviation(
    "gate-with-output-bias",
    (GATED, BIASED),
    ("ENC-17", "FFN-13", "FFN-14"),
    definition="Of the three maps of the gated feed-forward network the last alone has a bias.",
)(gated_with_output_bias)
deviation(
    "gate-without-output-bias",
    ONE_BIAS,
    ("ENC-17", "FFN-15"),
    definition="The last map of the gated feed-forward network has no bias.",
)(gated)
deviation(
    "gate-with-inner-biases",
    ONE_BIAS,
    ("ENC-17", "FFN-15"),
    definition="The inner maps of the gated feed-forward network have biases, too.",
)(gated_with_biases)


@deviation("gate-output-bias-ignored", ONE_BIAS, ("FFN-15", "ENC-8"))
def output_bias_ignored(
    x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The bias behind the gated feed-forward network exists and is never added."""
    return (activation(x @ W_1) * (x @ W_G)) @ W_2


@deviation("gate-output-bias-inside", ONE_BIAS, ("FFN-15", "FFN-2"))
def output_bias_inside(
    x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The bias of the gated feed-forward network is added to what it reads, and not to what it gives."""
    x = x + b_2
    return (activation(x @ W_1) * (x @ W_G)) @ W_2


@deviation("gate-output-bias-halves-exchanged", ONE_BIAS, ("FFN-15", "FFN-2"), "commonly seen")
def output_bias_halves_exchanged(
    x: Tensor, *, activation: Function, W_1: Inwards, W_G: Inwards, W_2: Outwards, b_2: Outer
) -> Tensor:
    """Of the two inner maps, which are stored in one array, the wrong one is activated."""
    return ((x @ W_1) * activation(x @ W_G)) @ W_2 + b_2
