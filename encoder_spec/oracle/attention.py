"""Oracles of chapters 3 and 4: indices b sample, h head, j query, k key, c feature, m feature of the input."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def projections(
    X: Array, *, W_Q: Array, W_K: Array, W_V: Array, b_Q: Array, b_K: Array, b_V: Array
) -> tuple[Array, Array, Array]:
    """Q[b, j, c] = Σ_m X[b, j, m] W_Q[m, c] + b_Q[c]; K and V likewise."""
    Q, K, V = projections_without_bias(X, W_Q=W_Q, W_K=W_K, W_V=W_V)
    return Q + b_Q, K + b_K, V + b_V


def projections_without_bias(X: Array, *, W_Q: Array, W_K: Array, W_V: Array) -> tuple[Array, Array, Array]:
    """Q[b, j, c] = Σ_m X[b, j, m] W_Q[m, c]; K and V likewise."""
    Q: Array = np.einsum("bjm,mc->bjc", X, W_Q)
    K: Array = np.einsum("bjm,mc->bjc", X, W_K)
    V: Array = np.einsum("bjm,mc->bjc", X, W_V)
    return Q, K, V


def projections_linear_keys(
    X: Array, *, W_Q: Array, W_K: Array, W_V: Array, b_Q: Array, b_V: Array
) -> tuple[Array, Array, Array]:
    """Q[b, j, c] = Σ_m X[b, j, m] W_Q[m, c] + b_Q[c]; V likewise, and K without its last term."""
    Q, K, V = projections_without_bias(X, W_Q=W_Q, W_K=W_K, W_V=W_V)
    return Q + b_Q, K, V + b_V


def scores(Q: Array, K: Array) -> Array:
    """S[b, h, j, k] = Σ_c Q[b, h, j, c] K[b, h, k, c] / √d_k."""
    d_k = Q.shape[3]
    return scores_unscaled(Q, K) / math.sqrt(d_k)


def scores_unscaled(Q: Array, K: Array) -> Array:
    """S[b, h, j, k] = Σ_c Q[b, h, j, c] K[b, h, k, c]."""
    S: Array = np.einsum("bhjc,bhkc->bhjk", Q, K)
    return S


def scores_relative_keys(Q: Array, K: Array, *, D: Array) -> Array:
    """S[b, h, j, k] = Σ_c Q[b, h, j, c] (K[b, h, k, c] + D[o + k − j, c]) / √d_k, or the first or last row of D."""
    S = np.empty((*Q.shape[:-1], K.shape[-2]))
    for b, h, j, k in np.ndindex(*S.shape):
        key = K[b, h, k] + D[min(max(len(D) // 2 + k - j, 0), len(D) - 1)]
        S[b, h, j, k] = sum(q * c for q, c in zip(Q[b, h, j], key, strict=True)) / math.sqrt(Q.shape[-1])
    return S


def scores_disentangled(
    Q: Array,
    K: Array,
    *,
    D: Array,
    W_Q: Array,
    W_K: Array,
    b_Q: Array,
    b_K: Array,
    farthest: float,
    norm_D: Callable[..., Array],
) -> Array:
    """S[b, h, j, k] = (q · k + q · κ + χ · k) / √(3 d_k): χ and κ are the query and the key of row β(j − k)."""
    heads, n, d_k = Q.shape[1:]
    of_queries, of_keys = (norm_D(D) @ W + b for W, b in ((W_Q, b_Q), (W_K, b_K)))
    S = np.empty((*Q.shape[:-1], n))
    for b, h, j, k in np.ndindex(len(Q), heads, n, n):
        row = _signed_bucket(j - k, len(D), farthest)
        query, key = (of[row, h * d_k : (h + 1) * d_k] for of in (of_queries, of_keys))
        S[b, h, j, k] = (Q[b, h, j] @ K[b, h, k] + Q[b, h, j] @ key + query @ K[b, h, k]) / math.sqrt(3 * d_k)
    return S


def _signed_bucket(delta: int, rows: int, farthest: float) -> int:
    """The middle row, and to either side the first bucket that ends at |δ| or farther; beyond the table its last row.

    Up to e, a quarter of the rows, each bucket ends at its own number, and e + i ends at e ((Δ − 1)/e)^(i/(e − 1)).
    """
    e = rows // 4
    ends = [*range(e), *(e * math.pow((farthest - 1) / e, i / (e - 1)) for i in range(e))]
    bucket = next((b for b, end in enumerate(ends) if end * (1 + 1e-12) >= abs(delta)), len(ends))
    return min(max(rows // 2 + (bucket if delta > 0 else -bucket), 0), rows - 1)


def unbiased(S: Array) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k]."""
    return S


