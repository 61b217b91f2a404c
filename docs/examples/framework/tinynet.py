"""The framework of this example: NumPy arrays in a dictionary, and a call."""

import numpy as np


class Encoder:
    """One Post-LN layer with h heads."""

    def __init__(self, d_model: int = 12, h: int = 3, d_ff: int = 20) -> None:
        rng = np.random.default_rng(0)
        maps = {"query": (d_model, d_model), "key": (d_model, d_model), "value": (d_model, d_model)}
        maps |= {"out": (d_model, d_model), "fc1": (d_model, d_ff), "fc2": (d_ff, d_model)}
        self.h = h
        self.arrays = {f"{name}.weight": rng.normal(size=shape) / 3 for name, shape in maps.items()}
        self.arrays |= {f"{name}.bias": rng.normal(size=shape[1]) / 3 for name, shape in maps.items()}
        for norm in ("norm1", "norm2"):
            self.arrays |= {f"{norm}.gamma": rng.normal(size=d_model), f"{norm}.beta": rng.normal(size=d_model)}

    def __call__(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Hidden states; the mask is True where a token is to be read."""
        q, k, v = (self.heads(self.linear(x, name)) for name in ("query", "key", "value"))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = np.where(mask[:, None, None], scores, -1e30)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        merged = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(x.shape)
        x = self.norm(x + self.linear(merged, "out"), "norm1")
        return self.norm(x + self.linear(np.maximum(self.linear(x, "fc1"), 0), "fc2"), "norm2")

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """An affine map."""
        return x @ self.arrays[f"{name}.weight"] + self.arrays[f"{name}.bias"]

    def heads(self, x: np.ndarray) -> np.ndarray:
        """The heads in front of the positions."""
        return x.reshape(*x.shape[:2], self.h, -1).swapaxes(1, 2)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Layer normalisation."""
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return self.arrays[f"{name}.gamma"] * scaled + self.arrays[f"{name}.beta"]
