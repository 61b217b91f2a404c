"""Other computations of the feed-forward network and its activations."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike
from encoder_spec.ffn import ffn

FFN, RELU, GELU, GELU_TANH = "ffn", "ffn.relu", "ffn.gelu", "ffn.gelu_tanh"

F: TypeAlias = Callable[..., Tensor]
Inwards: TypeAlias = Float[Tensor, "d_model d_ff"]
Inner: TypeAlias = Float[Tensor, "d_ff"]
Outwards: TypeAlias = Float[Tensor, "d_ff d_model"]
Outer: TypeAlias = Float[Tensor, "d_model"]


@look_alike("relu-by-absolute-value", RELU)
def by_absolute_value(x: Tensor) -> Tensor:
    """ReLU is the mean of x and its absolute value."""
    return (x + x.abs()) / 2


@look_alike("gelu-of-torch", GELU)
def of_torch(x: Tensor) -> Tensor:
    """GELU is torch's own."""
    return functional.gelu(x)


@look_alike("gelu-by-complement", GELU)
def by_complement(x: Tensor) -> Tensor:
    """GELU uses the complementary error function, which keeps the digits of large negative inputs."""
    return x / 2 * torch.erfc(-x / math.sqrt(2))


@look_alike("gelu-by-normal-distribution", GELU)
def by_normal_distribution(x: Tensor) -> Tensor:
    """GELU uses a library's normal distribution function."""
    return x * torch.special.ndtr(x)


@look_alike("tanh-gelu-of-torch", GELU_TANH)
def tanh_of_torch(x: Tensor) -> Tensor:
    """tanh-GELU is torch's own."""
    return functional.gelu(x, approximate="tanh")


@look_alike("tanh-gelu-by-logistic-function", GELU_TANH)
def by_logistic_function(x: Tensor) -> Tensor:
    """tanh-GELU uses the logistic function of twice the argument, and x³ as x · x · x."""
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))


@look_alike("ffn-of-convolutions", FFN)
def of_convolutions(x: Tensor, *, activation: F, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The feed-forward network is two convolutions of width 1."""
    inner = activation(functional.conv1d(x.mT, W_1.mT[..., None], b_1))
    return functional.conv1d(inner, W_2.mT[..., None], b_2).mT


@look_alike("ffn-of-torch", FFN)
def linear(x: Tensor, *, activation: F, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The feed-forward network is made of torch's linear maps, on all tokens in one row."""
    tokens = activation(functional.linear(x.flatten(0, 1), W_1.mT, b_1))
    return functional.linear(tokens, W_2.mT, b_2).unflatten(0, x.shape[:2])


@look_alike("ffn-in-chunks", FFN)
def in_chunks(x: Tensor, *, activation: F, dropout: F, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The feed-forward network works on two positions at a time."""

    def part(x: Tensor) -> Tensor:
        return ffn(x, activation=activation, dropout=dropout, W_1=W_1, b_1=b_1, W_2=W_2, b_2=b_2)

    return torch.cat([part(chunk) for chunk in x.split(2, dim=1)], dim=1)


@look_alike("ffn-in-slices", FFN)
def in_slices(x: Tensor, *, activation: F, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The inner features are computed in two slices, whose outputs are added, as on two devices."""
    slices = zip(W_1.chunk(2, 1), b_1.chunk(2), W_2.chunk(2), strict=True)
    first, second = (activation(x @ w + b) @ v for w, b, v in slices)
    return first + second + b_2


@look_alike("ffn-in-float32", FFN)
def inner_in_float32(x: Tensor, *, activation: F, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The second product of the feed-forward network runs in float32."""
    inner = activation(x @ W_1 + b_1).to(torch.float32)
    return (inner @ W_2.to(torch.float32)).to(x.dtype) + b_2
