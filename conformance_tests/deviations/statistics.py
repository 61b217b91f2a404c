"""Wrong statistics of the norms: over other axes, of another kind, in less precision."""

import torch
from torch import Tensor

from conformance_tests.deviations import deviation

STATISTICS = "norm.statistics"
MEAN, VARIANCE = ("NORM-1", "NORM-3", "NORM-10"), ("NORM-3", "NORM-7", "NORM-10")
BACKWARD = ("ENC-9", "ENC-10")


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
