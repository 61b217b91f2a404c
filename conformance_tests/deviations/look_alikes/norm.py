"""Other computations of the norms."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike

NORM, STATISTICS = "norm.layer_norm", "norm.statistics"

Moments: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
Vector: TypeAlias = Float[Tensor, "d_model"]


@look_alike("norm-of-torch", NORM)
def of_torch(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm is torch's own."""
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps)


@look_alike("norm-as-group-norm", NORM)
def as_group_norm(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm is a group norm of every token, with one group."""
    return functional.group_norm(x.flatten(0, -2), 1, gamma, beta, eps).reshape(x.shape)


@look_alike("norm-by-inverse-root", NORM)
def by_inverse_root(x: Tensor, *, statistics: Moments, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm multiplies by the inverse root of the variance, joined with γ."""
    mu, var = statistics(x)
    return torch.addcmul(beta, x - mu, torch.rsqrt(var + eps) * gamma)


@look_alike("norm-sequence-first", NORM)
def sequence_first(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm is taken over the last axis of an array (n, B, d)."""
    return functional.layer_norm(x.transpose(0, 1), gamma.shape, gamma, beta, eps).transpose(0, 1)


@look_alike("variance-of-torch", STATISTICS)
def variance_of_torch(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance are torch's own, without Bessel's correction."""
    var, mu = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return mu, var


@look_alike("variance-corrected-back", STATISTICS)
def corrected_back(x: Tensor) -> tuple[Tensor, Tensor]:
    """The unbiased variance is multiplied by (d − 1)/d."""
    return x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True) * (1 - 1 / x.shape[-1])


@look_alike("variance-in-one-pass-from-a-shift", STATISTICS)
def in_one_pass_from_a_shift(x: Tensor) -> tuple[Tensor, Tensor]:
    """The variance is taken in one pass from the values less the first one, which spares the digits."""
    first = x[..., :1]
    y = x - first
    mean = y.mean(dim=-1, keepdim=True)
    return first + mean, y.square().mean(dim=-1, keepdim=True) - mean.square()


@look_alike("standard-deviation-of-torch", "norm.unbiased_std_plus_eps")
def deviation_of_torch(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm divides by torch's standard deviation plus ε."""
    return gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + beta


@look_alike("norm-in-float32", NORM)
def in_float32(x: Tensor, *, gamma: Vector, beta: Vector, eps: float) -> Tensor:
    """The norm is computed in float32, whatever the dtype of its input."""
    gamma, beta = gamma.to(torch.float32), beta.to(torch.float32)
    return functional.layer_norm(x.to(torch.float32), gamma.shape, gamma, beta, eps).to(x.dtype)
