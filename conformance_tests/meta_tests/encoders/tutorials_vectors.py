"""Tutorial styles that start from vectors or from measured features, and add positions themselves."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainLayer, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial
from conformance_tests.meta_tests.encoders.tutorials_arrays import ARRAYS, Array, Arrays, wrong_scale
from conformance_tests.meta_tests.encoders.tutorials_inputs import PositionTable, concatenated, interleaved


class Placing(Plain):
    """Adds a table to its vectors, times a number."""

    def __init__(self, layers: list[nn.Module], table: Tensor, scale: float = 1.0, **rest: nn.Module) -> None:
        super().__init__(layers, **rest)
        self.pos_encoder = PositionTable(table)
        self.factor = scale

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.pos_encoder(x * self.factor), mask)


@tutorial(
    every(PositionTable, pe=interleaved(48, 28)[None, 1:]),
    "position.sinusoidal",
    input="embedded",
    embedding="vectors",
    embedding_scale="none",
    position="sinusoidal",
    layer="post-ln",
    **PLAIN,
)
def vectors_with_sinusoids() -> nn.Module:
    return Placing(plain_layers(), interleaved(47, 28))


@tutorial(
    every(Placing, factor=28.0),
    "embedding.unscaled",
    embedding="vectors",
    embedding_scale="sqrt-d-model",
    position="sinusoidal-concatenated",
    layer="pre-ln",
    final_norm="norm",
    **PLAIN,
)
def scaled_vectors_with_concatenated_sinusoids() -> nn.Module:
    return Placing(plain_layers(PlainPreNorm), concatenated(47, 28), math.sqrt(28), final=nn.LayerNorm(28))


class WithClassToken(Plain):
    """A class token before the vectors, and a row for each place of all lengths up to 53."""

    def __init__(self) -> None:
        super().__init__(plain_layers(PlainPreNorm), final=nn.LayerNorm(28))
        self.class_token = nn.Parameter(torch.randn(1, 1, 28))
        self.pos_embedding = nn.Parameter(torch.randn(1, 53, 28))
        self.times = 1

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        for _ in range(self.times):
            x = x + self.pos_embedding[:, : x.shape[1]]
        return super().forward(x)


@tutorial(
    every(WithClassToken, times=2),
    "position.learned",
    embedding="vectors",
    cls="cls",
    position="learned",
    layer="pre-ln",
    final_norm="norm",
    **PLAIN,
)
def vectors_behind_a_class_token() -> nn.Module:
    return WithClassToken()


class OneLength(Plain):
    """Adds the whole of a parameter, as torchvision's encoder does: 17 positions and no others."""

    def __init__(self) -> None:
        super().__init__(plain_layers(PlainPreNorm), final=nn.LayerNorm(28))
        self.pos_embedding = nn.Parameter(torch.randn(1, 17, 28))
        self.turned = False

    def forward(self, x: Tensor) -> Tensor:
        rows = self.pos_embedding.flip(1) if self.turned else self.pos_embedding
        return super().forward(x + rows)


@tutorial(
    every(OneLength, turned=True),
    "position.learned",
    embedding="vectors",
    cls="none",
    position="learned",
    layer="pre-ln",
    final_norm="norm",
    **PLAIN,
)
def vectors_of_one_length() -> nn.Module:
    return OneLength()


class Measuring(Plain):
    """Features at every position, mapped, and learned positions; True in the mask hides."""

    def __init__(self, channels: int, layers: list[nn.Module], *, bias: bool = True) -> None:
        super().__init__(layers)
        self.project = nn.Linear(channels, layers[0].fc2.out_features, bias=bias)
        self.place = nn.Embedding(53, self.project.out_features)
        self.map: Callable[[nn.Linear, Tensor], Tensor] = nn.Linear.forward

    def forward(self, signal: Tensor, padding: Tensor | None = None) -> Tensor:
        x = self.map(self.project, signal) + self.place(torch.arange(signal.shape[1]))
        return self.run(x, None if padding is None else padding[:, None, None])


def bare(project: nn.Linear, u: Tensor) -> Tensor:
    """The map without its bias."""
    return u @ project.weight.mT


def by_reshape(project: nn.Linear, u: Tensor) -> Tensor:
    """Time and features exchanged in memory."""
    return project(u.reshape(len(u), u.shape[2], u.shape[1]).mT)


