"""Wrong feed-forward networks; wrong activations stand in ``activations``, gated networks in ``gates``."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool1d

from conformance_tests.deviations import activations, deviation, gates
from encoder_spec.ffn import ffn, gated, without_bias

__all__ = ["activations", "gates"]

FFN = "ffn"
NETWORK = ("FFN-1", "FFN-2", "FFN-4", "FFN-6", "FFN-11")
HANDED_ON = ("FFN-6", "RES-1", "RES-3", "RES-4")
"""Where the right value is formed on the way, what is added to the residual is wrong."""

BACKWARD = ("ENC-9", "ENC-10")

Function: TypeAlias = Callable[..., Tensor]
Inwards: TypeAlias = Float[Tensor, "d_model d_ff"]
Inner: TypeAlias = Float[Tensor, "d_ff"]
Outwards: TypeAlias = Float[Tensor, "d_ff d_model"]
Outer: TypeAlias = Float[Tensor, "d_model"]

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "ffn-gated",
    FFN,
    ("ENC-17", "FFN-6", "FFN-9"),
    definition="The feed-forward network is gated by a second map and has no biases.",
)(gated)
deviation(
    "ffn-without-biases",
    FFN,
    ("ENC-17", "FFN-6", "FFN-9"),
    "commonly seen",
    definition="The feed-forward network has no biases.",
)(without_bias)

# Other networks ----------------------------------------------------------------------------


@deviation("ffn-activation-last", FFN, NETWORK, "goruck/nilm#1")
def activation_last(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The activation follows the second map of the feed-forward network instead of the first."""
    return activation((x @ W_1 + b_1) @ W_2 + b_2)


@deviation("ffn-activation-first", FFN, NETWORK)
def activation_first(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The activation precedes the first map of the feed-forward network."""
    return (activation(x) @ W_1 + b_1) @ W_2 + b_2


@deviation("ffn-first-bias-after-activation", FFN, NETWORK)
def bias_after_activation(
    x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The first bias of the feed-forward network is added behind the activation."""
    return (activation(x @ W_1) + b_1) @ W_2 + b_2


@deviation("ffn-first-bias-twice", FFN, NETWORK, "facebookresearch/xformers#317")
def first_bias_twice(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The first bias of the feed-forward network is added twice."""
    return activation(x @ W_1 + 2 * b_1) @ W_2 + b_2


@deviation("ffn-second-bias-twice", FFN, "FFN-6", "facebookresearch/xformers#317")
def second_bias_twice(
    x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The second bias of the feed-forward network is added twice."""
    return activation(x @ W_1 + b_1) @ W_2 + 2 * b_2


@deviation("ffn-first-bias-ignored", FFN, NETWORK)
def first_bias_ignored(
    x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The first bias of the feed-forward network is never added."""
    return activation(x @ W_1) @ W_2 + b_2


@deviation("ffn-second-bias-ignored", FFN, "FFN-6")
def second_bias_ignored(
    x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The second bias of the feed-forward network is never added."""
    return activation(x @ W_1 + b_1) @ W_2


@deviation("ffn-tied-maps", FFN, "FFN-6")
def tied(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The second map of the feed-forward network is the first one transposed."""
    return activation(x @ W_1 + b_1) @ W_1.mT + b_2


@deviation("ffn-with-own-residual", FFN, (*HANDED_ON, "NORM-1"), "commonly seen")
def own_residual(
    x: Tensor, *, activation: Function, dropout: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The feed-forward network adds its input itself, so that the layer adds it twice."""
    return x + ffn(x, activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)


@deviation("ffn-scaled", FFN, "FFN-6")
def scaled(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The inner features are divided by √d_ff before the second map."""
    return activation(x @ W_1 + b_1) / math.sqrt(W_1.shape[-1]) @ W_2 + b_2


@deviation("ffn-halved", FFN, "FFN-6", "commonly seen")
def halved(
    x: Tensor, *, activation: Function, dropout: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The output of the feed-forward network is halved, as in a Conformer."""
    return ffn(x, activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2 / 2, b_2=b_2 / 2)


@deviation("ffn-twice", FFN, HANDED_ON)
def applied_twice(
    x: Tensor, *, activation: Function, dropout: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The feed-forward network is applied to its own output once more."""
    once = ffn(x, activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)
    return ffn(once, activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)


@deviation("ffn-mixes-neighbours", FFN, NETWORK, "commonly seen")
def neighbours(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The feed-forward network reads the mean of a position and its neighbours, as a wider convolution does."""
    mixed = avg_pool1d(x.mT, 3, stride=1, padding=1, count_include_pad=False).mT
    return activation(mixed @ W_1 + b_1) @ W_2 + b_2


@deviation("ffn-chunks-without-remainder", FFN, NETWORK)
def without_remainder(
    x: Tensor, *, activation: Function, dropout: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """The feed-forward network works in chunks of two positions and leaves out an odd last one."""
    whole = x.shape[1] - x.shape[1] % 2
    out = ffn(x[:, :whole], activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)
    return torch.cat([out, x[:, whole:] * 0], dim=1)


@deviation("ffn-detached", FFN, BACKWARD)
def detached(
    x: Tensor, *, activation: Function, dropout: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer
) -> Tensor:
    """No gradient flows through the feed-forward network to its input."""
    return ffn(x.detach(), activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)
