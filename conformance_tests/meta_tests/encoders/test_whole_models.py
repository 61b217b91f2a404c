"""Models with something behind their encoder are judged up to the hidden states, and the report says where that is."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.ambiguous_models import TwoEncoders
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, layers_with, plain_layers


class Tokens(Plain):
    """A stack behind tables of tokens and positions."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.token_embedding = nn.Embedding(31, 28)
        self.position_embedding = nn.Embedding(23, 28)

    def states(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        return super().forward(self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]], mask)


class LanguageModel(Tokens):
    """A map to the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.lm_head = nn.Linear(28, 31)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, None]:  # type: ignore[override]
        return self.lm_head(self.states(ids, mask)), None


class TiedLanguageModel(Tokens):
    """The scores of the vocabulary by its table of embeddings, without a bias."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.states(ids, mask) @ self.token_embedding.weight.mT


class SentenceVector(Tokens):
    """The mean over the valid positions, of length 1."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(ids.shape) if mask is None else mask
        return nn.functional.normalize((self.states(ids, mask) * keep[..., None]).sum(1), dim=-1)


class EveryLayer(Plain):
    """Stacks the results of all layers in one array."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        given = []
        for layer in self.layers:
            x = layer(x, None if mask is None else ~mask[:, None, None])
            given.append(x)
        return torch.stack(given)


class PatchesAlone(Plain):
    """Returns what becomes of the patches, and not of the class token before them."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.patches = nn.Conv2d(3, 28, 4, 4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 28))
        self.positions = nn.Parameter(torch.randn(1, 5, 28))

    def forward(self, image: Tensor) -> Tensor:  # type: ignore[override]
        patches = self.patches(image).flatten(2).mT
        tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], 1)
        return super().forward(tokens + self.positions)[:, 1:]


class MaskedItems(Tokens):
    """Two maps with GELU between them: a head that might be a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(28, 41), nn.Linear(41, 31)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.second(nn.functional.gelu(self.first(self.states(ids, mask))))


class Reconstruction(Tokens):
    """A map and ReLU, without a slot, which give vectors as wide as the hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.back = nn.Linear(28, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.back(self.states(ids, mask)).relu()


class Pooled(Tokens):
    """Each class is the mean over the valid positions, so that nothing that comes back has positions."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Linear(28, 5)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(ids.shape) if mask is None else mask.float()
        return self.classes((self.states(ids, mask) * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1))


@pytest.mark.parametrize(
    ("make", "behind"),
    [
        (LanguageModel, " (lm_head.bias, lm_head.weight)"),
        (TiedLanguageModel, ""),
        (EveryLayer, ""),
        (PatchesAlone, ""),
        (MaskedItems, " (first.bias, first.weight, second.bias, second.weight)"),
        (Reconstruction, " (back.bias, back.weight)"),
    ],
)
def test_a_model_is_judged_up_to_its_hidden_states(make: type[nn.Module], behind: str) -> None:
    """The first note names the part that returns them, and the parameters behind it."""
    target = check(make()).targets[0]
    assert target.verdict == "conformant", target.notes + [r.message for r in target.of("fail")]
    assert target.level == "gradient"
    assert target.notes[0] == f"judged up to what its part `layers.1` returns, without what follows{behind}"


class LastOfPadding(Tokens):
    """Reads the last position, padding or not."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.states(ids, mask)[:, -1]


class LargestOverPadding(Tokens):
    """The largest value of each feature, of length 1; padding counts as 0."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(ids.shape) if mask is None else mask.float()
        return nn.functional.normalize((self.states(ids, mask) * keep[..., None]).amax(1), dim=-1)


class LastByCount(Tokens):
    """Reads the position that the number of valid ones tells."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        Z = self.states(ids, mask)
        number = torch.full((len(ids),), ids.shape[1]) if mask is None else mask.long().sum(1)
        return Z[torch.arange(len(ids)), number - 1]


class SharedSpace(Tokens):
    """A projection without a bias of the first position, of length 1, beside the hidden states of the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Parameter(torch.randn(28, 28))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:  # type: ignore[override]
        vector = self.states(ids, mask)[:, 0] @ self.projection
        return {"norm": vector.norm(dim=-1), "vector": vector / vector.norm(dim=-1, keepdim=True)}


