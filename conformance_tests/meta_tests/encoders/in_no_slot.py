"""Encoders whose authors chose equations that are published and that no slot has."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import (
    Plain,
    PlainAttention,
    PlainLayer,
    PlainPreNorm,
    layers_with,
    plain_layers,
)
from conformance_tests.meta_tests.encoders.unusual_calls import Calls, Tokens, excused


class TurnedByComplexNumbers(PlainAttention):
    """Rotary positions with another base: pairs of features are complex numbers, which are turned by their place."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(turned(q), turned(k))


def turned(x: Tensor) -> Tensor:
    """Turn three pairs of features; others stay."""
    angles = torch.arange(x.shape[-2])[:, None] / 100 ** (torch.arange(3) / 3)
    pairs = torch.view_as_complex(x[..., :6].double().contiguous().unflatten(-1, (3, 2)))
    turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex128)
    return torch.cat([torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype), x[..., 6:]], -1)


def rotary() -> nn.Module:
    """Correct, with an equation that no slot has."""
    return Plain(layers_with(TurnedByComplexNumbers))


class TurnedInPairs(PlainAttention):
    """Rotary positions with that base in real arithmetic."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(turned_in_pairs(q), turned_in_pairs(k))


def turned_in_pairs(x: Tensor) -> Tensor:
    """Turn three pairs of features by the numbers of a table; others stay."""
    angles = torch.arange(x.shape[-2])[:, None] / 100 ** (torch.arange(3) / 3)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, other = x[..., :6:2], x[..., 1:6:2]
    pairs = torch.stack([one * cosines - other * sines, one * sines + other * cosines], -1)
    return torch.cat([pairs.flatten(-2), x[..., 6:]], -1)


class RotaryTokens(Tokens):
    """Nothing is added to what is looked up: its positions are told in attention alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers_with(TurnedInPairs))
        del self.position_table

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids), ~keep[:, None, None])


class TurnedInHalves(PlainAttention):
    """Rotary positions with the usual base, as the catalogue of deviations has them; the seventh feature stays."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(turned_in_halves(q), turned_in_halves(k))


def turned_in_halves(x: Tensor) -> Tensor:
    """Turn three features of each half; the last one stays."""
    angles = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(3, dtype=torch.float64) / 3)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, other = x[..., :3], x[..., 3:6]
    return torch.cat([one * cosines - other * sines, one * sines + other * cosines, x[..., 6:]], -1)


class UsualRotaryTokens(RotaryTokens):
    """A known deviation reproduces its scores, which does not make them a mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers_with(TurnedInHalves))


class WithoutItsFirstNorm(RotaryTokens):
    """The embeddings are normed, and the first layer does not norm them again, as in ModernBERT."""

    def __init__(self) -> None:
        super().__init__()
        layers = plain_layers(PlainPreNorm)
        for layer in layers:
            layer.attention = TurnedInPairs(28, 4)
        layers[0].norm1 = nn.Identity()
        self.layers = nn.ModuleList(layers)
        self.embedding_norm, self.final_norm = nn.LayerNorm(28), nn.LayerNorm(28)

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.embedding_norm(self.token_table(ids)), ~keep[:, None, None])


class WithoutScores(PlainAttention):
    """Linear attention (Katharopoulos et al. 2020): keys and values meet first, and no query is compared with a key."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
        k = k if hidden is None else k.masked_fill(hidden.mT, 0.0)
        shares = q @ k.sum(-2, keepdim=True).mT
        return self.out(self.merge(q @ (k.mT @ v) / shares.clamp(min=1e-6)))


def linear_attention() -> nn.Module:
    """Correct, with an equation that no slot has."""
    return Plain(layers_with(WithoutScores))


class ComparesByDistance(PlainAttention):
    """Scores are squared distances of queries and keys (Kim et al. 2021), with the sign turned."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q[..., None, :] - k[..., None, :, :]).square().sum(-1) / self.scale


def scores_of_distances() -> nn.Module:
    return Plain(layers_with(ComparesByDistance))


class OneWeightForAllHeads(PlainAttention):
    """Every head averages its values by the mean of all heads' weights."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(scores.softmax(-1).mean(1, keepdim=True) @ v))


def one_weight_for_all_heads() -> nn.Module:
    return Plain(layers_with(OneWeightForAllHeads))


class AveragesVectorsOfPositions(PlainAttention):
    """Attention weights average learned vectors as well, one for each position."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.places = nn.Parameter(torch.randn(300, width // count))

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        weights = (scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1)
        return self.out(self.merge(weights @ v + weights @ self.places[: x.shape[1]]))


def vectors_of_positions_averaged() -> nn.Module:
    return Plain(layers_with(AveragesVectorsOfPositions))


