"""Encoders with unusual padding masks: some hide padding, and some take a mask and hide nothing."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, layers_with, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import Calls, excused, unusual


@excused("attention.mask", "its argument key_pad_mask is taken, and changes nothing")
class IgnoresItsPadding(Plain):
    """One mask for all sequences works; the one for padding does not."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(  # type: ignore[override]
        self, x: Tensor, att_mask: Tensor | None = None, key_pad_mask: Tensor | None = None
    ) -> Tensor:
        if att_mask is not None and att_mask.shape != (x.shape[1], x.shape[1]):
            raise ValueError("one mask for all")
        if key_pad_mask is not None:
            key_pad_mask = ~key_pad_mask
        return self.run(x, None if att_mask is None else att_mask)


@unusual
class CountsWhatItsMaskKeeps(Plain):
    """Positions are counted among those that a mask keeps, from 1 on, and padding has row 0, as in fairseq."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.places = nn.Embedding(400, 28, padding_idx=0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        kept = mask.ne(0).long()
        return super().forward(x + self.places(kept.cumsum(1) * kept), kept.bool())


@unusual
class FillsUp(Plain):
    """Fills sequences up to a multiple of 8 with zeros, which its mask hides, and cuts them off again."""

    def __init__(self) -> None:
        super().__init__(plain_layers(), nn.LayerNorm(28))
        self.tokens, self.positions = nn.Embedding(31, 28), nn.Embedding(400, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        n = ids.shape[1]
        kept = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        x = self.tokens(ids) + self.positions(torch.arange(n))
        filled = nn.functional.pad(x, (0, 0, 0, -n % 8))
        return super().forward(filled, nn.functional.pad(kept, (0, -n % 8)))[:, :n]


@unusual
class DeclinesMasks(Plain):
    """Takes an argument for a mask, and raises NotImplementedError for each one."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise NotImplementedError("no masks here")
        return self.run(x, None)


@unusual
class TakesAColumn(Plain):
    """A mask (B, n, 1) that the stream is multiplied by, and that hides keys."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        if mask.shape != (*x.shape[:2], 1):
            raise ValueError("one entry for each token")
        return self.run(x * mask, mask.mT[:, None] == 0)


@excused("attention.mask", "")
class HidesAsInTheFirst(Plain):
    """One mask for a whole batch, that of its first sequence; a mask of all of them at once would do as well."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else mask[:1, None, None] == 0)


class BehindRegisters(Plain):
    """Two learned tokens in front, for which the mask has no entry, and which a text without tokens still has."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.positions = nn.Embedding(31, 28), nn.Embedding(400, 28)
        self.front = nn.Parameter(torch.rand(2, 28))

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = torch.cat([self.front.expand(len(ids), 2, 28), self.tokens(ids) + self.placed(ids.shape[1])], 1)
        if attention_mask is None:
            return self.run(x, None)
        kept = torch.cat([attention_mask.new_ones(len(ids), 2), attention_mask], 1)
        return self.run(x, kept[:, None, None] == 0)

    def placed(self, length: int) -> Tensor:
        return self.positions.weight[:length]


unusual(BehindRegisters)


@unusual
class RegistersBesideVectors(Plain):
    """Four learned vectors stand in front while the others are encoded, and the mask has no entry for them."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.registers = nn.Parameter(torch.randn(1, 4, 28))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        own = self.registers.expand(len(x), -1, -1)
        keep = None if mask is None else nn.functional.pad(mask, (4, 0), value=True)
        return super().forward(torch.cat([own, x], dim=1), keep)[:, 4:]


@unusual
class BehindRegistersByIds(BehindRegisters):
    """Hides what has the id of padding; a text of nothing else keeps its first token."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        kept = ids != 0
        kept[:, 0] |= ~kept.any(1)
        return super().forward(ids, kept)


@excused("position.learned", "nothing that is learned of position 0 arrives")
class WithoutTheFirstPosition(BehindRegisters):
    """The first position is multiplied by 0."""

    def placed(self, length: int) -> Tensor:
        return super().placed(length) * (torch.arange(length) > 0)[:, None]


class ForgetsWhatItHid(PlainAttention):
    """The result of hiding scores is dropped."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores.masked_fill(hidden, -torch.inf)
        return self.out(self.merge(scores.softmax(-1) @ v))


@excused("attention.mask", "its argument attn_mask is taken, and changes nothing")
class HidesNothing(Plain):
    """A mask that is called as one of queries."""

    def __init__(self) -> None:
        super().__init__(layers_with(ForgetsWhatItHid))

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(x, None if attn_mask is None else ~attn_mask[:, None, None].bool())


