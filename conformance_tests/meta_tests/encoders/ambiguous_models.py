"""Models around an encoder, and layers that no slot covers though every parameter of theirs has a familiar name."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.ambiguous import ambiguous
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, plain_layers


class Tokens(Plain):
    """A stack behind tables of tokens and positions."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.token_embedding = nn.Embedding(31, 28)
        self.position_embedding = nn.Embedding(23, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]], mask)


class LanguageModel(Tokens):
    def __init__(self) -> None:
        super().__init__()
        self.lm_head = nn.Linear(28, 31)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, None]:  # type: ignore[override]
        return self.lm_head(super().forward(ids, mask)), None


@ambiguous("it returns (3, 7, 31), but hidden states are (B, n, 28)", "lm_head.weight")
def language_model() -> nn.Module:
    return LanguageModel()


class SentenceVector(Tokens):
    """The mean over the valid positions, of length 1."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = super().forward(ids, mask)
        keep = torch.ones(ids.shape) if mask is None else mask
        return nn.functional.normalize((hidden * keep[..., None]).sum(1), dim=-1)


@ambiguous("it returns (3, 28), but hidden states are (B, n, 28)", "one vector for each sequence")
def sentence_vector() -> nn.Module:
    return SentenceVector()


class EveryLayer(Plain):
    """What each layer gives, in one array."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        given = []
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask[:, None, None])
            given.append(x)
        return torch.stack(given)


@ambiguous("it returns (2, 3, 7, 28), but hidden states are (B, n, 28)", "its last layer alone")
def every_layer_in_one_array() -> nn.Module:
    return EveryLayer(plain_layers())


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


class SharedKeys(PlainAttention):
    """Every head has queries of its own; one key and one value serve them all."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.key, self.value = nn.Linear(width, width // count), nn.Linear(width, width // count)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q = self.query(x).unflatten(-1, (self.count, -1)).transpose(1, 2)
        scores = self.score(q, self.key(x)[:, None])
        weights = (scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1)
        return self.out(self.merge(weights @ self.value(x)[:, None]))


@ambiguous("its queries have 28 columns and its keys 7", "multi-query")
def multi_query_attention() -> nn.Module:
    layers = plain_layers()
    for layer in layers:
        layer.attention = SharedKeys(28, 4)
    return Plain(layers)


class SideBySide(PlainLayer):
    """Attention and feed-forward network read the same normed input."""

    def __init__(self, width: int, count: int, inner: int, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.norm = self.norm1
        del self.norm1, self.norm2

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        y = self.norm(x)
        return x + self.attention(y, hidden) + self.feed_forward(y)


@ambiguous("each of its layers has a single norm")
def parallel_sublayers() -> nn.Module:
    return Plain(plain_layers(SideBySide))


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
    layers = plain_layers()
    for layer in layers:
        layer.attention = Cosine(28, 4)
    return Plain(layers)


class Registers(Plain):
    """Positions of its own stand before the input while it is encoded."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.registers = nn.Parameter(torch.randn(1, 4, 28))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        own = self.registers.expand(len(x), -1, -1)
        keep = None if mask is None else nn.functional.pad(mask, (4, 0), value=True)
        return super().forward(torch.cat([own, x], dim=1), keep)[:, 4:]


@ambiguous("registers")
def register_positions() -> nn.Module:
    return Registers()