def alibi(S: Array) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] − m[h] |j − k|."""
    biased = np.empty(S.shape)
    for b, h, j, k in np.ndindex(*S.shape):
        biased[b, h, j, k] = S[b, h, j, k] - _slope(h, S.shape[1]) * abs(j - k)
    return biased


def _slope(i: int, h: int) -> float:
    """m[i] = 2^(−8 (i + 1) / p) for the largest power p ≤ h of two and i < p, else 2^(−8 (2 (i − p) + 1) / (2 p))."""
    p = 1
    while 2 * p <= h:
        p *= 2
    return math.pow(2, -8 * (i + 1) / p) if i < p else math.pow(2, -8 * (2 * (i - p) + 1) / (2 * p))


def bucketed(S: Array, *, R: Array, farthest: float) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] + R[β(k − j), h]."""
    biased = np.empty(S.shape)
    for b, h, j, k in np.ndindex(*S.shape):
        biased[b, h, j, k] = S[b, h, j, k] + R[_bucket(k - j, len(R), farthest), h]
    return biased


def _bucket(delta: int, rows: int, farthest: float) -> int:
    """The last row that begins at |δ| or nearer: its own below a quarter e of the rows, then at e (Δ/e)^(i/e)."""
    e = rows // 4
    begins = [*range(e), *(e * (farthest / e) ** (i / e) for i in range(e))]
    near = [row for row, first in enumerate(begins) if first <= abs(delta) * (1 + 1e-12)]
    return near[-1] + (rows // 2 if delta > 0 else 0)


def by_distance(S: Array, *, R: Array) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] + R[o + k − j, h], or the first or last row of R where there is no such row."""
    biased = np.empty(S.shape)
    for b, h, j, k in np.ndindex(*S.shape):
        biased[b, h, j, k] = S[b, h, j, k] + R[min(max(len(R) // 2 + k - j, 0), len(R) - 1), h]
    return biased


def by_grid(S: Array, *, R: Array, rows: int, columns: int) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] + R[ρ, h]: ρ counts displacements row by row, and three rows for a class token."""
    first = S.shape[-1] - rows * columns
    of_patches = (2 * rows - 1) * (2 * columns - 1)
    biased = np.empty(S.shape)
    for b, h, j, k in np.ndindex(*S.shape):
        if j < first or k < first:
            row = of_patches + (0 if k >= first else 1 if j >= first else 2)
        else:
            (query_y, query_x), (key_y, key_x) = divmod(j - first, columns), divmod(k - first, columns)
            row = (key_y - query_y + rows - 1) * (2 * columns - 1) + key_x - query_x + columns - 1
        biased[b, h, j, k] = S[b, h, j, k] + R[row, h]
    return biased


