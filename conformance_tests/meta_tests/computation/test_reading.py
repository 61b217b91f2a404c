"""Encoders are read off their computations, whatever they are called and however they are written."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests import check
from conformance_tests.computation.inputs import tables_by_argument
from conformance_tests.computation.masks import Reach, reach_of
from conformance_tests.computation.plain import plain
from conformance_tests.computation.reading import ending, read
from conformance_tests.computation.shown import EncoderReading
from conformance_tests.deviations.look_alikes import look_alikes
from conformance_tests.identification.structure import as_shown
from conformance_tests.meta_tests.computation.styles import CHOICES, HEADS, INNER, WIDTH, Einsum
from conformance_tests.meta_tests.encoders.nameless import Nameless
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, plain_layers
from conformance_tests.parameters.gathered import gathered
from conformance_tests.quality.kill_matrix import SMALL
from conformance_tests.subjects.torch_subject import TorchSubject
from encoder_spec.assembly import Encoder
from encoder_spec.equation import variants
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES


def reading_of(module: nn.Module) -> tuple[EncoderReading, TorchSubject]:
    """Read a module's computation."""
    subject = TorchSubject(module)
    with subject.borrowed():
        return read(plain(subject.computation())), subject


def agrees(found: EncoderReading, subject: TorchSubject, module: nn.Module) -> bool:
    """Whether the specification computes the outputs of a module, with the choices and weights that were read."""
    encoder = as_shown(found)
    with subject.borrowed():
        weights = subject.weights()
        mapping, _ = gathered(found, weights)
        given = torch.randn(2, 6, WIDTH, dtype=torch.float64)
        x = given if "E" not in encoder.parameter_shapes() else torch.randint(2, 20, (2, 6))
        returned = module(x)
        while not isinstance(returned, Tensor):
            returned = next(iter(returned.values() if isinstance(returned, Mapping) else returned))
        segments = [torch.zeros_like(x)] if encoder.profile["segment"].variant == "added" else []
        want = encoder(mapping.canonical(weights), x, *segments)
    return bool(torch.allclose(want, returned.detach(), rtol=0, atol=1e-12))


@pytest.mark.parametrize("style", CHOICES)
def test_encoder_is_read_in_any_style(style: type[nn.Module]) -> None:
    """Its choices are read, nothing is left over, and with its weights they give its outputs."""
    torch.manual_seed(0)
    module = style()
    found, subject = reading_of(module)
    assert (found.unread, found.foreign, found.findings) == ([], [], [])
    assert {name: found.choices.get(name) for name in CHOICES[style]} == CHOICES[style]
    assert (found.sizes["h"], found.sizes["d_ff"]) == (HEADS, INNER)
    if style.__name__ != "Batched":  # the specification has the batch first
        assert agrees(found, subject, module)


def test_an_activation_in_float32_is_its_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is given, some code computes it in float32."""
    gelu = functional.gelu
    monkeypatch.setattr(functional, "gelu", lambda x: gelu(x.float()).type_as(x))
    found, _ = reading_of(Einsum())
    assert (found.choices["activation"], found.findings) == ("gelu", [])


class AttentionAlone(PlainAttention):
    """Attention that takes a mask, and divides its scores by the width of a head."""

    def __init__(self) -> None:
        super().__init__(WIDTH, HEADS)
        self.scale = WIDTH / HEADS

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return super().forward(x, hidden)


def test_of_a_part_it_is_said_which_one_it_is_and_what_is_wrong_with_it() -> None:
    attention, _ = reading_of(AttentionAlone())
    assert attention.is_part
    assert "it is attention alone (plain.py:" in attention.unread[0]
    assert "the scores are multiplied by" in attention.findings[0].says
    network, _ = reading_of(nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH)))
    assert "it is a feed-forward network alone" in network.unread[0]
    target = check(AttentionAlone).targets[0]
    assert target.verdict == "undetermined"
    assert "and neither a layer nor an encoder, the scores are multiplied by" in target.notes[0]


UNREAD = {
    "attention-in-blocks": "a softmax is put together from those of some keys each",
    "variance-in-one-pass-from-a-shift": "the features are counted from the first one",
    "sequence-filled-up": "it computes further positions, and leaves them out",
}
"""Look-alikes whose computation is not read in full, and what it is that is not."""


@pytest.mark.parametrize("id", look_alikes())
def test_another_computation_of_an_equation_is_read_as_it(id: str) -> None:
    """Whatever its operations, nothing departs and nothing is left over, or it is said what."""
    look_alike = look_alikes()[id]
    profile = next(p for p in PROFILES.values() if look_alike.applies(p))
    encoder = Encoder(look_alike.within(profile), SMALL).replace(input="given", position="none", segment="none")
    torch.manual_seed(0)
    found, _ = reading_of(Nameless(EncoderModule(encoder)))
    remarks = [*found.unread, *found.foreign, *(finding.says for finding in found.findings)]
    assert ("N" in found.sizes and not remarks) == (id not in UNREAD), remarks


@pytest.mark.parametrize("style", CHOICES)
def test_no_name_is_needed(style: type[nn.Module]) -> None:
    """With names that mean nothing the same is read."""
    torch.manual_seed(0)
    module = style()
    plain, _ = reading_of(module)
    torch.manual_seed(0)
    renamed, _ = reading_of(Nameless(style()))
    assert (renamed.choices, renamed.sizes) == (plain.choices, plain.sizes)
    assert (renamed.unread, renamed.foreign, renamed.findings) == ([], [], [])


SIZES = [{"d_model": 12, "h": h, "d_ff": d_ff, "N": N} for h in (1, 2, 12) for d_ff in (12, 5, 24) for N in (1, 2)]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes_may_coincide(sizes: dict[str, int], norm_first: bool) -> None:
    """Each map of torch's encoder is taken for what it is: d_ff = d_model, d_ff < d_model, h = 1, h = d_model."""
    layer = nn.TransformerEncoderLayer(
        sizes["d_model"], sizes["h"], sizes["d_ff"], batch_first=True, norm_first=norm_first
    )
    found, subject = reading_of(nn.TransformerEncoder(layer, sizes["N"], enable_nested_tensor=False))
    assert {name: found.sizes[name] for name in sizes} == sizes
    assert (found.findings, found.foreign, found.unread) == ([], [], [])
    mapping, _ = gathered(found, subject.weights())
    assert not mapping.unmapped
    first = subject.weights()["layers.0.self_attn.in_proj_weight"].double()
    canonical = mapping.canonical({name: w.double() for name, w in subject.weights().items()})
    assert torch.equal(canonical["layers.0.W_K"], first[12:24].T)
    assert torch.equal(canonical["layers.0.W_2"], subject.weights()["layers.0.linear2.weight"].T)


