"""Wrong feed-forward networks and wrong activations."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool1d, elu, hardswish, leaky_relu, mish, softplus

from conformance_tests.deviations import deviation
from encoder_spec.ffn import ffn, gated, gelu, gelu_tanh, quick_gelu, relu, silu, without_bias

FFN, RELU, GELU, GELU_TANH = "ffn", "ffn.relu", "ffn.gelu", "ffn.gelu_tanh"
ACTIVATION = ("FFN-1", "FFN-2", "FFN-4")
NETWORK = (*ACTIVATION, "FFN-6")
HANDED_ON = ("FFN-6", "RES-1")
"""Where the right value is formed on the way, what is added to the residual is wrong."""

BACKWARD = ("ENC-9", "ENC-10")

Function: TypeAlias = Callable[..., Tensor]
Inwards: TypeAlias = Float[Tensor, "d_model d_ff"]
Inner: TypeAlias = Float[Tensor, "d_ff"]
Outwards: TypeAlias = Float[Tensor, "d_ff d_model"]
Outer: TypeAlias = Float[Tensor, "d_model"]

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "activation-relu",
    (GELU, GELU_TANH),
    ("FFN-2", "FFN-4"),
    ("NVlabs/Forecasting-Model-Search#6", "PaddlePaddle/PaddleNLP#1048"),
    definition="The activation is ReLU.",
)(relu)
deviation(
    "activation-gelu",
    (RELU, GELU_TANH),
    ("FFN-1", "FFN-4"),
    "kyutai-labs/pocket-tts#278",
    definition="The activation is GELU with the error function.",
)(gelu)
deviation(
    "activation-gelu-tanh",
    (RELU, GELU),
    ("FFN-1", "FFN-2"),
    ("kyutai-labs/pocket-tts#278", "huggingface/text-embeddings-inference#753"),
    definition="The activation is the tanh approximation of GELU.",
)(gelu_tanh)
deviation(
    "activation-quick-gelu",
    (RELU, GELU, GELU_TANH),
    ACTIVATION,
    "commonly seen",
    definition="The activation is the logistic approximation of GELU.",
)(quick_gelu)
deviation("activation-silu", (RELU, GELU, GELU_TANH), ACTIVATION, definition="The activation is SiLU.")(silu)
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

# Other activations -------------------------------------------------------------------------


@deviation("activation-missing", (RELU, GELU, GELU_TANH), ACTIVATION, "commonly seen")
def identity(x: Tensor) -> Tensor:
    """There is no activation: the feed-forward network is linear."""
    return x


@deviation("activation-tanh", (RELU, GELU, GELU_TANH), ACTIVATION)
def tanh(x: Tensor) -> Tensor:
    """The activation is the hyperbolic tangent."""
    return torch.tanh(x)


@deviation("activation-sigmoid", (RELU, GELU, GELU_TANH), ACTIVATION)
def sigmoid(x: Tensor) -> Tensor:
    """The activation is the logistic function."""
    return torch.sigmoid(x)


@deviation("activation-softmax", (RELU, GELU, GELU_TANH), ACTIVATION)
def softmax(x: Tensor) -> Tensor:
    """The activation is a softmax over the inner features."""
    return torch.softmax(x, dim=-1)


@deviation("activation-leaky-relu", RELU, "FFN-1")
def leaky(x: Tensor) -> Tensor:
    """The activation lets a hundredth of negative inputs through."""
    return leaky_relu(x)


@deviation("activation-elu", RELU, "FFN-1")
def exponential(x: Tensor) -> Tensor:
    """The activation is the exponential linear unit."""
    return elu(x)


@deviation("activation-softplus", RELU, "FFN-1")
def soft(x: Tensor) -> Tensor:
    """The activation is softplus, a smooth ReLU that is positive at 0."""
    return softplus(x)


@deviation("activation-squared-relu", RELU, ("FFN-1", "FFN-6"))
def squared(x: Tensor) -> Tensor:
    """The activation is the square of ReLU."""
    return relu(x).square()


@deviation("activation-capped-at-6", RELU, "FFN-1")
def capped(x: Tensor) -> Tensor:
    """The activation is ReLU cut off at 6."""
    return x.clamp(0, 6)


@deviation("activation-absolute-value", RELU, "FFN-1")
def absolute(x: Tensor) -> Tensor:
    """The activation is the absolute value."""
    return x.abs()


@deviation("activation-mirrored", RELU, "FFN-1")
def mirrored(x: Tensor) -> Tensor:
    """The activation keeps negative inputs and takes positive ones to 0."""
    return x.clamp(max=0)


@deviation("activation-hard-swish", (GELU, GELU_TANH), ACTIVATION)
def hard(x: Tensor) -> Tensor:
    """The activation is the piecewise approximation of SiLU."""
    return hardswish(x)


@deviation("activation-mish", (GELU, GELU_TANH), ACTIVATION)
def tempered(x: Tensor) -> Tensor:
    """The activation is Mish."""
    return mish(x)


@deviation("gelu-without-root-two", GELU, "FFN-2")
def without_root(x: Tensor) -> Tensor:
    """GELU takes the error function of x instead of x/√2."""
    return x / 2 * (1 + torch.erf(x))


@deviation("gelu-without-half", GELU, "FFN-2")
def without_half(x: Tensor) -> Tensor:
    """GELU is not halved: it is x · (1 + erf(x/√2))."""
    return x * (1 + torch.erf(x / math.sqrt(2)))


@deviation("gelu-cumulative-alone", GELU, "FFN-2")
def cumulative(x: Tensor) -> Tensor:
    """The activation is Φ(x) instead of x · Φ(x)."""
    return (1 + torch.erf(x / math.sqrt(2))) / 2


@deviation("gelu-polynomial-error-function", GELU, "FFN-2")
def polynomial(x: Tensor) -> Tensor:
    """GELU takes the error function from a rational approximation that is right to seven digits."""
    z = x.abs() / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x / 2 * (1 + x.sign() * (1 - series * torch.exp(-z.square())))


@deviation("tanh-gelu-constant-misread", GELU_TANH, "FFN-4")
def misread(x: Tensor) -> Tensor:
    """tanh-GELU has the constant 0.044175 instead of 0.044715."""
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044175 * x**3)))


@deviation("tanh-gelu-rounded-root", GELU_TANH, "FFN-4", "commonly seen")
def rounded(x: Tensor) -> Tensor:
    """tanh-GELU has 0.79788 instead of √(2/π)."""
    return x / 2 * (1 + torch.tanh(0.79788 * (x + 0.044715 * x**3)))


@deviation("tanh-gelu-squared-term", GELU_TANH, "FFN-4")
def square_for_cube(x: Tensor) -> Tensor:
    """tanh-GELU has x² where x³ belongs."""
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**2)))


@deviation("tanh-gelu-root-over-linear-term", GELU_TANH, "FFN-4")
def misplaced(x: Tensor) -> Tensor:
    """tanh-GELU multiplies x alone by √(2/π), not the cubic term."""
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * x + 0.044715 * x**3))


@deviation("fast-path-with-relu", GELU, "ENC-4", "commonly seen")
def relu_without_gradients(x: Tensor) -> Tensor:
    """Without gradients a fast path takes over that knows no activation but ReLU."""
    return gelu(x) if torch.is_grad_enabled() else relu(x)


# Right forwards, wrong backwards -----------------------------------------------------------


def with_gradient_of(surrogate: Tensor, value: Tensor) -> Tensor:
    """The value, with the gradient of something else."""
    return surrogate + (value - surrogate).detach()


@deviation("relu-straight-through", RELU, BACKWARD)
def straight_through(x: Tensor) -> Tensor:
    """The gradient of ReLU is 1 everywhere."""
    return with_gradient_of(x, relu(x))


@deviation("gelu-gradient-of-tanh", GELU, BACKWARD, "commonly seen")
def gradient_of_tanh(x: Tensor) -> Tensor:
    """The gradient of GELU is that of its tanh approximation."""
    return with_gradient_of(gelu_tanh(x), gelu(x))


@deviation("gelu-gate-detached", GELU, BACKWARD)
def gate_detached(x: Tensor) -> Tensor:
    """No gradient flows through Φ(x) in GELU."""
    return x * ((1 + torch.erf(x / math.sqrt(2))) / 2).detach()


# Other networks ----------------------------------------------------------------------------


@deviation("ffn-activation-last", FFN, NETWORK, "goruck/nilm#1")
def activation_last(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The activation follows the second map of the feed-forward network instead of the first."""
    return activation((x @ W_1 + b_1) @ W_2 + b_2)


@deviation("ffn-activation-after-both-maps", FFN, HANDED_ON)
def activation_twice(x: Tensor, *, activation: Function, W_1: Inwards, b_1: Inner, W_2: Outwards, b_2: Outer) -> Tensor:
    """The activation follows both maps of the feed-forward network."""
    return activation(activation(x @ W_1 + b_1) @ W_2 + b_2)


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
