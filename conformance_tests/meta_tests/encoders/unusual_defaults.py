"""Encoders whose optional ids of segments and positions mean something where they are left out."""

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.unusual_calls import excused, unusual


class Numbered(Plain):
    """Ids of segments and positions may be given; a subclass says what is taken where they are not."""

    padding: int | None = None

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens = nn.Embedding(31, 28, padding_idx=self.padding)
        self.places, self.kinds = nn.Embedding(400, 28), nn.Embedding(2, 28)

    def forward(  # type: ignore[override]
        self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor:
        kinds = self.default_segments(ids) if segments is None else segments
        rows = self.default_places(ids) if places is None else self.given_places(places)
        return super().forward(self.tokens(ids) + self.places(rows) + self.kinds(kinds), mask)

    def default_segments(self, ids: Tensor) -> Tensor:
        return torch.zeros_like(ids)

    def default_places(self, ids: Tensor) -> Tensor:
        return torch.arange(ids.shape[1]).expand_as(ids)

    def given_places(self, places: Tensor) -> Tensor:
        return places


@excused("embedding.segments", "where segments is left out, every token is of segment 1, and 0 belongs there")
class SecondSegmentByDefault(Numbered):
    """Given ids of segments are read rightly."""

    def default_segments(self, ids: Tensor) -> Tensor:
        return torch.ones_like(ids)


@unusual
class SegmentsBehindPadding(Numbered):
    """The first row of its segments is that of padding, and the second one is the default."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(3, 28, padding_idx=0)

    def default_segments(self, ids: Tensor) -> Tensor:
        return torch.ones_like(ids)


@excused("position.learned", "where places is left out, positions are what -1, 0, … give there")
class GivenPlacesAreShifted(Numbered):
    """Without ids of positions it begins with row 0."""

    def given_places(self, places: Tensor) -> Tensor:
        return places + 1


@excused("position.learned", "where places numbers the positions of each sequence, some get those of another one")
class PlacesOfTheFirst(Numbered):
    """All sequences have the positions of the first one."""

    def given_places(self, places: Tensor) -> Tensor:
        return places[:1]


@excused("position.learned", "tokens do not get those of their numbers")
class CountsFromTheFirstPlace(Numbered):
    """The first token has the place that is given, and those behind it the next ones."""

    def given_places(self, places: Tensor) -> Tensor:
        return places[:, :1] + torch.arange(places.shape[1])


@unusual
class IgnoresGivenPlaces(Numbered):
    """Counts positions itself, whatever it is given."""

    def given_places(self, places: Tensor) -> Tensor:
        return self.default_places(places)


class CountsFromOne(Numbered):
    """Given positions are rows, and those that it counts begin with row 1."""

    def default_places(self, ids: Tensor) -> Tensor:
        return super().default_places(ids) + 1


@unusual
class CountsFromOneBehindPadding(CountsFromOne):
    """Row 0 is kept for padding, as in RoBERTa."""

    padding = 0


@unusual
class RowsBehindAnOffset(Numbered):
    """Positions are counted from 0, given or not, and stand in rows from 2 on, as in OPT."""

    def default_places(self, ids: Tensor) -> Tensor:
        return self.given_places(super().default_places(ids))

    def given_places(self, places: Tensor) -> Tensor:
        return places + 2


@excused("position.learned_offset", "position 0 reads row")
class ReadsItsTableFromTheEnd(Numbered):
    """The last position always reads the last row."""

    def default_places(self, ids: Tensor) -> Tensor:
        return super().default_places(ids) + 400 - ids.shape[1]
