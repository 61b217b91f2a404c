"""Encoders of arrays alone: an object with ``weights`` and ``encode``, written with NumPy."""

from typing import Any

import numpy as np

from conformance_tests.meta_tests.encoders.tutorials import tutorial

Array = Any


def erf(x: Array) -> Array:
    """The error function, entry by entry."""
    from math import erf as of_one

    return np.vectorize(of_one)(x)


class Arrays:
    """A dictionary of float32 arrays, and functions that read it; input × output, ε outside the usual ones."""

    eps = 2e-5

    def __init__(self, d: int = 20, heads: int = 4, inner: int = 26, depth: int = 2) -> None:
        random = np.random.default_rng(0)
        self.heads, self.depth = heads, depth
        self.weights: dict[str, Array] = {}
        for l in range(depth):
            for name, shape in {"wq": (d, d), "wk": (d, d), "wv": (d, d), "wo": (d, d)}.items():
                self.weights[f"layer.{l}.{name}"] = random.normal(0, d**-0.5, shape)
            self.weights[f"layer.{l}.w1"] = random.normal(0, d**-0.5, (d, inner))
            self.weights[f"layer.{l}.b1"] = random.normal(0, 0.3, inner)
            self.weights[f"layer.{l}.w2"] = random.normal(0, inner**-0.5, (inner, d))
            self.weights[f"layer.{l}.b2"] = random.normal(0, 0.3, d)
            for norm in ("norm1", "norm2"):
                self.weights[f"layer.{l}.{norm}.gamma"] = random.normal(1, 0.3, d)
                self.weights[f"layer.{l}.{norm}.beta"] = random.normal(0, 0.3, d)
        self.weights = {name: array.astype(np.float32) for name, array in self.weights.items()}

    def norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + self.eps)
        return self.weights[f"{name}.gamma"] * centred / deviation + self.weights[f"{name}.beta"]

    def split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2)

    def scale(self, q: Array) -> float:
        return float(np.sqrt(q.shape[-1]))

    def attend(self, x: Array, layer: str, mask: Array) -> Array:
        q, k, v = (self.split(x @ self.weights[f"{layer}.{name}"]) for name in ("wq", "wk", "wv"))
        scores = q @ k.swapaxes(-1, -2) / self.scale(q)
        if mask is not None:
            scores = np.where(mask[:, None, None], scores, -1e30)
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        heads = exp / exp.sum(-1, keepdims=True) @ v
        return heads.swapaxes(1, 2).reshape(x.shape) @ self.weights[f"{layer}.wo"]

    def feed(self, x: Array, layer: str) -> Array:
        inner = x @ self.weights[f"{layer}.w1"] + self.weights[f"{layer}.b1"]
        return inner * (1 + erf(inner / np.sqrt(2))) / 2 @ self.weights[f"{layer}.w2"] + self.weights[f"{layer}.b2"]

    def encode(self, x: Array, mask: Array) -> Array:
        for l in range(self.depth):
            x = x + self.attend(self.norm(x, f"layer.{l}.norm1"), f"layer.{l}", mask)
            x = x + self.feed(self.norm(x, f"layer.{l}.norm2"), f"layer.{l}")
        return x


class ArraysWithEpsilonOutside(Arrays):
    """The deviation plus ε."""

    eps = 1e-6

    def norm(self, x: Array, name: str) -> Array:
        deviation = x.std(-1, keepdims=True) + self.eps
        gamma, beta = self.weights[f"{name}.gamma"], self.weights[f"{name}.beta"]
        return gamma * (x - x.mean(-1, keepdims=True)) / deviation + beta


class ArraysFromTokens(Arrays):
    """Token ids and learned positions, in float64, and with them all that is computed."""

    eps = 1e-6

    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(1)
        for name, rows in {"token_embedding": 31, "position_embedding": 29}.items():
            self.weights[name] = random.normal(0, 1, (rows, 20))

    def encode(self, x: Array, mask: Array) -> Array:
        positions = self.weights["position_embedding"][: x.shape[1]]
        return super().encode(self.weights["token_embedding"][x] + positions, mask)


ARRAYS = {
    "d_model": 20,
    "num_heads": 4,
    "d_ff": 26,
    "num_layers": 2,
    "layer": "pre-ln",
    "activation": "gelu",
    "final_norm": "none",
}


def wrong_scale(encoder: Any) -> None:
    """√d_model in place of √d_k."""
    encoder.scale = lambda q: 20**0.5


@tutorial(wrong_scale, "multihead", norm="layer-norm", eps=2e-5, **ARRAYS)
def arrays_of_float32() -> Any:
    return Arrays()


@tutorial(wrong_scale, "multihead", norm="std-plus-eps", eps=1e-6, **ARRAYS)
def arrays_with_epsilon_outside() -> Any:
    return ArraysWithEpsilonOutside()


@tutorial(wrong_scale, "multihead", norm="layer-norm", eps=1e-6, position="learned", embedding_scale="none", **ARRAYS)
def arrays_from_tokens() -> Any:
    return ArraysFromTokens()
