"""Oracles of chapter 1: indices b sample, j position, c feature, v row of the vocabulary."""

import math
from collections.abc import Callable, Sequence
from itertools import product

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


def token_dropout(X: Array, *, keep: NDArray[np.bool_], ids: NDArray[np.int64], mask_id: int, p_mask: float) -> Array:
    """X[b, j, c] ← 0 where ids[b, j] = t_m, else (1 − p_m) X[b, j, c] / (1 − r[b]), r[b] being their share."""
    B, n, _ = X.shape
    kept = np.broadcast_to(keep[:, 0, :], (B, n))
    y = np.zeros(X.shape)
    for b in range(B):
        at = {j for j in range(n) if ids[b, j] == mask_id}
        r = len(at) / max(sum(1 for j in range(n) if kept[b, j]), 1)
        for j in set(range(n)) - at:
            y[b, j] = [(1 - p_mask) * entry / (1 - r if r < 1 else 1) for entry in X[b, j]]
    return y


def patches(
    images: Array, *, patch: int, patch_width: int, feature_norm: Callable[..., Array], W_patch: Array, b_patch: Array
) -> Array:
    """X[b, j, c] = Σ_i Norm(x_p[b, j])[i] W[i, c] + b[c], x_p[b, r·columns + s, (c·p + y)·q + z] = image[…]."""
    B, channels, height, width = images.shape
    p, q, rows, columns = patch, patch_width, height // patch, width // patch_width
    x_p = np.zeros((B, rows * columns, channels * p * q))
    for b, r, s, c, y, z in np.ndindex(B, rows, columns, channels, p, q):
        x_p[b, r * columns + s, (c * p + y) * q + z] = images[b, c, r * p + y, s * q + z]
    X: Array = np.einsum("bji,ic->bjc", feature_norm(x_p), W_patch) + b_patch
    return X


def patches_without_bias(
    images: Array, *, patch: int, patch_width: int, feature_norm: Callable[..., Array], W_patch: Array
) -> Array:
    """X[b, j, c] = Σ_i Norm(x_p[b, j])[i] W_patch[i, c], as above with b = 0."""
    b_patch = np.zeros(W_patch.shape[1])
    return patches(
        images, patch=patch, patch_width=patch_width, feature_norm=feature_norm, W_patch=W_patch, b_patch=b_patch
    )