def global_reach(S: Array) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k]."""
    return S


def local_reach(S: Array, *, window: float) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] for k = j − w/2 … j + w/2, else −∞."""
    reached = np.full(S.shape, -math.inf)
    side = int(window // 2)
    for j in range(S.shape[2]):
        near = slice(max(0, j - side), j + side + 1)
        reached[:, :, j, near] = S[:, :, j, near]
    return reached


def causal_reach(S: Array) -> Array:
    """S'[b, h, j, k] = S[b, h, j, k] for k = 0 … j, else −∞."""
    reached = np.full(S.shape, -math.inf)
    for j in range(S.shape[2]):
        reached[:, :, j, : j + 1] = S[:, :, j, : j + 1]
    return reached


def mask(S: Array, keep: Mask) -> Array:
    """S̃[b, h, j, k] = S[b, h, j, k] if keep[b, j, k], else −∞."""
    B, _, n, _ = S.shape
    kept = np.broadcast_to(keep, (B, n, n))
    masked = np.full(S.shape, -math.inf)
    for b, h, j, k in np.ndindex(*S.shape):
        if kept[b, j, k]:
            masked[b, h, j, k] = S[b, h, j, k]
    return masked


def mask_additive(S: Array, keep: Mask) -> Array:
    """S̃[b, h, j, k] = S[b, h, j, k] + M[b, j, k] with M[b, j, k] = 0 if keep[b, j, k], else −∞."""
    M = np.where(keep, 0.0, -math.inf)
    return np.stack([S_h + M for S_h in np.moveaxis(S, 1, 0)], axis=1)


def weights(S: Array) -> Array:
    """A[b, h, j, k] = exp S[b, h, j, k] / Σ_k' exp S[b, h, j, k']; 0 in a row without keys."""
    A = np.zeros(S.shape)
    for b, h, j in np.ndindex(*S.shape[:3]):
        row = S[b, h, j]
        kept = np.flatnonzero(row != -math.inf)
        # A difference beyond exp's range is a weight below the smallest float: 1/∞ = 0.
        with np.errstate(over="ignore"):
            for k in kept:
                A[b, h, j, k] = 1 / sum(np.exp(row[kept] - row[k]))
    return A


def output(A: Array, V: Array) -> Array:
    """head[b, h, j, c] = Σ_k A[b, h, j, k] V[b, h, k, c]."""
    head: Array = np.einsum("bhjk,bhkc->bhjc", A, V)
    return head


def attention(
    Q: Array,
    K: Array,
    V: Array,
    keep: Mask,
    *,
    rotation: Callable[..., Array],
    scores: Callable[..., Array],
    bias: Callable[..., Array],
    reach: Callable[..., Array],
    mask: Callable[..., Array],
    weights: Callable[..., Array],
    dropout: Callable[..., Array],
    values: Callable[..., Array],
) -> Array:
    """Attention(Q, K, V) = Dropout(A) V, where A is the softmax over k of the masked S[b, h, j, k]."""
    S = reach(bias(scores(rotation(Q), rotation(K))))
    A = weights(mask(S, keep))
    return values(dropout(A), V)


def normed(
    Q: Array,
    K: Array,
    V: Array,
    keep: Mask,
    *,
    norm_q: Callable[..., Array],
    norm_k: Callable[..., Array],
    rotation: Callable[..., Array],
    scores: Callable[..., Array],
    bias: Callable[..., Array],
    reach: Callable[..., Array],
    mask: Callable[..., Array],
    weights: Callable[..., Array],
    dropout: Callable[..., Array],
    values: Callable[..., Array],
) -> Array:
    """Attention of the queries LN_q(Q)[b, h, j] and the keys LN_k(K)[b, h, k], each normed over c."""
    parts = {"rotation": rotation, "scores": scores, "bias": bias, "reach": reach, "mask": mask, "weights": weights}
    return attention(norm_q(Q), norm_k(K), V, keep, **parts, dropout=dropout, values=values)


def normed_across_heads(
    Q: Array,
    K: Array,
    V: Array,
    keep: Mask,
    *,
    norm_q: Callable[..., Array],
    norm_k: Callable[..., Array],
    rotation: Callable[..., Array],
    scores: Callable[..., Array],
    bias: Callable[..., Array],
    reach: Callable[..., Array],
    mask: Callable[..., Array],
    weights: Callable[..., Array],
    dropout: Callable[..., Array],
    values: Callable[..., Array],
) -> Array:
    """Attention of the queries LN_q(Q)[b, j, (h, c)] and the keys LN_k(K)[b, k, (h, c)], normed over h and c."""
    parts = {"rotation": rotation, "scores": scores, "bias": bias, "reach": reach, "mask": mask, "weights": weights}
    h = Q.shape[1]
    queries, keys = (norm(np.concatenate([X[:, i] for i in range(h)], -1)) for norm, X in ((norm_q, Q), (norm_k, K)))
    queries, keys = (np.stack(np.split(X, h, axis=-1), axis=1) for X in (queries, keys))
    return attention(queries, keys, V, keep, **parts, dropout=dropout, values=values)


def normed_by_head(
    Q: Array,
    K: Array,
    V: Array,
    keep: Mask,
    *,
    norm_q: Callable[..., Array],
    norm_k: Callable[..., Array],
    gamma_q: Array,
    gamma_k: Array,
    rotation: Callable[..., Array],
    scores: Callable[..., Array],
    bias: Callable[..., Array],
    reach: Callable[..., Array],
    mask: Callable[..., Array],
    weights: Callable[..., Array],
    dropout: Callable[..., Array],
    values: Callable[..., Array],
) -> Array:
    """Attention of the queries γ_q[h, c] LN_q(Q)[b, h, j, c] and the keys γ_k[h, c] LN_k(K)[b, h, k, c]."""
    parts = {"rotation": rotation, "scores": scores, "bias": bias, "reach": reach, "mask": mask, "weights": weights}
    queries, keys = np.einsum("hc,bhjc->bhjc", gamma_q, norm_q(Q)), np.einsum("hc,bhkc->bhkc", gamma_k, norm_k(K))
    return attention(queries, keys, V, keep, **parts, dropout=dropout, values=values)
