"""Tutorial styles that keep each head's maps apart, or as an axis of their own."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial

# Raw parameters, input × output --------------------------------------------------------------


class RawParameters(nn.Module):
    def __init__(self, d: int, h: int, inner: int) -> None:
        super().__init__()
        self.h = h
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Parameter(torch.randn(d, d) / d**0.5) for _ in range(4))
        self.W_1, self.b_1 = nn.Parameter(torch.randn(d, inner) / d**0.5), nn.Parameter(torch.zeros(inner))
        self.W_2, self.b_2 = nn.Parameter(torch.randn(inner, d) / inner**0.5), nn.Parameter(torch.zeros(d))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, X: Tensor, mask: Tensor | None) -> Tensor:
        Q, K, V = ((X @ W).unflatten(-1, (self.h, -1)).transpose(1, 2) for W in (self.W_Q, self.W_K, self.W_V))
        S = Q @ K.mT / self.root(Q)
        if mask is not None:
            S = S.masked_fill(mask[:, None, None] == 0, -1e9)
        C = (S.softmax(-1) @ V).transpose(1, 2).flatten(2)
        X = self.norm1(X + C @ self.W_O)
        return self.norm2(X + (X @ self.W_1 + self.b_1).relu() @ self.W_2 + self.b_2)

    def root(self, Q: Tensor) -> float:
        return math.sqrt(Q.shape[-1])


class RawEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(RawParameters(28, 2, 37) for _ in range(2))

    def forward(self, X: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            X = block(X, mask)
        return X


@tutorial(
    every(RawParameters, root=lambda Q: Q.shape[-1]),
    "attention.scores",
    d_model=28,
    num_heads=2,
    d_ff=37,
    num_layers=2,
    layer="post-ln",
    projections="linear",
    output="linear",
)
def raw_parameters() -> nn.Module:
    return RawEncoder()


# A list of heads, each with its own key, query and value ---------------------------------------


class OneHead(nn.Module):
    def __init__(self, n_embd: int, head_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * self.factor(k)
        if valid is not None:
            wei = wei.masked_fill(~valid[:, None, :], float("-inf"))
        return wei.softmax(-1) @ self.value(x)

    def factor(self, k: Tensor) -> float:
        return float(k.shape[-1] ** -0.5)


class ManyHeads(nn.Module):
    def __init__(self, n_embd: int, num: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(OneHead(n_embd, n_embd // num) for _ in range(num))
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        return self.proj(torch.cat([h(x, valid) for h in self.heads], dim=-1))


class HeadsBlock(nn.Module):
    def __init__(self, n_embd: int, num: int) -> None:
        super().__init__()
        self.sa = ManyHeads(n_embd, num)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        x = x + self.sa(self.ln1(x), valid)
        return x + self.ffwd(self.ln2(x))


class HeadsEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding_table = nn.Embedding(41, 30)
        self.position_embedding_table = nn.Embedding(19, 30)
        self.blocks = nn.ModuleList(HeadsBlock(30, 5) for _ in range(2))
        self.ln_f = nn.LayerNorm(30)

    def forward(self, idx: Tensor, valid: Tensor | None = None) -> Tensor:
        x = self.token_embedding_table(idx) + self.position_embedding_table(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x, valid)
        return self.ln_f(x)


@tutorial(
    every(OneHead, factor=lambda k: 30**-0.5),
    "attention.scores",
    {"mask": "valid: (B, n), boolean, True = keep"},
    d_model=30,
    num_heads=5,
    d_ff=120,
    num_layers=2,
    layer="pre-ln",
    final_norm="norm",
    projections="linear",
    output="affine",
    position="learned",
)
def list_of_heads() -> nn.Module:
    return HeadsEncoder()


# Arrays with an axis for the heads: (d, h, d_k), (h, d, d_k), and one array for each head -------


class Kernels(nn.Module):
    """The maps as einsum reads them, ``layout`` saying which axis is which."""

    layout = "dhk"

    def __init__(self, d: int, h: int, inner: int) -> None:
        super().__init__()
        sizes = {"d": d, "h": h, "k": d // h}
        shape = [sizes[axis] for axis in self.layout]
        self.query, self.key, self.value = (nn.Parameter(torch.randn(*shape) / d**0.5) for _ in range(3))
        self.out = nn.Parameter(torch.randn(h, d // h, d) / d**0.5)
        self.ffn_in, self.ffn_out = nn.Linear(d, inner), nn.Linear(inner, d)
        self.attention_norm, self.ffn_norm = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)

    def attention(self, x: Tensor, keep: Tensor | None) -> Tensor:
        q, k, v = (torch.einsum(f"bnd,{self.layout}->bhnk", x, weight) for weight in (self.query, self.key, self.value))
        scores = torch.einsum("bhqk,bhnk->bhqn", q, k) / math.sqrt(q.shape[-1])
        if keep is not None:
            scores = scores.where(keep[:, None, None], torch.tensor(-torch.inf).to(scores))
        return self.joined(torch.einsum("bhqn,bhnk->bhqk", scores.softmax(-1), v))

    def joined(self, heads: Tensor) -> Tensor:
        return torch.einsum("bhqk,hkd->bqd", heads, self.out)

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        x = self.attention_norm(x + self.attention(x, keep))
        return self.ffn_norm(x + self.ffn_out(self.ffn_in(x).relu()))


class HeadsInFront(Kernels):
    layout = "hdk"


class KernelEncoder(nn.Module):
    def __init__(self, layer: type[Kernels]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(28, 4, 43) for _ in range(2))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, keep)
        return x


def heads_reversed(encoder: nn.Module) -> None:
    """The heads' outputs meet the wrong rows of W_O."""
    for layer in encoder.layers:
        layer.joined = lambda heads, W=layer.out: torch.einsum("bhqk,hkd->bqd", heads.flip(1), W)


