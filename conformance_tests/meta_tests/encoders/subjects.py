"""A sound encoder for the suite's own tests, written by hand in another style than the specification's.

It has the parameter names of the torch.nn family and hints at nothing but its number of
heads. Every step is a method of its own, so that a defect is one method replaced.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Packed projections, as in torch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * width, width) / math.sqrt(width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        q, k, v = map(self.split, self.project(x))
        weights = self.weigh(self.mask(self.score(q, k), pad), pad)
        return self.out(self.merge(torch.einsum("bhqk,bhkc->bhqc", weights, v)))

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        return nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkc->bhqk", q, k) / math.sqrt(q.shape[-1])

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores if pad is None else scores.masked_fill(pad[:, None, None, :], -1e30)

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores.softmax(-1)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def out(self, merged: Tensor) -> Tensor:
        return self.out_proj(merged)


class Norm(nn.Module):
    """Layer normalisation by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = self.centre(x)
        return centred * self.weight / self.deviation(x, centred) + self.bias

    def centre(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)

    def deviation(self, x: Tensor, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


class Layer(nn.Module):
    """A Post-LN layer with ReLU."""

    attention: ClassVar[type[Attention]] = Attention
    norm: ClassVar[type[Norm]] = Norm

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = self.attention(width, heads)
        self.linear1 = nn.Linear(width, inner)
        self.linear2 = nn.Linear(inner, width)
        self.norm1 = self.norm(width)
        self.norm2 = self.norm(width)

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        return self.norm2(x + self.feed_forward(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.activate(self.linear1(x)))

    def activate(self, x: Tensor) -> Tensor:
        return x.relu()


class Encoder(nn.Module):
    """A stack of layers that is called like torch's."""

    layer: ClassVar[type[Layer]] = Layer

    def __init__(self, width: int = 30, heads: int = 5, inner: int = 44, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList([self.layer(width, heads, inner) for _ in range(depth)])

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            src = layer(src, src_key_padding_mask)
        return src


Sound = Encoder


class PreNorm(Layer):
    """A Pre-LN layer."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.norm1(x), pad)
        return x + self.feed_forward(self.norm2(x))


class PreNormEncoder(Encoder):
    """Pre-LN with a final norm."""

    layer = PreNorm

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm(30)

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return self.norm(super().forward(src, src_key_padding_mask))
