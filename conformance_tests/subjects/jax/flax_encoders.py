"""Encoders composed of Flax's own attention, norm and maps, which has no encoder class: in nnx and in linen."""

from typing import Any

import jax
from flax import linen, nnx


class NnxLayer(nnx.Module):
    """Pre-LN; the feed-forward network has Flax's gelu, which is the one with tanh."""

    def __init__(self, d_model: int, h: int, d_ff: int, rngs: nnx.Rngs, **norm: Any) -> None:
        self.norm1 = nnx.LayerNorm(d_model, rngs=rngs, **norm)
        self.attention = nnx.MultiHeadAttention(h, d_model, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(d_model, rngs=rngs, **norm)
        self.linear1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.linear2 = nnx.Linear(d_ff, d_model, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: Any, mask: Any) -> Any:
        """Self-attention, then the feed-forward network, each with its residual connection."""
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.linear2(nnx.gelu(self.linear1(self.norm2(x)))))


class NnxEncoder(nnx.Module):
    """Two layers and the final norm of Pre-LN; the mask (B, n) is true at the keys that are kept."""

    def __init__(self, **norm: Any) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([NnxLayer(32, 4, 72, rngs, **norm) for _ in range(2)])
        self.norm = nnx.LayerNorm(32, rngs=rngs, **norm)

    def __call__(self, x: Any, mask: Any = None) -> Any:
        """The hidden states (B, n, d_model)."""
        mask = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class LinenLayer(linen.Module):
    """Post-LN with ReLU; its parts are named by linen."""

    d_model: int
    h: int
    d_ff: int

    @linen.compact
    def __call__(self, x: Any, mask: Any, deterministic: bool) -> Any:
        """Self-attention, then the feed-forward network, each with its residual connection and norm."""
        attended = linen.MultiHeadDotProductAttention(self.h, dropout_rate=0.1)(
            x, mask=mask, deterministic=deterministic
        )
        x = linen.LayerNorm(use_fast_variance=False)(x + attended)
        inner = linen.relu(linen.Dense(self.d_ff)(x))
        return linen.LayerNorm(use_fast_variance=False)(x + linen.Dense(self.d_model)(inner))


class LinenEncoder(linen.Module):
    """Two layers; the mask (B, n) is true at the keys that are kept."""

    @linen.compact
    def __call__(self, x: Any, mask: Any = None, train: bool = False) -> Any:
        """The hidden states (B, n, d_model)."""
        mask = None if mask is None else mask[:, None, None, :]
        for _ in range(2):
            x = LinenLayer(32, 4, 72)(x, mask, deterministic=not train)
        return x


def linen_encoder() -> Any:
    """The encoder of linen, bound to parameters of its own."""
    module = LinenEncoder()
    variables = module.init(jax.random.key(0), jax.numpy.zeros((2, 7, 32)))
    return module.bind(variables)
