"""Encoders that hold arrays otherwise: those of all layers in one, maps as convolutions, weights made of others."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainAttention, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial

D, H, INNER, DEPTH = 28, 4, 36, 2


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


class OneArrayForAllLayers(nn.Module):
    """What a scan over layers makes: every array has an axis for the layers, and there is no module for one of them."""

    def __init__(self) -> None:
        super().__init__()
        shapes = {"wq": (D, D), "wk": (D, D), "wv": (D, D), "wo": (D, D), "w1": (D, INNER), "w2": (INNER, D)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(DEPTH, *shape) / math.sqrt(shape[0])))
        for name, width in {"bq": D, "bk": D, "bv": D, "bo": D, "b1": INNER, "b2": D}.items():
            self.register_parameter(name, nn.Parameter(0.1 * torch.randn(DEPTH, width)))
        for norm in ("ln1", "ln2"):
            self.register_parameter(f"{norm}_g", nn.Parameter(torch.ones(DEPTH, D)))
            self.register_parameter(f"{norm}_b", nn.Parameter(torch.zeros(DEPTH, D)))
        self.final = nn.LayerNorm(D, eps=1e-6)
        self.width = D // H

    def layer(self, x: Tensor, p: dict[str, Tensor], mask: Tensor | None) -> Tensor:
        y = nn.functional.layer_norm(x, (D,), p["ln1_g"], p["ln1_b"], 1e-6)
        q, k, v = (heads(y @ p[f"w{name}"] + p[f"b{name}"]) for name in "qkv")
        scores = q @ k.mT / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ p["wo"] + p["bo"]
        y = nn.functional.layer_norm(x, (D,), p["ln2_g"], p["ln2_b"], 1e-6)
        return x + nn.functional.silu(y @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        stacked = dict(self.named_parameters(recurse=False))
        for l in range(DEPTH):
            x = self.layer(x, {name: array[l] for name, array in stacked.items()}, mask)
        return self.final(x)


@tutorial(
    every(OneArrayForAllLayers, width=D),
    "attention.scores",
    layer="pre-ln",
    activation="silu",
    eps=1e-6,
    final_norm="norm",
    num_layers=DEPTH,
)
def one_array_for_all_layers() -> nn.Module:
    return OneArrayForAllLayers()


class ByChannels(nn.Module):
    """A layer of convolutions of size 1, with the channels before the positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Conv1d(D, 3 * D, 1), nn.Conv1d(D, D, 1)
        self.expand, self.contract = nn.Conv1d(D, INNER, 1), nn.Conv1d(INNER, D, 1)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.width = D // H

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        q, k, v = (t.unflatten(1, (H, -1)) for t in self.qkv(x.mT).chunk(3, 1))
        scores = torch.einsum("bhdi,bhdj->bhij", q, k) / math.sqrt(self.width)
        if pad is not None:
            scores = scores.masked_fill(pad[:, None, None], -torch.inf)
        mixed = torch.einsum("bhij,bhdj->bhdi", scores.softmax(-1), v).flatten(1, 2)
        x = self.norm1(x + self.out(mixed).mT)
        return self.norm2(x + self.contract(nn.functional.gelu(self.expand(x.mT))).mT)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ByChannels() for _ in range(DEPTH))

    def forward(self, x: Tensor, pad: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, pad)
        return x


@tutorial(every(ByChannels, width=D), "attention.scores", layer="post-ln", activation="gelu", num_heads=H)
def maps_as_convolutions() -> nn.Module:
    return Convolutional()


@tutorial(every(ByChannels, width=D), "attention.scores", layer="post-ln", activation="gelu", num_heads=H)
def spread_over_devices() -> nn.Module:
    return nn.DataParallel(Convolutional())


@tutorial(every(nn.TransformerEncoderLayer, activation=torch.tanh), "ffn.relu", layer="post-ln", activation="relu")
def weights_made_of_others() -> nn.Module:
    layer = nn.TransformerEncoderLayer(D, H, INNER, batch_first=True)
    encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
    for part in encoder.layers:
        weight_norm(part.linear1)
        weight_norm(part.linear2)
    return encoder


class InputByOutput(nn.Module):
    """The map of a well-known decoder: a weight of input × output, and a bias."""

    def __init__(self, reads: int, gives: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(reads, gives) / math.sqrt(reads))
        self.bias = nn.Parameter(torch.zeros(gives))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])


class DecoderTurnedEncoder(nn.Module):
    """A layer of a decoder without its causal mask; two of its maps have names that others use otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.c_attn, self.c_proj = InputByOutput(D, 3 * D), InputByOutput(D, D)
        self.c_fc, self.mlp_proj = InputByOutput(D, INNER), InputByOutput(INNER, D)
        self.width = D // H

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        q, k, v = map(heads, self.c_attn(self.ln_1(x)).split(D, -1))
        scores = q @ k.mT / math.sqrt(self.width)
        if keep is not None:
            scores = scores + (1 - keep[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        x = x + self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.mlp_proj(nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(29, D), nn.Embedding(20, D)
        self.h = nn.ModuleList(DecoderTurnedEncoder() for _ in range(DEPTH))
        self.ln_f = nn.LayerNorm(D)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.wte(input_ids) + self.wpe.weight[: input_ids.shape[1]]
        for block in self.h:
            x = block(x, attention_mask)
        return self.ln_f(x)


@tutorial(
    every(DecoderTurnedEncoder, width=D), "attention.scores", layer="pre-ln", activation="gelu-tanh", position="learned"
)
def a_decoder_turned_encoder() -> nn.Module:
    return Decoder()


# Maps that are multiplied where they are used, so that each learns equally fast --------------------


class Equalised(nn.Linear):
    """Entries of variance 1 are stored."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight / math.sqrt(self.in_features), self.bias * 0.1)


@tutorial(every(PlainAttention, scale=1.7), "attention.scores", layer="pre-ln", **PLAIN)
def maps_multiplied_where_used() -> nn.Module:
    encoder = Plain(plain_layers(PlainPreNorm), nn.LayerNorm(28))
    for module in encoder.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = Equalised
    return encoder
