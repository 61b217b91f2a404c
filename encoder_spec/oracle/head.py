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


def cls(Z: Array, keep: Mask, *, W_cls: Array, b_cls: Array) -> Array:  # noqa: ARG001
    """y[b, c] = Σ_m Z[b, 0, m] W[m, c] + b[c]."""
    y: Array = np.einsum("bm,mc->bc", Z[:, 0, :], W_cls) + b_cls
    return y


def mean_pool(Z: Array, keep: Mask) -> Array:
    """y[b, m] = Σ_j keep[b, j] Z[b, j, m] / Σ_j keep[b, j]; 0 where nothing is kept."""
    B, n, d_model = Z.shape
    kept = np.broadcast_to(keep[:, 0, :], (B, n))
    y = np.zeros((B, d_model))
    for b, m in np.ndindex(B, d_model):
        valid = [Z[b, j, m] for j in range(n) if kept[b, j]]
        if valid:
            y[b, m] = math.fsum(valid) / len(valid)
    return y


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
