"""Encoders that run in loops over samples, heads, positions or rows, as their authors first write them.

Correct ones in torch have no names: those of parameters would tell what a loop computes.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.nameless import Nameless
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, layers_with, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual

Array = Any


class HeadByHead(PlainAttention):
    """One sample after the other, one head after the other."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return torch.stack(
            [self.out(self.attend(one, None if hidden is None else hidden[b])) for b, one in enumerate(x)]
        )

    def attend(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        heads = []
        for q, k, v in zip(*(m(x).chunk(self.count, -1) for m in (self.query, self.key, self.value)), strict=True):
            scores = q @ k.mT / self.divisor(q)
            heads.append((scores if hidden is None else scores.masked_fill(hidden[0], -torch.inf)).softmax(-1) @ v)
        return torch.cat(heads, -1)

    def divisor(self, q: Tensor) -> float:
        return float(q.shape[-1]) ** 0.5


@unusual
def SamplesAndHeads() -> nn.Module:
    return Nameless(Plain(layers_with(HeadByHead)))


class MapsHeadByHead(HeadByHead):
    """Each head is mapped within the loop over the samples, by its part of the maps."""

    def attend(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        given = torch.zeros_like(x)
        for columns in torch.arange(x.shape[-1]).chunk(self.count):
            q, k, v = (x @ m.weight[columns].mT + m.bias[columns] for m in (self.query, self.key, self.value))
            scores = q @ k.mT / self.divisor(q)
            weights = (scores if hidden is None else scores.masked_fill(hidden[0], -torch.inf)).softmax(-1)
            given[:, columns] = weights @ v
        return given


@unusual
def MapsOfSamplesAndHeads() -> nn.Module:
    return Nameless(Plain(layers_with(MapsHeadByHead)))


class DividesByWidth(HeadByHead):
    """The scale is that of other scores."""

    def divisor(self, q: Tensor) -> float:
        return float(q.shape[-1])


@excused("attention.scores", "the scores are multiplied by 0.142857, where 1/√7 = 0.377964 belongs")
def WrongInALoop() -> nn.Module:
    return Plain(layers_with(DividesByWidth))


class PositionByPosition(PlainLayer):
    """Feed-forward network and norms, of one position of all samples after the other."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = x + self.attention(x, hidden)
        return torch.stack([self.behind(x[:, t]) for t in range(x.shape[1])], 1)

    def behind(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return self.norm2(x + self.feed_forward(x))


@unusual
def Positions() -> nn.Module:
    return Nameless(Plain(plain_layers(PositionByPosition)))


class ForgetsTheLast(PositionByPosition):
    """The loop ends too early: the last position has no feed-forward network."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.attention(x, hidden))
        return torch.stack([self.behind(x[:, t]) for t in range(x.shape[1] - 1)] + [x[:, -1]], 1)

    def behind(self, x: Tensor) -> Tensor:
        return self.norm2(x + self.feed_forward(x))


@excused("ffn.relu", "value is not among the encoder's intermediates")
def TooShortALoop() -> nn.Module:
    return Plain(plain_layers(ForgetsTheLast))


class Rows:
    """NumPy, from ids on: sums over lists, a softmax for each query, scores pair by pair."""

    def __init__(self, d: int = 20, heads: int = 4, inner: int = 26) -> None:
        random = np.random.default_rng(0)
        normal = lambda *shape: random.normal(0, shape[0] ** -0.5, shape)  # noqa: E731  -- a word for it
        self.heads = heads
        self.tokens, self.places = random.normal(size=(31, d)), random.normal(size=(16, d))
        self.maps = [normal(d, d) for _ in range(4)]
        self.w1, self.b1, self.w2, self.b2 = normal(d, inner), normal(inner), normal(inner, d), normal(d)
        self.norms = [(normal(d) + 1, normal(d)) for _ in range(2)]

    def forward(self, ids: Array) -> Array:
        return np.stack([self.encode(sequence) for sequence in ids])

    def encode(self, ids: Array) -> Array:
        x = np.array([self.tokens[token] + self.places[t] for t, token in enumerate(ids)])
        x = np.array([self.norm(row, *self.norms[0]) for row in x + self.attend(x)])
        for t in range(len(x)):
            x[t] = self.norm(x[t] + np.maximum(0, x[t] @ self.w1 + self.b1) @ self.w2 + self.b2, *self.norms[1])
        return x

    def norm(self, row: Array, gamma: Array, beta: Array) -> Array:
        return (row - row.mean()) / np.sqrt(row.var() + 1e-5) * gamma + beta

    def attend(self, x: Array) -> Array:
        (q, k, v), out = (x @ W for W in self.maps[:3]), np.zeros_like(x)
        width = x.shape[1] // self.heads
        for head in range(self.heads):
            part = slice(head * width, (head + 1) * width)
            for t in range(len(x)):
                scores = np.array([np.dot(q[t, part], k[u, part]) for u in range(len(x))]) / np.sqrt(width)
                out[t, part] = self.softmax(scores) @ v[:, part]
        return out @ self.maps[3]

    def softmax(self, scores: Array) -> Array:
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()


@unusual
def RowByRow() -> Any:
    return Rows().forward


class AppliesAlongTheQueries(Rows):
    """The softmax of each row is that of the other axis."""

    def attend(self, x: Array) -> Array:
        q, k, v = (np.array(np.split(x @ W, self.heads, axis=1)) for W in self.maps[:3])
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        return np.concatenate(np.apply_along_axis(self.softmax, 1, scores) @ v, axis=-1) @ self.maps[3]


@excused("attention.weights", "the softmax does not run over the keys")
def OtherAxisRowByRow() -> Any:
    return AppliesAlongTheQueries().forward


@unusual
class PatchByPatch(nn.Module):
    """Patches of square images are written one by one into zeros, whose precision nobody states."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Linear(9, 28), nn.Parameter(torch.randn(1, 16, 28))
        self.layers = Plain(plain_layers())

    def forward(self, images: Tensor) -> Tensor:
        _, _, height, width = images.shape
        if height != width:
            raise ValueError("images must be square")
        patches = torch.zeros(len(images), 16, 9)
        for b, image in enumerate(images):
            for place in range(16):
                i, j = 3 * (place // 4), 3 * (place % 4)
                patches[b, place] = image[:, i : i + 3, j : j + 3].flatten()
        return self.layers(self.map(patches) + self.places)


class FirstRowBeforeItsLoop(nn.Module):
    """Norms the first row before a loop norms the others; a row without entries would have no variance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        normed = self.normed(rows[0], rows[0].mean())[None]
        for row in rows[1:]:
            normed = torch.cat([normed, self.normed(row, row.mean())[None]])
        return normed.reshape(x.shape)

    def normed(self, row: Tensor, mean: Tensor) -> Tensor:
        variance = torch.where(torch.tensor(len(row) > 0), (row - mean).square().mean(), torch.nan)
        return self.gain * (row - mean) / (variance + 1e-5).sqrt() + self.shift


@unusual
def NormsRowByRow() -> nn.Module:
    return Nameless(Plain(plain_layers(norm=FirstRowBeforeItsLoop)))


@unusual
class CountsInPython(Plain):
    """Ids are numbers of Python when rows are looked up, sequence by sequence, and no name tells the heads."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.token_embedding, self.position_embedding = nn.Embedding(31, 28), nn.Embedding(400, 28)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        words, places = self.token_embedding.weight, self.position_embedding.weight
        rows = [torch.stack([words[word] + places[place] for place, word in enumerate(row)]) for row in ids.tolist()]
        return torch.cat([self.run(one[None], None) for one in rows])