class NormedClass(Pooled):
    """Norms the first position alone, and maps it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classes(self.norm(self.states(ids, mask)[:, 0]))


class MeanOverPadding(Pooled):
    """Classes of the mean over all positions."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classes(self.states(ids, mask).mean(1))


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        (SentenceVector, {"head": "pooled", "pool": "mean", "length": "unit"}),
        (Pooled, {"head": "classifier", "pool": "mean", "length": "any"}),
        (LastByCount, {"head": "pooled", "pool": "counted", "length": "any"}),
        (SharedSpace, {"head": "classifier", "pool": "first", "length": "unit"}),
        (NormedClass, {"final_norm": "norm", "head": "classifier", "pool": "first", "length": "any"}),
    ],
)
def test_a_model_is_judged_with_its_head(make: type[nn.Module], choices: dict[str, str]) -> None:
    """The report names the head, and each of its requirements passes; a sum has no mean before it is normed."""
    target = check(make()).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient"), target.notes
    assert {slot: target.profile["choices"].get(slot) for slot in choices} == choices
    assert (
        target.notes[0] == "its hidden states are what its part `layers.1` returns; what follows is judged as its head"
    )
    of_head = {r.id: r.outcome for r in target.requirements if r.id.startswith("HEAD")}
    assert "HEAD-1" not in of_head
    assert len(of_head) == 3
    assert set(of_head.values()) <= ({"pass", "unsupported"} if make is SentenceVector else {"pass"})


@pytest.mark.parametrize(
    ("make", "requirement", "deviation"),
    [
        (MeanOverPadding, "HEAD-3", "mean-counts-padding"),
        (LastOfPadding, "HEAD-8", "last-of-padding"),
        (LargestOverPadding, "HEAD-9", "largest-of-zeroed-padding"),
    ],
)
def test_a_head_that_reads_padding_is_found_and_named(make: type[nn.Module], requirement: str, deviation: str) -> None:
    """The hidden states are right, and no requirement of theirs fails."""
    target = check(make()).targets[0]
    assert target.verdict == "nonconformant", target.notes
    assert requirement in {r.id for r in target.of("fail")} <= {requirement, "HEAD-6", "HEAD-7", "HEAD-11"}
    assert target.diagnosis[0]["deviation"] == deviation
    assert str(target.departs_at).startswith("head.")


class ClassesOfZeros(Pooled):
    """A classifier of the last position, whose map is 0 as that of a new one often is."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.classes.weight)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classes(self.states(ids, mask)[:, -1])


def test_a_map_of_zeros_does_not_hide_what_it_reads() -> None:
    """Every pool gives the same with it; it has its zeros again afterwards."""
    model = ClassesOfZeros()
    target = check(model).targets[0]
    assert target.diagnosis[0]["deviation"] == "last-of-padding"
    assert not model.classes.weight.any()


class MaskOfAttention(Pooled):
    """Takes a mask with a row for each query, which leaves the mean to all positions."""

    def forward(self, ids: Tensor, attn_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, None if attn_mask is None else ~attn_mask.expand(len(ids), ids.shape[1], -1)[:, None])
        return self.classes(x.mean(1))


def test_a_mask_of_attention_says_nothing_of_padding() -> None:
    """Only what an encoder is told to be padding is kept from its mean."""
    target = check(MaskOfAttention()).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    assert (target.profile["choices"]["head"], target.profile["choices"]["pool"]) == ("classifier", "mean")
    assert "mask" in target.profile["conventions"]


class SeveralLayers(Pooled):
    """Classes by two maps behind a norm, of one vector for each sequence: its mean, unless something else is read."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Sequential(nn.LayerNorm(28), nn.Linear(28, 7), nn.Tanh(), nn.Linear(7, 5))  # type: ignore[assignment]

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(ids.shape, dtype=torch.bool) if mask is None else mask
        return self.classes(self.read(self.states(ids, mask), keep[..., None]))

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return (Z * keep).sum(1) / keep.sum(1)


class OfTheFirst(SeveralLayers):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return Z[:, 0]


class OfTheLargest(SeveralLayers):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return Z.masked_fill(~keep, -torch.inf).amax(1)


class OfEveryPosition(SeveralLayers):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return Z.mean(1)


class DividedByTheLength(SeveralLayers):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return (Z * keep).sum(1) / Z.shape[1]


class OfTheLastOfAll(SeveralLayers):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return Z[:, -1]


