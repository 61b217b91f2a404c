"""Oracles of rotary positions: indices b sample, h head, m position, c feature, i pair of features."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def angles(x: Array, *, theta: float, fraction: float) -> Array:
    """φ[m, i] = m / θ^{i/(r/2)} with r/2 pairs."""
    _, _, n, d_k = x.shape
    number = round(fraction * d_k) // 2  # a feature without a partner is not turned
    phi = np.empty((n, number))
    for m, i in np.ndindex(n, number):
        phi[m, i] = m / math.pow(theta, i / number)
    return phi


def halves(x: Array, *, angles: Callable[..., Array]) -> Array:
    """x'[m, i] + î x'[m, r/2 + i] = (x[m, i] + î x[m, r/2 + i]) · exp(î φ[m, i]), with the imaginary unit î."""
    phi = angles(x)
    half = phi.shape[1]
    return _turned(x, phi, [(i, half + i) for i in range(half)])


def pairs(x: Array, *, angles: Callable[..., Array]) -> Array:
    """x'[m, 2i] + î x'[m, 2i + 1] = (x[m, 2i] + î x[m, 2i + 1]) · exp(î φ[m, i]), with the imaginary unit î."""
    phi = angles(x)
    return _turned(x, phi, [(2 * i, 2 * i + 1) for i in range(phi.shape[1])])


def _turned(x: Array, phi: Array, partners: list[tuple[int, int]]) -> Array:
    turned = x.copy()
    for b, h, m in np.ndindex(*x.shape[:3]):
        for i, (one, other) in enumerate(partners):
            by = complex(math.cos(phi[m, i]), math.sin(phi[m, i]))
            point = complex(x[b, h, m, one], x[b, h, m, other]) * by
            turned[b, h, m, one], turned[b, h, m, other] = point.real, point.imag
    return turned


def unturned(x: Array) -> Array:
    """x'[b, h, m, c] = x[b, h, m, c]."""
    return x
