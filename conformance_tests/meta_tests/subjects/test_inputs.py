"""Encoders with inputs of their own: recognised, called as they want to be, or told what they have beside the slots."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.identification.foreign_parts import encoder_inside, listed, parts_outside
from conformance_tests.meta_tests.encoders.broken_inputs import Factorised, Listening, Looking
from conformance_tests.numerics.probes import Probes
from conformance_tests.parameters.mapping import reading
from conformance_tests.parameters.tables import layout_of
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.torch_hints import hints_of
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.position import sinusoidal, sinusoidal_tensor2tensor
from encoder_spec.profiles import DEIT, VASWANI_2017, WHISPER

CHOSEN = {
    Factorised: {"input": "factorised", "embedding_size": 13, "position": "learned", "d_model": 30},
    Looking: {"cls": "cls-and-distillation", "embedding": "patches", "layer": "pre-ln"},
    Listening: {"embedding": "convolutions", "position": "sinusoidal-tensor2tensor", "position_offset": 0},
}


@pytest.mark.parametrize("make", CHOSEN)
def test_a_sound_input_is_recognised(make: Any) -> None:
    """Nothing is stated but the number of heads and the order of layers; the rest is found by experiment."""
    report = check(make).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["choices"].items() >= CHOSEN[make].items()


def test_padding_of_an_image_lies_in_its_patches() -> None:
    """Two tokens stand before nine patches of side 2: position 2 + 3·1 + 0 is the patch of rows 2–3, columns 0–1."""
    probes = Probes(Encoder(DEIT, Dimensions(d_model=30, h=5, max_len=11, channels=1, patch=2)), seed=0)
    probe = probes["scattered"]
    assert probe.keep is not None
    assert probe.keep.shape == (len(probe.inputs[0]), 11)
    probe.keep[:] = True
    probe.keep[0, 5] = False
    (image,), (other,) = probe.inputs, probe.with_other_padding().inputs
    changed = torch.zeros(image.shape, dtype=torch.bool)
    changed[0, :, 2:4, 0:2] = True
    assert torch.equal(image != other, changed)


def test_padding_has_ordinary_ids_whatever_the_seed() -> None:
    """An encoder that counts positions past its padding id counts right as long as no probe uses that id."""
    encoder = Encoder(VASWANI_2017, Dimensions(d_model=24, h=4, d_ff=40, V=31))
    for seed in range(50):
        probe = Probes(encoder, seed)["scattered"]
        (ids,), (other,) = probe.inputs, probe.with_other_padding().inputs
        assert other.min() >= 4
        assert other.max() < 31
        assert not torch.equal(ids, other)


def test_a_signal_is_twice_as_long_as_its_positions() -> None:
    """Sinusoids that are computed serve any length; a table of 11 rows serves 22 times alone."""
    sizes = Dimensions(d_model=30, h=5, max_len=11, channels=7)
    free, fixed = (Encoder(p, sizes) for p in (WHISPER, WHISPER.replace(position="learned")))
    for encoder, times in ((free, 2 * Probes(free, 0).length), (fixed, 22)):
        (signal,) = Probes(encoder, 0)["plain"].inputs
        assert signal.shape[1:] == (7, times)


def test_a_stored_sinusoid_is_told_by_its_numbers() -> None:
    """In float32, with the row of the padding zero; a table that is off by 0.01 somewhere holds none."""
    X = torch.empty(1, 97, 6, dtype=torch.float64)
    t2t = sinusoidal_tensor2tensor(X, offset=0).float()
    t2t[1] = 0
    assert layout_of(t2t) == "sinusoidal-tensor2tensor"
    paper = sinusoidal(X).float()
    assert layout_of(paper) == "sinusoidal"
    paper[3, 2] += 0.01
    assert layout_of(paper) is None
    assert layout_of(torch.zeros(97, 6)) is None


class RotaryTable(nn.Module):
    """Holds the frequencies of rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", torch.ones(3))


class WithRotary(nn.Module):
    """Parameters in one part, rotary positions in another."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary_emb = RotaryTable()
        self.inner = nn.Linear(2, 2)
        self.inner.register_buffer("alibi_slopes", torch.ones(2))
        self.drop = nn.Dropout()


def test_parts_without_parameters_are_named() -> None:
    """The part as a whole, not its buffer; a buffer of a part with parameters by itself; dropout is none."""
    assert hints_of(WithRotary()).parts == ("rotary_emb (RotaryTable)", "inner.alibi_slopes")


def test_what_stands_beside_an_encoder_is_not_outside() -> None:
    """A pooler is no reason for wrong outputs; an adapter is."""
    names = ("pooler.dense.weight", "layers.0.adapter.weight")
    mapping = reading({name: torch.ones(2, 2) for name in names})
    mapping = type(mapping)({}, names)
    assert parts_outside(mapping, Hints(parts=("rope",))) == ["layers.0.adapter.weight", "rope"]
    assert listed([f"p{i}" for i in range(8)]) == "p0, p1, p2, p3, p4, p5 and 2 more"


@pytest.mark.parametrize(("prefix", "inside"), [("bert.", ".bert"), ("0.model.", "[0].model"), ("", "")])
def test_the_encoder_inside_a_model_is_the_owner_of_all_its_parameters(prefix: str, inside: str) -> None:
    """Layers and tables have the model's part in common, and nothing else."""
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 10), 2, enable_nested_tensor=False)
    weights: dict[str, Tensor] = {f"{prefix}encoder.{n}": p.detach() for n, p in layers.named_parameters()}
    weights[f"{prefix}embeddings.word_embeddings.weight"] = torch.ones(11, 6)
    assert encoder_inside(reading(weights)) == inside


def test_positions_of_a_buffer_in_single_precision_raise_no_alarm() -> None:
    """The table that tutorials keep: right to 6·10⁻⁸, and compared as it is stored."""

    class Tutorial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb = nn.Embedding(41, 30)
            layer = nn.TransformerEncoderLayer(30, 5, 44, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.register_buffer("pe", sinusoidal(torch.empty(1, 50, 30))[None])

        def forward(self, ids: Tensor, pad_mask: Tensor | None = None) -> Tensor:
            return self.encoder(
                self.emb(ids) * math.sqrt(30) + self.pe[:, : ids.shape[1]], src_key_padding_mask=pad_mask
            )

    report = check(Tutorial).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["choices"]["position"] == "sinusoidal"
