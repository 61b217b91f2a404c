"""Encoders written in styles that differ in how they pack, turn, split and add: none states what it does.

Names are letters on purpose. Each is right; ``CHOICES`` says what has to be read off its computation.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, INNER, DEPTH = 24, 4, 36, 2
HEAD = WIDTH // HEADS


def drawn(*sizes: int) -> nn.Parameter:
    """A parameter of these sizes."""
    return nn.Parameter(0.2 * torch.randn(sizes))


class Layers(nn.Module):
    """A stack of layers."""

    layer: type[nn.Module]

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ModuleList(self.layer() for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.a:
            x = part(x)
        return x


class EinsumLayer(nn.Module):
    """A weight for each head with axes (h, d, d_k), contracted by name, and biases behind the residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (drawn(HEADS, WIDTH, HEAD) for _ in range(3))
        self.d, self.e, self.f = (drawn(HEADS, 1, HEAD) for _ in range(3))
        self.g, self.h = drawn(HEADS, HEAD, WIDTH), drawn(WIDTH)
        self.i, self.j, self.k, self.l = drawn(WIDTH, INNER), drawn(INNER), drawn(INNER, WIDTH), drawn(WIDTH)
        self.m, self.n = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            torch.einsum("bnd,hdk->bhnk", x, w) + b for w, b in ((self.a, self.d), (self.b, self.e), (self.c, self.f))
        )
        weights = (torch.einsum("bhik,bhjk->bhij", q, k) * HEAD**-0.5).softmax(-1)
        x = self.m(x + torch.einsum("bhij,bhjk,hkd->bid", weights, v, self.g) + self.h)
        return self.n(x + functional.gelu(x @ self.i + self.j) @ self.k + self.l)


class Einsum(Layers):
    """Weights for each head, contracted by name."""

    layer = EinsumLayer


class BatchedLayer(nn.Module):
    """(n, B, d): batches of heads in one product of three axes, packed head by head; Pre-LN."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c = nn.Sequential(nn.Linear(WIDTH, INNER), nn.SiLU(), nn.Linear(INNER, WIDTH))
        self.d, self.e = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, B, _ = x.shape
        q, k, v = (t.transpose(0, 1) for t in self.a(self.d(x)).view(n, B * HEADS, 3 * HEAD).split(HEAD, -1))
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(HEAD), 2)
        x = x + self.b(torch.bmm(weights, v).transpose(0, 1).reshape(n, B, WIDTH))
        return x + self.c(self.e(x))


class Batched(Layers):
    """Sequences first."""

    layer = BatchedLayer


class ElementaryLayer(nn.Module):
    """Products as sums of elementwise products, a softmax of exponentials, RMSNorm by hand, one map for both gates."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.e, self.f = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)
        self.g, self.h = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def normed(self, x: Tensor, g: Tensor) -> Tensor:
        return (1 + g) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        B, n, _ = x.shape
        y = self.normed(x, self.g)
        q, k, v = (part(y).view(B, n, HEADS, HEAD).permute(0, 2, 1, 3) for part in (self.a, self.b, self.c))
        scores = (q[:, :, :, None] * k[:, :, None]).sum(-1) / math.sqrt(HEAD)
        raised = torch.exp(scores - scores.max(-1, keepdim=True).values)
        weights = raised / raised.sum(-1, keepdim=True)
        x = x + self.d((weights[..., None] * v[:, :, None]).sum(-2).permute(0, 2, 1, 3).reshape(B, n, WIDTH))
        one, other = self.e(self.normed(x, self.h)).chunk(2, -1)
        return x + self.f(one * functional.gelu(other))


class Elementary(Layers):
    """Elementary operations alone."""

    layer = ElementaryLayer


