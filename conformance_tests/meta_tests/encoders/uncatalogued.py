"""Encoders with one thing wrong that is in no catalogue: what they depart from must be found all the same.

Each is a plain encoder with one method replaced, and the equation that it breaks.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, PlainPreNorm, plain_layers

Make = Callable[[], nn.Module]


class StepByStep(PlainAttention):
    """Attention with a method for each step, so that one can be wrong."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        weights = self.weigh(self.hide(self.score(q, self.keys(k)), hidden))
        return self.project(self.merge(self.average(weights, v)))

    def keys(self, k: Tensor) -> Tensor:
        return k

    def hide(self, scores: Tensor, hidden: Tensor | None) -> Tensor:
        return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def average(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def project(self, x: Tensor) -> Tensor:
        return self.out(x)


def attending(**wrong: Callable[..., Any]) -> Make:
    """An encoder whose attention has one method replaced."""

    def make() -> nn.Module:
        layers = plain_layers()
        for layer in layers:
            layer.attention = type("Wrong", (StepByStep,), wrong)(28, 4)
        return Plain(layers)

    return make


class PackedAndTurned(StepByStep):
    """Packed maps tell nothing of the orientation of W_O, but it is a module's weight."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        del self.query, self.key, self.value
        self.qkv = nn.Linear(width, 3 * width)

    def split(self, x: Tensor) -> list[Tensor]:
        return [t.unflatten(-1, (self.count, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]

    def project(self, x: Tensor) -> Tensor:
        return x @ self.out.weight + self.out.bias


def packed_and_turned() -> nn.Module:
    """An encoder with such attention."""
    layers = plain_layers()
    for layer in layers:
        layer.attention = PackedAndTurned(28, 4)
    return Plain(layers)


def one_by_one(attention: PlainAttention, x: Tensor, hidden: Tensor | None, heads: list[int]) -> Tensor:
    """Heads that are computed one after the other."""
    q, k, v = attention.split(x)
    hidden = None if hidden is None else hidden[:, 0]
    scores = [attention.score(q[:, i], k[:, i]) for i in heads]
    scores = scores if hidden is None else [s.masked_fill(hidden, -torch.inf) for s in scores]
    return torch.cat([s.softmax(-1) @ v[:, i] for s, i in zip(scores, heads, strict=True)], dim=-1)


def heads_that_nothing_maps() -> nn.Module:
    """An encoder with such heads."""
    encoder = attending(forward=lambda a, x, hidden: one_by_one(a, x, hidden, [0, 1, 2, 3]))()
    for layer in encoder.layers:
        del layer.attention.out
    return encoder


def layered(**wrong: Callable[..., Any]) -> Make:
    """An encoder whose layers have one method replaced."""
    return lambda: Plain(plain_layers(type("Wrong", (PlainLayer,), wrong)))


def one_map(network: Callable[..., Any], kind: type[PlainLayer] = PlainLayer) -> Make:
    """An encoder whose feed-forward networks have no second map."""

    def make() -> nn.Module:
        layers = plain_layers(type("Wrong", (kind,), {"feed_forward": network}))
        for layer in layers:
            layer.fc1 = nn.Linear(28, 28)
            del layer.fc2
        return Plain(layers)

    return make


def normed(forward: Callable[..., Any]) -> Make:
    """An encoder with another norm."""
    return lambda: Plain(plain_layers(norm=type("Wrong", (nn.LayerNorm,), {"forward": forward})))


class StoredStatistics(nn.Module):
    """A norm of the batch, in evaluation and in elementary operations."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.randn(width))
        self.register_buffer("variance", torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * (self.variance + 1e-3).rsqrt() * self.gain + self.shift


class OverTheBatch(nn.BatchNorm1d):
    """Statistics of each feature that a batch has left behind."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


class OverTheSequence(nn.InstanceNorm1d):
    """Statistics of each feature over the positions of a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__(width, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mT).mT


def stacked(run: Callable[..., Any]) -> Make:
    """An encoder whose stack runs its layers otherwise."""
    return lambda: type("Wrong", (Plain,), {"run": run})(plain_layers())


class Reading(Plain):
    """Token ids, whose vectors are put together with learned positions by a function."""

    def __init__(self, put_together: Callable[[Tensor, Tensor], Tensor], kind: type[PlainLayer] = PlainLayer) -> None:
        super().__init__(plain_layers(kind))
        self.token_embedding = nn.Embedding(41, 28)
        self.position_embedding = nn.Embedding(23, 28)
        self.put_together = put_together

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(
            self.put_together(self.token_embedding(ids), self.position_embedding.weight[: ids.shape[1]]), mask
        )


def reading(put_together: Callable[[Tensor, Tensor], Tensor], kind: type[PlainLayer] = PlainLayer) -> Make:
    """An encoder whose embeddings and positions are put together otherwise."""
    return lambda: Reading(put_together, kind)


def distance(n: int) -> Tensor:
    """How far apart two positions are, for every two."""
    places = torch.arange(n)
    return (places[:, None] - places).abs()


def magnitudes(_: Any, scores: Tensor) -> Tensor:
    """Each score's share of all magnitudes."""
    size = scores.clamp(-30, 30).abs()
    return size / size.sum(-1, keepdim=True)


def best_three(_: Any, scores: Tensor) -> Tensor:
    return scores.where(scores >= scores.topk(min(3, scores.shape[-1]), -1).values[..., -1:], -torch.inf).softmax(-1)


def sublayers(order: Callable[[PlainLayer, Tensor, Any], Tensor]) -> Make:
    """An encoder whose layers put their parts together otherwise."""
    return layered(forward=lambda layer, x, hidden=None: order(layer, x, lambda y: layer.attention(y, hidden)))


def second(layer: PlainLayer, x: Tensor) -> Tensor:
    """The sublayer of the feed-forward network, as it should be."""
    return layer.norm2(x + layer.feed_forward(x))


class PlacedAgain(Reading):
    """Positions are added to what the first layer gives, too."""

    def __init__(self) -> None:
        super().__init__(torch.add)

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        places = self.position_embedding(torch.arange(x.shape[1]))
        for l, layer in enumerate(self.layers):
            x = layer(x, hidden) + (places if l == 0 else 0)
        return x


def in_turn(self: Plain, x: Tensor, hidden: Tensor | None, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """All layers, with a change behind each that also sees the input."""
    start = x
    for layer in self.layers:
        x = change(layer(x, hidden), start)
    return x


def blanked(x: Tensor, _: Tensor) -> Tensor:
    """The same with one feature overwritten: through a view, so that no operation returns the whole."""
    x = x.clone()
    x[..., 3] = 0
    return x


def backwards(self: Plain, x: Tensor, hidden: Tensor | None) -> Tensor:
    for layer in reversed(self.layers):
        x = layer(x, hidden)
    return x


def pre_normed_without_the_last(part: str) -> nn.Module:
    """A Pre-LN encoder whose last layer, or its feed-forward network, is there and not used."""
    encoder = Plain(plain_layers(PlainPreNorm, depth=3), nn.LayerNorm(28))
    last = encoder.layers[-1]
    if part == "network":
        last.forward = lambda x, hidden=None: x + last.attention(last.norm1(x), hidden)
    else:
        last.forward = lambda x, hidden=None: x
    return encoder


def centred(x: Tensor, axis: int = -1) -> Tensor:
    return x - x.mean(axis, keepdim=True)


def deviation(x: Tensor, axis: int = -1) -> Tensor:
    return (x.var(axis, keepdim=True, unbiased=False) + 1e-5).sqrt()


def steep(x: Tensor) -> Tensor:
    """Nearer to GELU than to any other activation."""
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.44715 * x**3)))


