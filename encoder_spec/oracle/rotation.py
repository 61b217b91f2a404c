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


def axial(
    q: Array, *, coordinates: Callable[..., Array], axes: Callable[..., Array], theta: float, fraction: float
) -> Array:
    """φ[j, i] = c[j] / θ^{i/(r/4)} and φ[j, r/4 + i] = c'[j] / θ^{i/(r/4)} with r/2 pairs."""
    number, places = round(fraction * q.shape[-1]) // 4, axes(coordinates(q))
    phi = np.empty((len(places), 2 * number))
    for j, axis, i in np.ndindex(len(places), 2, number):
        phi[j, axis * number + i] = places[j, axis] / math.pow(theta, i / number)
    return phi


def axial_alternating(
    q: Array, *, coordinates: Callable[..., Array], axes: Callable[..., Array], theta: float, fraction: float
) -> Array:
    """φ[j, i] = c[j] / θ^{2i/(r/2)} and φ[j, r/4 + i] = c'[j] / θ^{(2i + 1)/(r/2)} with r/2 pairs."""
    number, places = round(fraction * q.shape[-1]) // 4, axes(coordinates(q))
    phi = np.empty((len(places), 2 * number))
    for j, axis, i in np.ndindex(len(places), 2, number):
        phi[j, axis * number + i] = places[j, axis] / math.pow(theta, (2 * i + axis) / (2 * number))
    return phi


def axial_interleaved(
    q: Array, *, coordinates: Callable[..., Array], axes: Callable[..., Array], theta: float, fraction: float
) -> Array:
    """φ[j, 2i] = c[j] / θ^{i/(r/4)} and φ[j, 2i + 1] = c'[j] / θ^{i/(r/4)} with r/2 pairs."""
    number, places = round(fraction * q.shape[-1]) // 4, axes(coordinates(q))
    phi = np.empty((len(places), 2 * number))
    for j, axis, i in np.ndindex(len(places), 2, number):
        phi[j, 2 * i + axis] = places[j, axis] / math.pow(theta, i / number)
    return phi


def rows_first(places: Array) -> Array:
    """c[j] = y[j] and c'[j] = x[j]."""
    return places


def columns_first(places: Array) -> Array:
    """c[j] = x[j] and c'[j] = y[j]."""
    return np.stack([places[:, 1], places[:, 0]], axis=1)


def counted(q: Array, *, rows: int, columns: int, origin: float) -> Array:
    """(y, x) = (o + row, o + column)."""
    return _placed(q, rows, columns, lambda place, _side: origin + place)


def stretched(q: Array, *, rows: int, columns: int, origin: float, reference: float) -> Array:
    """(y, x) = ((o + row) G/n_y, (o + column) G/n_x)."""
    return _placed(q, rows, columns, lambda place, side: (origin + place) * reference / side)


def centred(q: Array, *, rows: int, columns: int) -> Array:
    """(y, x) = 2π ((2 row + 1)/n_y − 1, (2 column + 1)/n_x − 1)."""
    return _placed(q, rows, columns, lambda place, side: math.tau * ((2 * place + 1) / side - 1))


def _placed(q: Array, rows: int, columns: int, coordinate: Callable[[int, int], float]) -> Array:
    first = q.shape[-2] - rows * columns
    places = np.zeros((q.shape[-2], 2))  # at (0, 0) nothing is turned
    for row, column in np.ndindex(rows, columns):
        places[first + row * columns + column] = coordinate(row, rows), coordinate(column, columns)
    return places


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
