"""Chapter 7: the position-wise feed-forward network and its activations."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from encoder_spec.equation import equation, requirement


@requirement("FFN-1", "Negative inputs become 0, others stay.")
@equation("ffn.relu", slot="activation")
def relu(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Rectified linear unit. Vaswani et al. 2017, §3.3, eq. (2); S0 §5, S2 §3.4, S4 §4.2.

    $$ \mathrm{ReLU}(x) = \max(0, x) $$

    Undefined: the derivative at 0, which torch takes to be 0.
    """
    return x.clamp(min=0)


@requirement("FFN-3", "GELU(x) − GELU(−x) = x, and GELU lies between min(0, x) and max(0, x).", algebraic=True)
@requirement("FFN-2", "GELU weighs x by the exact normal distribution function Φ(x).")
@equation("ffn.gelu", slot="activation")
def gelu(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Gaussian error linear unit. Hendrycks & Gimpel 2016, §2; S1 §6, S2 §3.4.

    $$ \mathrm{GELU}(x) = x \, \Phi(x) = \frac{x}{2} \left(1 + \operatorname{erf} \frac{x}{\sqrt 2}\right) $$

    Undefined: nothing.
    """
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


@requirement("FFN-5", "It differs from GELU by less than 5·10⁻⁴ everywhere, and by more than 4·10⁻⁴ somewhere.")
@requirement("FFN-4", "tanh-GELU is the paper's approximation with the constant 0.044715.")
@equation("ffn.gelu_tanh", slot="activation")
def gelu_tanh(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""GELU by its tanh approximation. Hendrycks & Gimpel 2016, §2.

    $$ \mathrm{GELU}_{\tanh}(x) = \frac{x}{2} \left(1 + \tanh\!\left(
       \sqrt{\tfrac{2}{\pi}} \, (x + 0.044715 \, x^3)\right)\right) $$

    Undefined: nothing.
    """
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@requirement("FFN-11", "Quick GELU weighs x by the logistic function of 1.702·x.")
@equation("ffn.quick_gelu", slot="activation")
def quick_gelu(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""GELU by its logistic approximation. Hendrycks & Gimpel 2016, §2; used by CLIP.

    $$ \mathrm{GELU}_{\sigma}(x) = \frac{x}{1 + e^{-1.702\, x}} $$

    Undefined: nothing.
    """
    return x * torch.sigmoid(1.702 * x)


@requirement("FFN-12", "SiLU weighs x by the logistic function of x.")
@equation("ffn.silu", slot="activation")
def silu(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    r"""Sigmoid-weighted linear unit. Elfwing et al. 2017, §2; the gate of SwiGLU.

    $$ \mathrm{SiLU}(x) = \frac{x}{1 + e^{-x}} $$

    Undefined: nothing.
    """
    return x * torch.sigmoid(x)


@requirement("FFN-9", "Its parameters are 2·d_model·d_ff + d_ff + d_model.", algebraic=True)
@requirement("FFN-8", "It equals two convolutions with kernel size 1.")
@requirement("FFN-7", "It acts on each position by itself, with the same parameters.")
@requirement("FFN-6", "FFN(x) = σ(x W₁ + b₁) W₂ + b₂, with the activation between the two maps.")
@equation("ffn", slot="ffn", variant="affine")
def ffn(
    x: Float[Tensor, "*axes d_model"],
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Feed-forward network. Vaswani et al. 2017, §3.3, eq. (2); S0 §5, S1 §6, S2 §3.4, S4 §4.2.

    $$ \mathrm{FFN}(x) = \sigma(x W_1 + b_1) W_2 + b_2 $$

    d_ff = 4 d_model is customary, not necessary.

    Undefined: dropout, which the paper does not place; S2 §3.5 puts it after the activation.
    """
    return dropout(activation(x @ W_1 + b_1)) @ W_2 + b_2


@requirement("FFN-10", "FFN(x) = σ(x W₁) W₂, with the activation between the two maps.")
@equation("ffn.without_bias", slot="ffn", variant="linear")
def without_bias(
    x: Float[Tensor, "*axes d_model"],
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Feed-forward network without biases. Raffel et al. 2020 (T5); S3 §6 counts it so.

    $$ \mathrm{FFN}(x) = \sigma(x W_1) W_2 $$

    Undefined: nothing.
    """
    return dropout(activation(x @ W_1)) @ W_2


@requirement("FFN-13", "FFN(x) = (σ(x W₁) ⊙ x W_G) W₂: one map is activated and gates the other.")
@equation("ffn.gated", slot="ffn")
def gated(
    x: Float[Tensor, "*axes d_model"],
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    W_G: Float[Tensor, "d_model d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Gated feed-forward network. Shazeer 2020, eq. (6); GEGLU, SwiGLU, ReGLU by the choice of σ.

    $$ \mathrm{FFN}(x) = \bigl(\sigma(x W_1) \odot x W_G\bigr) W_2 $$

    Undefined: dropout; here on the product, as in the other feed-forward networks.
    """
    return dropout(activation(x @ W_1) * (x @ W_G)) @ W_2


@requirement("FFN-14", "FFN(x) = (σ(x W₁ + b₁) ⊙ (x W_G + b_G)) W₂ + b₂: a gate whose three maps have biases.")
@equation("ffn.gated_with_biases", slot="ffn", variant="gated-affine")
def gated_with_biases(
    x: Float[Tensor, "*axes d_model"],
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"],
    W_G: Float[Tensor, "d_model d_ff"],
    b_G: Float[Tensor, "d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Gated feed-forward network with biases. Shazeer 2020, eq. (5), between the maps of eq. (6).

    $$ \mathrm{FFN}(x) = \bigl(\sigma(x W_1 + b_1) \odot (x W_G + b_G)\bigr) W_2 + b_2 $$

    Shazeer leaves the biases out from eq. (6) on; many implementations keep them.

    Undefined: dropout; here on the product, as in the other feed-forward networks.
    """
    return dropout(activation(x @ W_1 + b_1) * (x @ W_G + b_G)) @ W_2 + b_2


@requirement("FFN-15", "FFN(x) = (σ(x W₁) ⊙ x W_G) W₂ + b₂: of a gate's three maps the last alone has a bias.")
@equation("ffn.gated_with_output_bias", slot="ffn", variant="gated-output-bias")
def gated_with_output_bias(
    x: Float[Tensor, "*axes d_model"],
    *,
    activation: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    W_1: Float[Tensor, "d_model d_ff"],
    W_G: Float[Tensor, "d_model d_ff"],
    W_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "*axes d_model"]:
    r"""Gated feed-forward network with a bias behind it. Portes et al. 2023 (MosaicBERT), §2.1; biases as released.

    $$ \mathrm{FFN}(x) = \bigl(\sigma(x W_1) \odot x W_G\bigr) W_2 + b_2 $$

    Undefined: dropout; here on the product, as in the other feed-forward networks.
    """
    return dropout(activation(x @ W_1) * (x @ W_G)) @ W_2 + b_2