def convolutions(signal: Array, *, W_conv: Array, b_conv: Array, W_step: Array, b_step: Array) -> Array:
    """X[b, j] = σ(Σ_k U[b, 2j + k − 1] W_step[k] + b), U[b, t] = σ(Σ_{k,c} u[b, c, t + k − 1] W_conv[k, c] + b)."""
    B, channels, times = signal.shape
    U = np.zeros((B, times, len(b_conv)))
    for b, t in np.ndindex(B, times):
        U[b, t] = b_conv
        for k, c in np.ndindex(3, channels):
            if 0 <= t + k - 1 < times:
                U[b, t] += signal[b, c, t + k - 1] * W_conv[k, c]
    U = _gelu(U)
    X = np.zeros((B, (times + 1) // 2, len(b_step)))
    for b, j in np.ndindex(*X.shape[:2]):
        X[b, j] = b_step
        for k, m in np.ndindex(3, len(b_conv)):
            if 0 <= 2 * j + k - 1 < times:
                X[b, j] += U[b, 2 * j + k - 1, m] * W_step[k, m]
    return _gelu(X)


def _gelu(x: Array) -> Array:
    """σ(x) = x erfc(−x/√2)/2, the GELU of chapter 7."""
    return np.array([entry * math.erfc(-entry / math.sqrt(2)) / 2 for entry in x.flat]).reshape(x.shape)


def vectors(x: Array) -> Array:
    """X[b, j, c] = x[b, j, c]."""
    return x


def features(u: Array, *, feature_norm: Callable[..., Array], W_feature: Array, b_feature: Array) -> Array:
    """X[b, j, c] = Σ_i Norm(u[b, j])[i] W_feature[i, c] + b_feature[c]."""
    normed = feature_norm(u)
    X = np.zeros((*u.shape[:2], len(b_feature)))
    for b, j, c in np.ndindex(*X.shape):
        X[b, j, c] = sum(normed[b, j, i] * W_feature[i, c] for i in range(len(W_feature))) + b_feature[c]
    return X


def features_without_bias(u: Array, *, feature_norm: Callable[..., Array], W_feature: Array) -> Array:
    """X[b, j, c] = Σ_i Norm(u[b, j])[i] W_feature[i, c]."""
    X: Array = np.einsum("bji,ic->bjc", feature_norm(u), W_feature)
    return X


def waveform(
    samples: Array,
    *,
    stages: Sequence[Callable[..., Array]],
    feature_norm: Callable[..., Array],
    W_feature: Array,
    b_feature: Array,
) -> Array:
    """X[b, j, c] = Σ_i Norm(u_L[b, j])[i] W_feature[i, c] + b_feature[c], u_l = Stage_l(u_{l−1}), u_0[b, t] = [x_t]."""
    u = samples.reshape(*samples.shape, 1)
    for each in stages:
        u = each(u)
    X: Array = np.einsum("bji,ic->bjc", feature_norm(u), W_feature) + b_feature
    return X


def stage(u: Array, *, stride: int, W_stage: Array, b_stage: Array) -> Array:
    """σ(z[b, j, c]), z[b, j, c] = Σ_{i,a} u[b, s·j + i, a] W[i, a, c] + b[c] for every j with s·j + k ≤ T."""
    return _gelu(_stage(u, stride, W_stage, b_stage))


def stage_norm(u: Array, *, stride: int, W_stage: Array, b_stage: Array, norm_stage: Callable[..., Array]) -> Array:
    """σ(LN(z[b, j])), z as above."""
    return _gelu(norm_stage(_stage(u, stride, W_stage, b_stage)))


def stage_norm_over_time(
    u: Array, *, stride: int, W_stage: Array, b_stage: Array, gamma_stage: Array, beta_stage: Array, eps: float
) -> Array:
    """σ(γ[c] (z[b, j, c] − μ[b, c])/√(σ²[b, c] + ε) + β[c]), with mean and biased variance of z[b, :, c]."""
    z = _stage(u, stride, W_stage, b_stage)
    normed = np.empty(z.shape)
    for b, c in np.ndindex(len(z), z.shape[2]):
        over_time = [float(entry) for entry in z[b, :, c]]
        mean = math.fsum(over_time) / len(over_time)
        variance = math.fsum((entry - mean) ** 2 for entry in over_time) / len(over_time)
        normed[b, :, c] = gamma_stage[c] * (z[b, :, c] - mean) / math.sqrt(variance + eps) + beta_stage[c]
    return _gelu(normed)


def _stage(u: Array, stride: int, W: Array, b: Array) -> Array:
    """z[b, j, c] = Σ_{i,a} u[b, s·j + i, a] W[i, a, c] + b[c]."""
    starts = range(0, u.shape[1] - len(W) + 1, stride)
    z = np.zeros((len(u), len(starts), len(b)))
    for sample, (j, start) in product(range(len(u)), enumerate(starts)):
        for i in range(len(W)):
            z[sample, j] += u[sample, start + i] @ W[i]
    return z + b


def feature_norm(u: Array, *, norm_feature: Callable[..., Array]) -> Array:
    """LN(u[b, j])."""
    return norm_feature(u)


def no_feature_norm(u: Array) -> Array:
    """u[b, j, i]."""
    return u


def token_norm(X: Array, *, norm_token: Callable[..., Array]) -> Array:
    """LN(X[b, j])."""
    return norm_token(X)


def no_token_norm(X: Array) -> Array:
    """X[b, j, c]."""
    return X


def token_activation(X: Array, *, activation_token: Callable[..., Array]) -> Array:
    """σ(X[b, j, c])."""
    return activation_token(X)


def no_token_activation(X: Array) -> Array:
    """X[b, j, c]."""
    return X


def cls(X: Array, *, x_cls: Array) -> Array:
    """X'[b, 0] = x_cls and X'[b, j + 1] = X[b, j]."""
    B, n, d_model = X.shape
    longer = np.empty((B, n + 1, d_model))
    for b in range(B):
        longer[b, 0] = x_cls
        for j in range(n):
            longer[b, j + 1] = X[b, j]
    return longer


def cls_and_distillation(X: Array, *, x_cls: Array, x_dist: Array) -> Array:
    """X'[b, 0] = x_cls, X'[b, 1] = x_dist and X'[b, j + 2] = X[b, j]."""
    B, n, d_model = X.shape
    longer = np.empty((B, n + 2, d_model))
    for b in range(B):
        longer[b, 0], longer[b, 1] = x_cls, x_dist
        for j in range(n):
            longer[b, j + 2] = X[b, j]
    return longer


def no_cls(X: Array) -> Array:
    """X'[b, j, c] = X[b, j, c]."""
    return X


def registers(X: Array, tokens: Array, *, X_reg: Array) -> Array:
    """With c = m − n: X[b, j] for j < c, X_reg[j − c] for c ≤ j < c + r, and X[b, j − r] behind."""
    B, m, d_model = X.shape
    c, r = m - tokens.shape[1], len(X_reg)
    longer = np.empty((B, m + r, d_model))
    for b, j in np.ndindex(B, m + r):
        longer[b, j] = X[b, j] if j < c else X_reg[j - c] if j < c + r else X[b, j - r]
    return longer


def registers_behind(X: Array, tokens: Array, *, X_reg: Array) -> Array:  # noqa: ARG001 — they stand behind all
    """X[b, j] for j < m, and X_reg[j − m] behind."""
    B, m, d_model = X.shape
    longer = np.empty((B, m + len(X_reg), d_model))
    for b, j in np.ndindex(*longer.shape[:2]):
        longer[b, j] = X[b, j] if j < m else X_reg[j - m]
    return longer


def no_registers(X: Array, tokens: Array) -> Array:  # noqa: ARG001 — how many tokens there are changes nothing
    """X[b, j, c]."""
    return X


def embedded(
    tokens: NDArray[np.generic],
    *segment_ids: Ids,
    embedding: Callable[..., Array],
    token_norm: Callable[..., Array],
    token_activation: Callable[..., Array],
    embedding_scale: Callable[..., Array],
    cls: Callable[..., Array],
    position: Callable[..., Array],
    segment: Callable[..., Array],
    registers: Callable[..., Array],
    embedding_norm: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """X⁰[b, j, c] = Dropout(Norm(Reg(X'[b, j] + PE[b, j] + segment))[c]) with X' = Cls(Scale(σ(Norm(Embed(x)))))."""
    E = embedding_scale(token_activation(token_norm(embedding(tokens))))
    X = cls(E)
    PE = np.broadcast_to(position(X), X.shape)
    total = np.empty(X.shape)
    for b, j in np.ndindex(*X.shape[:2]):
        total[b, j] = X[b, j] + PE[b, j]
    return dropout(embedding_norm(registers(segment(total, *segment_ids), E)))


def factorised(
    tokens: NDArray[np.generic],
    *segment_ids: Ids,
    embedding: Callable[..., Array],
    token_norm: Callable[..., Array],
    token_activation: Callable[..., Array],
    embedding_scale: Callable[..., Array],
    cls: Callable[..., Array],
    position: Callable[..., Array],
    segment: Callable[..., Array],
    registers: Callable[..., Array],
    embedding_norm: Callable[..., Array],
    dropout: Callable[..., Array],
    W_e: Array,
    b_e: Array,
) -> Array:
    """X⁰[b, j, c] = Σ_m Dropout(Norm(Reg(X'[b, j] + PE[j] + segment))[m]) W_e[m, c] + b_e[c]."""
    E = embedding_scale(token_activation(token_norm(embedding(tokens))))
    X = cls(E)
    narrow = dropout(embedding_norm(registers(segment(X + position(X), *segment_ids), E)))
    total: Array = np.einsum("bjm,mc->bjc", narrow, W_e) + b_e
    return total


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
