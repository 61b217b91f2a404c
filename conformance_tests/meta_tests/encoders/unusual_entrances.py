"""Correct encoders whose inputs come in ways of their authors, and a wrong one: lengths, axes, patches and ids."""

import itertools
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
from conformance_tests.meta_tests.encoders.unusual_calls import Tokens, excused, unusual


@unusual
class OneLength(nn.Module):
    """Takes seven positions and no other number: the one that the suite happens to choose."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = PlainLayer(24, 4, 40)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(len(x), 7, 24))


@unusual
class LengthKept(nn.Module):
    """Takes as many positions as a part of it keeps as a number, which no array tells."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.positions = PlainLayer(24, 4, 40), 10

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(len(x), self.positions, 24))


@unusual
class MomentsAsPatches(nn.Module):
    """Patches of a spectrogram: all of its six frequencies at two moments."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.places = nn.Conv2d(1, 28, (6, 2), stride=(6, 2)), nn.Parameter(torch.randn(1, 8, 28))
        self.layers = Plain(plain_layers())

    def forward(self, spectrogram: Tensor) -> Tensor:
        return self.layers(self.patches(spectrogram) + self.places)

    def patches(self, spectrogram: Tensor) -> Tensor:
        return self.map(spectrogram).flatten(2).mT


@unusual
class MomentsFlattened(MomentsAsPatches):
    """Maps flattened patches of a spectrogram: the map tells their area alone."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(12, 28)

    def patches(self, spectrogram: Tensor) -> Tensor:
        cut = spectrogram[:, 0].unflatten(-1, (-1, 2)).permute(0, 2, 3, 1)
        return self.map(cut.flatten(2))


@excused("attention.scores", "the scores are multiplied by 0.142857, where 1/√7 = 0.377964 belongs")
class MomentsWithWrongScores(MomentsFlattened):
    """Maps flattened patches, and divides the scores by d_k."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Plain(layers_with(DividedByTheWidth))


class DividedByTheWidth(PlainAttention):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / q.shape[-1]


@unusual
class CutOutByAProduct(nn.Module):
    """Patches are cut out by a product with zeros and ones."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.layers = nn.Linear(48, 28), Plain(plain_layers())

    def forward(self, images: Tensor) -> Tensor:
        taking = torch.eye(48, dtype=images.dtype).reshape(48, 3, 4, 4)
        x = self.map(torch.nn.functional.conv2d(images, taking, stride=4).flatten(2).mT)
        return self.layers(x + waves(x))


@unusual
class OneSquareAlone(nn.Module):
    """Takes images of one size, which no table tells."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.layers = nn.Conv2d(3, 28, 4, stride=4), Plain(plain_layers())

    def forward(self, images: Tensor) -> Tensor:
        assert images.shape[-2:] == (12, 12)
        x = self.map(images).flatten(2).mT
        return self.layers(x + waves(x))


@unusual
class PositionsOfTheInputsType(nn.Module):
    """Keeps its sinusoids in the type of its last input: ids would leave nothing of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.places = Plain(plain_layers()), waves(torch.zeros(1, 300, 28))

    def forward(self, x: Tensor) -> Tensor:
        self.places = self.places.to(x.dtype)
        return self.layers(28**0.5 * x + self.places[: x.shape[1]])


def waves(x: Tensor) -> Tensor:
    """Sinusoids (n, d) for vectors (B, n, d)."""
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * 10000.0 ** -(torch.arange(0, 28, 2) / 28)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(x.dtype)


