"""Encoders of signals, cut into stretches as images are into patches, and of images without an axis for the channel."""

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainLayer, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual


@unusual
class ConvolvedSignal(nn.Module):
    """Three channels, of which a kernel reads four moments at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Conv1d(3, 28, 4, stride=4), nn.Parameter(torch.randn(1, 9, 28))
        self.layers = Plain(plain_layers())

    def forward(self, signal: Tensor) -> Tensor:
        return self.layers(self.stretches(signal) + self.places)

    def stretches(self, signal: Tensor) -> Tensor:
        return self.map(signal).mT


@unusual
class FlattenedSignal(ConvolvedSignal):
    """Maps flattened stretches of five channels; these come last."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(20, 28)

    def stretches(self, signal: Tensor) -> Tensor:
        return self.map(signal.unflatten(1, (-1, 4)).flatten(2))


@unusual
class FlattenedByChannel(FlattenedSignal):
    """Channels come first, and the moments of each stand together; there is a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Linear(12, 28), nn.Parameter(torch.randn(1, 10, 28))
        self.first = nn.Parameter(torch.randn(1, 1, 28))

    def stretches(self, signal: Tensor) -> Tensor:
        x = self.map(signal.unflatten(2, (-1, 4)).transpose(1, 2).flatten(2))
        return torch.cat([self.first.expand(len(x), -1, -1), x], dim=1)


@unusual
class SpectrogramWithoutChannel(nn.Module):
    """Patches of an image whose only channel has no axis."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Conv2d(1, 28, (4, 2), stride=(4, 2)), nn.Parameter(torch.randn(1, 24, 28))
        self.layers = Plain(plain_layers())

    def forward(self, spectrogram: Tensor) -> Tensor:
        x = self.map(spectrogram.unsqueeze(1)).flatten(2).mT
        return self.layers(x + self.places)


class LosesTheResidual(PlainLayer):
    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.attention(x, hidden))
        return self.norm2(self.feed_forward(x))


@excused("residual", "nothing is added to what the feed-forward network gives")
class SignalWithoutAResidual(FlattenedSignal):
    def __init__(self) -> None:
        super().__init__()
        self.layers = Plain([LosesTheResidual(28, 4, 44) for _ in range(2)])


def of_several_widths(*widths: int) -> nn.Module:
    """Layers whose feed-forward networks differ in width."""
    return Plain([PlainLayer(28, 4, width) for width in widths])


@unusual
def growing_networks() -> nn.Module:
    """The widest network is not the first."""
    return of_several_widths(40, 52, 44)


class WithAHalvedNetwork(PlainLayer):
    def feed_forward(self, x: Tensor) -> Tensor:
        return super().feed_forward(x) / 2


@excused("residual", "what the feed-forward network gives is added 0.5 times")
def halved_and_growing() -> nn.Module:
    return Plain([PlainLayer(28, 4, 40), WithAHalvedNetwork(28, 4, 52)])
