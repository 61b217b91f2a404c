"""Encoders whose names and shapes do not tell which array is which, until their author says so."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.ambiguous import ambiguous
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers


class Opaque:
    """Arrays under names that say nothing, and no intermediates: shapes tell neither maps nor norms apart."""

    def __init__(self, heads: int = 2) -> None:
        generator = torch.Generator().manual_seed(3)

        def drawn(*shape: int) -> Any:
            return (torch.randn(*shape, generator=generator, dtype=torch.float64) / math.sqrt(shape[0])).numpy()

        self.heads = heads
        self.weights = {
            f"layer.{l}.{name}": drawn(12, 12) for l in range(2) for name in ("alpha", "beta2", "gam", "del")
        }
        for l in range(2):
            self.weights |= {f"layer.{l}.up": drawn(12, 17), f"layer.{l}.down": drawn(17, 12)}
            for last, then_first in (("t.weight", "s.weight"), ("t.bias", "s.bias")):
                self.weights |= {f"layer.{l}.{name}": drawn(12) for name in (last, then_first)}

    def encode(self, x: Any, mask: Any) -> Any:
        X = torch.as_tensor(x)
        keep = None if mask is None else torch.as_tensor(mask)[:, None, None]
        for l in range(2):
            w = {name.split(".", 2)[2]: torch.as_tensor(a) for name, a in self.weights.items() if f".{l}." in name}
            v, k, q = (X @ w[name] for name in ("alpha", "gam", "del"))
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            scores = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
            X = self.norm(X + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ w["beta2"], w, "s")
            X = self.norm(X + self.activated(X @ w["up"]) @ w["down"], w, "t")
        return X.numpy()

    def activated(self, x: Tensor) -> Tensor:
        return x.relu()

    def norm(self, x: Tensor, w: Mapping[str, Tensor], name: str) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


MAPS = {
    "W_V": "layer.{l}.alpha",
    "W_O": "layer.{l}.beta2",
    "W_K": "layer.{l}.gam",
    "W_Q": "layer.{l}.del",
    "norm_1.gamma": "layer.{l}.s.weight",
    "norm_1.beta": "layer.{l}.s.bias",
    "norm_2.gamma": "layer.{l}.t.weight",
    "norm_2.beta": "layer.{l}.t.bias",
}


@ambiguous("layer.{l}.alpha", "layer.{l}.gam", parameters=MAPS, heads=2)
def maps_that_shapes_cannot_tell() -> Any:
    return Opaque()


class TableWithoutAName(Plain):
    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.lexicon = nn.Parameter(torch.randn(31, 28))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        places = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
        angles = places / 10000 ** (torch.arange(0, 28, 2, dtype=torch.float64) / 28)
        positions = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return super().forward(nn.functional.embedding(ids, self.lexicon) + positions, mask)


class ArraysAlone:
    """A module seen through its arrays and its outputs."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module.double().eval()
        self.weights = {name: p.detach().numpy() for name, p in module.named_parameters()}

    def encode(self, x: Any, mask: Any) -> Any:
        keep = None if mask is None else torch.from_numpy(mask)
        return self.module(torch.from_numpy(x), keep).detach().numpy()


def table_without_a_name() -> Any:
    return ArraysAlone(TableWithoutAName())


class Unnameable(nn.Module):
    """The maps of attention are kept in a dictionary of one array of their own making."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(plain_layers())
        for layer in self.layers:
            layer.attention.bundle = nn.Parameter(
                torch.stack([layer.attention.query.weight, layer.attention.key.weight])
            )
            del layer.attention.query, layer.attention.key

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            a = layer.attention
            q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (x @ a.bundle[0], x @ a.bundle[1], a.value(x)))
            x = layer.norm1(x + a.out(a.merge(a.score(q, k).softmax(-1) @ v)))
            x = layer.norm2(x + layer.feed_forward(x))
        return x


def maps_in_an_array_of_their_own() -> nn.Module:
    return Unnameable()


class TokensAndSegments(Opaque):
    """Arrays alone, with tables of tokens and segments: ``encode(x, mask)`` has no place for segment ids."""

    def __init__(self) -> None:
        super().__init__()
        for name, rows in {"token_embedding": 31, "position_embedding": 29, "segment_embedding": 2}.items():
            self.weights[name] = torch.randn(rows, 12, dtype=torch.float64).numpy()

    def encode(self, x: Any, mask: Any) -> Any:
        positions = self.weights["position_embedding"][: x.shape[1]]
        first = self.weights["segment_embedding"][0]
        return super().encode(self.weights["token_embedding"][x] + positions + first, mask)


@ambiguous("takes one input, but this encoder needs several")
def arrays_with_segments() -> Any:
    return TokensAndSegments()
