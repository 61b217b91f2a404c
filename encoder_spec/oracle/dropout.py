"""Oracles of chapter 8, second half: index p runs over all entries."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def identity(x: Array) -> Array:
    """y[p] = x[p]."""
    return x


def dropout(x: Array, *, P_drop: float, noise: Callable[..., Array]) -> Array:
    """y[p] = x[p]/(1 − P_drop) if u[p] ≥ P_drop, else 0."""
    u = noise(x)
    y = np.zeros(x.shape)
    for p in np.ndindex(*x.shape):
        if u[p] >= P_drop:
            y[p] = x[p] / (1 - P_drop)
    return y


def noise(x: Array) -> Array:
    """u[p] ~ U[0, 1), independently, from NumPy's generator: equal to no other draw."""
    return np.random.default_rng().random(x.shape)
