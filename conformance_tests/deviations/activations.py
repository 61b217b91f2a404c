"""Wrong activations, forwards and backwards."""

import math

import torch
from torch import Tensor
from torch.nn.functional import hardswish, leaky_relu

from conformance_tests.deviations import deviation
from encoder_spec.ffn import gelu, gelu_tanh, quick_gelu, relu, silu

RELU, GELU, GELU_TANH, QUICK, SILU = "ffn.relu", "ffn.gelu", "ffn.gelu_tanh", "ffn.quick_gelu", "ffn.silu"
ACTIVATION = ("FFN-1", "FFN-2", "FFN-4", "FFN-11", "FFN-12")
BACKWARD = ("ENC-9", "ENC-10")

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "activation-relu",
    (GELU, GELU_TANH, QUICK, SILU),
    ACTIVATION,
    ("NVlabs/Forecasting-Model-Search#6", "PaddlePaddle/PaddleNLP#1048"),
    definition="The activation is ReLU.",
)(relu)
deviation(
    "activation-gelu",
    (RELU, GELU_TANH, QUICK, SILU),
    ACTIVATION,
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

# Other activations -------------------------------------------------------------------------


@deviation("activation-missing", (RELU, GELU, GELU_TANH), ACTIVATION, "commonly seen")
def identity(x: Tensor) -> Tensor:
    """There is no activation: the feed-forward network is linear."""
    return x


@deviation("activation-tanh", (RELU, GELU, GELU_TANH), ACTIVATION)
def tanh(x: Tensor) -> Tensor:
    """The activation is the hyperbolic tangent."""
    return torch.tanh(x)


@deviation("activation-softmax", (RELU, GELU, GELU_TANH), ACTIVATION)
def softmax(x: Tensor) -> Tensor:
    """The activation is a softmax over the inner features."""
    return torch.softmax(x, dim=-1)


@deviation("activation-leaky-relu", RELU, "FFN-1")
def leaky(x: Tensor) -> Tensor:
    """The activation lets a hundredth of negative inputs through."""
    return leaky_relu(x)


@deviation("activation-capped-at-6", RELU, "FFN-1")
def capped(x: Tensor) -> Tensor:
    """The activation is ReLU cut off at 6."""
    return x.clamp(0, 6)


@deviation("activation-hard-swish", (GELU, GELU_TANH), ACTIVATION)
def hard(x: Tensor) -> Tensor:
    """The activation is the piecewise approximation of SiLU."""
    return hardswish(x)


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


@deviation("quick-gelu-constant-rounded", QUICK, "FFN-11", "commonly seen")
def rounded_constant(x: Tensor) -> Tensor:
    """Quick GELU has 1.7 instead of 1.702."""
    return x * torch.sigmoid(1.7 * x)


deviation("silu-for-quick-gelu", QUICK, "FFN-11", definition="Quick GELU has no factor: it is SiLU.")(silu)


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