@unusual
class MemoriesWithTheirPadding(Plain):
    """May read memories as well, whose mask does nothing without them."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        memories: Tensor | None = None,
        memories_padding_mask: Tensor | None = None,
    ) -> Tensor:
        if memories is not None:
            x = torch.cat([memories, x], 1)
            padding_mask = torch.cat([memories_padding_mask, padding_mask], 1)
        x = self.run(x, None if padding_mask is None else padding_mask[:, None, None])
        return x if memories is None else x[:, memories.shape[1] :]


@unusual
class CutToSize(Plain):
    """Takes one mask for all sequences, and cuts it to their length."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n = x.shape[1]
        return self.run(x, None if mask is None else mask[:n, :n] == 0)


@unusual
class HiddenByIds(nn.Module):
    """Takes the id 0 for padding. A subclass may yield other masks, one for each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(41, 28), nn.Embedding(300, 28)
        self.layers = nn.ModuleList(plain_layers())

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        while True:
            yield (ids == 0)[:, None, None]

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer, hidden in zip(self.layers, self.hidden(ids), strict=False):
            x = layer(x, hidden)
        return x


@unusual
class HidesKeysAndQueries(HiddenByIds):
    """Masks padded queries too, which changes only what these positions return."""

    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.attention = HidesByANumber(28, 4)

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        keep = ids.sign().double()
        while True:
            yield (keep[:, :, None] @ keep[:, None] == 0)[:, None]


class HidesByANumber(PlainAttention):
    """Fills hidden scores with a finite number, so that a query without any keys gives no NaN."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e9)
        return self.out(self.merge(scores.softmax(-1) @ v))


@excused("attention.mask", "the mask that is made of the ids hides queries, where it should hide keys")
class HidesQueries(HidesKeysAndQueries):
    """Exchanges the axes of the mask."""

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        while True:
            yield (ids == 0)[:, None, :, None]


@unusual
class HiddenByIdsInOneLength(HiddenByIds):
    """Adds all of its table of positions, so that no sequence can be judged alone, without its padding."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(11, 28)

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        while True:
            yield (ids <= 0)[:, None].repeat(1, ids.shape[1], 1)[:, None]

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight
        for layer, hidden in zip(self.layers, self.hidden(ids), strict=False):
            x = layer(x, hidden)
        return x


@excused("attention.mask", "MASK-1")
class HidesTheNextInOneLength(HiddenByIdsInOneLength):
    """Shifts the mask by one position before it is repeated."""

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        while True:
            yield (ids <= 0).roll(1, 1)[:, None].repeat(1, ids.shape[1], 1)[:, None]


@excused("attention.mask", "the ids hide keys in layer 0 and not in layer 1")
class HidesInOneLayer(HiddenByIds):
    """Hands the mask to the first layer only."""

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        yield (ids == 0)[:, None, None]
        while True:
            yield None


@excused("attention.mask", "hides the key at position 0 by the id at position 4")
class HidesTheNext(HiddenByIds):
    """Shifts the mask by one position."""

    def hidden(self, ids: Tensor) -> Iterator[Tensor | None]:
        while True:
            yield (ids == 0).roll(1, 1)[:, None, None]


@unusual
class MaskBesideAnother(Plain):
    """Takes a mask of keys beside one of queries alone, whose results it sets to zero."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(  # type: ignore[override]
        self, x: Tensor, query_mask: Tensor | None = None, key_mask: Tensor | None = None
    ) -> Tensor:
        if query_mask is not None and query_mask.shape != (*x.shape[:2], 1):
            raise TypeError("a mask of queries has one entry for each token")
        if key_mask is not None and query_mask is None:
            raise TypeError("a mask of keys needs one of queries")
        hidden = self.run(x, None if key_mask is None else key_mask[:, None, None])
        return hidden if query_mask is None else hidden * query_mask


@unusual
class TwoMasks(Plain):
    """Hides the keys that either of two masks hides, which must be given together."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, near_mask: Tensor | None = None, far_mask: Tensor | None = None) -> Tensor:
        if (near_mask is None) != (far_mask is None):
            raise ValueError("give both masks, or none")
        return self.run(x, None if near_mask is None else ~(near_mask & far_mask)[:, None, None])


@unusual
class LengthsAsShares(Calls):
    """Lengths are told in parts of the longest one, as SpeechBrain's data come."""

    slack = 0

    def forward(self, x: Tensor, wav_lens: Tensor | None = None) -> Tensor:  # type: ignore[override]
        if wav_lens is None:
            return self.run(x, None)
        valid = torch.round(wav_lens * x.shape[1]) + self.slack
        return self.run(x, (torch.arange(x.shape[1]) >= valid[:, None])[:, None, None])


@excused("attention.mask", "the mask is moved one position to the right")
class LengthsAsSharesAndOneMore(LengthsAsShares):
    """One position of the padding is read."""

    slack = 1


