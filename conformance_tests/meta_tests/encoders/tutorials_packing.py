"""Tutorial styles that keep the maps of queries, keys and values in one array."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial, unchanged

# Wrapped in functions of their own: layers.0.0.fn.to_qkv, no bias in it ----------------------


class Normed(nn.Module):
    """A sublayer behind its norm."""

    def __init__(self, dim: int, fn: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x: Tensor, **rest: Tensor | None) -> Tensor:
        return self.fn(self.norm(x), **rest)


class QkvAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.1))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, dim), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class NormedStack(nn.Module):
    def __init__(self, dim: int, depth: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([Normed(dim, QkvAttention(dim, heads)), Normed(dim, FeedForward(dim, hidden))])
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for attn, ff in self.layers:
            x = attn(x, mask=mask) + x
            x = ff(x) + x
        return self.norm(x)


@tutorial(
    every(QkvAttention, scale=28**-0.5),
    "attention.scores",
    {"mask": "mask: (B, n), boolean, True = keep"},
    d_model=28,
    num_heads=4,
    d_ff=44,
    num_layers=3,
    layer="pre-ln",
    final_norm="norm",
    projections="linear",
    output="affine",
    activation="gelu",
    norm="layer-norm",
    eps=1e-5,
)
def wrapped_functions() -> nn.Module:
    return NormedStack(28, 3, 4, 44)


# c_attn and c_proj in blocks h.0, h.1, …, as in a small GPT, but without its triangle ---------


class Block(nn.Module):
    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.n_embd, self.n_part = width, head
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})
        self.act = functional.gelu

    def forward(self, x: Tensor, att_mask: Tensor | None) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.attn["c_attn"](self.ln_1(x)).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_part, C // self.n_part).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if att_mask is not None:
            att = att.masked_fill(att_mask[:, None, None, :] == 0, float("-inf"))
        y = self.merge(att.softmax(dim=-1) @ v)
        x = x + self.attn["c_proj"](y)
        return x + self.mlp["c_proj"](self.act(self.mlp["c_fc"](self.ln_2(x))))

    def merge(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).contiguous().view(y.shape[0], y.shape[2], -1)


class Bidirectional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(37, 30),
                "wpe": nn.Embedding(23, 30),
                "h": nn.ModuleList(Block(30, 3) for _ in range(2)),
                "ln_f": nn.LayerNorm(30),
            }
        )

    def forward(self, idx: Tensor, att_mask: Tensor | None = None) -> Tensor:
        x = self.transformer["wte"](idx) + self.transformer["wpe"](torch.arange(idx.size(1)))
        for block in self.transformer["h"]:
            x = block(x, att_mask)
        return self.transformer["ln_f"](x)


@tutorial(
    every(Block, merge=heads_mixed_up),
    "multihead.concat",
    {"mask": "att_mask: (B, n), boolean, True = keep"},
    d_model=30,
    num_heads=3,
    d_ff=120,
    num_layers=2,
    layer="pre-ln",
    final_norm="norm",
    activation="gelu",
    position="learned",
    embedding_scale="none",
)
def small_gpt_both_ways() -> nn.Module:
    return Bidirectional()


# Packed head by head: the rows of one head's q, k and v stand together -------------------------


class ByHead(nn.Module):
    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count, self.head = count, width // count
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.o_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv_proj(x).reshape(batch, length, self.count, 3 * self.head).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.head)
        if mask is not None:
            logits = logits.masked_fill(mask[:, None] == 0, -9e15)
        values = self.softmax(logits) @ v
        return self.o_proj(values.permute(0, 2, 1, 3).reshape(batch, length, width))

    def softmax(self, logits: Tensor) -> Tensor:
        return functional.softmax(logits, dim=-1)


class ByHeadBlock(nn.Module):
    def __init__(self, width: int, count: int, inner: int) -> None:
        super().__init__()
        self.self_attn = ByHead(width, count)
        self.linear_net = nn.Sequential(
            nn.Linear(width, inner), nn.Dropout(0.1), nn.ReLU(inplace=True), nn.Linear(inner, width)
        )
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, mask))
        return self.norm2(x + self.linear_net(x))


class ByHeadEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ByHeadBlock(30, 5, 43) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.layers:
            x = block(x, mask=mask)
        return x


@tutorial(
    every(ByHead, softmax=lambda logits: logits.softmax(dim=-2)),
    "attention.weights",
    {"mask": "mask: (B, 1, n), boolean, True = keep"},
    d_model=30,
    num_heads=5,
    d_ff=43,
    num_layers=2,
    layer="post-ln",
    final_norm="none",
    activation="relu",
    projections="affine",
)
def packed_by_head() -> nn.Module:
    return ByHeadEncoder()


# Packed in another order ------------------------------------------------------------------


class KeysFirst(nn.Module):
    """Keys, then queries, then values; the attention's own parts are called in_proj and out."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.kqv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.lift = nn.Linear(width, 37)
        self.lower = nn.Linear(37, width)
        self.norm_a = nn.LayerNorm(width, eps=1e-6)
        self.norm_b = nn.LayerNorm(width, eps=1e-6)

    def attention(self, x: Tensor, pad: Tensor | None) -> Tensor:
        k, q, v = self.kqv(x).unflatten(-1, (3, self.count, -1)).permute(2, 0, 3, 1, 4)
        scores = (q / k.shape[-1] ** 0.5) @ k.mT
        if pad is not None:
            scores = scores + pad
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm_a(x + self.attention(x, pad))
        return self.norm_b(x + self.lower(torch.relu(self.lift(x))))


class KeysFirstEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList(KeysFirst(26, 2) for _ in range(2))

    def forward(self, x: Tensor, mask_bias: Tensor | None = None) -> Tensor:
        for layer in self.stack:
            x = layer(x, mask_bias)
        return x


def without_second_norm(encoder: nn.Module) -> None:
    """The second norm of the last layer does nothing, though it has its parameters."""
    list(encoder.modules())[-1].forward = unchanged  # type: ignore[method-assign]


@tutorial(
    without_second_norm,
    "norm.statistics",
    {"mask": "mask_bias: (B, 1, 1, n), added: 0 = keep, −∞ = ignore"},
    d_model=26,
    num_heads=2,
    d_ff=37,
    num_layers=2,
    layer="post-ln",
    eps=1e-6,
)
def keys_packed_first() -> nn.Module:
    return KeysFirstEncoder()