class ConvolvedLayer(nn.Module):
    """Every map is a convolution of width 1, and heads have the positions last."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(WIDTH, 3 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.c, self.d = nn.Conv1d(WIDTH, INNER, 1), nn.Conv1d(INNER, WIDTH, 1)
        self.e, self.f = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        B, n, _ = x.shape
        q, k, v = self.a(x.mT).reshape(B, 3, HEADS, HEAD, n).unbind(1)
        weights = torch.softmax(q.mT @ k / math.sqrt(HEAD), -1)
        x = self.e(x + self.b((v @ weights.mT).reshape(B, WIDTH, n)).mT)
        return self.f(x + self.d(functional.relu(self.c(x.mT))).mT)


class Convolved(Layers):
    """Channels first."""

    layer = ConvolvedLayer


class OneVector(nn.Module):
    """All weights of all layers lie in one vector, γ less 1."""

    def __init__(self) -> None:
        super().__init__()
        self.a = drawn(DEPTH * (4 * WIDTH**2 + 2 * WIDTH * INNER + 9 * WIDTH + INNER))

    def forward(self, x: Tensor) -> Tensor:
        B, n, _ = x.shape
        left = self.a

        def next_of(*sizes: int) -> Tensor:
            nonlocal left
            taken, left = left.tensor_split([math.prod(sizes)])
            return taken.view(sizes)

        for _ in range(DEPTH):
            maps, biases = next_of(WIDTH, 4 * WIDTH).chunk(4, 1), next_of(4 * WIDTH).chunk(4)
            heads = [(x @ W + b).view(B, n, HEADS, HEAD).transpose(1, 2) for W, b in zip(maps, biases, strict=True)]
            mixed = functional.scaled_dot_product_attention(*heads[:3]).transpose(1, 2).reshape(B, n, WIDTH)
            x = self.normed(x + mixed @ maps[3] + biases[3], next_of(WIDTH), next_of(WIDTH))
            inner = torch.relu(x @ next_of(WIDTH, INNER) + next_of(INNER))
            x = self.normed(x + inner @ next_of(INNER, WIDTH) + next_of(WIDTH), next_of(WIDTH), next_of(WIDTH))
        return x

    def normed(self, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), 1 + gamma, beta)


class Looped(nn.Module):
    """A loop over heads, each with an output map that adds to the others', and the weights beside the states."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Embedding(29, WIDTH)
        self.b = nn.ModuleList(nn.Linear(WIDTH, HEAD) for _ in range(3 * HEADS * DEPTH))
        self.c = nn.ModuleList(nn.Linear(HEAD, WIDTH, bias=False) for _ in range(HEADS * DEPTH))
        self.d = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH)) for _ in range(DEPTH)
        )
        self.e = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * DEPTH))
        self.f = nn.Embedding(64, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        y = math.sqrt(WIDTH) * self.a(x) + self.f.weight[: x.shape[1]]
        seen = []
        for l in range(DEPTH):
            mixed: Any = 0
            for i in range(HEADS):
                place = HEADS * l + i
                q, k, v = (part(y) for part in self.b[3 * place : 3 * place + 3])
                seen.append((q @ k.mT / math.sqrt(HEAD)).softmax(-1))
                mixed = mixed + self.c[place](seen[-1] @ v)
            y = self.e[2 * l](y + mixed)
            y = self.e[2 * l + 1](y + self.d[l](y))
        return y, seen


class AlongTheBatchLayer(nn.Module):
    """Heads are chunks laid behind one another along the batch; norms without parameters; GELU by tanh, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.e, self.f = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat(part(x).chunk(HEADS, -1), 0) for part in (self.a, self.b, self.c))
        weights = ((q / math.sqrt(HEAD)) @ k.mT).softmax(2)
        x = functional.layer_norm(x + self.d(torch.cat((weights @ v).chunk(HEADS, 0), -1)), (WIDTH,))
        z = self.e(x)
        z = 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
        return functional.layer_norm(self.f(z) + x, (WIDTH,))


class AlongTheBatch(Layers):
    """Heads along the batch."""

    layer = AlongTheBatchLayer


class Gathered(nn.Module):
    """A class token beside vectors, as a set: Pre-LN with norms by hand, the first of which reads both side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.a = drawn(1, 1, WIDTH)
        self.b = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(DEPTH))
        self.c = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)) for _ in range(DEPTH)
        )
        self.d = nn.ParameterList(drawn(2, WIDTH) for _ in range(2 * DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([self.a.expand(len(x), -1, -1), x], 1)
        for l in range(DEPTH):
            z = by_hand(y, *self.d[2 * l])
            y = y + self.b[l](z, z, z, need_weights=False)[0]
            y = y + self.c[l](by_hand(y, *self.d[2 * l + 1]))
        return y


def by_hand(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """E[x²] − E[x]² is the variance."""
    mean, square = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(square - mean * mean + 1e-5) * gamma + beta


class Repeated(nn.Module):
    """One layer three times, behind tokens, positions, segments that are all the first one, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Embedding(31, WIDTH), drawn(1, 40, WIDTH), nn.Embedding(2, WIDTH)
        self.d = nn.LayerNorm(WIDTH, 1e-12)
        self.e = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, activation="gelu", batch_first=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.d(self.a(x) + self.b[:, : x.shape[1]] + self.c(torch.zeros_like(x)))
        for _ in range(3):
            y = self.e(y)
        return {"a": y}


POST: dict[str, Any] = {"layer": "post-ln", "norm": "layer-norm", "eps": 1e-5, "scores": "scaled", "sharing": "none"}

CHOICES: Mapping[type[nn.Module], Mapping[str, Any]] = {
    Einsum: POST | {"activation": "gelu", "projections": "affine", "output": "affine", "ffn": "affine"},
    Batched: POST | {"layer": "pre-ln", "activation": "silu", "final_norm": "none"},
    Elementary: POST | {"layer": "pre-ln", "norm": "rms", "eps": 1e-6, "ffn": "gated", "activation": "gelu"},
    Convolved: POST | {"activation": "relu", "projections": "affine"},
    OneVector: POST | {"activation": "relu", "projections": "affine", "output": "affine"},
    Looped: POST | {"embedding_scale": "sqrt-d-model", "position": "learned", "output": "linear"},
    AlongTheBatch: POST | {"norm": "layer-norm-without-bias", "activation": "gelu-tanh"},
    Gathered: POST
    | {"layer": "pre-ln", "activation": "gelu", "cls": "cls", "embedding": "vectors", "position": "none"},
    Repeated: POST | {"sharing": "all", "embedding_norm": "norm", "norm_embedding.eps": 1e-12, "segment": "added"},
}
"""The choices of each encoder."""
