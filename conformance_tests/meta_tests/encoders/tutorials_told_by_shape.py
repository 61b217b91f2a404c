"""Tutorial styles whose names mislead or say nothing, while shapes and what stands beside them tell the parts."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.plain import PlainAttention
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial

SIZES = {"d_model": 20, "num_heads": 4, "d_ff": 36, "num_layers": 2}


class CountedFromZero(nn.Module):
    """Pre-LN with norms 0 and 1; ``wo`` is the second map of the feed-forward network, as ``out`` is W_O."""

    def __init__(self) -> None:
        super().__init__()
        self.mixing = PlainAttention(20, 4)
        self.layer_norm_0 = nn.LayerNorm(20)
        self.wi, self.wo = nn.Linear(20, 36), nn.Linear(36, 20)
        self.layer_norm_1 = nn.LayerNorm(20)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        x = x + self.mixing(self.layer_norm_0(x), hidden)
        y: Tensor = x + self.wo(self.wi(self.layer_norm_1(x)).relu())
        return y


class ForeignFinalNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.ModuleList(CountedFromZero() for _ in range(2))
        self.schluss = nn.LayerNorm(20)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.block:
            x = block(x, None if mask is None else ~mask[:, None, None])
        y: Tensor = self.schluss(x)
        return y


@tutorial(every(PlainAttention, scale=20**0.5), "attention.scores", layer="pre-ln", final_norm="norm", **SIZES)
def norms_counted_from_zero() -> nn.Module:
    return ForeignFinalNorm()


class RawArrays(nn.Module):
    """A layer of arrays: the maps of attention by head, ``w_in`` and ``w_out`` behind them, norms as two vectors."""

    def __init__(self, scale: str, shift: str) -> None:
        super().__init__()
        self.factor, self.scale, self.shift = 5**-0.5, scale, shift
        shapes = {"wq": (4, 20, 5), "wk": (4, 20, 5), "wv": (4, 20, 5), "wo": (4, 5, 20)}
        shapes |= {"w_in": (20, 36), "b_in": (36,), "w_out": (36, 20), "b_out": (20,)}
        shapes |= {f"{vector}{place}": (20,) for place in "12" for vector in (scale, shift)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape) * 0.3))

    def normed(self, x: Tensor, place: int) -> Tensor:
        gamma, beta = getattr(self, f"{self.scale}{place}"), getattr(self, f"{self.shift}{place}")
        return functional.layer_norm(x, x.shape[-1:], gamma, beta)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = (torch.einsum("bnd,hdk->bhnk", x, w) for w in (self.wq, self.wk, self.wv))
        scores = q @ k.mT * self.factor
        weights = (scores if hidden is None else scores.masked_fill(hidden, -1e30)).softmax(-1)
        x = self.normed(x + torch.einsum("bhnk,hkd->bnd", weights @ v, self.wo), 1)
        return self.normed(x + (x @ self.w_in + self.b_in).relu() @ self.w_out + self.b_out, 2)


class RawTop(nn.Module):
    """Such layers, and a final norm of two vectors."""

    def __init__(self, scale: str, shift: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(RawArrays(scale, shift) for _ in range(2))
        self.top_scale, self.top_shift = nn.Parameter(torch.ones(20)), nn.Parameter(torch.zeros(20))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask[:, None, None])
        return functional.layer_norm(x, x.shape[-1:], self.top_scale, self.top_shift)


@tutorial(every(RawArrays, factor=20**-0.5), "attention.scores", layer="post-ln", final_norm="norm", **SIZES)
def norms_of_gamma_and_beta() -> nn.Module:
    return RawTop("gamma", "beta")


@tutorial(every(RawArrays, factor=20**-0.5), "attention.scores", layer="post-ln", final_norm="norm", **SIZES)
def norms_of_gain_and_offset() -> nn.Module:
    return RawTop("g", "o")


class SharedBlock(nn.Module):
    """One block, run three times; the input is narrower, and normed there."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(41, 12), nn.Embedding(23, 12)
        self.LayerNorm = nn.LayerNorm(12)
        self.embedding_hidden_mapping_in = nn.Linear(12, 20)
        self.layer = nn.ModuleDict({name: nn.Linear(20, 20) for name in ("query", "key", "value", "dense")})
        self.layer.update({"attention_norm": nn.LayerNorm(20), "ffn": nn.Linear(20, 36)})
        self.layer.update({"ffn_output": nn.Linear(36, 20), "full_norm": nn.LayerNorm(20)})
        self.factor = 5**-0.5

    def attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        maps = (self.layer[name] for name in ("query", "key", "value"))
        q, k, v = (m(x).unflatten(-1, (4, -1)).transpose(1, 2) for m in maps)
        scores = q @ k.mT * self.factor
        weights = (scores if mask is None else scores.masked_fill(~mask[:, None, None], -1e30)).softmax(-1)
        mixed: Tensor = self.layer["dense"]((weights @ v).transpose(1, 2).flatten(2))
        return mixed

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]]
        x = self.embedding_hidden_mapping_in(self.LayerNorm(x))
        for _ in range(3):
            x = self.layer["attention_norm"](x + self.attend(x, mask))
            x = self.layer["full_norm"](x + self.layer["ffn_output"](self.layer["ffn"](x).relu()))
        return x


@tutorial(
    every(SharedBlock, factor=20**-0.5),
    "attention.scores",
    sharing="all",
    input="factorised",
    embedding_norm="norm",
    **(SIZES | {"num_layers": 3}),
)
def a_shared_block_behind_a_normed_input() -> nn.Module:
    return SharedBlock()
