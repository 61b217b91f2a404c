"""Models around an encoder, and layers that no slot covers though every parameter of theirs has a familiar name."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.ambiguous import ambiguous
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, layers_with, plain_layers


class Weighed(Plain):
    """A learned factor of each feature, without a slot, stands behind the layers."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.behind = nn.Parameter(torch.randn(28))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, mask) * self.behind


@ambiguous("the stream is multiplied by")
def learned_factors_behind_the_layers() -> nn.Module:
    return Weighed()


@ambiguous("it is an encoder with a decoder: name the encoder alone, its `.encoder`")
def encoder_and_decoder() -> nn.Module:
    return nn.Transformer(28, 4, 2, 2, 37, batch_first=True)


class TwoEncoders(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Plain(plain_layers()), Plain(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return (self.near(x, mask) + self.far(x, mask)) / 2


@ambiguous("near.layers.0.")
def mean_of_two_encoders() -> nn.Module:
    return TwoEncoders()


class OverNeighbours(PlainLayer):
    """The first map of the feed-forward network reads three positions."""

    def __init__(self, width: int, count: int, inner: int, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.fc1 = nn.Conv1d(width, inner, 3, padding=1)  # type: ignore[assignment]

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x.mT).mT.relu())


@ambiguous("no slot of the specification has its parameters layers.0.fc1.weight")
def convolution_in_the_feed_forward_network() -> nn.Module:
    return Plain(plain_layers(OverNeighbours))


class Cosine(PlainAttention):
    """Scores are cosines, times a temperature that is learned."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.logit_scale = nn.Parameter(torch.full((count, 1, 1), math.log(10)))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        unit = nn.functional.normalize
        return unit(q, dim=-1) @ unit(k, dim=-1).mT * self.logit_scale.exp()


@ambiguous("logit_scale")
def cosine_attention() -> nn.Module:
    return Plain(layers_with(Cosine))


class RelativeQueries(PlainAttention):
    """Keys are compared with learned vectors of distances too, and queries are not."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.distances = nn.Parameter(torch.randn(11, width // count))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[2])
        relative = self.distances[(place - place[:, None]).clamp(-5, 5) + 5]
        return super().score(q, k) + torch.einsum("bhjd,ijd->bhij", k, relative) / self.scale


@ambiguous("its keys are multiplied with vectors of distances")
def relative_queries() -> nn.Module:
    return Plain(layers_with(RelativeQueries))