def gate_and_value_together() -> nn.Module:
    """A gated network whose product is activated, and not its first factor."""
    layers = plain_layers(
        type("Wrong", (PlainLayer,), {"feed_forward": lambda l, x: l.fc2(nn.functional.silu(l.fc1(x) * l.gate(x)))})
    )
    for layer in layers:
        layer.gate = nn.Linear(layer.fc1.in_features, layer.fc1.out_features)
    return Plain(layers)


UNCATALOGUED: dict[str, tuple[Make, str]] = {
    "scores times 0.9": (attending(score=lambda a, q, k: 0.9 * (q @ k.mT / a.scale)), "attention.scores"),
    "scores capped softly": (
        attending(score=lambda a, q, k: 5 * torch.tanh(q @ k.mT / a.scale / 5)),
        "attention.scores",
    ),
    "scores less the distance": (
        attending(score=lambda a, q, k: q @ k.mT / a.scale - 0.1 * distance(q.shape[-2])),
        "attention.alibi",
    ),
    "unit queries": (
        attending(score=lambda a, q, k: nn.functional.normalize(q, dim=-1) @ k.mT / a.scale),
        "attention.scores",
    ),
    "keys of the next position": (attending(keys=lambda a, k: k.roll(1, 2)), "attention.scores"),
    "hidden scores become 0": (
        attending(hide=lambda a, s, hidden: s if hidden is None else s.masked_fill(hidden, 0.0)),
        "attention.mask",
    ),
    "neighbours alone are seen": (
        attending(hide=lambda a, s, hidden: s.masked_fill(distance(s.shape[-1]) > 1, -torch.inf)),
        "attention.mask",
    ),
    "magnitudes for exponentials": (attending(weigh=magnitudes), "attention.weights"),
    "the three best keys": (attending(weigh=best_three), "attention.weights"),
    "weights squared": (attending(weigh=lambda a, s: s.softmax(-1) ** 2), "attention.weights"),
    "unit values": (attending(average=lambda a, w, v: w @ nn.functional.normalize(v, dim=-1)), "attention.output"),
    "values of the next position": (attending(average=lambda a, w, v: w @ v.roll(1, 2)), "attention.output"),
    "one head for two": (
        attending(split=lambda a, x: [t[:, [0, 0, 2, 3]] for t in PlainAttention.split(a, x)]),
        "attention.projections",
    ),
    "one head for two, one after the other": (
        attending(forward=lambda a, x, hidden: a.out(one_by_one(a, x, hidden, [0, 0, 2, 3]))),
        "attention.projections",
    ),
    "heads one after the other that nothing maps": (heads_that_nothing_maps, "multihead"),
    "heads in reverse": (attending(merge=lambda a, h: h.flip(1).transpose(1, 2).flatten(2)), "multihead.concat"),
    "the largest of the heads": (attending(merge=lambda a, h: h.amax(1).repeat(1, 1, 4)), "multihead.concat"),
    "W_O transposed": (attending(project=lambda a, x: x @ a.out.weight + a.out.bias), "multihead.output"),
    "W_O transposed behind packed maps": (packed_and_turned, "multihead.output"),
    "b_O twice": (attending(project=lambda a, x: a.out(x) + a.out.bias), "multihead.output"),
    "ReLU squared": (layered(feed_forward=lambda l, x: l.fc2(l.fc1(x).relu() ** 2)), "ffn.relu"),
    "sine": (layered(feed_forward=lambda l, x: l.fc2(l.fc1(x).sin())), "ffn.relu"),
    "GELU's tanh with ten times the constant": (layered(feed_forward=lambda l, x: l.fc2(steep(l.fc1(x)))), "ffn.gelu"),
    "SiLU of gate and value together": (gate_and_value_together, "ffn.silu"),
    "one map in the network's place": (one_map(lambda l, x: l.fc1(x).relu()), "ffn"),
    "one map without activation in the network's place": (one_map(lambda l, x: l.fc1(x), PlainPreNorm), "ffn.relu"),
    "b_2 left out": (layered(feed_forward=lambda l, x: l.fc1(x).relu() @ l.fc2.weight.mT), "ffn"),
    "the network twice": (
        layered(feed_forward=lambda l, x: l.fc2(l.fc1(l.fc2(l.fc1(x).relu())).relu())),
        "layer.post_ln",
    ),
    "the network of the position before": (
        layered(feed_forward=lambda l, x: PlainLayer.feed_forward(l, x).roll(1, 1)),
        "ffn",
    ),
    "0.7 of the input remains": (sublayers(lambda l, x, mixed: second(l, l.norm1(0.7 * x + mixed(x)))), "residual"),
    "the input taken away again": (sublayers(lambda l, x, mixed: second(l, l.norm1(x + (mixed(x) - x)))), "residual"),
    "less the sublayer": (sublayers(lambda l, x, mixed: second(l, l.norm1(x - mixed(x)))), "residual"),
    "no second residual connection": (
        sublayers(lambda l, x, mixed: l.norm2(l.feed_forward(l.norm1(x + mixed(x))))),
        "residual",
    ),
    "no residual connection around networks that read a norm": (
        lambda: Plain(
            plain_layers(
                type(
                    "Wrong",
                    (PlainPreNorm,),
                    {"forward": lambda l, x, h=None: l.feed_forward(l.norm2(x + l.attention(l.norm1(x), h)))},
                )
            ),
            nn.LayerNorm(28),
        ),
        "residual",
    ),
    "the network reads the layer's input": (
        sublayers(lambda l, x, mixed: l.norm2(l.norm1(x + mixed(x)) + l.feed_forward(x))),
        "layer.post_ln",
    ),
    "the network first": (
        sublayers(lambda l, x, mixed: (lambda y: l.norm1(y + mixed(y)))(second(l, x))),
        "layer.post_ln",
    ),
    "mean absolute deviation": (
        normed(lambda n, x: n.weight * centred(x) / centred(x).abs().mean(-1, keepdim=True) + n.bias),
        "norm.layer_norm",
    ),
    "mean left in": (normed(lambda n, x: n.weight * x / deviation(x) + n.bias), "norm.statistics"),
    "β before γ": (normed(lambda n, x: n.weight * (centred(x) / deviation(x) + n.bias)), "norm.layer_norm"),
    "statistics over positions": (
        normed(lambda n, x: n.weight * centred(x, 1) / deviation(x, 1) + n.bias),
        "norm.statistics",
    ),
    "norms with stored statistics": (lambda: Plain(plain_layers(norm=StoredStatistics)), "norm.statistics"),
    "norms of the batch": (lambda: Plain(plain_layers(norm=OverTheBatch)), "norm.statistics"),
    "norms of the sequence": (lambda: Plain(plain_layers(norm=OverTheSequence)), "norm.statistics"),
    "5 times the embedding": (reading(lambda e, p: 5 * e + p), "embedding.unscaled"),
    "embeddings of one length": (
        reading(lambda e, p: 5 * nn.functional.normalize(e, dim=-1) + p),
        "embedding.lookup",
    ),
    "positions from the end": (reading(lambda e, p: e + p.flip(0)), "position.learned"),
    "half of both": (reading(lambda e, p: (e + p) / 2), "embedding.unscaled"),
    "0.9 of both, normed first": (reading(lambda e, p: 0.9 * (e + p), PlainPreNorm), "embedding.unscaled"),
    "the larger of embedding and position": (reading(torch.maximum), "embedding.input"),
    "the last network left out": (lambda: pre_normed_without_the_last("network"), "layer.pre_ln"),
    "the last layer left out": (lambda: pre_normed_without_the_last("layer"), "encoder"),
    "layers backwards": (stacked(backwards), "layer.post_ln"),
    "a feature overwritten between the layers": (
        stacked(lambda s, x, hidden: in_turn(s, x, hidden, blanked)),
        "encoder",
    ),
    "the input added behind each layer": (
        stacked(lambda s, x, hidden: in_turn(s, x, hidden, lambda y, start: y + 0.1 * start)),
        "encoder",
    ),
    "clamped behind each layer": (
        stacked(lambda s, x, hidden: in_turn(s, x, hidden, lambda y, start: y.clamp(-1, 1))),
        "layer.post_ln",
    ),
    "positions behind the first layer": (PlacedAgain, "layer.post_ln"),
    "an activation behind each layer": (
        stacked(lambda s, x, hidden: in_turn(s, x, hidden, lambda y, start: nn.functional.gelu(y))),
        "layer.post_ln",
    ),
    "1.1 times the result": (stacked(lambda s, x, hidden: 1.1 * Plain.run(s, x, hidden)), "encoder.no_final_norm"),
}
