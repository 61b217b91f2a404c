"""Oracles of chapter 2: indices pos position, c feature, i = ⌊c/2⌋ pair of features."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sinusoidal(X: Array) -> Array:
    """PE[pos, c] = sin(pos/10000^{2i/d}) for c = 2i, cos(pos/10000^{2i/d}) for c = 2i + 1."""
    _, n, d = X.shape
    PE = np.empty((n, d))
    for pos, c in np.ndindex(n, d):
        i, odd = divmod(c, 2)
        angle = pos / 10000 ** (2 * i / d)
        PE[pos, c] = math.cos(angle) if odd else math.sin(angle)
    return PE


def sinusoidal_concatenated(X: Array) -> Array:
    """PE[pos, i] = sin(pos/10000^{2i/d}) and PE[pos, d/2 + i] = cos(pos/10000^{2i/d})."""
    _, n, d = X.shape
    PE = np.empty((n, d))
    for pos, i in np.ndindex(n, d // 2):
        angle = pos / 10000 ** (2 * i / d)
        PE[pos, i] = math.sin(angle)
        PE[pos, d // 2 + i] = math.cos(angle)
    return PE


def sinusoidal_tensor2tensor(X: Array, *, offset: int) -> Array:
    """PE[pos, i] = sin((pos + o)·ω_i) and PE[pos, d/2 + i] = cos((pos + o)·ω_i) with ω_i = 10⁻⁴ⁱᐟ⁽ᵈᐟ²⁻¹⁾."""
    _, n, d = X.shape
    half = d // 2
    PE = np.empty((n, d))
    for pos, i in np.ndindex(n, half):
        angle = (pos + offset) * 10 ** (-4 * i / (half - 1))
        PE[pos, i] = math.sin(angle)
        PE[pos, half + i] = math.cos(angle)
    return PE


def sinusoidal_grid(X: Array, *, axes: Callable[..., Array], rows: int, columns: int) -> Array:
    """PE[t + pos, a d/2 + f d/4 + i] = sin (f = 0) or cos (f = 1) of c_a 10000⁻⁴ⁱᐟᵈ, behind t tokens."""
    return _of_grid(X, axes, rows, columns, lambda i, d: 10000 ** (-4 * i / d))


def sinusoidal_grid_inclusive(X: Array, *, axes: Callable[..., Array], rows: int, columns: int) -> Array:
    """The same with ω_i = 10⁻⁴ⁱᐟ⁽ᵈᐟ⁴⁻¹⁾."""
    return _of_grid(X, axes, rows, columns, lambda i, d: 10 ** (-4 * i / (d / 4 - 1)))


def _of_grid(
    X: Array, axes: Callable[..., Array], rows: int, columns: int, frequency: Callable[[int, int], float]
) -> Array:
    _, n, d = X.shape
    PE = np.zeros((n, d))
    in_front = n - rows * columns
    places = axes(np.array([[float(y), float(x)] for y in range(rows) for x in range(columns)]))
    for pos, a, i in np.ndindex(rows * columns, 2, d // 4):
        angle = places[pos, a] * frequency(i, d)
        PE[in_front + pos, a * (d // 2) + i] = math.sin(angle)
        PE[in_front + pos, a * (d // 2) + d // 4 + i] = math.cos(angle)
    return PE


def learned(X: Array, *, P: Array) -> Array:
    """PE[pos, c] = P[pos, c]."""
    _, n, _ = X.shape
    return np.stack([P[pos] for pos in range(n)])


def learned_offset(X: Array, *, P: Array, offset: int) -> Array:
    """PE[pos, c] = P[pos + o, c]."""
    _, n, _ = X.shape
    return np.stack([P[pos + offset] for pos in range(n)])


def without_position(X: Array) -> Array:
    """PE[pos, c] = 0."""
    _, n, d = X.shape
    return np.zeros((n, d))


def in_attention(X: Array) -> Array:
    """PE[pos, c] = 0."""
    return without_position(X)


def convolution(X: Array, *, keep: NDArray[np.bool_], W_pos: Array, b_pos: Array) -> Array:
    """PE[b, j, c] = σ(Σ_{k,i} x̄[b, j + k − ⌊K/2⌋, g·d_c + i] W[k, i, c] + b[c]) with g = ⌊c/d_c⌋."""
    PE = np.empty(X.shape)
    for (b, j, c), z in _around(X, _kept(keep, X.shape), W_pos, b_pos):
        PE[b, j, c] = z * math.erfc(-z / math.sqrt(2)) / 2
    return PE


def convolutions(X: Array, *, keep: NDArray[np.bool_], W_around: Array, b_around: Array, eps: float) -> Array:
    """PE = x_J with x_i[b, j] = σ((z − mean z)/√(var z + ε)), z[b, j, c] as above of x_{i−1}, all of it for i > 1."""
    kept = _kept(keep, X.shape)
    for W, b in zip(W_around, b_around, strict=True):
        z = np.empty(X.shape)
        for at, value in _around(X, kept, W, b):
            z[at] = value
        X, kept = np.empty(X.shape), np.ones_like(kept)
        for at in np.ndindex(*X.shape[:2]):
            mean = math.fsum(z[at]) / len(z[at])
            variance = math.fsum((z[at] - mean) ** 2) / len(z[at])
            normed = (z[at] - mean) / math.sqrt(variance + eps)
            X[at] = [y * math.erfc(-y / math.sqrt(2)) / 2 for y in normed]
    return X


def _kept(keep: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """kept[b, p] = 1 if some query of sample b keeps position p."""
    B, n, _ = shape
    kept: NDArray[np.bool_] = np.logical_or.reduce(np.broadcast_to(keep, (B, n, n)), axis=1)
    return kept


def _around(X: Array, kept: NDArray[np.bool_], W: Array, bias: Array) -> Iterator[tuple[tuple[int, int, int], float]]:
    """z[b, j, c] = Σ_{k,i} x̄[b, j + k − ⌊K/2⌋, g·d_c + i] W[k, i, c] + b[c] with g = ⌊c/d_c⌋."""
    B, n, d = X.shape
    K, d_group, _ = W.shape
    for b, j, c in np.ndindex(B, n, d):
        first = c // d_group * d_group
        z = float(bias[c])
        for k in range(K):
            p = j + k - K // 2
            if 0 <= p < n and kept[b, p]:
                z += float(X[b, p, first : first + d_group] @ W[k, :, c])
        yield (b, j, c), z
