"""Encoders that cannot be judged as they stand: with parts that no slot has, or with facts that nobody states.

Each is registered with what the report must name. Those that their author can describe say how.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, plain_layers

Make = Callable[[], Any]


@dataclass(frozen=True)
class Ambiguous:
    """An encoder, what the note on it must name, and what its author can say of it."""

    make: Make
    named: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


AMBIGUOUS: dict[str, Ambiguous] = {}


def ambiguous(*named: str, **facts: Any) -> Callable[[Make], Make]:
    """Register a function that makes an encoder."""

    def register(make: Make) -> Make:
        AMBIGUOUS[make.__name__] = Ambiguous(make, named, facts)
        return make

    return register


def stack_with(attention: type[PlainAttention] | None = None, layer: type[PlainLayer] = PlainLayer) -> Plain:
    """A plain stack with another attention, or other layers."""
    layers = plain_layers(layer)
    for part in layers if attention else ():
        part.attention = attention(28, 4)  # type: ignore[misc]
    return Plain(layers)


# Parts that no slot has -------------------------------------------------------------------


class PlusPositions(nn.Module):
    """Given embeddings, it adds the sine of the position to each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = Plain(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        places = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        hidden: Tensor = self.stack(x + places.sin(), mask)
        return hidden


@ambiguous("its positions are fixed numbers, which no slot of the specification has")
def positions_added_to_embeddings_that_are_given() -> nn.Module:
    return PlusPositions()


class PlacedInEachLayer(Plain):
    """Each layer adds its own positions to its output."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.places = nn.Parameter(torch.randn(2, 64, 28))

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer, places in zip(self.layers, self.places, strict=True):
            x = layer(x, hidden) + places[: x.shape[1]]
        return x


@ambiguous("places is added to the stream")
def positions_of_each_layer() -> nn.Module:
    return PlacedInEachLayer()


class RelativeBias(PlainAttention):
    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.relative_position_bias = nn.Parameter(torch.randn(count, 63))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        places = torch.arange(q.shape[-2])
        return super().score(q, k) + self.relative_position_bias[:, places[:, None] - places + 31]


@ambiguous("relative_position_bias")
def relative_bias() -> nn.Module:
    return stack_with(RelativeBias)


class GatedResidual(PlainLayer):
    def __init__(self, width: int, count: int, inner: int, norm: Any) -> None:
        super().__init__(width, count, inner, norm)
        self.gate = nn.Linear(width, width)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        g = self.gate(x).sigmoid()
        x = self.norm1(g * x + (1 - g) * self.attention(x, hidden))
        return self.norm2(x + self.feed_forward(x))


@ambiguous("gate.weight")
def gated_residual() -> nn.Module:
    return stack_with(layer=GatedResidual)


class Adapted(PlainLayer):
    def __init__(self, width: int, count: int, inner: int, norm: Any) -> None:
        super().__init__(width, count, inner, norm)
        self.adapter = nn.Sequential(nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, width))

    def feed_forward(self, x: Tensor) -> Tensor:
        y = super().feed_forward(x)
        return y + self.adapter(y)


@ambiguous("adapter")
def adapters() -> nn.Module:
    return stack_with(layer=Adapted)


class TalkingHeads(PlainAttention):
    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.talk = nn.Parameter(torch.eye(count) + 0.1 * torch.randn(count, count))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("gh,bhqk->bgqk", self.talk, super().score(q, k))


@ambiguous("talk")
def talking_heads() -> nn.Module:
    return stack_with(TalkingHeads)


class ConvolutionInFront(Plain):
    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.front = nn.Conv1d(28, 28, 3, padding=1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.front(x.mT).mT, mask)


@ambiguous("front.weight")
def convolution_in_front() -> nn.Module:
    return ConvolutionInFront()


class Temperature(PlainAttention):
    """A number that is learned, beside the path."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.log_temperature = nn.Parameter(torch.zeros(count, 1, 1))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k) * self.log_temperature.exp()


@ambiguous("log_temperature")
def learned_temperature() -> nn.Module:
    return stack_with(Temperature)


# Calls that ask for something ---------------------------------------------------------------


class WithMemory(Plain):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x + memory.mean(dim=1, keepdim=True), mask)


@ambiguous("memory")
def cross_attention() -> nn.Module:
    return WithMemory(plain_layers())


class WithTime(Plain):
    def forward(self, x: Tensor, t: Tensor, guidance: float) -> Tensor:
        return super().forward(x * t[:, None, None] * guidance)


@ambiguous("t", "guidance")
def arguments_without_an_obvious_value() -> nn.Module:
    return WithTime(plain_layers())