class OfTheSum(SeveralLayers):
    """No pool is a sum: it grows with the number of positions."""

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return (Z * keep).sum(1)


class OfSquashed(SeveralLayers):
    """Each position is transformed before the mean is taken."""

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return super().read(Z.tanh(), keep)


class OfNothing(SeveralLayers):
    """Gives every sequence the same."""

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return 0 * Z[:, 0]


@pytest.mark.parametrize(("make", "pool"), [(SeveralLayers, "mean"), (OfTheFirst, "first"), (OfTheLargest, "largest")])
def test_which_vector_is_read_shows_behind_any_layers(make: type[nn.Module], pool: str) -> None:
    """The layers behind that vector are the model's own: nothing is required of them."""
    target = check(make()).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient"), target.notes
    assert (target.profile["choices"]["head"], target.profile["choices"]["pool"]) == ("transformed", pool)
    assert target.notes[0].startswith("its hidden states are what its part `layers.1` returns; what follows reads the ")
    assert target.notes[0].endswith(", and is judged in that alone")
    of_head = {r.id: r.outcome for r in target.requirements if r.id.startswith("HEAD")}
    assert "HEAD-13" in of_head
    assert set(of_head.values()) == {"pass"}


@pytest.mark.parametrize(
    ("make", "requirement", "deviation"),
    [
        (OfEveryPosition, "HEAD-3", "mean-counts-padding"),
        (DividedByTheLength, "HEAD-3", "mean-divides-by-length"),
        (OfTheLastOfAll, "HEAD-8", "last-of-padding"),
    ],
)
def test_padding_that_is_read_shows_behind_any_layers(make: type[nn.Module], requirement: str, deviation: str) -> None:
    """It is named as if nothing stood behind the vector."""
    target = check(make()).targets[0]
    assert target.verdict == "nonconformant", target.notes
    assert requirement in {r.id for r in target.of("fail")} <= {requirement, "HEAD-13"}
    assert target.diagnosis[0]["deviation"] == deviation


class OfAllOfThem(OfTheSum):
    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return Z.sum(1)


class AttendedTo(SeveralLayers):
    """Attention with a learned query."""

    hides = True

    def __init__(self) -> None:
        super().__init__()
        self.query, self.attention = nn.Parameter(torch.randn(1, 1, 28)), nn.MultiheadAttention(28, 4, batch_first=True)

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        hidden = ~keep[..., 0] if self.hides else None
        attended, _ = self.attention(self.query.expand(len(Z), -1, -1), Z, Z, key_padding_mask=hidden)
        return attended[:, 0]


class AttendedWithPadding(AttendedTo):
    hides = False


@pytest.mark.parametrize("make", [OfTheSum, OfSquashed, AttendedTo])
def test_any_head_that_knows_no_order_is_judged_in_leaving_padding_out(make: type[nn.Module]) -> None:
    """It shows what it turns the valid positions of a sequence into, where they stand alone."""
    target = check(make()).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient"), target.notes
    assert target.profile["choices"]["head"] == "read"
    assert target.notes[0].endswith("what follows is the model's own, and is judged in leaving padding out alone")
    assert {r.id: r.outcome for r in target.requirements if r.id.startswith("HEAD")} == {"HEAD-15": "pass"}


@pytest.mark.parametrize("make", [OfAllOfThem, AttendedWithPadding])
def test_any_head_that_reads_padding_is_found_out(make: type[nn.Module]) -> None:
    target = check(make()).targets[0]
    assert target.verdict == "nonconformant", target.notes
    assert [r.id for r in target.of("fail")] == ["HEAD-15"]
    assert target.departs_at == "head.read"
    assert target.diagnosis[0]["deviation"] == "head-reads-padding"


class OfSteps(SeveralLayers):
    """Knows the order of its positions: what stands between them is something else than what stands behind."""

    def read(self, Z: Tensor, keep: Tensor) -> Tensor:
        return (Z * keep).diff(dim=1).abs().sum(1)


@pytest.mark.parametrize("make", [OfSteps, OfNothing])
def test_a_head_that_knows_an_order_leaves_the_rest_as_it_was(make: type[nn.Module]) -> None:
    """So does one that gives the same for all."""
    target = check(make()).targets[0]
    assert target.verdict == "conformant", target.notes
    assert target.notes[0].startswith("judged up to what its part `layers.1` returns, without what follows (classes.0")
    assert target.profile["choices"]["head"] == "none"


