"""Correct encoders that are called in ways of their authors, and wrong ones that a call in another way would excuse."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, PlainLayer, layers_with, plain_layers

UNUSUAL: dict[str, Callable[[], Any]] = {}
"""Correct encoders by name."""

EXCUSED: dict[str, tuple[Callable[[], Any], str, str]] = {}
"""Wrong ones by name, with the equation at which they depart, and words of the report."""


def unusual(make: Callable[[], Any]) -> Callable[[], Any]:
    """Register a correct encoder."""
    UNUSUAL[make.__name__] = make
    return make


def excused(departs_at: str, words: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a wrong encoder."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        EXCUSED[make.__name__] = make, departs_at, words
        return make

    return register


class Calls(Plain):
    """A plain stack of which a subclass states the call; ``hidden`` is true where a key is hidden."""

    def __init__(self, kind: type[PlainLayer] = PlainLayer) -> None:
        super().__init__(plain_layers(kind))


@unusual
class MaskFirst(Calls):
    """The input is the second argument."""

    def forward(self, mask: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x, ~mask[:, None, None])


@unusual
class UnusedLength(Calls):
    """A required argument that nothing reads stands beside the mask."""

    def forward(self, x: Tensor, length: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, mask)


@unusual
class NoneIsRefused(Calls):
    """The default of an argument is none of its values."""

    def forward(  # type: ignore[override]
        self, x: Tensor, not_pad: Tensor | None = None, covered: Tensor | None = None
    ) -> Tensor:
        return self.run(x, None if covered is None else covered[:, None, None]) * not_pad


@unusual
class FeaturesAlongAnImage(Calls):
    """Returns (B, d, 1, n), as images of one row, for ids."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(31, 28), nn.Embedding(400, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return super().forward(x, mask).mT[:, :, None]


@unusual
class OneGroup(Calls):
    """Returns (B, 1, n, d)."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, mask)[:, None]


@unusual
class BatchLast(Calls):
    """The mask is (n, n, B), true at what is kept."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else ~mask.permute(2, 0, 1)[:, None])


@unusual
class OneMaskForAll(Calls):
    """The mask is (n, n), for all sequences."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else ~mask[None].repeat(len(x), 1, 1)[:, None])


@unusual
class InOneAxis(Calls):
    """Returns the positions of all sequences in one axis, (B·n, d_model)."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x, None).flatten(0, 1)


@unusual
class PositionsFirst(Calls):
    """Sequences come first in what it is given, and positions in what it returns."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, mask).transpose(0, 1)


class StepByStep(PlainLayer):
    """Returns what each sublayer adds beside the result."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:  # type: ignore[override]
        attended = self.attention(x, hidden)
        x = self.norm1(x + attended)
        added = self.feed_forward(x)
        return self.norm2(x + added), [attended, added]


@unusual
class AllThatIsAdded(Calls):
    """Returns what each sublayer adds, in a list, before what comes of it."""

    def __init__(self) -> None:
        super().__init__(StepByStep)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Any]:  # type: ignore[override]
        steps: list[Tensor] = []
        for layer in self.layers:
            x, added = layer(x, None if mask is None else ~mask[:, None, None])
            steps += added
        return {"added": steps, "hidden": x}


@unusual
class BeforeAndAfterTheLastNorm(Calls):
    """Returns what its last norm reads before what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.last = self.layers[-1].norm2
        self.layers[-1].norm2 = nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x = self.run(x, None if mask is None else ~mask[:, None, None])
        return x, self.last(x)


@unusual
class ZeroWhereHidden(Calls):
    """It sets hidden positions to zero, and a mask of ones hides everything."""

    def forward(self, x: Tensor, mask: Tensor, attn_mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x, attn_mask[:, None]).masked_fill(mask[..., None], 0)


@unusual
def compiled_with_dropout() -> nn.Module:
    """TorchScript calls dropout in evaluation too."""
    layer = nn.TransformerEncoderLayer(28, 4, 37, dropout=0.3, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted: nn.Module = torch.jit.script(layer)
    return scripted


@unusual
class HeadsAndSequencesOnOneAxis(Calls):
    """The mask is (B·h, n, n) as torch's attention takes it, of which the fast path takes (B, n, n) too."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        layer = nn.TransformerEncoderLayer(28, 4, 37, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).layers

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, src_mask=attn_mask)
        return x


