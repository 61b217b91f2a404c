"""Chapter 6: normalisation, of which the sources give three under one name."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("NORM-6", "A large offset of the input costs no more digits than its rounding does.")
@requirement("NORM-2", "Each position is normalised by itself: other positions and samples have no influence.")
@requirement("NORM-1", "μ and σ² are mean and biased variance over the features of one position.")
@equation("norm.statistics", slot="statistics", variant="features")
def statistics(x: Float[Tensor, "*axes d_model"]) -> tuple[Float[Tensor, "*axes 1"], Float[Tensor, "*axes 1"]]:
    r"""Mean and variance over the features. Ba et al. 2016, §3; S0 §4, S2 §3.3, S4 §4.2.

    $$ \mu = \frac{1}{d} \sum_{j=1}^{d} x_j, \qquad \sigma^2 = \frac{1}{d} \sum_{j=1}^{d} (x_j - \mu)^2 $$

    The variance is computed from x − μ: E[x²] − μ² is equal on paper and loses every
    digit when the offset is large (NORM-6).

    Undefined: nothing.
    """
    mu = x.mean(dim=-1, keepdim=True)
    return mu, (x - mu).square().mean(dim=-1, keepdim=True)


@requirement("NORM-5", "Adding a constant to every feature of a position changes nothing.", algebraic=True)
@requirement("NORM-4", "With γ = 1 and β = 0 the mean is 0 and the variance σ²/(σ² + ε).", algebraic=True)
@requirement("NORM-3", "ε is added to the variance, under the root.")
@equation("norm.layer_norm", slot="norm")
def layer_norm(
    x: Float[Tensor, "*axes d_model"],
    *,
    statistics: Callable[..., tuple[Tensor, Tensor]],
    gamma: Float[Tensor, "d_model"],
    beta: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "*axes d_model"]:
    r"""Layer normalisation. Ba et al. 2016, §3; S2 §3.3, S4 §4.2.

    $$ \mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta $$

    Undefined: ε, which the paper does not print; 1e-5, 1e-6 and 1e-12 are all in use.
    """
    mu, var = statistics(x)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


@requirement("NORM-7", "The norm without β is γ ⊙ (x − μ)/√(σ² + ε).")
@equation("norm.layer_norm_without_bias", slot="norm")
def layer_norm_without_bias(
    x: Float[Tensor, "*axes d_model"],
    *,
    statistics: Callable[..., tuple[Tensor, Tensor]],
    gamma: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "*axes d_model"]:
    r"""Layer normalisation without bias. Ba et al. 2016, §3, with β = 0; torch's ``bias=False``.

    $$ \mathrm{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} $$

    Undefined: nothing.
    """
    mu, var = statistics(x)
    return gamma * (x - mu) / torch.sqrt(var + eps)


@requirement("NORM-9", "Its output less β is that of ε under the root times √(σ² + ε)/(σ + ε).", algebraic=True)
@requirement("NORM-8", "ε is added to the standard deviation, outside the root.")
@equation("norm.std_plus_eps", slot="norm")
def std_plus_eps(
    x: Float[Tensor, "*axes d_model"],
    *,
    statistics: Callable[..., tuple[Tensor, Tensor]],
    gamma: Float[Tensor, "d_model"],
    beta: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "*axes d_model"]:
    r"""Norm with ε outside the root. S0 §4.

    $$ \mathrm{Norm}(x) = \gamma \odot \frac{x - \mu}{\sigma + \epsilon} + \beta $$

    Undefined: the gradient at σ = 0, where the root is not differentiable.
    """
    mu, var = statistics(x)
    return gamma * (x - mu) / (torch.sqrt(var) + eps) + beta


@requirement(
    "NORM-11",
    "Its output less β is that of the biased σ times (σ + ε)/(σ√(d/(d − 1)) + ε): about √((d − 1)/d).",
    algebraic=True,
)
@requirement("NORM-10", "The standard deviation divides by d − 1, and ε is added outside the root.")
@equation("norm.unbiased_std_plus_eps", slot="norm")
def unbiased_std_plus_eps(
    x: Float[Tensor, "*axes d_model"],
    *,
    statistics: Callable[..., tuple[Tensor, Tensor]],
    gamma: Float[Tensor, "d_model"],
    beta: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "*axes d_model"]:
    r"""Norm with the n − 1 standard deviation. Rush 2018 (The Annotated Transformer); S3 §3, code.

    $$ \mathrm{Norm}(x) = \gamma \odot \frac{x - \mu}{s + \epsilon} + \beta, \qquad
       s^2 = \frac{d}{d - 1} \, \sigma^2 $$

    d_model ≥ 2.

    Undefined: the gradient at σ = 0, where the root is not differentiable.
    """
    d = x.shape[-1]
    demand(d >= 2, f"norm.unbiased_std_plus_eps: d − 1 must be positive, but d_model is {d}")
    mu, var = statistics(x)
    return gamma * (x - mu) / (torch.sqrt(var * d / (d - 1)) + eps) + beta


@requirement(
    "NORM-13", "Scaling the input by c > 0 equals dividing ε by c²: without ε it changes nothing.", algebraic=True
)
@requirement("NORM-12", "The input is divided by its root mean square; no mean is subtracted.")
@equation("norm.rms", slot="norm")
def rms(
    x: Float[Tensor, "*axes d_model"], *, gamma: Float[Tensor, "d_model"], eps: float
) -> Float[Tensor, "*axes d_model"]:
    r"""Root-mean-square norm. Zhang & Sennrich 2019, eq. (4); the norm of T5-family encoders.

    $$ \mathrm{RMSNorm}(x) = \gamma \odot \frac{x}{\sqrt{\frac{1}{d} \sum_j x_j^2 + \epsilon}} $$

    Undefined: ε, which the paper leaves out.
    """
    return gamma * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)