class FeaturesLeftOut(Tokens):
    """Returns all features but the last."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.states(ids, mask)[..., :-1]


class NormedOnceMore(Tokens):
    """A norm of another kind stands behind the layers: it is no head, though it has parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.BatchNorm1d(28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.last(self.states(ids, mask).mT).mT


class OneNetworkMore(Tokens):
    """A feed-forward network with its residual connection stands behind the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(28, 41), nn.Linear(41, 28)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        x = self.states(ids, mask)
        return x + self.down(self.up(x).relu())


@pytest.mark.parametrize("make", [FeaturesLeftOut, NormedOnceMore, OneNetworkMore])
def test_what_may_belong_to_the_encoder_is_not_left_out(make: type[nn.Module]) -> None:
    """Its output is as wide as the hidden states, or narrower though no parameters make it so."""
    target = check(make()).targets[0]
    assert target.verdict != "conformant"
    assert "judged up to" not in str(target.notes)


def scaled_by_the_width() -> nn.Module:
    """Make a language model whose scores are divided by √d_model."""
    model = LanguageModel()
    for layer in model.layers:
        layer.attention.scale = 28**0.5
    return model


class PlacedBefore(PatchesAlone):
    """Classes of an image whose patches alone have positions: the class token before them is a register."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 4, 28))
        self.classes = nn.Linear(28, 5)

    def forward(self, image: Tensor) -> Tensor:
        placed = self.patches(image).flatten(2).mT + self.positions
        tokens = torch.cat([self.class_token.expand(len(placed), -1, -1), placed], 1)
        return self.classes(Plain.forward(self, tokens)[:, 0])


def test_what_is_wrong_before_the_end_is_found_out() -> None:
    """A head behind the encoder hides no defect in it."""
    target = check(scaled_by_the_width()).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.scores"), target.notes


def test_a_class_token_without_a_position_is_a_register() -> None:
    target = check(PlacedBefore()).targets[0]
    assert target.verdict == "conformant", target.notes
    assert (target.profile["choices"]["cls"], target.profile["choices"]["num_registers"]) == ("none", 1)


class Biased(PlainAttention):
    """A learned bias of the scores that tells no distances."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__(width, count)
        self.bias_of_places = nn.Parameter(torch.randn(count, 64, 64))

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        n = q.shape[-2]
        return super().score(q, k) + self.bias_of_places[:, :n, :n]


def test_of_a_classifier_it_is_said_which_part_has_no_slot() -> None:
    """Nobody is asked for an inner module that has been found."""

    class Classes(Pooled):
        def __init__(self) -> None:
            super().__init__()
            for layer in self.layers:
                layer.attention = Biased(28, 4)

    target = check(Classes()).targets[0]
    assert target.verdict == "undetermined"
    assert "its scores get the bias layers.0.attention.bias_of_places" in str(target.notes)
    assert "name a function" not in str(target.notes)


class AddsWhatItWeighs(PlainAttention):
    """The output projection has a residual connection around it."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        mixed = self.merge((scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1) @ v)
        return self.out(mixed) + mixed


class ClassesOfTheFirst(Plain):
    """Classes of the first vector that an encoder gives."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__([])
        self.encoder, self.classes = encoder, nn.Linear(28, 5)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classes(self.encoder(x, mask)[:, 0])


class MeanOverLayers(Plain):
    """The mean of what all layers give."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        given = [x := layer(x, None if mask is None else ~mask[:, None, None]) for layer in self.layers]
        return torch.stack(given).mean(0)


@pytest.mark.parametrize(
    ("make", "verdict", "place"),
    [
        (lambda: Plain(layers_with(AddsWhatItWeighs)), "nonconformant", "multihead.output"),
        (MeanOverLayers, "nonconformant", "encoder"),
        (TwoEncoders, "undetermined", ""),
    ],
)
def test_a_head_hides_nothing(make: Callable[[], nn.Module], verdict: str, place: str) -> None:
    """A classifier behind an encoder that is wrong, or in no slot, does not change the verdict."""
    for whole in (make, lambda: ClassesOfTheFirst(make())):
        target = check(whole, explain=False).targets[0]
        assert target.verdict == verdict, target.notes
        assert (target.departs_at or "").startswith(place)
