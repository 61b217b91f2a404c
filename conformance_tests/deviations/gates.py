"""Wrong feed-forward networks without biases, among them gated ones."""

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.ffn import gated, without_bias

LINEAR, GATED = "ffn.without_bias", "ffn.gated"

Function: TypeAlias = Callable[..., Tensor]
Inwards: TypeAlias = Float[Tensor, "d_model d_ff"]
Outwards: TypeAlias = Float[Tensor, "d_ff d_model"]

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


@deviation("gated-ffn-maps-exchanged", GATED, ("FFN-13", "FFN-1"), "commonly seen")
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
