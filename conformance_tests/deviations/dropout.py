"""Dropout that acts in evaluation, or leaves a trace there."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.dropout import dropout as inverted
from encoder_spec.dropout import noise

DROPOUT = "dropout.identity"
F: TypeAlias = Callable[..., Tensor]


@deviation("dropout-active-in-evaluation", DROPOUT, "DROP-1", "pytorch/pytorch#124464")
def active(x: Tensor, *, P_drop: float) -> Tensor:
    """Dropout is active in evaluation."""
    return inverted(x, P_drop=P_drop, noise=noise)


@deviation("dropout-active-without-gradients", DROPOUT, ("DROP-1", "ENC-4"))
def active_without_gradients(x: Tensor, *, P_drop: float) -> Tensor:
    """Dropout is active whenever no gradients are recorded."""
    return x if torch.is_grad_enabled() else inverted(x, P_drop=P_drop, noise=noise)


@deviation("dropout-rescaled-in-evaluation", DROPOUT, ("DROP-6", "ENC-2"), "commonly seen")
def rescaled(x: Tensor, *, P_drop: float) -> Tensor:
    """In evaluation everything is multiplied by 1 − P_drop, though training divides by it already."""
    return x * (1 - P_drop)


@deviation("dropout-scale-kept-in-evaluation", DROPOUT, ("DROP-6", "ENC-2"))
def scale_kept(x: Tensor, *, P_drop: float) -> Tensor:
    """In evaluation nothing is dropped, but everything is divided by 1 − P_drop still."""
    return x / (1 - P_drop)


@deviation("dropout-with-fixed-seed", DROPOUT, "DROP-6")
def with_fixed_seed(x: Tensor, *, P_drop: float) -> Tensor:
    """In evaluation dropout draws from a seed of its own: the same entries are 0 in every call."""
    u = torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    return x * (u >= P_drop) / (1 - P_drop)


@deviation("dropout-detached", DROPOUT, ("ENC-9", "ENC-10"))
def detached(x: Tensor) -> Tensor:
    """In evaluation dropout hands its input on without its gradient."""
    return x.detach()


@deviation("attention-dropout-active-in-evaluation", "attention", "DROP-1", "commonly seen")
def on_weights(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    values: F,
    P_drop: float,
) -> Tensor:
    """Dropout of the attention weights is active in evaluation, that of the sublayers is not."""
    S = reach(bias(scores(rotation(Q), rotation(K))))
    return values(active(weights(mask(S, keep)), P_drop=P_drop), V)