@unusual
class QueriesKeysAndValues(nn.Module):
    """A block that is called with its input three times."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(28, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(28), nn.LayerNorm(28)
        self.up, self.down = nn.Linear(28, 37), nn.Linear(37, 28)

    def forward(self, value: Tensor, key: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        hidden = None if mask is None else ~mask
        x = self.norm1(query + self.attention(query, key, value, key_padding_mask=hidden, need_weights=False)[0])
        out: Tensor = self.norm2(x + self.down(self.up(x).relu()))
        return out


@unusual
class MapLeftOut(Calls):
    """An option leaves a map out: it has no entries."""

    def __init__(self) -> None:
        super().__init__()
        self.temporal = nn.Parameter(torch.empty(0, 0))


@unusual
class TriesItsMaskAndIgnoresIt(Calls):
    """A mask of queries that it accepts in two types and does not read."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        if attn_mask is not None and not (attn_mask.is_floating_point() or attn_mask.dtype is torch.bool):
            raise TypeError("float or bool")
        return self.run(x, None)


class ScaledByOne(PlainLayer):
    """The residual is multiplied by a number that is 1."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(1.0 * x + self.attention(x, hidden))
        return self.norm2(1.0 * x + self.feed_forward(x))


@unusual
def residuals_times_one() -> nn.Module:
    return Calls(ScaledByOne)


class NormInFloat32(nn.LayerNorm):
    """It casts its input to float32, whatever its parameters are."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.type(torch.float32)).type(x.dtype)


@unusual
def norms_in_float32() -> nn.Module:
    return Plain(plain_layers(norm=NormInFloat32))


class ShiftedMask(Calls):
    """A mask (B, n) hides the neighbour of what it names; one (B, 1, 1, n) hides what it names."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and mask.ndim == 2:
            mask = mask.roll(1, 1)[:, None, None]
        return self.run(x, None if mask is None else ~mask)


excused("attention.mask", "mask: (B, n)")(ShiftedMask)


class MaskAdded(PlainAttention):
    """Adds its mask to the scores, of whatever type it is."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        return self.out(self.merge((scores if hidden is None else scores + hidden).softmax(-1) @ v))


@excused("attention.mask", "MASK-2")
class AddsBooleans(Calls):
    """Takes booleans under a name that promises that they hide keys, and adds them; with −∞ it would hide keys."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers_with(MaskAdded))

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(x, None if key_padding_mask is None else key_padding_mask[:, None, None])


@unusual
class AddsItsMask(AddsBooleans):
    """The same under a name that promises nothing."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, mask)


class OtherThanConfigured(Calls):
    """Its configuration states GELU and an ε that it does not use."""

    config = SimpleNamespace(hidden_act="gelu", layer_norm_eps=1e-12)


# The norm comes first; the activation is named beside it.
excused("norm.layer_norm", "its configuration states gelu, but it computes relu")(OtherThanConfigured)


class CausalByIndices(PlainAttention):
    """Later keys are hidden by a write in place, at indices."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().score(q, k)
        row, column = torch.triu_indices(*scores.shape[-2:], offset=1)
        scores[..., row, column] = -torch.inf
        return scores


def causal_by_indices() -> nn.Module:
    return Plain(layers_with(CausalByIndices))


excused("attention.global_reach", "causal mask")(causal_by_indices)


class OtherFrequencies(nn.Module):
    """Both features of a pair are computed with the index of the feature, and not of the pair."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(41, 28)
        self.stack = Plain(plain_layers())
        self.register_buffer("table", self.waves(torch.arange(28), torch.arange(64)[:, None]))

    def waves(self, i: Tensor, positions: Tensor) -> Tensor:
        angles = positions / 10000 ** (2 * i / 28)
        return torch.where(i % 2 == 0, angles.sin(), angles.cos())

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embedding(ids) * 28**0.5 + self.table[: ids.shape[1]]
        hidden: Tensor = self.stack(x, mask)
        return hidden


excused("position.learned", "sinusoids with other frequencies")(OtherFrequencies)


