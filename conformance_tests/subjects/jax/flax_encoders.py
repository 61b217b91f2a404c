"""Encoders made of Flax's attention, norm and maps, in nnx and in linen: Flax has no encoder class."""

from typing import Any

import jax
from flax import linen, nnx


class NnxLayer(nnx.Module):
    """Pre-LN layer whose feed-forward network has Flax's gelu, which is tanh-GELU."""

    def __init__(self, d_model: int, h: int, d_ff: int, rngs: nnx.Rngs, **norm: Any) -> None:
        self.norm1 = nnx.LayerNorm(d_model, rngs=rngs, **norm)
        self.attention = nnx.MultiHeadAttention(h, d_model, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(d_model, rngs=rngs, **norm)
        self.linear1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.linear2 = nnx.Linear(d_ff, d_model, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: Any, mask: Any) -> Any:
        """Apply self-attention, then the feed-forward network, each with its residual connection."""
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        return x + self.dropout(self.linear2(nnx.gelu(self.linear1(self.norm2(x)))))


class NnxEncoder(nnx.Module):
    """Two layers and the final norm of Pre-LN; the mask (B, n) is true at the keys that are kept."""

    def __init__(self, **norm: Any) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([NnxLayer(32, 4, 72, rngs, **norm) for _ in range(2)])
        self.norm = nnx.LayerNorm(32, rngs=rngs, **norm)

    def __call__(self, x: Any, mask: Any = None) -> Any:
        """Return the hidden states (B, n, d_model)."""
        mask = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class LinenLayer(linen.Module):
    """Post-LN layer with ReLU, whose parts linen names."""

    d_model: int
    h: int
    d_ff: int

    @linen.compact
    def __call__(self, x: Any, mask: Any, deterministic: bool) -> Any:
        """Apply self-attention, then the feed-forward network, each with its residual connection and norm."""
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
        """Return the hidden states (B, n, d_model)."""
        mask = None if mask is None else mask[:, None, None, :]
        for _ in range(2):
            x = LinenLayer(32, 4, 72)(x, mask, deterministic=not train)
        return x


def linen_encoder() -> Any:
    """Make the encoder of linen, bound to its own parameters."""
    module = LinenEncoder()
    variables = module.init(jax.random.key(0), jax.numpy.zeros((2, 7, 32)))
    return module.bind(variables)
