"""Encoders whose layers are written in ways of their authors: some are right, and some are not."""

import copy
import math
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
from conformance_tests.meta_tests.encoders.unusual_calls import Calls, QueriesKeysAndValues, Tokens, excused, unusual


@unusual
class ComputesOtherwise(nn.TransformerEncoderLayer):
    """Keeps a flag of the class that it derives from, and does not read it."""

    def __init__(self) -> None:
        super().__init__(28, 4, 37, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = x + self._sa_block(self.norm1(x), None, padding)
        return x + self._ff_block(self.norm2(x))


class LowRank(nn.Module):
    """Adapts a map by one of low rank, as in LoRA."""

    def __init__(self, adapted: nn.Module) -> None:
        super().__init__()
        self.adapted = adapted
        self.down, self.up = nn.Linear(28, 3, bias=False), nn.Linear(3, 28, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.adapted(x)
        return result + self.up(self.down(x)) * 1.5


def adapted(times: int) -> nn.Module:
    encoder = Calls()
    for layer in encoder.layers:
        for part in ("query", "value", "out") * times:
            setattr(layer.attention, part, LowRank(getattr(layer.attention, part)))
    return encoder


@unusual
def maps_adapted_by_low_rank() -> nn.Module:
    return adapted(1)


@unusual
def maps_adapted_twice() -> nn.Module:
    return adapted(2)


class NormsTwice(PlainLayer):
    """Norms the stream for each sublayer and once more for the sum: Post-LN, as one sees who computes it once."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x) + self.attention(self.norm1(x), hidden)
        return self.norm2(x) + self.feed_forward(self.norm2(x))


@unusual
class WithNormsTwice(Tokens):
    """The first norm is that of the embeddings, and the last one that of the last layer."""

    def __init__(self) -> None:
        super().__init__(NormsTwice)
        self.last = nn.LayerNorm(28)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        x: Tensor = self.last(self.run(self.embedded(ids), None))
        return x


class PassesByTheAttention(PlainLayer):
    """The only residual connection starts before the attention, and ends behind the network that reads it."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return self.norm2(x + self.feed_forward(self.norm1(self.attention(x, hidden))))


@excused("residual", "nothing is added to what the attention gives")
def residual_that_passes_by() -> nn.Module:
    return Calls(PassesByTheAttention)


class AddedTwice(PlainLayer):
    """Adds what the attention gives to the stream twice."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        attended = self.attention(x, hidden)
        x = x + attended
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))


@excused("residual", "what the attention gives is added more than once")
def attention_added_twice() -> nn.Module:
    return Calls(AddedTwice)


class MapsItsResultAgain(PlainAttention):
    """Its output map is applied to what it gives."""

    def merge(self, heads: Tensor) -> Tensor:
        return self.out(super().merge(heads))


@excused("multihead.output", "layers.0.attention.out.weight is applied to its own result")
def output_map_applied_twice() -> nn.Module:
    return Plain(layers_with(MapsItsResultAgain))


class MapsItsQueriesAgain(PlainAttention):
    """Its queries are mapped once more, by the map that gave them, and multiplied by a number in between."""

    def split(self, x: Tensor) -> list[Tensor]:
        maps = (self.query(0.5 * self.query(x)), self.key(x), self.value(x))
        return [mapped.unflatten(-1, (self.count, -1)).transpose(1, 2) for mapped in maps]


@excused("attention.projections", "layers.0.attention.query.weight is applied to its own result")
def query_map_applied_twice() -> nn.Module:
    return Plain(layers_with(MapsItsQueriesAgain))


class MapsByAMapAndItsTranspose(PlainAttention):
    """Its output map has few parameters: one map, and the same one back."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.out = nn.Linear(width, 13, bias=False)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return super().forward(x, hidden) @ self.out.weight


@unusual
def output_map_and_its_transpose() -> nn.Module:
    return Plain(layers_with(MapsByAMapAndItsTranspose))


class NormsAndAddsAgain(PlainLayer):
    """A sublayer with its own residual connection and norm stands in another one with the same."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.own_norm = norm(width)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.own_norm(x + self.attention(x, hidden)))
        return self.norm2(x + self.feed_forward(x))


@excused("residual", "behind the norm of the sum with what the attention gives the stream is added once more")
def normed_and_added_again() -> nn.Module:
    return Calls(NormsAndAddsAgain)


class NormsTheNetworksInput(PlainLayer):
    """Post-LN, and a feed-forward network that was written for Pre-LN."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.inner_norm = norm(width)

    def feed_forward(self, x: Tensor) -> Tensor:
        return super().feed_forward(self.inner_norm(x))


@excused("layer.post_ln", "a norm stands before the feed-forward network, too, and behind every sublayer")
def norms_of_two_orders() -> nn.Module:
    return Calls(NormsTheNetworksInput)


class AddsOneMapToTheInput(PlainLayer):
    """A convolution over single positions is the whole network, and the layer's input is what it is added to."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        del self.fc1, self.fc2
        self.map = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        attended = self.norm1(x + self.attention(x, hidden))
        return self.norm2(x + self.map(attended.mT).mT)


@excused("ffn.relu", "its feed-forward network has one map where two belong")
def one_map_added_to_the_input() -> nn.Module:
    return Calls(AddsOneMapToTheInput)


class WithAFrozenNumber(PlainAttention):
    """Keeps the scale as a parameter that is not learned, and computes it anew."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.factor = nn.Parameter(torch.tensor(self.scale), requires_grad=False)


@unusual
def with_a_frozen_number() -> nn.Module:
    return Plain(layers_with(WithAFrozenNumber))


class NormsTokensTogether(PlainLayer):
    """One mean and one variance for all tokens of a sequence, with a γ for each feature."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.gamma = nn.Parameter(torch.randn(width))
        del self.norm1

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        y = x + self.attention(x, hidden)
        scale = self.gamma * (y.var((1, 2), unbiased=False, keepdim=True) + 1e-5).rsqrt()
        x = (y - y.mean((1, 2), keepdim=True)) * scale
        return self.norm2(x + self.feed_forward(x))


@excused("norm.statistics", "entries, where 28 features belong")
def norms_tokens_together() -> nn.Module:
    return Calls(NormsTokensTogether)


@excused("encoder", "the call changed its own input or mask")
class WritesIntoItsInput(Plain):
    """Adds positions to the very vectors that it is given; everything else is right."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.places = nn.Parameter(torch.randn(300, 28))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x += self.places[: x.shape[1]]
        return super().forward(x, mask)


class HeadsSideBySide(nn.Module):
    """Three maps of width 7 for each of 4 heads, whose results are laid entry by entry and not head by head."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(width, width // count) for _ in range(3 * count))
        self.out, self.scale = nn.Linear(width, width), math.sqrt(width // count)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        given = []
        for first in range(0, len(self.maps), 3):
            q, k, v = (made(x) for made in self.maps[first : first + 3])
            scores = q @ k.mT / self.scale
            weights = scores if hidden is None else scores.masked_fill(hidden[:, 0], -torch.inf)
            given.append(weights.softmax(-1) @ v)
        return self.out(torch.stack(given, dim=-1).flatten(-2))


@unusual
def heads_laid_entry_by_entry() -> nn.Module:
    return Plain(layers_with(HeadsSideBySide))


class ScalesInPlace(PlainAttention):
    """Scales what is a view of several results at once: autograd refuses that, and numbers are right."""

    def split(self, x: Tensor) -> list[Tensor]:
        together = torch.cat([made(x) for made in (self.query, self.key, self.value)], dim=-1)
        q, k, v = together.chunk(3, dim=-1)
        q /= self.scale
        return [part.unflatten(-1, (self.count, -1)).transpose(1, 2) for part in (q, k, v)]

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


@unusual
def scaled_in_place() -> nn.Module:
    return Plain(layers_with(ScalesInPlace))


@unusual
class CopiesOfATemplate(Plain):
    """Keeps the layer from which its layers were copied, and no norm behind them."""

    def __init__(self) -> None:
        template = PlainLayer(28, 4, 37)
        super().__init__([copy.deepcopy(template) for _ in range(2)])
        self.template = template


class MaskThatMultiplies(PlainAttention):
    """Multiplies the scores by 0 where it hides, and takes a large number away there."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        kept = torch.ones(q.shape[-2], q.shape[-2], dtype=q.dtype).tril()
        return super().score(q, k) * kept - 1e10 * (1 - kept)


@excused("attention.global_reach", "each position sees itself and those before it alone (a causal mask)")
def causal_by_a_product() -> nn.Module:
    return Plain(layers_with(MaskThatMultiplies))


class OneKeyMapForAll(PlainAttention):
    """Each head has a map for its keys, and all use the first."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.key = nn.ModuleList(nn.Linear(width, width // count) for _ in range(count))

    def split(self, x: Tensor) -> list[Tensor]:
        keys = torch.stack([self.key[0](x) for _ in self.key], dim=1)
        q, v = (m(x).unflatten(-1, (self.count, -1)).transpose(1, 2) for m in (self.query, self.value))
        return [q, keys, v]


@excused("attention.projections", "its 4 heads share the keys of 1, and layers.0.attention.key.1.weight is left unused")
def one_key_map_for_all_heads() -> nn.Module:
    return Plain(layers_with(OneKeyMapForAll))


@excused("attention.projections", "each head projects 7 of the 70 features, not all of them")
class NormsAllPositionsAtOnce(nn.Module):
    """Norms ten positions as one vector and makes the heads of that: no encoder has such parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(70), nn.LayerNorm(70)
        self.maps = nn.ModuleList(nn.Linear(7, 7) for _ in range(4))
        self.up, self.down = nn.Linear(7, 13), nn.Linear(13, 7)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value, out = self.maps
        y = self.first(x.flatten(1)).reshape(x.shape)
        x = x + out((query(y) @ key(y).mT / 7**0.5).softmax(-1) @ value(y))
        y = self.second(x.flatten(1)).reshape(x.shape)
        return x + self.down(self.up(y).relu())


@excused("head.none", "what stands behind the encoder mixes samples")
class AveragesOverTheBatch(nn.Module):
    """A classifier around an encoder that takes the positions first, as torch's does by default."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 28)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(28, 4, 37), 2, enable_nested_tensor=False)
        self.classes = nn.Linear(28, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.encoder(self.map(x)).mean(dim=1))


class WithAPooledVector(Plain):
    """Returns a map of the first position beside the hidden states."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.pooler = nn.Linear(28, 28)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        states = super().forward(x, mask)
        return states, self.pooler(self.pooled(states, mask)).tanh()

    def pooled(self, states: Tensor, mask: Tensor | None) -> Tensor:
        return states[:, 0]


unusual(WithAPooledVector)


@excused("head.none", "mixes samples: another one in the batch changes results of others")
class PoolsTheFirstSample(WithAPooledVector):
    """Takes the first sample for the first position."""

    def pooled(self, states: Tensor, mask: Tensor | None) -> Tensor:
        return states[0]


@unusual
class PoolsPadding(WithAPooledVector):
    """The mean over all positions, whatever the mask says."""

    def pooled(self, states: Tensor, mask: Tensor | None) -> Tensor:
        return states.mean(1)


class DropsOfItsPooledVector(WithAPooledVector):
    """Drops features of the first position, in evaluation too."""

    def pooled(self, states: Tensor, mask: Tensor | None) -> Tensor:
        return nn.functional.dropout(states[:, 0], 0.5)


class RunsEachLayerTwice(Plain):
    """Runs each of its layers two times in turn."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(layer(x, hidden), hidden)
        return x


@excused("encoder.unshared", "its 4 layers have the parameters of 2")
def layers_run_twice() -> nn.Module:
    return RunsEachLayerTwice(plain_layers())


class BothAtOnce(nn.Module):
    """A norm whose mean and variance come from one operation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
        return self.gain * (x - mean) / (variance + 1e-5).sqrt() + self.shift


@unusual
def MeanAndVarianceAtOnce() -> nn.Module:
    return Plain(plain_layers(norm=BothAtOnce))


class MapsTwice(PlainAttention):
    """Queries, keys, values and results are mapped once more than they need to be."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> list[Tensor]:
        maps = zip(self.inner, (self.query, self.key, self.value), strict=False)
        return [first(second(x)).unflatten(-1, (self.count, -1)).transpose(1, 2) for first, second in maps]

    def merge(self, heads: Tensor) -> Tensor:
        merged: Tensor = self.inner[3](super().merge(heads))
        return merged


@unusual
def MapsOfMaps() -> nn.Module:
    return Plain(layers_with(MapsTwice))


class MapsTwiceAndDivides(MapsTwice):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / 28**0.5


@excused("attention.scores", "the scores are multiplied by 0.188982, where 1/√7 = 0.377964 belongs")
def MapsOfMapsDividedByTheWidth() -> nn.Module:
    return Plain(layers_with(MapsTwiceAndDivides))


class OfUnitRows(nn.Module):
    """A map whose rows have a length of their own each: weight normalisation by hand."""

    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.directions, self.lengths = nn.Parameter(torch.randn(out, wide)), nn.Parameter(torch.ones(out, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.lengths * self.directions / self.directions.pow(2).sum(1, keepdim=True).sqrt()).T


class ComputesItsMaps(PlainLayer):
    """The maps of the feed-forward network, and two of attention, are computed of parameters in each call."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.fc1, self.fc2 = OfUnitRows(width, inner), OfUnitRows(inner, width)
        self.attention.query, self.attention.out = OfUnitRows(width, width), OfUnitRows(width, width)


@unusual
def ComputedMaps() -> nn.Module:
    return Plain(plain_layers(ComputesItsMaps))


@unusual
class ActivatesForItsHead(Plain):
    """Applies an activation to the hidden states before a head maps them."""

    def __init__(self) -> None:
        super().__init__([])
        self.encoder = Plain(plain_layers())
        self.head = nn.Linear(28, 5)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.head(torch.nn.functional.gelu(self.encoder(x)))


@unusual
class MappedTwice(Plain):
    """Maps its input to fewer features first, and then to the width of its layers."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.narrow, self.wide = nn.Linear(9, 5), nn.Linear(5, 28)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.wide(self.narrow(x)), mask)


class InTurn(PlainAttention):
    """Queries attend four at a time, which leaves fewer for the last turn."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        turns = []
        for some in q.split(4, dim=2):
            scores = self.score(some, k)
            turns.append((scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1) @ v)
        return self.out(self.merge(torch.cat(turns, dim=2)))


@unusual
def queries_in_turn() -> nn.Module:
    return Plain(layers_with(InTurn))


class DividedBehind(PlainAttention):
    """Averages the values with exp of the scores, and divides by their sum afterwards."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        return self.out(self.merge((weights @ v) / weights.sum(-1, keepdim=True)))


@unusual
def divided_behind() -> nn.Module:
    return Plain(layers_with(DividedBehind))


class ViewsItsInput(PlainAttention):
    """Takes numbers in the usual memory order alone."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return super().forward(x.view(len(x), -1, 28), hidden)


@unusual
def views_its_input() -> nn.Module:
    return Plain(layers_with(ViewsItsInput))


class WithoutPadding(PlainAttention):
    """Attends to one sequence at a time, with its padding cut out, and fails where nothing is left of it."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        given = torch.zeros_like(x)
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if hidden is None else ~hidden[:, 0, 0]
        maps = self.query, self.key, self.value
        for here in torch.eye(len(x), dtype=torch.bool)[..., None] & keep:
            alone = x[here][None]
            q, k, v = (m(alone).view(alone.shape[1], self.count, -1).transpose(0, 1)[None] for m in maps)
            given[here] = self.out(self.merge(self.score(q, k).softmax(-1) @ v))[0]
        return given


@excused("attention.weights", "cannot reshape tensor of 0 elements")
class SequencesWithoutPadding(Tokens):
    """Fails only if a sequence in the batch is all padding."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.attention = WithoutPadding(28, 4)

    def forward(self, ids: Tensor, padding_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(ids), None if padding_mask is None else padding_mask[:, None, None])


class ScaledBehind(PlainLayer):
    """Each sublayer's result is multiplied by numbers that are learned, as in LayerScale; the heads are mixed up."""

    def __init__(self, width: int, count: int, inner: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__(width, count, inner, norm)
        self.attention = MixesHeads(width, count)
        self.times = nn.Parameter(torch.rand(2, width) + 0.5)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.times[0] * self.attention(x, hidden))
        return self.norm2(x + self.times[1] * self.feed_forward(x))


class MixesHeads(PlainAttention):
    """Lays the heads' results in memory as they are."""

    def merge(self, heads: Tensor) -> Tensor:
        return heads.reshape(len(heads), heads.shape[2], -1)


@excused("multihead.concat", "not laid side by side")
def wrong_heads_beside_a_part_of_no_slot() -> nn.Module:
    return Plain(plain_layers(ScaledBehind))


class MappedForEachUse(PlainLayer):
    """A ReLU by hand, which computes the first map twice."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.where(self.fc1(x) > 0, self.fc1(x), 0.0))


@unusual
def mapped_for_each_use() -> nn.Module:
    return Plain(plain_layers(MappedForEachUse))


class TokensAsFeatures(nn.LayerNorm):
    """A norm of a batch in which each token is a feature."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = nn.functional.batch_norm(x.flatten(0, 1).mT, None, None, training=True, eps=self.eps)
        return tokens.mT.reshape(x.shape) * self.weight + self.bias


@unusual
def norms_of_tokens_as_features() -> nn.Module:
    return Plain(plain_layers(norm=TokensAsFeatures))


class LessTheLogarithm(PlainAttention):
    """The weights are the exponential of the scores less the logarithm of the sum of theirs."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e9)
        return self.out(self.merge(torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)) @ v))


@unusual
def weights_by_the_logarithm_of_their_sum() -> nn.Module:
    return Plain(layers_with(LessTheLogarithm))


class PowersOfTwo(PlainAttention):
    """The weights are powers of two over their sum, from scores that hold the logarithm of e to that base."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        powers = self.power(scores - scores.amax(-1, keepdim=True))
        return self.out(self.merge(powers / powers.sum(-1, keepdim=True) @ v))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * (math.log2(math.e) / self.scale)

    def power(self, exponents: Tensor) -> Tensor:
        return torch.exp2(exponents)


@unusual
def weights_by_powers_of_two() -> nn.Module:
    return Plain(layers_with(PowersOfTwo))


class PowersOfANumber(PowersOfTwo):
    """The powers are written with the operator ``**``."""

    def power(self, exponents: Tensor) -> Tensor:
        return 2.0**exponents


@unusual
def weights_by_powers_of_a_number() -> nn.Module:
    return Plain(layers_with(PowersOfANumber))


class PowersWithoutTheLogarithm(PowersOfTwo):
    """Powers of two of the scores as they are: a softmax of ln 2 times the scores."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / self.scale


@excused("attention.scores", "the scores are multiplied by 0.261985, where 1/√7 = 0.377964 belongs")
def weights_by_powers_of_another_base() -> nn.Module:
    return Plain(layers_with(PowersWithoutTheLogarithm))


class ShiftsBeforeItScales(PlainAttention):
    """Takes the largest score from all, and divides by √d_k behind."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ k.mT
        return (scores - scores.amax(-1, keepdim=True)) / self.scale


@unusual
def scores_shifted_before_they_are_scaled() -> nn.Module:
    return Plain(layers_with(ShiftsBeforeItScales))


class ShiftsEachKey(PlainAttention):
    """Takes the largest score of each key, which no softmax over the keys cancels, and divides by √d_k behind."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ k.mT
        return (scores - scores.amax(-2, keepdim=True)) / self.scale


@excused("attention.weights", "what is taken from the scores before the softmax (amax) is not one number for all keys")
def scores_shifted_for_each_key() -> nn.Module:
    return Plain(layers_with(ShiftsEachKey))


class HeadsOverOneSequence(PlainAttention):
    """The heads share keys and values, and sums over letters tell apart heads and positions.

    Attributes:
        groups: how many keys and values there are for all heads.
        scored: the letters of the scores' sum.
        ordered: the axes of its result in the order of those of the weights.
    """

    groups = 1
    scored, averaged = "bigrd,bjgd->bgrij", "bgrij,bjgd->bigrd"
    ordered = (0, 1, 2, 3, 4)

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.key, self.value = (nn.Linear(width, width // count * self.groups) for _ in range(2))

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        k, v = (m(x).unflatten(-1, (self.groups, -1)) for m in (self.key, self.value))
        scores = torch.einsum(self.scored, self.grouped(self.query(x)), k).permute(self.ordered) / self.scale
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None], -torch.inf)
        return self.out(torch.einsum(self.averaged, scores.softmax(-1), v).flatten(2))

    def grouped(self, queries: Tensor) -> Tensor:
        return queries.unflatten(-1, (self.groups, self.count // self.groups, -1))


@unusual
def heads_that_share_one_key_by_letters() -> nn.Module:
    return Plain(layers_with(HeadsOverOneSequence))


class HeadsOfGroups(HeadsOverOneSequence):
    """Two keys for four heads; the heads of a position stand together in the scores' product."""

    groups = 2
    scored, ordered = "bigrd,bjgd->bigrj", (0, 2, 3, 1, 4)


@unusual
def heads_that_share_keys_by_letters() -> nn.Module:
    return Plain(layers_with(HeadsOfGroups))


class HeadsAcrossGroups(HeadsOfGroups):
    """Heads 0 and 2 share keys and values, and heads 1 and 3."""

    scored, averaged = "birgd,bjgd->bgrij", "bgrij,bjgd->birgd"
    ordered = (0, 1, 2, 3, 4)

    def grouped(self, queries: Tensor) -> Tensor:
        return queries.unflatten(-1, (self.count // self.groups, self.groups, -1))


@excused("multihead.groups", "head 1 reads head 1 of the 2 of keys and values, where 0 belongs")
def heads_that_share_keys_across_groups() -> nn.Module:
    return Plain(layers_with(HeadsAcrossGroups))


class AddsMultiples(PlainAttention):
    """Adds a number times a table of distances in buckets, as T5 has, to its scores."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.table = nn.Embedding(32, count)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        ahead = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
        far = 8 + (torch.log(ahead.abs().clamp(min=1) / 8) / math.log(16) * 8).long()
        bucket = 16 * (ahead > 0) + torch.where(ahead.abs() < 8, ahead.abs(), far.clamp(max=15))
        return self.added(super().score(q, k), self.table(bucket).permute(2, 0, 1))

    def added(self, scores: Tensor, distances: Tensor) -> Tensor:
        return scores + distances * 3


@unusual
def multiples_of_a_table_in_the_scores() -> nn.Module:
    return Plain(layers_with(AddsMultiples))


class AddsBeforeItScales(AddsMultiples):
    """Adds the table to the products, and scales both."""

    def added(self, scores: Tensor, distances: Tensor) -> Tensor:
        return (scores * self.scale - distances) / self.scale


@unusual
def a_table_in_scores_before_they_are_scaled() -> nn.Module:
    return Plain(layers_with(AddsBeforeItScales))


class StepsTowards(nn.LayerNorm):
    """A layer norm in terms of `lerp` and `addcmul`."""

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        way = torch.lerp(torch.zeros_like(x), x - mean, torch.rsqrt(variance + self.eps))
        return torch.addcmul(self.bias, way, self.weight)


@unusual
def norms_by_steps() -> nn.Module:
    return Plain(plain_layers(norm=StepsTowards))


class BendsQueriesAndKeys(PlainAttention):
    """Applies a function to each entry of its queries and keys."""

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().split(x)
        return [q.relu(), k.tanh(), v]


@excused("attention.projections", "its queries pass through relu")
def queries_and_keys_that_are_bent() -> nn.Module:
    return Plain(layers_with(BendsQueriesAndKeys))


class TakesWidthForNumber(PlainAttention):
    """Says how many heads it has, and splits their features into as many heads as each should have features."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, width // count)
        self.num_heads = count


@excused("multihead.split", "its attributes state 4 heads, but it computes 7")
def heads_as_many_as_their_width() -> nn.Module:
    return Plain(layers_with(TakesWidthForNumber))


class OverPositions(nn.Module):
    """Norms each feature over its sequence, with a scale and an offset for each feature."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.InstanceNorm1d(width, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.mT).mT


@excused("norm.statistics", "the statistics of a norm are those of other positions or sequences, not of the features")
def norms_over_positions() -> nn.Module:
    return Plain(plain_layers(norm=OverPositions))


class MapsHeadsAgain(PlainAttention):
    """Maps the stream for each head apart, and what stands side by side once more, before it is split into heads."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.of_heads = nn.ModuleList([nn.Linear(width, width // count) for _ in range(3 * count)])

    def split(self, x: Tensor) -> list[Tensor]:
        side_by_side = torch.cat([m(x) for m in self.of_heads], -1).chunk(3, -1)
        mapped = zip((self.query, self.key, self.value), side_by_side, strict=True)
        return [m(part).unflatten(-1, (self.count, -1)).transpose(1, 2) for m, part in mapped]


@unusual
def heads_that_are_mapped_again() -> nn.Module:
    return Plain(layers_with(MapsHeadsAgain))


@unusual
class KeysAndQueries(QueriesKeysAndValues):
    """A block that is called with its input twice: queries are computed of the one, and added to the other."""

    def forward(self, keys: Tensor, query: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        attended = self.attention(query, keys, keys, attn_mask=mask.repeat_interleave(4, 0), need_weights=False)[0]
        x = self.norm1(keys + attended)
        out: Tensor = self.norm2(x + self.down(self.up(x).relu()))
        return out


class NormMadeAnew(nn.Module):
    """Made in each call, in the precision of torch's defaults, whatever the encoder is moved to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return nn.LayerNorm(self.width)(x)


def with_heads_side_by_side(norm: Callable[[int], nn.Module]) -> nn.Module:
    """An encoder whose parameters have names that do not tell what they are."""
    layers = plain_layers(norm=norm)
    for layer in layers:
        layer.attention = HeadsSideBySide(28, 4)
    return Plain(layers)


@unusual
def norms_made_anew() -> nn.Module:
    return with_heads_side_by_side(NormMadeAnew)


class BatchNormMadeAnew(NormMadeAnew):
    """Norms each feature over all sequences."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.BatchNorm1d(self.width)(x.mT).mT


@excused("norm.statistics", "those of other positions or sequences, not of the features")
def batch_norms_made_anew() -> nn.Module:
    return with_heads_side_by_side(BatchNormMadeAnew)


class WithoutMaps(PlainLayer):
    """Its feed-forward network was left out, all but the activation."""

    def feed_forward(self, x: Tensor) -> Tensor:
        return x.relu()


class WithoutMapsBehindANorm(WithoutMaps, PlainPreNorm):
    """Pre-LN."""


@excused("ffn.without_bias", "its feed-forward network is relu of each entry, without a map")
def without_maps_behind_a_norm() -> nn.Module:
    return Plain(plain_layers(WithoutMapsBehindANorm))


@excused("ffn.without_bias", "its feed-forward network is relu of each entry, without a map")
def without_maps_before_a_norm() -> nn.Module:
    return Plain(plain_layers(WithoutMaps))


class NetworkFirst(PlainLayer):
    """Its feed-forward network reads what enters the layer, and its attention what that gives."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm2(x + self.feed_forward(x))
        return self.norm1(x + self.attention(x, hidden))


@excused("layer.post_ln", "the feed-forward network of each layer stands before its attention")
def networks_before_attentions() -> nn.Module:
    return Calls(NetworkFirst)


class KeysOfTheHeadBefore(PlainAttention):
    """The keys are moved on by a head, as where an axis is mistaken for that of the positions."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k.roll(1, 1))


@excused("multihead.split", "are compared with the keys of head")
def keys_of_the_head_before() -> nn.Module:
    return Plain(layers_with(KeysOfTheHeadBefore))