@excused("position.learned", "the first row of the sinusoids is 0")
class FirstRowOfPadding(OtherFrequencies):
    """The first row of its table was once for padding."""

    def waves(self, i: Tensor, positions: Tensor) -> Tensor:
        angles = positions / 10000 ** (2 * (i // 2) / 28)
        return torch.where(i % 2 == 0, angles.sin(), angles.cos()) * (positions > 0)


@excused("position.learned", "sinusoids with other frequencies")
class OtherFrequenciesAndPadding(OtherFrequencies):
    """And its first row was for padding."""

    def waves(self, i: Tensor, positions: Tensor) -> Tensor:
        return super().waves(i, positions) * (positions > 0)


@excused("position.sinusoidal", "the same row of the sinusoids is added to every token")
class OneRowForAll(FirstRowOfPadding):
    """Adds one row of its table, and not all those before it."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.stack(self.embedding(ids) * 28**0.5 + self.table[ids.shape[1]], mask)
        return hidden

    def waves(self, i: Tensor, positions: Tensor) -> Tensor:
        return super().waves(i, positions) + (positions == 0) * (i % 2)


@unusual
class ChannelsLast(nn.Module):
    """Images have their channels behind their sides, as in JAX and Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 28, 2, 2)
        self.places = nn.Parameter(torch.randn(1, 9, 28))
        self.stack = Calls()

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images.movedim(-1, 1)).flatten(2).mT
        stacked: Tensor = self.stack(patches + self.places)
        return stacked


class OfTokens(nn.Module):
    """Ids, learned positions and a plain stack."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.stack = nn.Embedding(41, 28), nn.Embedding(300, 28), Calls()

    def states(self, ids: Tensor, hidden: Tensor | None) -> Tensor:
        """The hidden states; ``hidden`` (B, n) is true where a key is hidden."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.stack.run(x, None if hidden is None else hidden[:, None, None])


@unusual
class IdsWithAFeatureAxis(OfTokens):
    """Ids are the first of several features of a token, (B, n, 1); beside them stand lengths."""

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        hidden = torch.arange(source.shape[1]) >= lengths[:, None]
        return self.states(source[..., 0], hidden)


@unusual
class PaddedByItsId(OfTokens):
    """An id says what is padded, and lengths, which say the same, are not read."""

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.states(ids, ids == 1)


@unusual
def a_bound_method_with_arrays() -> Any:
    """A partial function of a method, whose object holds the arrays."""
    encoder = InNumPy()
    return partial(encoder.forward, training=False)


@unusual
def a_function_around_arrays() -> Any:
    """A function that calls another, whose object holds the arrays."""
    encoder = InNumPy()

    def run(x: np.ndarray) -> np.ndarray:
        return encoder.forward(x, training=False)

    return lambda x: run(x)


@unusual
def a_classifier_in_numpy() -> Any:
    """A function with a map of the mean behind its encoder."""
    encoder, head = InNumPy(), np.random.default_rng(1).standard_normal((12, 5))
    return lambda x: encoder.forward(x, training=False).mean(1) @ head


@excused("attention.scores", "the scores are multiplied by 0.25, where 1/√4 = 0.5 belongs")
def a_classifier_with_wrong_scores() -> Any:
    """A function with a map of each position behind its encoder, which divides the scores by d_k."""
    encoder, head = InNumPy(), np.random.default_rng(1).standard_normal((12, 5))
    encoder.divisor = 4.0
    return lambda x: encoder.forward(x, training=False) @ head


class InNumPy:
    """One layer in NumPy."""

    divisor = 2.0

    def __init__(self) -> None:
        draw = np.random.default_rng(0).standard_normal
        self.maps = {name: 0.2 * draw(shape) for name, shape in (*self.SQUARE, ("up", (12, 20)), ("down", (20, 12)))}
        self.norms = [{"gamma": np.ones(12), "beta": np.zeros(12)} for _ in range(2)]

    SQUARE = tuple((name, (12, 12)) for name in ("query", "key", "value", "out"))

    def forward(self, x: np.ndarray, training: bool = True) -> np.ndarray:
        assert not training
        q, k, v = (self.heads(x @ self.maps[name]) for name in ("query", "key", "value"))
        scores = q @ k.swapaxes(-1, -2) / self.divisor
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = self.norm(0, x + (weights @ v).swapaxes(1, 2).reshape(x.shape) @ self.maps["out"])
        return self.norm(1, x + np.maximum(x @ self.maps["up"], 0) @ self.maps["down"])

    def heads(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[:2], 3, 4).swapaxes(1, 2)

    def norm(self, place: int, x: np.ndarray) -> np.ndarray:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return self.norms[place]["gamma"] * (x - mean) / np.sqrt(variance + 1e-5) + self.norms[place]["beta"]