KERNELS = {"d_model": 28, "num_heads": 4, "d_ff": 43, "num_layers": 2, "eps": 1e-6, "projections": "linear"}


@tutorial(heads_reversed, "multihead.concat", {"mask": "keep: (B, n), boolean, True = keep"}, **KERNELS)
def einsum_kernels() -> nn.Module:
    return KernelEncoder(Kernels)


@tutorial(heads_reversed, "multihead.concat", {"mask": "keep: (B, n), boolean, True = keep"}, **KERNELS)
def heads_as_first_axis() -> nn.Module:
    return KernelEncoder(HeadsInFront)


class ArrayPerHead(nn.Module):
    """Lists of parameters, one for each head, input × output."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.WQ, self.WK, self.WV = (
            nn.ParameterList(nn.Parameter(torch.randn(d, d // h) / d**0.5) for _ in range(h)) for _ in range(3)
        )
        self.WO = nn.Parameter(torch.randn(d, d) / d**0.5)
        self.norm_attn, self.norm_ff = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 41), nn.GELU(), nn.Linear(41, d))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        heads = []
        for q, k, v in zip(self.WQ, self.WK, self.WV, strict=True):
            scores = (x @ q) @ (x @ k).mT / math.sqrt(q.shape[-1])
            if mask is not None:
                scores = scores.masked_fill(mask[:, None] == 0, -1e9)
            heads.append(scores.softmax(-1) @ (x @ v))
        x = self.norm_attn(x + self.merged(torch.stack(heads, dim=1)) @ self.WO)
        return self.norm_ff(x + self.ff(x))

    def merged(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)


class ArrayPerHeadEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ArrayPerHead(30, 3) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


@tutorial(
    every(ArrayPerHead, merged=heads_mixed_up),
    "multihead.concat",
    d_model=30,
    num_heads=3,
    d_ff=41,
    num_layers=2,
    activation="gelu",
)
def array_per_head() -> nn.Module:
    return ArrayPerHeadEncoder()
