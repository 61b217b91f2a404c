"""Oracles of chapter 9: how the sublayers are composed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def post_ln(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    norm_2: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """a[b, j] = LN₁(x[b, j] + Dropout(MHA(x))[b, j]), y[b, j] = LN₂(a[b, j] + Dropout(FFN(a))[b, j])."""
    a = norm_1(residual_1(x, dropout(multihead(x, keep))))
    return norm_2(residual_2(a, dropout(ffn(a))))


def pre_ln(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    norm_2: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """a[b, j] = x[b, j] + Dropout(MHA(LN₁(x)))[b, j], y[b, j] = a[b, j] + Dropout(FFN(LN₂(a)))[b, j]."""
    a = residual_1(x, dropout(multihead(norm_1(x), keep)))
    return residual_2(a, dropout(ffn(norm_2(a))))


def pre_ln_bare(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_2: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """a[b, j] = x[b, j] + Dropout(MHA(x))[b, j], y[b, j] = a[b, j] + Dropout(FFN(LN₂(a)))[b, j]."""
    a = residual_1(x, dropout(multihead(x, keep)))
    return residual_2(a, dropout(ffn(norm_2(a))))


def res_post_ln(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    norm_2: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """a[b, j] = x[b, j] + Dropout(LN₁(MHA(x)))[b, j], y[b, j] = a[b, j] + Dropout(LN₂(FFN(a)))[b, j]."""
    a = residual_1(x, dropout(norm_1(multihead(x, keep))))
    return residual_2(a, dropout(norm_2(ffn(a))))


def sandwich_ln(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    norm_2: Callable[..., Array],
    norm_attention: Callable[..., Array],
    norm_ffn: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """a[b, j] = x[b, j] + Dropout(LNₐ(MHA(LN₁(x))))[b, j], y[b, j] = a[b, j] + Dropout(LN_f(FFN(LN₂(a))))[b, j]."""
    a = residual_1(x, dropout(norm_attention(multihead(norm_1(x), keep))))
    return residual_2(a, dropout(norm_ffn(ffn(norm_2(a)))))


def parallel(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """y[b, j] = x[b, j] + Dropout(MHA(LN₁(x)))[b, j] + Dropout(FFN(LN₁(x)))[b, j]."""
    attended, transformed = multihead(norm_1(x), keep), ffn(norm_1(x))
    return residual_2(residual_1(x, dropout(attended)), dropout(transformed))


def parallel_two_norms(
    x: Array,
    keep: NDArray[np.bool_],
    *,
    multihead: Callable[..., Array],
    ffn: Callable[..., Array],
    norm_1: Callable[..., Array],
    norm_2: Callable[..., Array],
    residual_1: Callable[..., Array],
    residual_2: Callable[..., Array],
    dropout: Callable[..., Array],
) -> Array:
    """y[b, j] = x[b, j] + Dropout(MHA(LN₁(x)))[b, j] + Dropout(FFN(LN₂(x)))[b, j]."""
    attended, transformed = multihead(norm_1(x), keep), ffn(norm_2(x))
    return residual_2(residual_1(x, dropout(attended)), dropout(transformed))
