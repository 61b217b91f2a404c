"""Tutorial styles that differ in their norms, in the feed-forward network, and in what layers share."""

from functools import partial

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainLayer, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial, unchanged

WRONG_SCALE = every("PlainAttention", scale=1.7)


class RootMeanSquare(nn.Module):
    """RMSNorm with an ε that nobody lists."""

    def __init__(self, dim: int, eps: float = 3e-7) -> None:
        super().__init__()
        self.tiny = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.tiny) * self.scale


class ZeroCentred(nn.Module):
    """γ is stored as its distance from 1."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5) * (1 + self.weight) + self.bias


class EpsilonOutside(nn.Module):
    """The biased deviation, with an unusual ε outside the root."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        spread = x.var(-1, unbiased=False, keepdim=True).sqrt()
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (spread + 2e-4) + self.beta


class UnusualEpsilon(ZeroCentred):
    """ε = 4·10⁻⁹, as no library has it, and γ as it is."""

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 4e-9).sqrt() * self.weight + self.bias


@tutorial(WRONG_SCALE, "attention.scores", layer="pre-ln", norm="rms", eps=3e-7, final_norm="norm", **PLAIN)
def root_mean_square() -> nn.Module:
    return Plain(plain_layers(PlainPreNorm, RootMeanSquare), RootMeanSquare(28))


@tutorial(
    WRONG_SCALE,
    "attention.scores",
    layer="pre-ln",
    norm="layer-norm",
    eps=1e-5,
    final_norm="norm",
    norm_final="rms",
    **{"norm_final.eps": 3e-7},
    **PLAIN,
)
def final_norm_of_another_kind() -> nn.Module:
    return Plain(plain_layers(PlainPreNorm), RootMeanSquare(28))


@tutorial(WRONG_SCALE, "attention.scores", layer="post-ln", norm="layer-norm", eps=1e-5, final_norm="none", **PLAIN)
def gamma_less_one() -> nn.Module:
    return Plain(plain_layers(norm=ZeroCentred))


@tutorial(
    every(ZeroCentred, forward=unchanged), "norm.statistics", layer="pre-ln", eps=1e-5, final_norm="norm", **PLAIN
)
def gamma_less_one_before() -> nn.Module:
    return Plain(plain_layers(PlainPreNorm, ZeroCentred), ZeroCentred(28))


@tutorial(WRONG_SCALE, "attention.scores", layer="pre-ln", norm="std-plus-eps", eps=2e-4, final_norm="none", **PLAIN)
def epsilon_outside_the_root() -> nn.Module:
    return Plain(plain_layers(PlainPreNorm, EpsilonOutside))


@tutorial(WRONG_SCALE, "attention.scores", layer="post-ln", norm="layer-norm", eps=4e-9, **PLAIN)
def unusual_epsilon() -> nn.Module:
    return Plain(plain_layers(norm=UnusualEpsilon))


def widening(module: nn.Module) -> nn.Module:
    """Give one of the second norms another ε than the others have."""
    module.layers[1].norm2.eps = 3e-4  # type: ignore[union-attr, index]
    return module


@tutorial(widening, "norm.layer_norm", layer="post-ln", norm="layer-norm", eps=1e-6, **{"norm_2.eps": 1e-5}, **PLAIN)
def epsilon_for_each_sublayer() -> nn.Module:
    layers = plain_layers(norm=partial(nn.LayerNorm, eps=1e-6))
    for layer in layers:
        layer.norm2 = nn.LayerNorm(28)
    return Plain(layers)


@tutorial(
    every("PlainAttention", merge=heads_mixed_up),
    "multihead.concat",
    layer="post-ln",
    norm="layer-norm-without-bias",
    eps=1e-6,
    **PLAIN,
)
def norms_without_parameters() -> nn.Module:
    return Plain(plain_layers(norm=partial(nn.LayerNorm, elementwise_affine=False, eps=1e-6)))


@tutorial(
    WRONG_SCALE,
    "attention.scores",
    layer="pre-ln",
    norm="layer-norm",
    final_norm="norm",
    norm_final="layer-norm-without-bias",
    **PLAIN,
)
def final_norm_without_parameters() -> nn.Module:
    return Plain(plain_layers(PlainPreNorm), nn.LayerNorm(28, elementwise_affine=False))


class Repeated(Plain):
    """One layer, several times."""

    def __init__(self) -> None:
        super().__init__(plain_layers(depth=1))
        self.times = 3

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for _ in range(self.times):
            x = self.layers[0](x, hidden)
        return x


@tutorial(WRONG_SCALE, "attention.scores", sharing="all", layer="post-ln", **(PLAIN | {"num_layers": 3}))
def one_layer_repeated() -> nn.Module:
    return Repeated()


class Gated(PlainLayer):
    """SwiGLU: three maps without biases, under the letters of the open models."""

    def __init__(self, width: int, count: int, inner: int, norm: type[nn.Module]) -> None:
        super().__init__(width, count, inner, norm)
        del self.fc1, self.fc2
        self.feed = nn.ModuleDict(
            {
                "w1": nn.Linear(width, inner, bias=False),
                "w2": nn.Linear(inner, width, bias=False),
                "w3": nn.Linear(width, inner, bias=False),
            }
        )

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.feed_forward(self.norm2(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.feed["w2"](nn.functional.silu(self.feed["w1"](x)) * self.feed["w3"](x))


@tutorial(
    WRONG_SCALE,
    "attention.scores",
    layer="pre-ln",
    norm="rms",
    ffn="gated",
    final_norm="norm",
    **(PLAIN | {"activation": "silu"}),
)
def gated_feed_forward() -> nn.Module:
    return Plain(plain_layers(Gated, RootMeanSquare), RootMeanSquare(28))


class PackedGate(PlainPreNorm):
    """GEGLU: gate and value are the halves of one map with biases, and the second half is activated."""

    def __init__(self, width: int, count: int, inner: int, norm: type[nn.Module]) -> None:
        super().__init__(width, count, inner, norm)
        self.fc1 = nn.Linear(width, 2 * inner)

    def feed_forward(self, x: Tensor) -> Tensor:
        value, gate = self.fc1(x).chunk(2, dim=-1)
        return self.fc2(value * nn.functional.gelu(gate))


@tutorial(
    WRONG_SCALE,
    "attention.scores",
    layer="pre-ln",
    ffn="gated-affine",
    final_norm="norm",
    **(PLAIN | {"activation": "gelu"}),
)
def gate_and_value_in_one_map() -> nn.Module:
    return Plain(plain_layers(PackedGate), nn.LayerNorm(28))