@tutorial(
    every(Measuring, map=bare),
    "embedding.features_without_bias",
    {"mask": "padding: (B, n), boolean, True = ignore"},
    embedding="features",
    embedding_scale="none",
    cls="none",
    position="learned",
    layer="post-ln",
    **PLAIN,
)
def features_with_learned_positions() -> nn.Module:
    return Measuring(11, plain_layers())


@tutorial(
    every(Measuring, map=by_reshape),
    "embedding.features_without_bias",
    embedding="features-without-bias",
    position="learned",
    layer="pre-ln",
    **PLAIN,
)
def features_without_a_bias() -> nn.Module:
    return Measuring(11, plain_layers(PlainPreNorm), bias=False)


@tutorial(
    every(Measuring, map=bare),
    "embedding.features_without_bias",
    **{**PLAIN, "embedding": "features", "position": "learned", "num_heads": 1},
)
def as_many_features_as_the_width_and_one_head() -> nn.Module:
    return Measuring(28, [PlainLayer(28, 1, 37) for _ in range(2)])


@tutorial(
    every(Measuring, map=bare),
    "embedding.features_without_bias",
    **{**PLAIN, "embedding": "features", "position": "learned", "num_heads": 4},
)
def a_single_feature() -> nn.Module:
    return Measuring(1, plain_layers())


class OfNumbers(Measuring):
    """A number at each position, without an axis of features."""

    def forward(self, signal: Tensor, padding: Tensor | None = None) -> Tensor:
        return super().forward(signal[..., None], padding)


@tutorial(
    every(OfNumbers, map=bare),
    "embedding.features_without_bias",
    {"input": "(B, n)", "mask": "padding: (B, n), boolean, True = ignore"},
    **{**PLAIN, "embedding": "features", "position": "learned", "num_heads": 4},
)
def a_number_at_each_position() -> nn.Module:
    return OfNumbers(1, plain_layers())


class Featured(nn.Module):
    """A map of 13 features with sinusoids and torch's own layers, normed before."""

    def __init__(self) -> None:
        super().__init__()
        self.input_projection = nn.Linear(13, 28)
        self.factor = math.sqrt(28)
        self.input_norm = nn.LayerNorm(28)
        self.pe = PositionTable(interleaved(47, 28))
        layer = nn.TransformerEncoderLayer(28, 4, 37, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        x = self.input_norm(self.pe(self.input_projection(x) * self.factor))
        return self.encoder(x, src_key_padding_mask=src_key_padding_mask)


@tutorial(
    every(Featured, factor=1.0 / math.sqrt(28)),
    "embedding.unscaled",
    embedding="features",
    embedding_scale="sqrt-d-model",
    embedding_norm="norm",
    position="sinusoidal",
    layer="post-ln",
    **PLAIN,
)
def scaled_features_with_sinusoids_and_a_norm() -> nn.Module:
    return Featured()


class ArraysOfVectors(Arrays):
    """NumPy alone: sinusoids are added to what is given."""

    eps = 1e-6

    def encode(self, x: Array, mask: Array) -> Array:
        angles = np.arange(x.shape[1])[:, None] / 10000 ** (np.arange(0, 20, 2) / 20)
        return super().encode(x + np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, 20), mask)


@tutorial(wrong_scale, "multihead", input="embedded", embedding="vectors", position="sinusoidal", **ARRAYS)
def arrays_with_vectors() -> Any:
    return ArraysOfVectors()


class ArraysOfFeatures(Arrays):
    """NumPy alone: 11 features, mapped, behind a class token, with learned positions."""

    eps = 1e-6

    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(1)
        shapes = {"input_projection.w": (11, 20), "input_projection.b": 20, "position_embedding": (53, 20), "cls": 20}
        self.weights |= {name: random.normal(0, 1, shape) for name, shape in shapes.items()}

    def encode(self, x: Array, mask: Array) -> Array:
        w = self.weights
        x = x @ w["input_projection.w"] + w["input_projection.b"]
        x = np.concatenate([np.broadcast_to(w["cls"], (len(x), 1, 20)), x], axis=1)
        return super().encode(x + w["position_embedding"][: x.shape[1]], mask)


@tutorial(wrong_scale, "multihead", embedding="features", cls="cls", position="learned", **ARRAYS)
def arrays_with_features() -> Any:
    return ArraysOfFeatures()