class Tokens(Calls):
    """Ids, with a table of positions that begin behind a norm."""

    def __init__(self, kind: type[PlainLayer] = PlainLayer) -> None:
        super().__init__(kind)
        self.token_table, self.position_table = nn.Embedding(31, 28), nn.Embedding(300, 28)

    def embedded(self, ids: Tensor) -> Tensor:
        return self.token_table(ids) + self.position_table.weight[: ids.shape[1]]


@unusual
class BeginsAtZero(Tokens):
    """All its arguments are asked for, and its tables are zeros, so that nothing is seen of its ids."""

    def __init__(self) -> None:
        super().__init__()
        self.segment_table = nn.Embedding(2, 28)
        for table in (self.token_table, self.position_table, self.segment_table):
            nn.init.zeros_(table.weight)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(ids) + self.segment_table(segments), ~mask[:, None, None].bool())


@unusual
class ReturnsEachSequence(Tokens):
    """Takes sequences of several lengths, and returns an array for each."""

    def forward(self, sequences: list[Tensor]) -> list[Tensor]:  # type: ignore[override]
        ids = nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
        lengths = [len(sequence) for sequence in sequences]
        hidden = self.run(self.embedded(ids), self.hides(ids, torch.tensor(lengths)))
        return [x[:length] for x, length in zip(hidden, lengths, strict=True)]

    def hides(self, ids: Tensor, lengths: Tensor) -> Tensor | None:
        return (torch.arange(ids.shape[1]) >= lengths[:, None])[:, None, None]


class ReturnsEachThatReadsPadding(ReturnsEachSequence):
    """Fills its sequences up, and attends to that."""

    def hides(self, _ids: Tensor, _lengths: Tensor) -> None:
        return None


@unusual
class ReturnsOfChosenTokens(Tokens):
    """Takes an argument that selects the returned positions, and is not a padding mask."""

    def forward(self, ids: Tensor, masked_tokens: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = self.run(self.embedded(ids), None)
        return x if masked_tokens is None else x[masked_tokens.bool()]


@unusual
class MaskedSentence(Tokens):
    """A mask whose name speaks of sentences, and a table of segments without a place for their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.segment_table = nn.Embedding(2, 28)

    def forward(self, ids: Tensor, sentence_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = self.embedded(ids) + self.segment_table(torch.zeros_like(ids))
        return super().forward(x, None if sentence_mask is None else sentence_mask == 1)


@unusual
class WithoutPlaceForSegments(MaskedSentence):
    """The second argument, whose name tells nothing, is a mask; there is a table of segments."""

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        return super().forward(ids, attention)


@unusual
class PicksItsOutputs(Tokens):
    """An argument chooses which hidden states go on to a head; an id says what is padded."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(28, 31)
        self.stack = Calls()

    def forward(self, ids: Tensor, masked_pos: Tensor) -> Tensor:  # type: ignore[override]
        hidden = self.stack(self.embedded(ids), ids != 0)
        chosen = masked_pos[..., None].expand(-1, -1, hidden.shape[-1])
        return self.head(hidden.gather(1, chosen))


@unusual
class WeighsItsScores(Calls):
    """An optional argument multiplies the scores, which hides nothing and means something else than padding."""

    def forward(  # type: ignore[override]
        self, x: Tensor, mask: Tensor | None = None, attention_weights: Tensor | None = None
    ) -> Tensor:
        for layer in self.layers:
            layer.attention.scale = math.sqrt(7) if attention_weights is None else math.sqrt(7) / attention_weights
        return super().forward(x, mask)


@unusual
class MaskBehindTheFirst(Calls):
    """The mask has no entry for the first position, at which a class token is expected; it holds for queries too."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return self.run(x, None)
        keep = nn.functional.pad(mask, (1, 0), value=True)
        assert keep.shape == x.shape[:2]
        return self.run(x, ~keep[:, None, None])


@unusual
class PositionsWherePaddingIsNot(Tokens):
    """Positions are multiplied by a mask that is made of lengths."""

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:  # type: ignore[override]
        places = torch.arange(ids.shape[1])
        keep = places < (torch.full(ids.shape[:1], ids.shape[1]) if lengths is None else lengths)[:, None]
        x = self.token_table(ids) + self.position_table(places) * keep[..., None]
        return self.run(x, ~keep[:, None, None])


@unusual
class PositionsTimesANumber(Tokens):
    """Learned positions are multiplied, as by dim ** -0.5, before they are added."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.token_table(ids) + self.position_table(torch.arange(ids.shape[1])) * 28**-0.5
        return self.run(x, None if mask is None else ~mask[:, None, None])


@unusual
class PiecesOnSquares(Calls):
    """Three required arguments of ids: few tokens, their places, and whose they are."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces, self.squares, self.players = nn.Embedding(6, 28), nn.Embedding(64, 28), nn.Embedding(2, 28)

    def forward(self, pieces: Tensor, positions: Tensor, players: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.pieces(pieces) + self.squares(positions) + self.players(players), None)


@unusual
class RowsInOneAxis(Calls):
    """Vectors whose positions are looked up for all sequences in one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.position_table = nn.Parameter(torch.randn(300, 28))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = torch.ones(x.shape[:2]).cumsum(1).long()
        placed = self.position_table.index_select(0, rows.view(-1)).view_as(x)
        return super().forward(x + placed, mask)


@unusual
class HooksItsGradients(Calls):
    """Refuses to run while no gradients are recorded, and keeps what it was given."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.given = x.detach()
        hidden = super().forward(x, mask)
        hidden.register_hook(lambda gradient: gradient)
        return hidden


@unusual
class MadeForSeven(Calls):
    """A required mask beside vectors to which exactly seven positions are added."""

    def __init__(self) -> None:
        super().__init__()
        self.position_embedding = nn.Parameter(torch.randn(1, 7, 28))

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x + self.position_embedding, ~attention_mask.bool()[:, None, None])


@unusual
class AnnotatesKindsOfArrays(Calls):
    """Its annotations look like classes, of which there are no objects."""

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "batch pos width"], mask: Bool[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch pos width"]:
        return super().forward(x, mask)


@unusual
class HidesWhereItIsOne(Calls):
    """Takes whole numbers alone, of which those other than 0 hide a key."""

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        assert padding_mask is None or padding_mask.dtype is torch.long
        return self.run(x, None if padding_mask is None else padding_mask[:, None, None] != 0)


class OffsetNorm(nn.Module):
    """Learns how far its factors lie from 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.offset, self.beta = nn.Parameter(torch.randn(width) / 9), nn.Parameter(torch.randn(width) / 9)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:], self.offset + 1, self.beta)


