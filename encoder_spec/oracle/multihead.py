"""Oracles of chapter 5: indices b sample, i head, j position, c feature inside a head, m feature of a whole row."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def split(X: Array, *, h: int) -> Array:
    """X_i[b, j, c] = X[b, j, i·d_head + c]."""
    B, n, width = X.shape
    d_head = width // h
    heads = np.empty((B, h, n, d_head))
    for b, i, j, c in np.ndindex(*heads.shape):
        heads[b, i, j, c] = X[b, j, i * d_head + c]
    return heads


def groups(X: Array, *, h: int, g: int) -> Array:
    """X_i[b, j, c] = X[b, j, ⌊i g / h⌋ d_head + c]."""
    of_groups = split(X, h=g)
    return np.stack([of_groups[:, int(np.floor(i * g / h))] for i in range(h)], axis=1)


def concat(heads: Array) -> Array:
    """C[b, j, i·d_v + c] = head_i[b, j, c]."""
    B, h, n, d_v = heads.shape
    C = np.empty((B, n, h * d_v))
    for b, i, j, c in np.ndindex(*heads.shape):
        C[b, j, i * d_v + c] = heads[b, i, j, c]
    return C


def output(C: Array, *, W_O: Array, b_O: Array) -> Array:
    """Y[b, j, c] = Σ_m C[b, j, m] W_O[m, c] + b_O[c]."""
    return output_without_bias(C, W_O=W_O) + b_O


def output_without_bias(C: Array, *, W_O: Array) -> Array:
    """Y[b, j, c] = Σ_m C[b, j, m] W_O[m, c]."""
    Y: Array = np.einsum("bjm,mc->bjc", C, W_O)
    return Y


def multihead(
    X: Array,
    keep: NDArray[np.bool_],
    *,
    projections: Callable[..., tuple[Array, Array, Array]],
    split: Callable[..., Array],
    attention: Callable[..., Array],
    merge: Callable[..., Array],
    output: Callable[..., Array],
) -> Array:
    """MHA(X) = Output(Concat_i Attention(Q_i, K_i, V_i))."""
    Q, K, V = projections(X)
    return output(merge(attention(split(Q), split(K), split(V), keep)))


def grouped(
    X: Array,
    keep: NDArray[np.bool_],
    *,
    projections: Callable[..., tuple[Array, Array, Array]],
    split: Callable[..., Array],
    groups: Callable[..., Array],
    attention: Callable[..., Array],
    merge: Callable[..., Array],
    output: Callable[..., Array],
) -> Array:
    """Output(Concat_i Attention(Q_i, K_⌊i g / h⌋, V_⌊i g / h⌋))."""
    Q, K, V = projections(X)
    return output(merge(attention(split(Q), groups(K), groups(V), keep)))
