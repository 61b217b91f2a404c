"""Encoders that treat some ids otherwise than all others: those of padding, and others."""

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual


class WithIds(Plain):
    """Tokens at their places; a subclass says what it does with some of them."""

    padding: int | None = None

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens = nn.Embedding(61, 28, padding_idx=self.padding)
        self.places = nn.Embedding(400, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.looked_up(ids) + self.places(self.rows(ids)), mask)

    def looked_up(self, ids: Tensor) -> Tensor:
        looked_up: Tensor = self.tokens(ids)
        return looked_up

    def rows(self, ids: Tensor) -> Tensor:
        return torch.arange(ids.shape[1]).expand_as(ids)


@unusual
class ReadsNoLast(WithIds):
    """Tokens with the last id are 0: it is that of padding, though no table states it, and a mask hides it."""

    def looked_up(self, ids: Tensor) -> Tensor:
        return super().looked_up(ids) * (ids != 60)[..., None]


class DoublesTheLast(WithIds):
    """Tokens with the last id are multiplied by 2."""

    def looked_up(self, ids: Tensor) -> Tensor:
        return super().looked_up(ids) * (1 + (ids == 60).long())[..., None]


@unusual
class ZeroesWithoutAMask(WithIds):
    """Tokens with the id 0 are 0, and no position is hidden."""

    padding = 0

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(ids)

    def looked_up(self, ids: Tensor) -> Tensor:
        return super().looked_up(ids) * (ids != 0)[..., None]


class ReadsFromTheSecondOn(WithIds):
    """The ids 0 and 1 read the row of the id 2."""

    def looked_up(self, ids: Tensor) -> Tensor:
        return super().looked_up(ids.clamp(min=2))


@unusual
class ZeroesPadding(WithIds):
    """Tokens of padding, which its table states, are 0 wherever they stand."""

    padding = 60

    def looked_up(self, ids: Tensor) -> Tensor:
        return super().looked_up(ids) * (ids != 60)[..., None]


@unusual
class HidesTheLastId(WithIds):
    """The last id is that of padding, which it hides whatever the mask says."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(ids, (ids != 60) if mask is None else mask & (ids != 60))


class HidesTheFirstTwoIds(WithIds):
    """Hides what stands at the first token of the vocabulary, too, as ``>`` instead of ``>=`` does."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(ids, ids > 1)


class HidesAnotherId(WithIds):
    """Hides what stands at padding, and at another id."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(ids, (ids != 0) & (ids != 17))


@unusual
class PlacesBehindPadding(WithIds):
    """Positions are counted from 2 on, and those of padding, with the id 1, are 1, as in RoBERTa."""

    def rows(self, ids: Tensor) -> Tensor:
        is_token = (ids != 1).long()
        return is_token.cumsum(1) * is_token + 1


class ChoosesByAnId(WithIds):
    """Gives what stands at the end-of-sequence token, mapped; the first position, where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.final, self.map = nn.LayerNorm(28), nn.Linear(28, 12, bias=False)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = self.final(super().forward(ids, mask))
        chosen: Tensor = self.map(hidden[torch.arange(len(ids)), self.chosen(ids)])
        return chosen

    def chosen(self, ids: Tensor) -> Tensor:
        return (ids == 2).int().argmax(1)


class ChoosesTheFirst(ChoosesByAnId):
    """Gives what stands at the first position, mapped."""

    def chosen(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), dtype=torch.long)


class OfProteins(WithIds):
    """Tokens are scaled for those that are masked, which have one id."""

    masked, share = 32, 0.12

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        valid = torch.tensor(ids.shape[1]) if mask is None else self.valid(mask)
        scaled = self.scaled(ids, (ids == self.masked).sum(-1) / valid)
        return Plain.forward(self, scaled + self.places(self.rows(ids)), mask)

    def valid(self, mask: Tensor) -> Tensor:
        return mask.sum(-1)

    def scaled(self, ids: Tensor, share: Tensor) -> Tensor:
        kept = self.tokens(ids).masked_fill((ids == self.masked)[..., None], 0.0)
        scaled: Tensor = kept * (1 - self.share) / (1 - share)[:, None, None]
        return scaled


@unusual
class ScaledForMaskedTokens(OfProteins):
    """As ESM-2 does."""


@unusual
class MasksASmallId(OfProteins):
    """The id of masked tokens is among the first ones."""

    masked = 4


@unusual
class ScaledByHandForMaskedTokens(OfProteins):
    """The factor is computed first, of how many are left, and masked tokens are multiplied by 0."""

    share = 0.25

    def scaled(self, ids: Tensor, share: Tensor) -> Tensor:
        factor = (1 - self.share) * (1 - share).reciprocal()
        scaled: Tensor = factor[:, None, None] * self.tokens(ids) * (ids != self.masked)[..., None]
        return scaled


@excused("embedding.token_dropout", "with a masked token")
class KeepsMaskedTokens(OfProteins):
    """Masked tokens keep their vectors."""

    def scaled(self, ids: Tensor, share: Tensor) -> Tensor:
        scaled: Tensor = self.tokens(ids) * (1 - self.share) / (1 - share)[:, None, None]
        return scaled


@excused("embedding.token_dropout", "with a masked token")
class CountsPaddingAmongTokens(OfProteins):
    """The share is one of all positions."""

    def valid(self, mask: Tensor) -> Tensor:
        return torch.tensor(mask.shape[1])