class FromATable(nn.Module):
    """Sinusoids kept as a table, of which a sequence reads some rows; a number may multiply them with the tokens."""

    def __init__(self, first: int, step: int, times: float = 1) -> None:
        super().__init__()
        self.a, self.rows, self.times = nn.Embedding(29, WIDTH), (first, step), times
        sinusoids = variants("position")["sinusoidal"].function(torch.zeros(1, 50, WIDTH))
        self.register_buffer("b", sinusoids)
        self.c = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        first, step = self.rows
        read = first + step * torch.arange(x.shape[1])
        return self.c((self.a(x) + self.b[read]) * self.times)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ((0, 1), []),
        ((0, 1, 3), ["the sinusoids are multiplied by 3"]),
        ((1, 1), ["the sinusoids are counted from 1, not from 0"]),
        ((0, 2), ["positions 0, 1, 2, … read rows 0, 2, 4, 6, 8 of their table"]),
    ],
)
def test_positions_are_read_with_the_rows_that_they_take(rows: tuple[int, ...], says: list[str]) -> None:
    """A table of sinusoids may be kept; what is read of it must be the sinusoid of the position."""
    found, _ = reading_of(FromATable(*rows))
    assert [finding.says for finding in found.findings if finding.slot == "position"] == says


AHEAD = torch.arange(6) - torch.arange(6)[:, None]


@pytest.mark.parametrize(
    ("hidden", "variant", "says"),
    [
        (AHEAD > 0, "causal", "a causal mask"),
        (AHEAD < 0, "", "those behind it alone"),
        (AHEAD == 0, "", "no position sees itself"),
        (AHEAD.abs() > 2, "local", "2 others to either side"),
        ((AHEAD > 1) | (AHEAD < -2), "", "2 others before it and 1 behind it"),
        (AHEAD == 3, "global", ""),
        (AHEAD > 9, "global", ""),
        (AHEAD < 9, "global", ""),
    ],
)
@pytest.mark.parametrize("axis", [-1, -2])
def test_the_keys_that_an_encoder_hides_by_itself_are_read(hidden: Tensor, variant: str, says: str, axis: int) -> None:
    """With a finite fill as well as with −∞; where all keys are hidden, none is."""
    scores = torch.randn(2, 3, 6, 6).masked_fill(hidden if axis == -1 else hidden.mT, -1e4)
    reach = reach_of(scores, axis)
    assert reach.variant == variant
    assert reach.window == (4 if variant == "local" else 0)
    assert says in reach.says if says else reach == Reach()


class LooksUp(nn.Module):
    """Looks rows up by its ids, by their number alone, and by what it computes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.randn(29, WIDTH)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.a[torch.where(x < 0, x + 29, x)] + self.b[torch.arange(x.shape[1])] + self.c[x // 2]


def test_the_table_of_ids_is_the_one_that_they_read() -> None:
    """Behind a guard, too; a table of positions and one that reads other numbers is none."""
    subject = TorchSubject(LooksUp())
    with subject.borrowed():
        assert tables_by_argument(subject.computation()) == {"x": ("a",)}


class Translates(nn.Module):
    """An encoder and a decoder, which reads its memory by an attention."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(WIDTH, HEADS, 1, 1, INNER, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both: torch.Tensor = self.both(x, x)
        return both


def test_an_attention_that_reads_two_sequences_is_that_of_a_decoder() -> None:
    """Its queries come from one attention, and its keys from another; in an encoder both come from one value."""
    found, _ = reading_of(Translates())
    assert any("its queries are of one sequence and its keys of another" in says for says in found.foreign)
    alone, _ = reading_of(Translates().both.encoder)
    assert not alone.foreign


class MeanOfTokens(Plain):
    """From ids, of which 0 is padding, to the mean of the others; the layers are a part of it."""

    def __init__(self) -> None:
        super().__init__(plain_layers(), nn.LayerNorm(28))
        self.tokens, self.positions = nn.Embedding(31, 28), nn.Embedding(40, 28)
        self.whole = nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        kept = ids != 0
        hidden = self.whole(super().forward(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])), kept))
        return (hidden * kept[..., None]).sum(1) / kept[..., None].sum(1)


def test_what_is_computed_again_behind_the_layers_hides_no_end() -> None:
    """A mask that is made of the ids once more is the value that it was before the layers."""
    subject = TorchSubject(MeanOfTokens())
    with subject.borrowed():
        graph = plain(subject.computation())
    cuts = [(name, graph.translated(codes)) for name, codes in subject.cuts(graph.recorded)]
    mask = next(value.codes for value in graph.values if value.operation == "ne")
    end = ending(graph, cuts)
    assert end is not None
    assert ending(graph, [*cuts, ("the mask again", mask[..., None])]) == end
