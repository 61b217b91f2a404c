"""Tutorial styles that norm or activate what they map, before they add positions."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial
from conformance_tests.meta_tests.encoders.tutorials_inputs import PositionTable, interleaved
from conformance_tests.meta_tests.encoders.tutorials_vectors import Measuring, bare


class Spoken(Measuring):
    """Map, norm, dropout and ReLU, √d times that, and sinusoids: the entrance of toolkits for speech."""

    def __init__(self) -> None:
        super().__init__(80, plain_layers())
        self.place = PositionTable(interleaved(47, 28))
        self.behind = nn.Sequential(nn.LayerNorm(28, eps=1e-12), nn.Dropout(), nn.ReLU())

    def forward(self, signal: Tensor, padding: Tensor | None = None) -> Tensor:
        x = self.place(self.behind(self.map(self.project, signal)) * 28**0.5)
        return self.run(x, None if padding is None else padding[:, None, None])


@tutorial(
    every(Spoken, map=bare),
    "embedding.features_without_bias",
    {"mask": "padding: (B, n), boolean, True = ignore"},
    **{**PLAIN, "embedding": "features", "token_norm": "norm", "norm_token.eps": 1e-12},
    token_activation="activation",
    embedding_scale="sqrt-d-model",
    position="sinusoidal",
)
def features_normed_and_activated() -> nn.Module:
    return Spoken()


class Waves(Measuring):
    """A norm before the map, written by hand, and GELU behind it, by its formula."""

    def __init__(self) -> None:
        super().__init__(11, plain_layers(PlainPreNorm))
        self.g, self.b = nn.Parameter(torch.rand(11)), nn.Parameter(torch.rand(11))

    def forward(self, signal: Tensor, padding: Tensor | None = None) -> Tensor:
        spread = signal.var(-1, keepdim=True, correction=0)
        normed = self.g * (signal - signal.mean(-1, keepdim=True)) / torch.sqrt(spread + 1e-6) + self.b
        y = self.map(self.project, normed)
        y = 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))
        return self.run(y + self.place(torch.arange(y.shape[1])), None if padding is None else padding[:, None, None])


@tutorial(
    every(Waves, map=bare),
    "embedding.features_without_bias",
    **{**PLAIN, "embedding": "features", "feature_norm": "norm", "norm_feature.eps": 1e-6},
    token_activation="activation",
    activation_token="gelu",
    position="learned",
    layer="pre-ln",
)
def normed_features_behind_an_activation() -> nn.Module:
    return Waves()


class Patched(nn.Module):
    """Flattened patches, channels last, with a norm before their map and one behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.to_tokens = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 28), nn.LayerNorm(28))
        self.cls_token, self.places = nn.Parameter(torch.randn(1, 1, 28)), nn.Parameter(torch.randn(1, 17, 28))
        layer = nn.TransformerEncoderLayer(28, 4, 37, norm_first=True, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(28), enable_nested_tensor=False)
        self.turned = False

    def forward(self, image: Tensor) -> Tensor:
        B, C, H, W = image.shape
        patches = image.reshape(B, C, H // 4, 4, W // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(B, -1, 16 * C)
        x, first = self.to_tokens(patches), self.cls_token.expand(B, -1, -1)
        places = self.places.flip(1) if self.turned else self.places
        return self.layers(torch.cat([first, x], 1) + places[:, : x.shape[1] + 1])


@tutorial(
    every(Patched, turned=True),
    "position.learned",
    **{**PLAIN, "embedding": "patches", "feature_norm": "norm", "token_norm": "norm", "activation": "gelu"},
    cls="cls",
    position="learned",
    layer="pre-ln",
    final_norm="norm",
)
def patches_between_two_norms() -> nn.Module:
    return Patched()


class RootMeanSquared(nn.Module):
    """Token ids whose vectors are divided by their root mean square, and learned positions; all is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(31, 28), nn.Parameter(torch.randn(1, 47, 28))
        self.gain = nn.Parameter(torch.rand(28))
        self.layers = nn.Sequential(*plain_layers())
        self.turned = False

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x = self.gain * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        places = self.places.flip(1) if self.turned else self.places
        return self.layers(x + places[:, : x.shape[1]])


@tutorial(
    every(RootMeanSquared, turned=True),
    "position.learned",
    **{**PLAIN, "embedding": "lookup", "token_norm": "norm", "norm_token": "rms", "norm_token.eps": 1e-6},
    embedding_scale="none",
    position="learned",
)
def tokens_with_a_norm_of_their_own() -> nn.Module:
    return RootMeanSquared()
