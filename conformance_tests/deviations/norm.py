"""Wrong norms: other statistics, ε in another place, γ and β used otherwise."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation, wrong_constants
from encoder_spec.norm import layer_norm, layer_norm_without_bias, rms, std_plus_eps, unbiased_std_plus_eps

NORM, UNBIASED, STATISTICS = "norm.layer_norm", "norm.unbiased_std_plus_eps", "norm.statistics"
MEAN, VARIANCE = ("NORM-1", "NORM-3", "NORM-10"), ("NORM-3", "NORM-10")
BACKWARD = ("ENC-9", "ENC-10")

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
    "NORM-3",
    place="norm_1",
    definition="The first norm of a layer adds ε outside the root, the second under it.",
)(std_plus_eps)

for value, seen in ((1e-5, "huggingface/transformers#15332"), (1e-6, "commonly seen"), (1e-12, "commonly seen")):
    wrong_constants(
        f"norm-eps-{value:.0e}", f"The ε of the norms is {value:.0e}.", (NORM, UNBIASED), VARIANCE, seen, eps=value
    )
wrong_constants(
    "norm-eps-of-keras",
    "The ε of the norms is 1e-03.",
    (NORM, UNBIASED),
    VARIANCE,
    "keras-team/keras-hub#642",
    eps=1e-3,
)
wrong_constants("norm-without-eps", "There is no ε: it is 0.", (NORM, UNBIASED), VARIANCE, "commonly seen", eps=0.0)

# Other statistics --------------------------------------------------------------------------


@deviation("norm-unbiased-variance", STATISTICS, VARIANCE, "codertimo/BERT-pytorch#30")
def unbiased(x: Tensor) -> tuple[Tensor, Tensor]:
    """The variance of the norm divides by d − 1."""
    return x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True)


@deviation("norm-over-sequence", STATISTICS, MEAN, "jadore801120/attention-is-all-you-need-pytorch#17")
def over_sequence(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance over the positions of a sequence, for each feature."""
    return x.mean(dim=1, keepdim=True), x.var(dim=1, keepdim=True, unbiased=False)