class BeginsBehindPadding(Calls):
    """Is told how many positions of each sequence are padding, which come first: all, if it is told their number."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(31, 28), nn.Embedding(300, 28)

    def forward(self, ids: Tensor, begin: Tensor) -> Tensor:  # type: ignore[override]
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.run(x, (torch.arange(ids.shape[1]) < begin[:, None])[:, None, None])


class SeriesApart(nn.Module):
    """Reads each of several series by itself, in patches of four moments; the batch comes first, and features last."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Linear(4, 28), nn.Parameter(torch.randn(60, 28))
        self.layers = Plain(plain_layers())

    def forward(self, x: Tensor) -> Tensor:
        samples, moments, series = x.shape
        patches = self.map(x.mT.reshape(samples * series, moments // 4, 4))
        hidden: Tensor = self.layers(patches + self.places[: moments // 4])
        return hidden.unflatten(0, (samples, series))


class LogisticGate(PlainLayer):
    """The gate of Dauphin et al. 2017."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.gate = nn.Linear(width, inner)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x) * self.gate(x).sigmoid())


class LogisticGateOfTorch(PlainLayer):
    """Both maps are one, and torch gates its halves."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.fc1 = nn.Linear(width, 2 * inner)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(nn.functional.glu(self.fc1(x)))


def gated_by_the_logistic(kind: type[PlainLayer]) -> Callable[[], nn.Module]:
    """Correct, with an equation that no slot has."""
    return lambda: Calls(kind)


class Sloped(PlainAttention):
    """The farther a key is, the lower is its score, as in ALiBi."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        at = torch.arange(q.shape[-2])
        slopes = 2.0 ** -torch.arange(1, self.count + 1).to(q)
        return super().score(q, k) - slopes[:, None, None] * (at - at[:, None]).abs()


class SlopedBelowAHead(Tokens):
    """Scores of no slot below a head with an activation."""

    def __init__(self) -> None:
        super().__init__()
        del self.position_table
        self.layers = nn.ModuleList(layers_with(Sloped))
        self.dense, self.classes = nn.Linear(28, 28), nn.Linear(28, 3)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.classes(self.dense(self.run(self.token_table(ids), None)[:, 0]).tanh())


class ActivatedWithItsPositions(Calls):
    """Vectors are mapped, positions are added in the place of a bias, and the sum is activated."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(28, 28, bias=False)
        self.places = nn.Parameter(torch.randn(300, 28))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.run((self.map(x) + self.places[: x.shape[1]]).tanh(), None)


class LargestOfSomePixels(Calls):
    """A convolution is activated, and of neighbours the largest is taken, which is the ReLU of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.pool = nn.Conv2d(3, 28, 3, padding=1), nn.MaxPool2d(3, 2, 1)
        self.positions = nn.Parameter(torch.randn(64, 28))

    def forward(self, images: Tensor) -> Tensor:  # type: ignore[override]
        largest = self.pool(self.patches(images).relu())
        return self.run(largest.flatten(2).mT + self.positions, None)


class ComparesItsHeads(PlainAttention):
    """The heads of one position attend to each other."""

    def split(self, x: Tensor) -> list[Tensor]:
        return [part.transpose(1, 2) for part in super().split(x)]

    def merge(self, heads: Tensor) -> Tensor:
        return heads.flatten(2)


class ActivatesItsInput(Calls):
    """Activates its input first, which no slot covers and no parameter tells."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x.tanh(), None)


@excused("multihead.split", "the attention compares the heads of one position")
def wrong_heads_behind_an_entrance_of_no_slot() -> nn.Module:
    """The heads are wrong whatever enters the first layer."""
    encoder = ActivatesItsInput()
    encoder.layers = nn.ModuleList(layers_with(ComparesItsHeads))
    return encoder


class AsksFirst(PlainPreNorm):
    """Has a query for the first position alone; what attention gives is added to all positions."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        q, k, v = self.attention.split(self.norm1(x))
        heads = self.attention.score(q[:, :, :1], k).softmax(-1) @ v
        x = self.left(x) + self.attention.out(self.attention.merge(heads))
        return x + self.feed_forward(self.norm2(x))

    def left(self, x: Tensor) -> Tensor:
        """Return what goes on beside the attention."""
        return x


class GoesOnWithFirst(AsksFirst):
    """Leaves out all other positions."""

    def left(self, x: Tensor) -> Tensor:
        return x[:, :1]


class ReturnsFirst(nn.Module):
    """Returns the first position, normed, of layers of which one may ask for it alone."""

    def __init__(self, *kinds: type[PlainLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(28, 4, 37) for kind in kinds)
        self.norm = nn.LayerNorm(28)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x[:, 0])


def asks_for_what_it_returns() -> nn.Module:
    """The last layer computes no other queries than that of the position that is returned."""
    return ReturnsFirst(PlainPreNorm, AsksFirst)


def leaves_out_the_others() -> nn.Module:
    return ReturnsFirst(PlainPreNorm, GoesOnWithFirst)


@excused("attention.scores", "ATT-3")
def asks_too_early() -> nn.Module:
    """The layer behind reads what has no query."""
    return ReturnsFirst(AsksFirst, PlainPreNorm)
