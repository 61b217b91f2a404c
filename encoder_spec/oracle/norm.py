"""Oracles of chapter 6: index p runs over all positions of all samples, c and j over the features of one."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistics = Callable[..., tuple[Array, Array]]


def statistics(x: Array) -> tuple[Array, Array]:
    """μ[p] = 1/d Σ_j x[p, j] and σ²[p] = 1/d Σ_j (x[p, j] − μ[p])², each sum rounded once."""
    *axes, d = x.shape
    mu, var = np.empty((*axes, 1)), np.empty((*axes, 1))
    for p in np.ndindex(*axes):
        mu[p] = math.fsum(x[p]) / d
        var[p] = math.fsum((x_j - mu[p].item()) ** 2 for x_j in x[p]) / d
    return mu, var


def layer_norm(x: Array, *, statistics: Statistics, gamma: Array, beta: Array, eps: float) -> Array:
    """y[p, c] = γ[c] (x[p, c] − μ[p]) / √(σ²[p] + ε) + β[c]."""
    return layer_norm_without_bias(x, statistics=statistics, gamma=gamma, eps=eps) + beta


def layer_norm_without_bias(x: Array, *, statistics: Statistics, gamma: Array, eps: float) -> Array:
    """y[p, c] = γ[c] (x[p, c] − μ[p]) / √(σ²[p] + ε)."""
    mu, var = statistics(x)
    y = np.empty(x.shape)
    for *p, c in np.ndindex(*x.shape):
        at = tuple(p)
        y[*at, c] = gamma[c] * (x[*at, c] - mu[*at, 0]) / math.sqrt(var[*at, 0] + eps)
    return y


def std_plus_eps(x: Array, *, statistics: Statistics, gamma: Array, beta: Array, eps: float) -> Array:
    """y[p, c] = γ[c] (x[p, c] − μ[p]) / (σ[p] + ε) + β[c]."""
    mu, var = statistics(x)
    y = np.empty(x.shape)
    for *p, c in np.ndindex(*x.shape):
        at = tuple(p)
        y[*at, c] = gamma[c] * (x[*at, c] - mu[*at, 0]) / (math.sqrt(var[*at, 0]) + eps) + beta[c]
    return y


def unbiased_std_plus_eps(x: Array, *, statistics: Statistics, gamma: Array, beta: Array, eps: float) -> Array:
    """y[p, c] = γ[c] (x[p, c] − μ[p]) / (s[p] + ε) + β[c] with s²[p] = 1/(d − 1) Σ_j (x[p, j] − μ[p])²."""
    mu, _ = statistics(x)
    *axes, d = x.shape
    y = np.empty(x.shape)
    for p in np.ndindex(*axes):
        deviations = [x_j - mu[p].item() for x_j in x[p]]
        s = math.sqrt(math.fsum(v**2 for v in deviations) / (d - 1))
        for c in range(d):
            y[*p, c] = gamma[c] * deviations[c] / (s + eps) + beta[c]
    return y


def rms(x: Array, *, gamma: Array, eps: float) -> Array:
    """y[p, c] = γ[c] x[p, c] / √(1/d Σ_j x[p, j]² + ε)."""
    *axes, d = x.shape
    y = np.empty(x.shape)
    for p in np.ndindex(*axes):
        mean_square = math.fsum(x_j**2 for x_j in x[p]) / d
        for c in range(d):
            y[*p, c] = gamma[c] * x[*p, c] / math.sqrt(mean_square + eps)
    return y
