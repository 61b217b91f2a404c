"""Tutorial styles that differ in what things are called, up to names that say nothing."""

import copy
import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial, unchanged

# Four linears in a list, a norm by hand with the unbiased deviation, sublayers as objects --------


class HandNorm(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class FourLinears(nn.Module):
    def __init__(self, h: int, d_model: int) -> None:
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        inputs = zip(self.linears, (query, key, value), strict=False)
        query, key, value = (lin(x).view(len(x), -1, self.h, self.d_k).transpose(1, 2) for lin, x in inputs)
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        x = torch.matmul(scores.softmax(dim=-1), value)
        return self.linears[-1](self.merge(x))

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().view(len(x), -1, self.h * self.d_k)


class TwoLinears(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.w_1(x).relu())


class Sublayer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = HandNorm(size)


class HandLayer(nn.Module):
    def __init__(self, size: int, self_attn: nn.Module, feed_forward: nn.Module) -> None:
        super().__init__()
        self.self_attn = self_attn
        self.feed_forward = feed_forward
        self.sublayer = nn.ModuleList(Sublayer(size) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.sublayer[0].norm(x)
        x = x + self.self_attn(y, y, y, mask)
        return x + self.feed_forward(self.sublayer[1].norm(x))


class HandEncoder(nn.Module):
    def __init__(self, layer: nn.Module, N: int, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(N))
        self.norm = HandNorm(size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@tutorial(
    every(FourLinears, merge=heads_mixed_up),
    "multihead.concat",
    {"mask": "mask: (B, 1, n), boolean, True = keep"},
    d_model=28,
    num_heads=4,
    d_ff=37,
    num_layers=3,
    layer="pre-ln",
    final_norm="norm",
    norm="unbiased-std-plus-eps",
    eps=1e-6,
    activation="relu",
)
def four_linears() -> nn.Module:
    return HandEncoder(HandLayer(28, FourLinears(4, 28), TwoLinears(28, 37)), 3, 28)


# w_qs, fc, slf_attn, pos_ffn with convolutions of size 1, and a table of positions in a buffer ----


class SlfAttention(nn.Module):
    def __init__(self, n_head: int, d_model: int, d_k: int) -> None:
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.fc = nn.Linear(n_head * d_k, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)
        self.temperature = d_k**0.5

    def forward(self, q: Tensor, mask: Tensor | None) -> Tensor:
        size, length, residual = q.size(0), q.size(1), q
        split = (w(q).view(size, length, self.n_head, self.d_k).transpose(1, 2) for w in (self.w_qs, self.w_ks))
        a, b = split
        v = self.w_vs(q).view(size, length, self.n_head, self.d_k).transpose(1, 2)
        attn = torch.matmul(a / self.temperature, b.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask[:, None, None] == 0, -1e9)
        q = torch.matmul(attn.softmax(dim=-1), v).transpose(1, 2).contiguous().view(size, length, -1)
        return self.layer_norm(self.fc(q) + residual)


class ConvFeedForward(nn.Module):
    def __init__(self, d_in: int, d_hid: int) -> None:
        super().__init__()
        self.w_1 = nn.Conv1d(d_in, d_hid, 1)
        self.w_2 = nn.Conv1d(d_hid, d_in, 1)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.w_1(x.transpose(1, 2)).relu()
        return self.layer_norm(self.w_2(inner).transpose(1, 2) + x)


class SlfLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slf_attn = SlfAttention(3, 26, 7)
        self.pos_ffn = ConvFeedForward(26, 41)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.pos_ffn(self.slf_attn(x, mask))


class SlfEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.src_word_emb = nn.Embedding(37, 26, padding_idx=0)
        angle = torch.arange(31)[:, None] / 10000 ** (2 * (torch.arange(26) // 2) / 26)
        even = torch.arange(26) % 2 == 0
        self.register_buffer("pos_table", torch.where(even, angle.sin(), angle.cos())[None])
        self.layer_stack = nn.ModuleList(SlfLayer() for _ in range(2))
        self.layer_norm = nn.LayerNorm(26, eps=1e-6)

    def forward(self, src_seq: Tensor, src_mask: Tensor | None = None) -> tuple[Tensor]:
        x = self.layer_norm(self.src_word_emb(src_seq) + self.pos_table[:, : src_seq.size(1)])
        for layer in self.layer_stack:
            x = layer(x, src_mask)
        return (x,)


@tutorial(
    every(SlfAttention, temperature=26**0.5),
    "attention.scores",
    {"mask": "src_mask: (B, n), boolean, True = keep"},
    d_model=26,
    num_heads=3,
    d_ff=41,
    num_layers=2,
    layer="post-ln",
    projections="linear",
    eps=1e-6,
    embedding_norm="norm",
    position="sinusoidal",
    embedding_scale="none",
    final_norm="none",
)
def convolutions_of_size_one() -> nn.Module:
    return SlfEncoder()


# tokeys, toqueries, tovalues, unifyheads; wrapped several times -----------------------------------


class Wide(nn.Module):
    def __init__(self, k: int, heads: int) -> None:
        super().__init__()
        self.parts = heads
        self.tokeys = nn.Linear(k, k, bias=False)
        self.toqueries = nn.Linear(k, k, bias=False)
        self.tovalues = nn.Linear(k, k, bias=False)
        self.unifyheads = nn.Linear(k, k)

    def forward(self, x: Tensor, hide: Tensor | None) -> Tensor:
        b, t, k = x.size()
        s = k // self.parts
        q, key, v = (
            m(x).view(b, t, self.parts, s).transpose(1, 2).reshape(b * self.parts, t, s)
            for m in (self.toqueries, self.tokeys, self.tovalues)
        )
        q, key = q / s**0.25, key / s**0.25
        dot = torch.bmm(q, key.transpose(1, 2))
        if hide is not None:
            dot = dot.masked_fill(hide.repeat_interleave(self.parts, 0)[:, None], float("-inf"))
        out = torch.bmm(dot.softmax(dim=2), v).view(b, self.parts, t, s)
        return self.unifyheads(out.transpose(1, 2).reshape(b, t, s * self.parts))


class WideBlock(nn.Module):
    def __init__(self, k: int, heads: int) -> None:
        super().__init__()
        self.attention = Wide(k, heads)
        self.norm1 = nn.LayerNorm(k)
        self.norm2 = nn.LayerNorm(k)
        self.ff = nn.Sequential(nn.Linear(k, 4 * k), nn.ReLU(), nn.Linear(4 * k, k))

    def forward(self, x: Tensor, hide: Tensor | None) -> Tensor:
        x = self.norm1(self.attention(x, hide) + x)
        return self.norm2(self.ff(x) + x)


class Body(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tblocks = nn.ModuleList(WideBlock(20, 5) for _ in range(2))

    def forward(self, x: Tensor, hide: Tensor | None) -> Tensor:
        for block in self.tblocks:
            x = block(x, hide)
        return x


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.add_module(name, inner)

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        return next(self.children())(x, src_mask)


def without_first_norm(encoder: nn.Module) -> None:
    """The first norm of the last layer does nothing, though it has its parameters."""
    blocks = [part for part in encoder.modules() if isinstance(part, WideBlock)]
    blocks[-1].norm1.forward = unchanged  # type: ignore[method-assign]


@tutorial(
    without_first_norm,
    "norm.statistics",
    {"mask": "src_mask: (B, n), boolean, True = ignore"},
    d_model=20,
    num_heads=5,
    d_ff=80,
    num_layers=2,
    layer="post-ln",
    projections="linear",
    output="affine",
)
def wrapped_twice() -> nn.Module:
    return Wrapper(Wrapper(Body(), "encoder"), "model")