@unusual
class OneLayerOfOffsets(Calls):
    """All layers are one, which computes the factors of its norms anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(plain_layers(norm=OffsetNorm)[:1] * 2)


class KeysThatAsk(PlainAttention):
    """The map that is named key makes the queries."""

    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().split(x)
        return [k, q, v]


@excused("attention.projections", "maps have the roles of others by their names")
def exchanged_roles() -> nn.Module:
    return Plain(layers_with(KeysThatAsk))


@unusual
class MasksInSinglePrecision(Calls):
    """Knows by which number to hide in float32 alone."""

    fills: ClassVar = {torch.float32: -1e9}

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        assert hidden is None or self.fills[x.dtype] < 0
        return super().run(x, hidden)


class Pictured(Calls):
    """Patches of images that are no squares, with positions for them alone; a class token gets its position apart."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 28, 4, 4)
        self.first, self.positions = nn.Parameter(torch.randn(1, 1, 28)), nn.Parameter(torch.randn(1, 7, 28))

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        assert image.shape[2:] == (8, 12)
        x = self.patches(image).flatten(2).mT + self.positions[:, 1:]
        first = (self.first + self.positions[:, :1]).expand(len(x), -1, -1)
        return self.run(torch.cat([first, x], 1), None)


unusual(Pictured)