@unusual
class PatchesInARow(nn.Module):
    """Flattened patches behind a class token: the table of positions has one row more than there are patches."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(48, 28)
        self.token, self.places = (nn.Parameter(torch.randn(1, n, 28)) for n in (1, 10))
        self.layers = Plain(plain_layers())

    def forward(self, patches: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(patches), -1, -1), self.map(patches)], dim=1)
        return self.layers(x + self.places)


@excused("position.learned", "the positions are sinusoids with other frequencies")
class WavesOverTheFirstAxis(Plain):
    """Each call makes sinusoids of wrong frequencies, for sequences (n, B, d)."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        places = torch.arange(len(x), dtype=x.dtype)[:, None]
        rates = 10000.0 ** -(2 * torch.arange(x.shape[-1], dtype=x.dtype) / x.shape[-1])
        waves = torch.where(torch.arange(x.shape[-1]) % 2 == 0, (places * rates).sin(), (places * rates).cos())
        return super().forward((x + waves[:, None]).transpose(0, 1)).transpose(0, 1)


@excused("position.learned", "the positions are sinusoids with other frequencies")
class FrozenWaves(Tokens):
    """Sinusoids of wrong frequencies are kept as a parameter that is not learned."""

    def __init__(self) -> None:
        super().__init__()
        rates = 10000.0 ** -(2 * torch.arange(28.0) / 28)
        angles = torch.arange(20.0)[:, None] * rates
        even = torch.arange(28) % 2 == 0
        self.position_table = nn.Parameter(torch.where(even, angles.sin(), angles.cos()), requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids) + self.position_table[: ids.shape[1]], None)


@unusual
class PositionsOnTheirSide(Tokens):
    """Stores the table of positions transposed: one column for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.position_table = nn.Parameter(torch.randn(28, 20))

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids) + self.position_table[:, : ids.shape[1]].mT, None)


@excused("attention.scores", "the scores are multiplied by 0.142857, where")
class WindowsOfASignal(Plain):
    """Cuts a signal into windows that nothing maps, and divides the scores by d_k."""

    def __init__(self) -> None:
        super().__init__(layers_with(DividedByTheWidth))
        self.places = nn.Parameter(torch.randn(6, 28))

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(x.reshape(len(x), 6, 28) + self.places, None)


@unusual
class StretchesItsTable(Plain):
    """Interpolates its positions for images of another size; no attribute holds the size they belong to."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.patches, self.places = nn.Conv2d(3, 28, 8, 8), nn.Parameter(torch.randn(1, 9, 28))
        self.side = 8

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        x = self.patches(image)
        grid, places = x.shape[2:], self.places
        if tuple(grid) != (3, 3):
            table = places.mT.reshape(1, 28, 3, 3)
            places = nn.functional.interpolate(table, grid, mode="bilinear").flatten(2).mT
        return self.run(x.flatten(2).mT + places, None)


@unusual
class TokenAndPositionsFirst(nn.Module):
    """Reads features (n, B, f), puts a class token before them, and adds positions (n + 1, 1, d)."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(11, 28)
        self.token, self.places = (nn.Parameter(torch.randn(n, 1, 28)) for n in (1, 12))
        self.layers = Plain(plain_layers())

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(-1, x.shape[1], -1), self.map(x)])
        return self.layers((x + self.places[: len(x)]).transpose(0, 1)).transpose(0, 1)


@unusual
class ActivatedFeatures(nn.Module):
    """Positions are added behind a map and its activation; the layers have the positions first, and a head follows."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.head = nn.Linear(11, 28), nn.Linear(28, 5)
        self.places = nn.Parameter(torch.randn(1, 30, 28))
        layer = nn.TransformerEncoderLayer(28, 4, 37)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.map(x).relu() + self.places[:, : x.shape[1]]
        return self.head(self.encoder(x.transpose(0, 1)).transpose(0, 1).amax(1)).log_softmax(-1)


@unusual
class HidesItsOwnId(Tokens):
    """The id 13 is that of padding, and no argument says where it stands."""

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.embedded(ids), (ids == 13)[:, None, None])


