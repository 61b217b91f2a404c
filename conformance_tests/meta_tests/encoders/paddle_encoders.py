"""Encoders of Paddle with the choices that their constructors state, and some with one thing wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn

SIZES = {"num_layers": 2, "num_heads": 4, "d_model": 32, "d_ff": 72}


def stored(eps: float) -> float:
    """ε as Paddle hands it to its kernels: in float32."""
    return float(np.float32(eps))


def stock(final: bool = False, layer: Any = nn.TransformerEncoderLayer, **options: Any) -> Callable[[], Any]:
    """Paddle's own encoder."""

    def make() -> Any:
        paddle.seed(0)
        return nn.TransformerEncoder(layer(32, 4, 72, **options), 2, nn.LayerNorm(32) if final else None)

    return make


class FromTokens(nn.Layer):
    """Paddle's own encoder behind tables for tokens and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(41, 32)
        self.position_embedding = nn.Embedding(31, 32)
        self.encoder = stock()()

    def forward(self, ids: Any, mask: Any = None) -> Any:
        places = paddle.arange(ids.shape[1])
        x = self.token_embedding(ids) + self.position_embedding(places)
        return self.encoder(x, None if mask is None else mask[:, None, None, :])


def post(eps: float, activation: str) -> dict[str, Any]:
    """The choices of a Post-LN encoder."""
    return SIZES | {"layer": "post-ln", "final_norm": "none", "eps": stored(eps), "activation": activation}


RIGHT: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "TransformerEncoder": (stock(), post(1e-5, "relu")),
    "TransformerEncoder, gelu, ε 1e-12": (stock(activation="gelu", layer_norm_eps=1e-12), post(1e-12, "gelu")),
    "TransformerEncoder, normalize_before, gelu, ε 1e-6, final norm": (
        stock(final=True, normalize_before=True, activation="gelu", layer_norm_eps=1e-6),
        SIZES
        | {
            "layer": "pre-ln",
            "final_norm": "norm",
            "eps": stored(1e-6),
            "norm_final.eps": stored(1e-5),
            "activation": "gelu",
        },
    ),
    "TransformerEncoder without biases": (stock(bias_attr=False), post(1e-5, "relu") | {"projections": "linear"}),
    "TransformerEncoder from token ids": (FromTokens, post(1e-5, "relu") | {"position": "learned"}),
}


class Halved(nn.TransformerEncoderLayer):
    """The residual connection of the feed-forward network carries half its input; twice could be the network's own."""

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        attended = self.norm1(src + self.self_attn(src, src, src, src_mask))
        return self.norm2(attended / 2 + self.linear2(self.activation(self.linear1(attended))))


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "the second residual connection halved": (stock(layer=Halved), "RES-1", "residual"),
}
"""Encoders with one thing wrong, the requirement that says so, and where they depart."""
