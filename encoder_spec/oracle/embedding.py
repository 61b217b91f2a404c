"""Oracles of chapter 1: indices b sample, j position, c feature, v row of the vocabulary."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.int64]


def lookup(tokens: Ids, *, E: Array) -> Array:
    """X[b, j, c] = Σ_v [x[b, j] = v] E[v, c]."""
    one_hot = tokens[:, :, None] == np.arange(len(E))
    X: Array = np.einsum("bjv,vc->bjc", one_hot, E)
    return X


def scale(X: Array) -> Array:
    """X[b, j, c] ← d_model^½ X[b, j, c]."""
    d_model = X.shape[2]
    root: float = d_model**0.5
    return root * X


def unscaled(X: Array) -> Array:
    """X[b, j, c] ← X[b, j, c]."""
    return X


def patches(images: Array, *, patch: int, W_patch: Array, b_patch: Array) -> Array:
    """X[b, r·columns + s] = Σ_{c,y,z} image[b, c, r·p + y, s·p + z] W[(c·p + y)·p + z] + b."""
    B, channels, height, width = images.shape
    p, rows, columns = patch, height // patch, width // patch
    X = np.zeros((B, rows * columns, len(b_patch)))
    for b, r, s in np.ndindex(B, rows, columns):
        for c, y, z in np.ndindex(channels, p, p):
            X[b, r * columns + s] += images[b, c, r * p + y, s * p + z] * W_patch[(c * p + y) * p + z]
        X[b, r * columns + s] += b_patch
    return X


def patches_without_bias(images: Array, *, patch: int, W_patch: Array) -> Array:
    """X[b, j, c] = Σ_i x_p[b, j, i] W_patch[i, c], as above with b = 0."""
    return patches(images, patch=patch, W_patch=W_patch, b_patch=np.zeros(W_patch.shape[1]))


def cls(X: Array, *, x_cls: Array) -> Array:
    """X'[b, 0] = x_cls and X'[b, j + 1] = X[b, j]."""
    B, n, d_model = X.shape
    longer = np.empty((B, n + 1, d_model))
    for b in range(B):
        longer[b, 0] = x_cls
        for j in range(n):
            longer[b, j + 1] = X[b, j]
    return longer


def no_cls(X: Array) -> Array:
    """X'[b, j, c] = X[b, j, c]."""
    return X


def embedded(
    tokens: NDArray[np.generic],
    *segment_ids: Ids,
    embedding: Callable[..., Array],
    embedding_scale: Callable[..., Array],
    cls: Callable[..., Array],
    position: Callable[..., Array],
    segment: Callable[..., Array],
    embedding_norm: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """X⁰[b, j, c] = Dropout(Norm(X'[b, j] + PE[j] + segment)[c]) with X' = Cls(Scale(Embed(x)))."""
    X = cls(embedding_scale(embedding(tokens)))
    PE = position(X)
    total = np.empty(X.shape)
    for b, j in np.ndindex(*X.shape[:2]):
        total[b, j] = X[b, j] + PE[j]
    return dropout(embedding_norm(segment(total, *segment_ids)))


def segments(X: Array, segment_ids: Ids, *, E_seg: Array) -> Array:
    """X[b, j, c] + E_seg[s[b, j], c]."""
    total = np.empty(X.shape)
    for b, j in np.ndindex(*segment_ids.shape):
        total[b, j] = X[b, j] + E_seg[segment_ids[b, j]]
    return total


def no_segments(X: Array) -> Array:
    """X[b, j, c]."""
    return X


def embedding_norm(X: Array, *, norm_embedding: Callable[..., Array]) -> Array:
    """LN(X[b, j])."""
    return norm_embedding(X)


def no_embedding_norm(X: Array) -> Array:
    """X[b, j, c]."""
    return X


def given(X: Array) -> Array:
    """X⁰[b, j, c] = X[b, j, c]."""
    return X
