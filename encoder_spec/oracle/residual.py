"""Oracle of chapter 8, first half."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def residual(x: Array, sublayer: Array) -> Array:
    """y[p, c] = x[p, c] + Sublayer(x)[p, c]."""
    y = np.empty(x.shape)
    for at in np.ndindex(*x.shape):
        y[at] = x[at] + sublayer[at]
    return y


def scaled(x: Array, sublayer: Array, *, lam: Array) -> Array:
    """y[p, c] = x[p, c] + λ[c] Sublayer(x)[p, c]."""
    y = np.empty(x.shape)
    for at in np.ndindex(*x.shape):
        y[at] = x[at] + lam[at[-1]] * sublayer[at]
    return y


def deepnorm(x: Array, sublayer: Array, *, N: int) -> Array:
    """y[p, c] = √√(2N) x[p, c] + Sublayer(x)[p, c]."""
    y = np.empty(x.shape)
    for at in np.ndindex(*x.shape):
        y[at] = math.sqrt(math.sqrt(N + N)) * x[at] + sublayer[at]
    return y


def deepnorm_with_decoder(x: Array, sublayer: Array, *, N: int, M: int) -> Array:
    """y[p, c] = 0.81 N^(1/4) M^(1/16) x[p, c] + Sublayer(x)[p, c]."""
    alpha = 81 / 100 * math.exp(math.log(N) / 4 + math.log(M) / 16)
    y = np.empty(x.shape)
    for at in np.ndindex(*x.shape):
        y[at] = alpha * x[at] + sublayer[at]
    return y