@unusual
class AsWideAsItsPatches(nn.Module):
    """Maps flattened patches to as many features as they have entries, as ViT-B/16 does, and keeps no table."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(48, 48)
        self.layers = Plain([PlainLayer(48, 4, 40) for _ in range(2)])

    def forward(self, images: Tensor) -> Tensor:
        patches = images.unflatten(-2, (-1, 4)).unflatten(-1, (-1, 4)).permute(0, 2, 4, 3, 5, 1)
        x = self.map(patches.flatten(3).flatten(1, 2))
        places = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        angles = places * 10000.0 ** -(torch.arange(0, 48, 2, dtype=x.dtype) / 48)
        return self.layers(x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))


@unusual
class ClassesOfOneSequence(nn.Module):
    """Looks up the ids of one sequence without a batch, and tells classes of its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(31, 28), nn.Embedding(300, 28)
        self.layer, self.classes = PlainLayer(28, 4, 37), nn.Linear(28, 3)

    def forward(self, ids: Tensor) -> Tensor:
        (n,) = ids.shape
        x = self.table(ids) + self.places(torch.arange(n))
        return self.classes(self.layer(x[None])[0]).log_softmax(-1)


@unusual
class ClassesOfFlattenedIds(ClassesOfOneSequence):
    """Ids of any shape become one sequence, so that batches are not refused."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids.reshape(-1))


@unusual
class ClassesOfAllPositions(nn.Module):
    """A map of all positions side by side is behind the layers, and tells how many they are."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.layers, self.classes = nn.Linear(5, 28), Plain(plain_layers()), nn.Linear(9 * 28, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.layers(self.map(x)).flatten(1))


@unusual
class PositionsAreGiven(nn.Module):
    """Asks for the vectors of positions, which it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Plain(plain_layers())

    def forward(self, x: Tensor, pe: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layers(x + pe, mask)


@excused("encoder", "the call changed its own input or mask")
class PositionsAreWritten(PositionsAreGiven):
    """Adds them in place: zeros leave the numbers, and are written into the caller's input all the same."""

    def forward(self, x: Tensor, pe: Tensor, mask: Tensor | None = None) -> Tensor:
        x += pe
        return self.layers(x, mask)


@unusual
class PositionsFirstWithLengths(Tokens):
    """Takes ids (n, B), asks for the length of each sequence, and for whether to look back alone."""

    def forward(self, ids: Tensor, lengths: Tensor, causal: bool) -> Tensor:  # type: ignore[override]
        n, samples = ids.shape
        assert len(lengths) == samples
        assert not causal
        hidden = torch.arange(n) >= lengths[:, None]
        x = self.embedded(ids.T)
        return self.run(x, hidden[:, None, None]).transpose(0, 1)


