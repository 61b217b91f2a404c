"""Oracles of chapter 11: indices b sample, j position, m feature, c class, v row of the vocabulary."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def none(Z: Array, keep: Mask) -> Array:  # noqa: ARG001 — every head is offered the mask
    """y[b, j, m] = Z[b, j, m]."""
    return Z


def pooled(Z: Array, keep: Mask, *, pool: Callable[..., Array], length: Callable[..., Array]) -> Array:
    """y[b, m] = length(pool(Z))[b, m]."""
    return length(pool(Z, keep))


def classifier(
    Z: Array, keep: Mask, *, pool: Callable[..., Array], length: Callable[..., Array], W_cls: Array, b_cls: Array
) -> Array:
    """y[b, c] = length(Σ_m pool(Z)[b, m] W[m, c] + b[c])."""
    mapped: Array = np.einsum("bm,mc->bc", pool(Z, keep), W_cls) + b_cls
    return length(mapped)


def transformed(Z: Array, keep: Mask, *, pool: Callable[..., Array], transform: Callable[..., Array]) -> Array:
    """y[b, …] = T(pool(Z))[b, …]."""
    return transform(pool(Z, keep))


def read(Z: Array, keep: Mask, *, reader: Callable[..., Array]) -> Array:
    """y[b, …] = R(Z)[b, …]."""
    return reader(Z, keep)


def attention_pool(Z: Array, keep: Mask, *, q_pool: Array, W_K_pool: Array, W_V_pool: Array, W_O_pool: Array) -> Array:
    """y[b, d] = Σ_i Σ_v (Σ_j α[i, j] Σ_m Z[b, j, m] W_V[i, m, v]) W_O[i, v, d], with α of the valid j alone."""
    h, d_k = q_pool.shape
    y = np.zeros((len(Z), W_O_pool.shape[-1]))
    for b, places in enumerate(valid(Z, keep)):
        for i in range(h if places else 0):
            scores = [q_pool[i] @ (Z[b, j] @ W_K_pool[i]) / math.sqrt(d_k) for j in places]
            shares = [math.exp(score - max(scores)) for score in scores]
            values = sum(share * (Z[b, j] @ W_V_pool[i]) for share, j in zip(shares, places, strict=True))
            y[b] += values / math.fsum(shares) @ W_O_pool[i]
    return y


def pooler(u: Array, *, W_pool: Array, b_pool: Array) -> Array:
    """y[b, m] = tanh(Σ_m' u[b, m'] W_p[m', m] + b_p[m])."""
    inner: Array = np.einsum("bk,km->bm", u, W_pool) + b_pool
    return np.array([[math.tanh(entry) for entry in row] for row in inner]).reshape(inner.shape)


def first(Z: Array, keep: Mask) -> Array:  # noqa: ARG001
    """y[b, m] = Z[b, 0, m]."""
    return Z[:, 0, :]


def valid(Z: Array, keep: Mask) -> list[list[int]]:
    """The valid positions of each sequence b, in order."""
    B, n, _ = Z.shape
    kept = np.broadcast_to(keep[:, 0, :], (B, n))
    return [[j for j in range(n) if kept[b, j]] for b in range(B)]


def mean(Z: Array, keep: Mask) -> Array:
    """y[b, m] = Σ_j keep[b, j] Z[b, j, m] / Σ_j keep[b, j]; 0 where nothing is kept."""
    B, _, d_model = Z.shape
    y = np.zeros((B, d_model))
    for b, places in enumerate(valid(Z, keep)):
        for m in range(d_model if places else 0):
            y[b, m] = math.fsum(Z[b, j, m] for j in places) / len(places)
    return y


def last(Z: Array, keep: Mask) -> Array:
    """y[b, m] = Z[b, j, m] with the largest j that is kept; that of 0 where nothing is."""
    return np.stack([Z[b, places[-1] if places else 0, :] for b, places in enumerate(valid(Z, keep))])


def counted(Z: Array, keep: Mask) -> Array:
    """y[b, m] = Z[b, j, m] with j = Σ_j' keep[b, j'] − 1; that of 0 where nothing is kept."""
    return np.stack([Z[b, max(len(places) - 1, 0), :] for b, places in enumerate(valid(Z, keep))])


def largest(Z: Array, keep: Mask) -> Array:
    """y[b, m] = the largest Z[b, j, m] over the j that are kept; 0 where nothing is."""
    B, _, d_model = Z.shape
    y = np.zeros((B, d_model))
    for b, places in enumerate(valid(Z, keep)):
        for m in range(d_model if places else 0):
            y[b, m] = max(Z[b, j, m] for j in places)
    return y


def any_length(u: Array) -> Array:
    """y[b, m] = u[b, m]."""
    return u


def unit_length(u: Array) -> Array:
    """y[b, m] = u[b, m] / √(Σ_m' u[b, m']²); 0 where all are."""
    lengths = [math.sqrt(math.fsum(entry * entry for entry in row)) for row in u]
    return np.stack([row / length if length else row for row, length in zip(u, lengths, strict=True)])


def mlm(
    Z: Array,
    keep: Mask,  # noqa: ARG001
    *,
    activation: Callable[..., Array],
    norm_head: Callable[..., Array],
    W_mlm: Array,
    b_mlm: Array,
    E: Array,
    b_vocab: Array,
) -> Array:
    """y[b, j, v] = Σ_m LN(σ(Σ_m' Z[b, j, m'] W[m', m] + b[m])) E[v, m] + b_V[v]."""
    inner: Array = np.einsum("bjk,km->bjm", Z, W_mlm) + b_mlm
    y: Array = np.einsum("bjm,vm->bjv", norm_head(activation(inner)), E) + b_vocab
    return y


def nsp(
    Z: Array,
    keep: Mask,  # noqa: ARG001
    *,
    W_pool: Array,
    b_pool: Array,
    W_nsp: Array,
    b_nsp: Array,
) -> Array:
    """y[b, c] = Σ_m tanh(Σ_m' Z[b, 0, m'] W_p[m', m] + b_p[m]) W[m, c] + b[c]."""
    inner: Array = np.einsum("bk,km->bm", Z[:, 0, :], W_pool) + b_pool
    pooled = np.array([[math.tanh(entry) for entry in row] for row in inner])
    y: Array = np.einsum("bm,mc->bc", pooled, W_nsp) + b_nsp
    return y
