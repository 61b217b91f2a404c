"""A plain layer for tutorial styles that differ in something else: in calls, norms, inputs or outputs."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


class PlainAttention(nn.Module):
    """Four linear maps; whoever calls it says which scores are hidden."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.scale = math.sqrt(width // count)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(scores.softmax(-1) @ v))

    def split(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values (B, count, n, width / count)."""
        return [m(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for m in (self.query, self.key, self.value)]

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / self.scale

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)


class PlainLayer(nn.Module):
    """Post-LN."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.attention = PlainAttention(width, count)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.norm1 = norm(width)
        self.norm2 = norm(width)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.attention(x, hidden))
        return self.norm2(x + self.feed_forward(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x).relu())


class PlainPreNorm(PlainLayer):
    """Pre-LN."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.feed_forward(self.norm2(x))


class Plain(nn.Module):
    """A stack that takes a mask (B, n), True = keep."""

    def __init__(self, layers: list[nn.Module], final: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else ~mask[:, None, None])

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, hidden)
        return x if self.final_norm is None else self.final_norm(x)


def plain_layers(
    kind: type[PlainLayer] = PlainLayer, norm: Callable[[int], nn.Module] = nn.LayerNorm, depth: int = 2
) -> list[nn.Module]:
    """Layers of width 28 with 4 heads and 37 inner features."""
    return [kind(28, 4, 37, norm) for _ in range(depth)]


def layers_with(attention: type[PlainAttention]) -> list[nn.Module]:
    """Plain layers with another attention."""
    layers = plain_layers()
    for layer in layers:
        layer.attention = attention(28, 4)
    return layers


PLAIN = {"d_model": 28, "num_heads": 4, "d_ff": 37, "num_layers": 2, "activation": "relu", "projections": "affine"}
"""What the report must say of a stack of these."""
