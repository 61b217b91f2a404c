"""Wrong norms: ε in another place, γ and β used otherwise; wrong statistics stand in ``statistics``."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation, statistics, wrong_constants
from encoder_spec.norm import layer_norm, layer_norm_without_bias, rms, std_plus_eps, unbiased_std_plus_eps

__all__ = ["statistics"]

NORM, UNBIASED, OUTSIDE = "norm.layer_norm", "norm.unbiased_std_plus_eps", "norm.std_plus_eps"
WITHOUT_BETA, RMS = "norm.layer_norm_without_bias", "norm.rms"
MEAN, VARIANCE = ("NORM-1", "NORM-3", "NORM-10"), ("NORM-3", "NORM-7", "NORM-10")
EPS = (*VARIANCE, "EMB-33")
"""The requirements that notice another ε: EMB-33 where a stage with a norm over time departs before any layer."""

Moments: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
Vector: TypeAlias = Float[Tensor, "d_model"]

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "norm-eps-outside-root",
    (NORM, UNBIASED),
    VARIANCE,
    "hkproj/pytorch-transformer#31",
    definition="ε is added to the standard deviation instead of to the variance.",
)(std_plus_eps)
deviation(
    "norm-unbiased-and-eps-outside-root",
    NORM,
    "NORM-3",
    ("harvardnlp/annotated-transformer#119", "codertimo/BERT-pytorch#30"),
    definition="The standard deviation divides by d − 1, and ε is added to it outside the root.",
)(unbiased_std_plus_eps)
deviation(
    "norm-biased-and-eps-under-root",
    UNBIASED,
    "NORM-10",
    "commonly seen",
    definition="The variance divides by d, and ε stands under the root.",
)(layer_norm)
deviation(
    "norm-root-mean-square",
    (NORM, UNBIASED),
    ("ENC-17", *VARIANCE),
    "commonly seen",
    definition="The norm divides by the root mean square: no mean is subtracted and there is no β.",
)(rms)
deviation(
    "norm-without-beta",
    (NORM, UNBIASED),
    ("ENC-17", *VARIANCE),
    "commonly seen",
    definition="The norm has no β.",
)(layer_norm_without_bias)
deviation(
    "second-norm-root-mean-square",
    NORM,
    ("ENC-17", "NORM-3"),
    place="norm_2",
    definition="The second norm of a layer divides by the root mean square and has no β.",
)(rms)
deviation(
    "first-norm-eps-outside-root",
    NORM,
    ("NORM-3", "ENC-2"),
    place="norm_1",
    definition="The first norm of a layer adds ε outside the root, the second under it.",
)(std_plus_eps)

for value, seen in ((1e-5, "huggingface/transformers#15332"), (1e-6, "commonly seen"), (1e-12, "commonly seen")):
    wrong_constants(
        f"norm-eps-{value:.0e}", f"The ε of the norms is {value:.0e}.", (NORM, UNBIASED), EPS, seen, eps=value
    )
wrong_constants(
    "norm-eps-of-keras",
    "The ε of the norms is 1e-03.",
    (NORM, UNBIASED, OUTSIDE, WITHOUT_BETA, RMS),
    (*EPS, "NORM-8", "NORM-12"),
    "keras-team/keras-hub#642",
    eps=1e-3,
)
wrong_constants(
    "norm-without-eps",
    "There is no ε: it is 0.",
    (NORM, UNBIASED, OUTSIDE, WITHOUT_BETA, RMS),
    (*EPS, "NORM-8", "NORM-12"),
    "commonly seen",
    eps=0.0,
)
deviation("norm-eps-under-root", OUTSIDE, "NORM-8", definition="ε is added to the variance, under the root.")(
    layer_norm
)
deviation(
    "rms-mean-subtracted", RMS, ("NORM-12", "NORM-1"), definition="The root-mean-square norm subtracts the mean."
)(layer_norm_without_bias)

# Other formulas ----------------------------------------------------------------------------


@deviation("norm-without-parameters", NORM, ("ENC-17", "NORM-3"), "LBANN/lbann#2076")
def without_parameters(x: Tensor, *, statistics: Moments, eps: float) -> Tensor:
    """The norm has neither γ nor β."""
    mu, var = statistics(x)
    return (x - mu) / torch.sqrt(var + eps)


@deviation("norm-gamma-ignored", NORM, ("NORM-3", "ENC-8"))
def gamma_ignored(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm has a γ and does not multiply by it."""
    mu, var = statistics(x)
    return (x - mu) / torch.sqrt(var + eps) + beta


@deviation("norm-beta-ignored", NORM, ("NORM-3", "ENC-8"))
def beta_ignored(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm has a β and does not add it."""
    mu, var = statistics(x)
    return gamma * (x - mu) / torch.sqrt(var + eps)


@deviation("norm-gamma-plus-one", NORM, "NORM-3", "commonly seen")
def gamma_plus_one(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm multiplies by 1 + γ, though γ is stored as it is."""
    return layer_norm(x, statistics=statistics, gamma=1 + gamma, beta=beta, eps=eps)


@deviation("norm-square-for-root", NORM, "NORM-3", "131250208/TPlinker-joint-extraction#37")
def square_for_root(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm divides by the square of σ² + ε instead of its root."""
    mu, var = statistics(x)
    return gamma * (x - mu) / (var + eps).square() + beta


@deviation("norm-eps-as-floor", NORM, "NORM-3")
def eps_as_floor(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm takes the larger of σ² and ε instead of their sum."""
    mu, var = statistics(x)
    return gamma * (x - mu) / torch.sqrt(var.clamp(min=eps)) + beta


@deviation("norm-root-mean-square-with-beta", NORM, MEAN, "commonly seen")
def rms_with_beta(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm divides by the root mean square, subtracts no mean, and adds β."""
    return rms(x, gamma=gamma, eps=eps) + beta


@deviation("norm-omitted", NORM, MEAN)
def omitted(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm only multiplies by γ and adds β: nothing is normalised."""
    return gamma * x + beta


# Norms without β ---------------------------------------------------------------------------


@deviation("bare-norm-eps-outside-root", WITHOUT_BETA, "NORM-7", "commonly seen")
def bare_eps_outside(x: Tensor, *, statistics: Moments, gamma: Vector, eps: float) -> Tensor:
    """The norm, which has no β, adds ε to the standard deviation."""
    mu, var = statistics(x)
    return gamma * (x - mu) / (torch.sqrt(var) + eps)


@deviation("bare-norm-gamma-ignored", WITHOUT_BETA, ("NORM-7", "ENC-8"))
def bare_gamma_ignored(x: Tensor, *, statistics: Moments, gamma: Vector, eps: float) -> Tensor:
    """The norm, which has no β, does not multiply by its γ."""
    mu, var = statistics(x)
    return (x - mu) / torch.sqrt(var + eps)


@deviation("rms-eps-outside-root", RMS, "NORM-12", "commonly seen")
def rms_eps_outside(x: Tensor, *, gamma: Vector, eps: float) -> Tensor:
    """The root-mean-square norm adds ε outside the root."""
    return gamma * x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


@deviation("rms-gamma-plus-one", RMS, "NORM-12", "commonly seen")
def rms_gamma_plus_one(x: Tensor, *, gamma: Vector, eps: float) -> Tensor:
    """The root-mean-square norm multiplies by 1 + γ, though γ is stored as it is."""
    return rms(x, gamma=1 + gamma, eps=eps)