@unusual
class PositionsFirstWithSegments(Tokens):
    """Takes ids and segments (n, B), and booleans (B, n) that are true for padding."""

    def __init__(self) -> None:
        super().__init__()
        self.segments = nn.Embedding(2, 28)

    def forward(  # type: ignore[override]
        self, ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> Tensor:
        if attention_mask is not None and attention_mask.dtype is not torch.bool:
            raise TypeError("masks are booleans")
        kinds = torch.zeros_like(ids) if token_type_ids is None else token_type_ids
        hidden = None if attention_mask is None else attention_mask[:, None, None]
        return self.run(self.embedded(ids.T) + self.segments(kinds.T), hidden).transpose(0, 1)


@unusual
class WidenedBeforePositions(Tokens):
    """Widens its tokens, and adds positions and segments then."""

    def __init__(self) -> None:
        super().__init__()
        self.token_table, self.wide = nn.Embedding(41, 9), nn.Linear(9, 28)
        self.segments = nn.Embedding(2, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None) -> Tensor:
        kinds = torch.zeros_like(ids) if segment_ids is None else segment_ids
        x = self.wide(self.token_table(ids)) + self.position_table.weight[: ids.shape[1]] + self.segments(kinds)
        return Plain.forward(self, x, mask)


@unusual
class SeveralKinds(Tokens):
    """Tokens are of several kinds, each with its table: two by their ids, and one that is 0 in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.visits, self.ages, self.strands = nn.Embedding(2, 28), nn.Embedding(3, 28), nn.Embedding(2, 28)

    def forward(self, ids: Tensor, visit_ids: Tensor, ages: Tensor) -> Tensor:  # type: ignore[override]
        strands = torch.zeros_like(ids)
        x = self.embedded(ids) + self.strands(strands) + self.ages(ages) + self.visits(visit_ids)
        return self.run(x, None)


@excused("position.sinusoidal", "nothing is added to the tokens that tells their positions")
class KindsInThePlaceOfPositions(SeveralKinds):
    """None of the kinds tells where a token stands."""

    def embedded(self, ids: Tensor) -> Tensor:
        return self.token_table(ids)


@unusual
class TouchesAndStrands(Tokens):
    """Two optional arguments number rows of tables, both of which it reads at 0 where they are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.touches, self.strands = nn.Embedding(13, 28), nn.Embedding(4, 28)

    def forward(  # type: ignore[override]
        self, ids: Tensor, touches: Tensor | None = None, mask: Tensor | None = None, strand: Tensor | None = None
    ) -> Tensor:
        touches = torch.zeros(*ids.shape, 2, dtype=torch.long) if touches is None else touches
        x = self.embedded(ids) + self.touches(touches[..., 0]) + self.touches(touches[..., 1])
        return super().forward(x + self.strands(torch.zeros_like(ids) if strand is None else strand), mask)


@excused("position.learned", "off by")
class EndsOneRowEarly(Tokens):
    """Its last position reads the row before its own."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = torch.arange(ids.shape[1]).clamp(max=len(self.position_table.weight) - 2)
        return super().forward(self.token_table(ids) + self.position_table(rows), mask)


@unusual
class OrderByIds(Tokens):
    """Asks for the places of its tokens, under a name that does not tell."""

    def forward(self, ids: Tensor, order: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.token_table(ids) + self.position_table(order), None)


@unusual
class FeaturesBeforePositions(Plain):
    """Its table of positions has the features first, as its tokens have when it is added."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.places = nn.Embedding(31, 28), nn.Parameter(torch.randn(1, 28, 400))

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run((self.tokens(ids).mT + self.places[..., : ids.shape[1]]).mT, None)


@excused("encoder", "layers should be an nn.ModuleList")
class EndsInAList(nn.Module):
    """Its layers stand in a plain list, behind whose last one nothing but classes follows."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(31, 28), nn.Embedding(400, 28)
        self.layers, self.classes = plain_layers(), nn.Linear(28, 5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        classes: Tensor = self.classes(x[:, 0])
        return classes


@excused("encoder", "1 parameters influence nothing: kinds.weight")
class LooksUpItsSegments(Plain):
    """Kinds of tokens are looked up, and not added."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.places, self.kinds = nn.Embedding(31, 28), nn.Embedding(400, 28), nn.Embedding(2, 28)

    def forward(self, ids: Tensor, token_type_ids: Tensor) -> Tensor:  # type: ignore[override]
        self.kinds(token_type_ids)
        return self.run(self.tokens(ids) + self.places(torch.arange(ids.shape[1])), None)


@excused("position.learned", "positions are added along the first axis of what enters its layers, and attention runs")
class PlacesItsSamples(Plain):
    """Adds a table of positions (n, 1, d), which is made for inputs with the positions first, to a batch."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tokens, self.places = nn.Embedding(31, 28), nn.Parameter(torch.randn(400, 1, 28))

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.run(self.tokens(ids) + self.places[: len(ids)], None)


@excused("attention.scores", "positions are added along the second axis of what enters its layers, and attention runs")
class AttendsToSamples(nn.Module):
    """Hands a batch to layers that are made for inputs with the positions first."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(31, 28), nn.Parameter(torch.randn(1, 400, 28))
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(28, 4, 37, 0.0), 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        attended: Tensor = self.layers(self.tokens(ids) + self.places[:, : ids.shape[1]])
        return attended


class AddsATable(PlainPreNorm):
    """Adds a table of all pairs of twelve positions to the scores: it hides none of them."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.pairs = torch.zeros(12, 12)
        self.attention.score = lambda q, k: q @ k.mT / self.attention.scale + self.pairs.to(q.dtype)  # type: ignore[method-assign]


class TextBesideImages(nn.Module):
    """Two towers, of which a method calls one: for texts of twelve tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.token_table, self.places = nn.Embedding(41, 32), nn.Parameter(torch.randn(12, 32) / 10)
        self.layers, self.norm = nn.ModuleList(AddsATable(32, 4, 128) for _ in range(2)), nn.LayerNorm(32)
        self.map, self.first = nn.Conv2d(3, 64, 8, stride=8, bias=False), nn.Parameter(torch.randn(64))
        self.of_patches = nn.Parameter(torch.randn(17, 64))
        self.of_images = nn.ModuleList(PlainPreNorm(64, 4, 256) for _ in range(2))
        self.before, self.behind = nn.LayerNorm(64), nn.LayerNorm(64)

    def encode_text(self, ids: Tensor) -> Tensor:
        x = (self.token_table(ids) + self.places).permute(1, 0, 2)  # refuses one feature, later than other lengths
        x = x.permute(1, 0, 2)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


@unusual
def text_beside_images() -> Callable[[Tensor], Tensor]:
    return TextBesideImages().encode_text


class EndToEnd(Tokens):
    """All sequences stand in one axis, and another argument tells where each begins."""

    def forward(self, ids: Tensor, starts: Tensor) -> Tensor:  # type: ignore[override]
        places = torch.arange(len(ids))
        which = self.sequence_of(torch.searchsorted(starts[1:].contiguous(), places, right=True))
        x = self.token_table(ids) + self.position_table(places - starts[which])
        return self.run(x[None], which[:, None] != which)[0]

    def sequence_of(self, which: Tensor) -> Tensor:
        """Return the number of each token's sequence."""
        return which


@unusual
def end_to_end() -> nn.Module:
    return EndToEnd()


@unusual
class CutApart(EndToEnd):
    """Computes one sequence after the other."""

    def forward(self, ids: Tensor, starts: Tensor) -> Tensor:  # type: ignore[override]
        bounds = starts.tolist()
        cut = [(ids[a:b], torch.tensor([0, b - a])) for a, b in itertools.pairwise(bounds)]
        return torch.cat([EndToEnd.forward(self, *one) for one in cut])


@unusual
class CutApartBesideALength(CutApart):
    """Is told how long the longest sequence is, too: nothing is padded up to there."""

    def forward(self, ids: Tensor, starts: Tensor, max_len: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(ids, starts)


class SeesTheNextSequence(EndToEnd):
    """Takes the first two sequences for one."""

    def sequence_of(self, which: Tensor) -> Tensor:
        return which.where(which != 1, 0)


@excused("position.learned", "Z of sample 0 alone")
def end_to_end_sees_the_next_sequence() -> nn.Module:
    return SeesTheNextSequence()


class FillsUp(Tokens):
    """Fills its sequences up to a multiple of 8 positions, as kernels ask for it, and attends to what is filled in."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        n = ids.shape[1]
        x = nn.functional.pad(self.embedded(ids), (0, 0, 0, -n % 8))
        keep = torch.ones(ids.shape, dtype=torch.bool) if mask is None else mask
        return self.run(x, ~self.kept(keep, -n % 8)[:, None, None])[:, :n]

    def kept(self, keep: Tensor, more: int) -> Tensor:
        return nn.functional.pad(keep, (0, more), value=True)


excused("attention.mask", "what a sequence is filled up with inside of the encoder is attended to")(FillsUp)


@unusual
class FillsUpAndHidesThat(FillsUp):
    """Does the same, and hides it."""

    def kept(self, keep: Tensor, more: int) -> Tensor:
        return nn.functional.pad(keep, (0, more), value=False)