class AttentionWithAnOption(PlainAttention):
    """Adds a bias for each kind of sequence to its scores, where the kinds are given."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.of_kinds, self.kinds = nn.Parameter(torch.randn(3, count, 1, 1)), None

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().score(q, k)
        return scores if self.kinds is None else scores + self.of_kinds[self.kinds]


@unusual
class ParametersForAnOption(Calls):
    """Has parameters that are read where an optional argument is given, and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.attention = AttentionWithAnOption(28, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            layer.attention.kinds = kinds
        return super().forward(x, mask)


@unusual
class HandsOverToNumPy(Calls):
    """Returns the mean of its hidden states as an array of NumPy."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return self.run(x, None).mean(1).detach().numpy()


@unusual
class ChoosesPatches(Calls):
    """Takes indices of the patches to keep in an optional argument, which accepts a mask and is not one."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, 28, 4, 4), nn.Parameter(torch.randn(1, 4, 28))
        self.mask_of_patches = nn.Parameter(torch.randn(1, 1, 28))

    def forward(self, image: Tensor, masks: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = self.patches(image).flatten(2).mT + self.positions
        if masks is not None:
            x = x.gather(1, masks.long()[..., None].expand(-1, -1, 28))
        return self.run(x, None)


class UsesItsFirstLayerTwice(Calls):
    """Its norms are in float32, where no gradients are compared; the second layer has no part in the output."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.layers = nn.ModuleList(plain_layers(norm=NormInFloat32))

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for _ in self.layers:
            x = self.layers[0](x, hidden)
        return x


excused("encoder", "influence nothing")(UsesItsFirstLayerTwice)


class NormsTheStream(PlainLayer):
    """Says that it norms what its sublayers read, and norms the stream: behind a first norm this is Post-LN."""

    normalize_before = True

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(x)
        x = self.norm2(x + self.attention(x, hidden))
        return x + self.feed_forward(x)


class NormedStream(Tokens):
    """Ends in a norm."""

    def __init__(self) -> None:
        super().__init__(NormsTheStream)
        self.final_norm = nn.LayerNorm(28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.embedded(ids), mask)


excused("layer.post_ln", "an attribute states that it is pre-ln, but it computes post-ln")(NormedStream)


class CarriedOn(PlainAttention):
    """Scores are added to those of the layer before, as in RealFormer."""

    before: Tensor | None = None

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k) if self.before is None else self.score(q, k) + self.before
        self.given = scores
        hiding = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(hiding.softmax(-1) @ v))


class ResidualAttention(Plain):
    """Each layer hands its scores on to the next."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        before = None
        for layer in self.layers:
            layer.attention.before = before
            x = layer(x, hidden)
            before = layer.attention.given
        return x


def residual_attention() -> nn.Module:
    return ResidualAttention(layers_with(CarriedOn))


excused("attention.scores", "the scores of an earlier attention are added to the scores")(residual_attention)


@unusual
class SwitchedByAMask(Calls):
    """No entry of its mask is read: one that is given makes attention causal."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.run(x, None if mask is None else ahead)


@unusual
class MaskBesideItsIds(Tokens):
    """Hides padding by its id, and leaves a mask that it takes as it is."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(ids), (ids == 0)[:, None, None])


@unusual
class OneWindow(Calls):
    """All positions of its table are added: one position would be repeated for each, and a batch taken for it."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Linear(5, 28), nn.Linear(28, 3)
        self.positions = nn.Parameter(torch.randn(9, 28))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.head(self.run(self.features(x) + self.positions, None)[:, -1])


@unusual
class AllOfOneWindow(Calls):
    """Its head maps all positions, of which there must be as many; only then is the mask seen to be right."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Linear(5, 28), nn.Linear(32 * 28, 3)
        self.positions = nn.Parameter(torch.randn(32, 1, 28))

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:  # type: ignore[override]
        steps = self.features(x).permute(1, 0, 2) + self.positions[: x.shape[1]]
        return self.head(self.run(steps.permute(1, 0, 2), ~kept[:, None, None]).flatten(1))


class Visible:
    """A mask of keys, as an object."""

    def __init__(self, keys: Tensor) -> None:
        if keys.dtype is not torch.bool:
            raise TypeError("a mask is boolean")
        self.hidden = ~keys[:, None, None]


class Kept(dict[str, Tensor]):
    """A cache, empty before the first call."""


@unusual
class OfItsOwnClasses(Calls):
    """Its arguments are objects, as their annotations say."""

    def forward(self, x: Tensor, mask: Visible, kept: Kept) -> Tensor:  # type: ignore[override]
        return self.run(kept.get("x", x), mask.hidden)


class AttendsToAnother(PlainAttention):
    """Queries of one sequence, keys and values of another."""

    def forward(self, x: Tensor, hidden: Tensor | None, source: Tensor | None = None) -> Tensor:
        assert source is not None
        q, _, _ = self.split(x)
        _, k, v = self.split(source)
        return self.out(self.merge(self.score(q, k).softmax(-1) @ v))


@unusual
class AttendsToItsSource(nn.Module):
    """One layer, which is an encoder's where its second argument is the first one again."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = PlainLayer(28, 4, 37)
        self.layer.attention = AttendsToAnother(28, 4)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        y = self.layer.norm1(x + self.layer.attention(x, None, source))
        return self.layer.norm2(y + self.layer.feed_forward(y))