@deviation("norm-over-sequence-and-features", STATISTICS, MEAN, "patrick-kidger/equinox#471")
def over_sample(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance over positions and features of a sample together."""
    return x.mean(dim=(1, 2), keepdim=True), x.var(dim=(1, 2), keepdim=True, unbiased=False)


@deviation("norm-over-batch", STATISTICS, MEAN, "commonly seen")
def over_batch(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance over the samples of the batch, for each position and feature."""
    return x.mean(dim=0, keepdim=True), x.var(dim=0, keepdim=True, unbiased=False)


@deviation("norm-over-batch-and-sequence", STATISTICS, MEAN, "commonly seen")
def over_tokens(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance over all tokens of the batch, for each feature, as batch norm does."""
    return x.mean(dim=(0, 1), keepdim=True), x.var(dim=(0, 1), keepdim=True, unbiased=False)


@deviation("norm-over-everything", STATISTICS, MEAN)
def over_everything(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes one mean and one variance over the whole batch."""
    return x.mean().expand(1, 1, 1), x.var(unbiased=False).expand(1, 1, 1)


@deviation("norm-over-head-groups", STATISTICS, MEAN)
def over_groups(x: Tensor, *, h: int) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance over each of h groups of features, as group norm does."""
    groups = x.unflatten(-1, (h, -1))
    mu, var = groups.mean(dim=-1), groups.var(dim=-1, unbiased=False)
    return mu.repeat_interleave(groups.shape[-1], -1), var.repeat_interleave(groups.shape[-1], -1)


@deviation("norm-variance-about-zero", STATISTICS, VARIANCE)
def about_zero(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm subtracts the mean, but divides by the root mean square of what it was before."""
    return x.mean(dim=-1, keepdim=True), x.square().mean(dim=-1, keepdim=True)


@deviation("norm-mean-not-subtracted", STATISTICS, MEAN)
def without_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm divides by the standard deviation without subtracting the mean."""
    return torch.zeros_like(x[..., :1]), x.var(dim=-1, keepdim=True, unbiased=False)


@deviation("norm-sum-of-squares", STATISTICS, VARIANCE)
def summed(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm divides by the Euclidean length of x − μ: the sum of squares is not divided by d."""
    mu = x.mean(dim=-1, keepdim=True)
    return mu, (x - mu).square().sum(dim=-1, keepdim=True)


@deviation("norm-mean-absolute-deviation", STATISTICS, VARIANCE)
def absolute(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm divides by the mean absolute deviation instead of the standard deviation."""
    mu = x.mean(dim=-1, keepdim=True)
    return mu, (x - mu).abs().mean(dim=-1, keepdim=True).square()


@deviation("norm-median", STATISTICS, MEAN)
def about_median(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm subtracts the median instead of the mean."""
    middle = x.median(dim=-1, keepdim=True).values
    return middle, (x - middle).square().mean(dim=-1, keepdim=True)


@deviation("norm-variance-in-one-pass", STATISTICS, "NORM-6", ("tracel-ai/burn#5607", "microsoft/onnxruntime#28463"))
def in_one_pass(x: Tensor) -> tuple[Tensor, Tensor]:
    """The variance of the norm is the mean of x² less μ², which loses every digit at a large offset."""
    mu = x.mean(dim=-1, keepdim=True)
    return mu, (x.square().mean(dim=-1, keepdim=True) - mu.square()).clamp(min=0)


@deviation("norm-statistics-in-float32", STATISTICS, MEAN, "commonly seen")
def in_float32(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance in float32, whatever the dtype of its input."""
    low = x.to(torch.float32)
    return low.mean(-1, keepdim=True).to(x.dtype), low.var(-1, keepdim=True, unbiased=False).to(x.dtype)


@deviation("norm-statistics-in-bfloat16", STATISTICS, MEAN)
def in_bfloat16(x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm takes mean and variance in bfloat16, whatever the dtype of its input."""
    low = x.to(torch.bfloat16)
    return low.mean(-1, keepdim=True).to(x.dtype), low.var(-1, keepdim=True, unbiased=False).to(x.dtype)


@deviation("norm-statistics-detached", STATISTICS, BACKWARD)
def detached(x: Tensor) -> tuple[Tensor, Tensor]:
    """No gradient flows through mean and variance of the norm."""
    return x.detach().mean(dim=-1, keepdim=True), x.detach().var(dim=-1, keepdim=True, unbiased=False)


@deviation("norm-variance-detached", STATISTICS, BACKWARD)
def variance_detached(x: Tensor) -> tuple[Tensor, Tensor]:
    """No gradient flows through the variance of the norm."""
    return x.mean(dim=-1, keepdim=True), x.detach().var(dim=-1, keepdim=True, unbiased=False)


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


@deviation("norm-beta-scaled-by-gamma", NORM, "NORM-3")
def beta_first(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm adds β before it multiplies by γ."""
    mu, var = statistics(x)
    return gamma * ((x - mu) / torch.sqrt(var + eps) + beta)


@deviation("norm-gamma-plus-one", NORM, "NORM-3", "commonly seen")
def gamma_plus_one(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm multiplies by 1 + γ, though γ is stored as it is."""
    return layer_norm(x, statistics=statistics, gamma=1 + gamma, beta=beta, eps=eps)


@deviation("norm-divides-by-variance", NORM, "NORM-3")
def by_variance(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm divides by σ² + ε: the root is missing."""
    mu, var = statistics(x)
    return gamma * (x - mu) / (var + eps) + beta


@deviation("norm-square-for-root", NORM, "NORM-3", "131250208/TPlinker-joint-extraction#37")
def square_for_root(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm divides by the square of σ² + ε instead of its root."""
    mu, var = statistics(x)
    return gamma * (x - mu) / (var + eps).square() + beta


@deviation("norm-eps-under-and-outside-root", NORM, "NORM-3")
def eps_twice(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm adds ε under the root and once more outside it."""
    mu, var = statistics(x)
    return gamma * (x - mu) / (torch.sqrt(var + eps) + eps) + beta


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


@deviation("norm-in-float32", NORM, MEAN, "commonly seen")
def all_in_float32(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm rounds its input to float32 and its output with it."""
    low = (a.to(torch.float32) for a in (gamma, beta))
    scale, shift = low
    return layer_norm(x.to(torch.float32), statistics=statistics, gamma=scale, beta=shift, eps=eps).to(x.dtype)
