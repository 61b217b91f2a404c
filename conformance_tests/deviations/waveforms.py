"""Wrong stages of a waveform: norms, activations and ends of their convolutions, and the map behind them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from conformance_tests.deviations import deviation
from encoder_spec.embedding import features, stage, stage_norm
from encoder_spec.ffn import gelu

WAVEFORM, PLAIN = "embedding.waveform", "embedding.stage"
BY_CHANNELS, OVER_TIME = "embedding.stage_norm", "embedding.stage_norm_over_time"
FIRST, SECOND = "stages.0", "stages.1"

Samples: TypeAlias = Float[Tensor, "B samples"]
Taps: TypeAlias = Float[Tensor, "taps heard channels"]
Channels: TypeAlias = Float[Tensor, "channels"]
Map: TypeAlias = Float[Tensor, "channels d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]
FeatureNorm: TypeAlias = Callable[..., Float[Tensor, "B n channels"]]
Stages: TypeAlias = Sequence[Callable[..., Float[Tensor, "B n channels"]]]


def convolved(u: Tensor, stride: int, W: Tensor, b: Tensor) -> Tensor:
    """Σ_i u[s·j + i] W[i] + b for every j for which all of these times are there."""
    return torch.nn.functional.conv1d(u.mT, W.permute(2, 1, 0), b, stride=stride).mT


def of_stages(samples: Tensor, stages: Stages) -> Tensor:
    """Return what stages give, one behind the other."""
    u = samples[..., None]
    for each in stages:
        u = each(u)
    return u


# The map behind the stages -----------------------------------------------------------------


@deviation("waveform-features-by-reshape", WAVEFORM, "EMB-29", "commonly seen")
def by_reshape(
    samples: Samples, *, stages: Stages, feature_norm: FeatureNorm, W_feature: Map, b_feature: Vector
) -> Tensor:
    """Time and channels of what is mapped are exchanged by a reshape instead of a transpose."""
    u = feature_norm(of_stages(samples, stages))
    return u.mT.reshape(u.shape) @ W_feature + b_feature


@deviation("waveform-bias-ignored", WAVEFORM, ("EMB-29", "ENC-8"))
def map_bias_ignored(
    samples: Samples, *, stages: Stages, feature_norm: FeatureNorm, W_feature: Map, b_feature: Vector
) -> Tensor:
    """The map behind the stages has a bias, which is never added."""
    u = of_stages(samples, stages)
    return features(u, feature_norm=feature_norm, W_feature=W_feature, b_feature=torch.zeros_like(b_feature))


@deviation("waveform-without-the-last-stage", WAVEFORM, ("EMB-29", "ENC-1", "ENC-8"))
def last_stage_missing(
    samples: Samples, *, stages: Stages, feature_norm: FeatureNorm, W_feature: Map, b_feature: Vector
) -> Tensor:
    """The last stage exists, and the map reads what the one before gives."""
    u = of_stages(samples, stages[:-1])
    return features(u, feature_norm=feature_norm, W_feature=W_feature, b_feature=b_feature)


# Stages without a norm ---------------------------------------------------------------------


@deviation("stage-without-activation", PLAIN, "EMB-30", "commonly seen", place=SECOND)
def not_activated(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels) -> Tensor:
    """No GELU follows the second stage."""
    return convolved(u, stride, W_stage, b_stage)


@deviation("stage-backwards", PLAIN, "EMB-30")
def backwards(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels) -> Tensor:
    """The kernels run backwards in time, as in a convolution proper."""
    return stage(u, stride=stride, W_stage=W_stage.flip(0), b_stage=b_stage)


@deviation("stage-padded", PLAIN, ("EMB-31", "ENC-1"), "commonly seen", place=SECOND)
def padded(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels) -> Tensor:
    """The second stage reads zeros around the signal, so that it gives more times."""
    sides = len(W_stage) // 2
    return stage(pad(u, (0, 0, sides, sides)), stride=stride, W_stage=W_stage, b_stage=b_stage)


@deviation("stage-loses-the-last-time", PLAIN, ("EMB-31", "ENC-1"), "commonly seen", place=SECOND)
def without_last(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels) -> Tensor:
    """The second stage gives ⌊(T − k)/s⌋ times: the last one is lost."""
    return stage(u, stride=stride, W_stage=W_stage, b_stage=b_stage)[:, :-1]


@deviation("stage-aligned-at-the-end", PLAIN, ("EMB-30", "EMB-31"), place=SECOND)
def from_the_end(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels) -> Tensor:
    """The times of the second stage are counted from the end of the signal, and those that are too many come first."""
    spare = (u.shape[1] - len(W_stage)) % stride
    return stage(u[:, spare:], stride=stride, W_stage=W_stage, b_stage=b_stage)


# Stages with a norm ------------------------------------------------------------------------


@deviation("stage-norm-without-activation", BY_CHANNELS, "EMB-32", "commonly seen", place=SECOND)
def normed_not_activated(
    u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels, norm_stage: FeatureNorm
) -> Tensor:
    """No GELU follows the norm of the second stage."""
    return norm_stage(convolved(u, stride, W_stage, b_stage))


@deviation("stage-norm-missing", BY_CHANNELS, ("EMB-32", "ENC-8"), "commonly seen", place=SECOND)
def norm_missing(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels, norm_stage: FeatureNorm) -> Tensor:
    """The norm of the second stage exists, and is never applied."""
    return stage(u, stride=stride, W_stage=W_stage, b_stage=b_stage)


@deviation("stage-norm-behind-activation", BY_CHANNELS, ("EMB-32", "NORM-1"), "commonly seen")
def norm_behind(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels, norm_stage: FeatureNorm) -> Tensor:
    """The norms of the stages follow GELU instead of preceding it."""
    return norm_stage(gelu(convolved(u, stride, W_stage, b_stage)))


@deviation("stage-norm-loses-the-last-time", BY_CHANNELS, ("EMB-32", "ENC-1"), place=SECOND)
def normed_without_last(u: Tensor, *, stride: int, W_stage: Taps, b_stage: Channels, norm_stage: FeatureNorm) -> Tensor:
    """The second stage, which has a norm, gives ⌊(T − k)/s⌋ times: the last one is lost."""
    return stage_norm(u, stride=stride, W_stage=W_stage, b_stage=b_stage, norm_stage=norm_stage)[:, :-1]


# Norms over time ---------------------------------------------------------------------------


@deviation("stage-norm-of-all-channels", OVER_TIME, "EMB-33", "commonly seen", place=FIRST)
def of_all_channels(
    u: Tensor,
    *,
    stride: int,
    W_stage: Taps,
    b_stage: Channels,
    gamma_stage: Channels,
    beta_stage: Channels,
    eps: float,
) -> Tensor:
    """The channels of the first stage form one group, whose mean and variance are those of all of them together."""
    z = convolved(u, stride, W_stage, b_stage)
    centred = z - z.mean(dim=(1, 2), keepdim=True)
    return gelu(gamma_stage * centred / torch.sqrt(centred.square().mean(dim=(1, 2), keepdim=True) + eps) + beta_stage)


@deviation("stage-norm-at-each-time", OVER_TIME, "EMB-33", "commonly seen", place=FIRST)
def at_each_time(
    u: Tensor,
    *,
    stride: int,
    W_stage: Taps,
    b_stage: Channels,
    gamma_stage: Channels,
    beta_stage: Channels,
    eps: float,
) -> Tensor:
    """The first stage normalises the channels of each time instead of each channel over time."""
    z = convolved(u, stride, W_stage, b_stage)
    centred = z - z.mean(dim=-1, keepdim=True)
    return gelu(gamma_stage * centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps) + beta_stage)


@deviation("stage-norm-of-the-batch", OVER_TIME, ("EMB-33", "ENC-5"), "commonly seen", place=FIRST)
def of_the_batch(
    u: Tensor,
    *,
    stride: int,
    W_stage: Taps,
    b_stage: Channels,
    gamma_stage: Channels,
    beta_stage: Channels,
    eps: float,
) -> Tensor:
    """Each channel of the first stage is normalised over all sounds of the batch, as a batch norm in training does."""
    z = convolved(u, stride, W_stage, b_stage)
    centred = z - z.mean(dim=(0, 1), keepdim=True)
    return gelu(gamma_stage * centred / torch.sqrt(centred.square().mean(dim=(0, 1), keepdim=True) + eps) + beta_stage)


@deviation("stage-norm-over-time-without-activation", OVER_TIME, "EMB-33", place=FIRST)
def over_time_not_activated(
    u: Tensor,
    *,
    stride: int,
    W_stage: Taps,
    b_stage: Channels,
    gamma_stage: Channels,
    beta_stage: Channels,
    eps: float,
) -> Tensor:
    """No GELU follows the norm over time of the first stage."""
    z = convolved(u, stride, W_stage, b_stage)
    centred = z - z.mean(dim=1, keepdim=True)
    return gamma_stage * centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + eps) + beta_stage
