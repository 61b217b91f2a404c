"""Oracles of chapter 7: index p runs over all positions, m over the model's features, f over the inner ones."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _for_each_entry(function: Callable[[float], float], x: Array) -> Array:
    """y[p] = function(x[p])."""
    return np.array([function(entry) for entry in x.flat]).reshape(x.shape)


def relu(x: Array) -> Array:
    """max(0, x[p]) = (x[p] + |x[p]|) / 2."""
    return _for_each_entry(lambda entry: (entry + abs(entry)) / 2, x)


def gelu(x: Array) -> Array:
    """x[p] Φ(x[p]) with Φ(x) = erfc(−x/√2) / 2."""
    return _for_each_entry(lambda entry: entry * math.erfc(-entry / math.sqrt(2)) / 2, x)


def gelu_tanh(x: Array) -> Array:
    """x[p]/2 (1 + tanh(√(2/π) (x[p] + 0.044715 x[p]³)))."""
    slope = math.sqrt(2 / math.pi)
    return _for_each_entry(lambda entry: entry / 2 * (1 + math.tanh(slope * (entry + 0.044715 * entry**3))), x)


def quick_gelu(x: Array) -> Array:
    """x[p] σ(1.702 x[p]) with σ(x) = (1 + tanh(x/2)) / 2."""
    return _for_each_entry(lambda entry: entry * (1 + math.tanh(1.702 * entry / 2)) / 2, x)


def silu(x: Array) -> Array:
    """x[p] σ(x[p]) with σ(x) = (1 + tanh(x/2)) / 2."""
    return _for_each_entry(lambda entry: entry * (1 + math.tanh(entry / 2)) / 2, x)


def ffn(
    x: Array,
    *,
    activation: Callable[..., Array],
    dropout: Callable[..., Array],
    W_1: Array,
    b_1: Array,
    W_2: Array,
    b_2: Array,
) -> Array:
    """y[p, m'] = Σ_f Dropout(σ(Σ_m x[p, m] W₁[m, f] + b₁[f])) W₂[f, m'] + b₂[m']."""
    inner: Array = np.einsum("...m,mf->...f", x, W_1) + b_1
    y: Array = np.einsum("...f,fm->...m", dropout(activation(inner)), W_2) + b_2
    return y


def without_bias(
    x: Array, *, activation: Callable[..., Array], dropout: Callable[..., Array], W_1: Array, W_2: Array
) -> Array:
    """y[p, m'] = Σ_f Dropout(σ(Σ_m x[p, m] W₁[m, f])) W₂[f, m']."""
    inner: Array = np.einsum("...m,mf->...f", x, W_1)
    y: Array = np.einsum("...f,fm->...m", dropout(activation(inner)), W_2)
    return y


def gated(
    x: Array,
    *,
    activation: Callable[..., Array],
    dropout: Callable[..., Array],
    W_1: Array,
    W_G: Array,
    W_2: Array,
) -> Array:
    """y[p, m'] = Σ_f Dropout(σ(Σ_m x[p, m] W₁[m, f]) Σ_m x[p, m] W_G[m, f]) W₂[f, m']."""
    gate: Array = activation(np.einsum("...m,mf->...f", x, W_1))
    inner: Array = np.einsum("...f,...m,mf->...f", gate, x, W_G)
    y: Array = np.einsum("...f,fm->...m", dropout(inner), W_2)
    return y


def gated_with_biases(
    x: Array,
    *,
    activation: Callable[..., Array],
    dropout: Callable[..., Array],
    W_1: Array,
    b_1: Array,
    W_G: Array,
    b_G: Array,
    W_2: Array,
    b_2: Array,
) -> Array:
    """y[p, m'] = Σ_f Dropout(σ(Σ_m x[p, m] W₁[m, f] + b₁[f]) (Σ_m x[p, m] W_G[m, f] + b_G[f])) W₂[f, m'] + b₂[m']."""
    gate: Array = activation(np.einsum("...m,mf->...f", x, W_1) + b_1)
    other: Array = np.einsum("...m,mf->...f", x, W_G) + b_G
    y: Array = np.einsum("...f,fm->...m", dropout(gate * other), W_2) + b_2
    return y


def gated_with_output_bias(
    x: Array,
    *,
    activation: Callable[..., Array],
    dropout: Callable[..., Array],
    W_1: Array,
    W_G: Array,
    W_2: Array,
    b_2: Array,
) -> Array:
    """y[p, m'] = Σ_f Dropout(σ(Σ_m x[p, m] W₁[m, f]) Σ_m x[p, m] W_G[m, f]) W₂[f, m'] + b₂[m']."""
    gate: Array = activation(np.einsum("...m,mf->...f", x, W_1))
    inner: Array = np.einsum("...f,...m,mf->...f", gate, x, W_G)
    y: Array = np.einsum("...f,fm->...m", dropout(inner), W_2) + b_2
    return y