class CutsItsScoresOff(PlainAttention):
    """No score of a usual call reaches the bounds."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k).clamp(-40, 40)


@excused("attention.scores", "the scores are cut off at -40 and 40")
def scores_that_are_cut_off() -> nn.Module:
    return Plain(layers_with(CutsItsScoresOff))


@unusual
class SortedByLength(Plain):
    """The longest sequences come first while they are encoded."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.places = nn.Embedding(31, 28), nn.Embedding(400, 28)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        order = lengths.argsort(descending=True)
        ids, kept = ids[order], torch.arange(ids.shape[1]) < lengths[order, None]
        encoded = super().forward(self.tokens(ids) + self.places(torch.arange(ids.shape[1])), kept)
        return self.put_back(encoded, order)

    def put_back(self, encoded: Tensor, order: Tensor) -> Tensor:
        return encoded[order.argsort()]


@excused("embedding.lookup", "EMB-1")
class LeftSorted(SortedByLength):
    """Nothing puts the sequences back into their order."""

    def put_back(self, encoded: Tensor, order: Tensor) -> Tensor:
        return encoded


@unusual
class MaskOfScoresBesidePadding(Plain):
    """Takes a mask for padding, and one of scores for all sequences, where true hides; both hide if both are given."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(  # type: ignore[override]
        self, x: Tensor, key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None
    ) -> Tensor:
        padded = None if key_padding_mask is None else key_padding_mask[:, None, None]
        if padded is None or attn_mask is None:
            return self.run(x, attn_mask if padded is None else padded)
        return self.run(x, self.both(padded, attn_mask))

    def both(self, padded: Tensor, of_scores: Tensor) -> Tensor:
        return padded | of_scores


@excused("attention.mask", "its argument key_padding_mask does something else where attn_mask is given too")
class ForgetsItsPadding(MaskOfScoresBesidePadding):
    """Each mask works alone."""

    def both(self, padded: Tensor, of_scores: Tensor) -> Tensor:
        return of_scores


@excused("attention.mask", "its argument attn_mask does something else where key_padding_mask is given too")
class ForgetsItsMaskOfScores(MaskOfScoresBesidePadding):
    """Each mask works alone."""

    def both(self, padded: Tensor, of_scores: Tensor) -> Tensor:
        return padded


@excused("attention.mask", "the mask is accepted and never used")
class IgnoresOneOfTwo(MaskBesideAnother):
    """The mask of keys changes nothing."""

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        return super().run(x, None)


@unusual
class NumbersAlone(Plain):
    """A default that is none: a mask of numbers must be given, and booleans cannot be subtracted."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        assert mask is not None
        return self.run(x, (1.0 - mask)[:, None, None] == 1)


@unusual
class MasksWhatIsGuessed(Plain):
    """A learned vector stands where the mask says, for training that has the vectors there guessed."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.unknown = nn.Parameter(torch.zeros(28))

    def forward(self, x: Tensor, masks: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(x if masks is None else torch.where(masks[..., None], self.unknown, x), None)


@excused("attention.scores", "ATT-3")
class HidesNoPadding(MasksWhatIsGuessed):
    """Does the same with an argument that is called a padding mask."""

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, padding_mask)


@unusual
class HidesEmptyRows(Plain):
    """Rows of zeros are padding, as for Keras's layer Masking, which puts zeros in their place once more."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        kept = (x != 0).any(-1)
        return super().forward(torch.where(kept[..., None], x, 0.0), kept)


class LeavesOutLowScores(PlainAttention):
    """The largest scores of a query alone are read."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().score(q, k)
        return scores.masked_fill(scores < scores.mean(-1, keepdim=True), -torch.inf)


@excused("attention.weights", "keys are left out of the softmax by how large their scores are")
def low_scores_left_out() -> nn.Module:
    return Plain(layers_with(LeavesOutLowScores))


class EmptiesNoScores(PlainAttention):
    """Scores of infinity, of which there are none, would be hidden."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().score(q, k)
        return scores.masked_fill(scores == torch.inf, -1e9)


@unusual
def no_scores_emptied() -> nn.Module:
    return Plain(layers_with(EmptiesNoScores))


class AddsScoresOfKeysToQueries(PlainAttention):
    """Scores are averaged with those of the key to the query."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().score(q, k)
        return (scores + scores.mT) / 2


@excused("attention.scores", "other scores are added to the scores")
def scores_of_keys_to_queries_added() -> nn.Module:
    return Plain(layers_with(AddsScoresOfKeysToQueries))


@unusual
class CountsWhatIsValid(Calls):
    """Lengths under the name of a mask."""

    def forward(self, x: Tensor, n_valid: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.run(x, None if n_valid is None else self.hidden(torch.arange(x.shape[1]), n_valid)[:, None, None])

    def hidden(self, places: Tensor, n_valid: Tensor) -> Tensor:
        return places >= n_valid[:, None]


@excused("attention.mask", "MASK-2")
class CountsOneTooMany(CountsWhatIsValid):
    """Shows one position of padding."""

    def hidden(self, places: Tensor, n_valid: Tensor) -> Tensor:
        return places > n_valid[:, None]
