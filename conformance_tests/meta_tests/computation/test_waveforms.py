"""Encoders of samples: the stages that these pass are read off the computation, right and wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, gelu, layer_norm, pad, relu

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.reports.report import TargetReport

CHANNELS, WIDTH = 6, 28


class Ear(nn.Module):
    """Two stages, of which the first is normed over time, in front of a map, learned positions and two layers."""

    def __init__(self, widths: tuple[int, ...] = (5, 3), strides: tuple[int, ...] = (2, 2), bias: bool = True) -> None:
        super().__init__()
        heard = (1, *[CHANNELS] * len(widths))
        self.strides = strides
        self.bank = nn.ParameterList(
            [torch.randn(CHANNELS, c, k) / (c * k) ** 0.5 for c, k in zip(heard, widths, strict=False)]
        )
        self.offsets = nn.ParameterList([torch.randn(CHANNELS) for _ in widths]) if bias else None
        self.gain, self.lift = nn.Parameter(torch.randn(CHANNELS)), nn.Parameter(torch.randn(CHANNELS))
        self.before = nn.LayerNorm(CHANNELS)
        self.up = nn.Linear(CHANNELS, WIDTH)
        self.places = nn.Parameter(torch.randn(41, WIDTH))
        self.encoder = Plain(plain_layers(), nn.LayerNorm(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        z = self.mapped(self.heard(x))
        return self.encoder(z + self.places[: z.shape[1]])

    def mapped(self, u: Tensor) -> Tensor:
        return self.up(self.before(u))

    def heard(self, x: Tensor) -> Tensor:
        """Return what the stages give (B, n, channels)."""
        u = x[:, None]
        for l in range(len(self.bank)):
            u = self.activated(self.normed(self.convolved(u, l), l), l)
        return u.mT

    def convolved(self, u: Tensor, l: int) -> Tensor:
        return conv1d(u, self.bank[l], None if self.offsets is None else self.offsets[l], stride=self.strides[l])

    def normed(self, z: Tensor, l: int) -> Tensor:
        return self.over_time(z) if l == 0 else z

    def over_time(self, z: Tensor) -> Tensor:
        spread, mean = torch.var_mean(z, dim=2, correction=0, keepdim=True)
        return (z - mean) * torch.rsqrt(spread + 1e-5) * self.gain[:, None] + self.lift[:, None]

    def activated(self, z: Tensor, l: int) -> Tensor:
        return gelu(z)


class Unfolded(Ear):
    """The windows are cut out by hand and mapped by a product; times come before channels throughout."""

    def heard(self, x: Tensor) -> Tensor:
        u = x[..., None]
        for l, (W, s) in enumerate(zip(self.bank, self.strides, strict=True)):
            z = u.unfold(1, W.shape[2], s).flatten(2) @ W.flatten(1).mT
            z = z if self.offsets is None else z + self.offsets[l]
            u = gelu(self.normed(z.mT, l).mT)
        return u


class Grouped(Ear):
    """The norm over time is torch's, with one group for each channel."""

    def over_time(self, z: Tensor) -> Tensor:
        return nn.functional.group_norm(z, CHANNELS, self.gain, self.lift)


class ByChannels(Ear):
    """Each stage has a norm of the channels, with the same parameters."""

    def normed(self, z: Tensor, l: int) -> Tensor:
        return layer_norm(z.mT, (CHANNELS,), self.gain, self.lift).mT


class Bare(Ear):
    """No stage has a norm, nor are features normed before their map."""

    def normed(self, z: Tensor, l: int) -> Tensor:
        return z

    def mapped(self, u: Tensor) -> Tensor:
        return self.up(u)


class Loose(Ear):
    """The norm over time has another ε than the layers."""

    def over_time(self, z: Tensor) -> Tensor:
        return nn.functional.group_norm(z, CHANNELS, self.gain, self.lift, eps=1e-3)


def judged(make: Callable[[], nn.Module], **how: Any) -> TargetReport:
    torch.manual_seed(0)
    return check(make(), **how).targets[0]


OVER_TIME = {"stage": "convolution", "stages.0": "convolution-norm-over-time", "feature_norm": "norm"}


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        (Ear, OVER_TIME | {"stage_widths": "5, 3", "stage_strides": "2, 2"}),
        (lambda: Ear((4, 3, 2), (3, 1, 2)), OVER_TIME | {"stage_widths": "4, 3, 2", "stage_strides": "3, 1, 2"}),
        (lambda: Ear(bias=False), OVER_TIME),
        (Unfolded, OVER_TIME),
        (Grouped, OVER_TIME),
        (Loose, OVER_TIME | {"stage.eps": 1e-3, "eps": 1e-5}),
        (ByChannels, {"stage": "convolution-norm", "feature_norm": "norm"}),
        (Bare, {"stage": "convolution", "feature_norm": "none"}),
    ],
    ids=["plain", "three stages", "no bias", "unfolded", "grouped", "another ε", "by channels", "bare"],
)
def test_stages_are_read_however_they_are_written(make: Callable[[], nn.Module], choices: dict[str, Any]) -> None:
    """Conformant by agreement of outputs and gradients: no name of the encoder is one that others use."""
    report = judged(make, explain=False)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    chosen = report.profile["choices"]
    assert chosen["embedding"] == "waveform"
    assert {name: chosen.get(name) for name in choices} == choices


class Masked(ByChannels):
    """It takes a mask of its samples, and works out how many positions are whole."""

    def forward(self, x: Tensor, sound_mask: Tensor | None = None) -> Tensor:
        z = self.mapped(self.heard(x))
        z = z + self.places[: z.shape[1]]
        if sound_mask is None:
            return self.encoder(z)
        lengths = sound_mask.long().sum(1)
        for W, s in zip(self.bank, self.strides, strict=True):
            lengths = torch.div(lengths - W.shape[2], s, rounding_mode="floor") + 1
        return self.encoder(z, torch.arange(z.shape[1]) < lengths[:, None])


class MaskedOverTime(Masked):
    """Its norm runs over time, and so reads the padded samples too."""

    def normed(self, z: Tensor, l: int) -> Tensor:
        return self.over_time(z) if l == 0 else z


@pytest.mark.parametrize("make", [Masked, MaskedOverTime])
def test_a_mask_of_samples_hides_positions(make: type[Masked]) -> None:
    """It is found by experiment, and padded sounds are judged."""
    report = judged(make, explain=False)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    assert report.profile["conventions"]["mask"] == "sound_mask: (B, samples), 0/1, 1 = keep"
    assert "ENC-3" in [r.id for r in report.of("pass")]


class Miscounted(Masked):
    """One position too many is kept: lengths are rounded up."""

    def forward(self, x: Tensor, sound_mask: Tensor | None = None) -> Tensor:
        if sound_mask is not None and not sound_mask.all():
            step = self.strides[0] * self.strides[1]
            sound_mask = sound_mask.bool() | sound_mask.bool().roll(step, 1)
        return super().forward(x, sound_mask)


def test_a_mask_of_samples_that_keeps_too_many_positions_is_noticed() -> None:
    report = judged(Miscounted, explain=False)
    assert report.verdict == "nonconformant", report.notes
    assert "ENC-3" in [r.id for r in report.of("fail")]


class NotActivated(Ear):
    """GELU is forgotten behind the second stage."""

    def activated(self, z: Tensor, l: int) -> Tensor:
        return gelu(z) if l == 0 else z


class Short(Ear):
    """The last time of the second stage is lost."""

    def convolved(self, u: Tensor, l: int) -> Tensor:
        z = super().convolved(u, l)
        return z[..., :-1] if l == 1 else z


@pytest.mark.parametrize(
    ("make", "equation", "deviation"),
    [
        (NotActivated, "embedding.stage", "stage-without-activation"),
        (Short, "embedding.stage", "stage-loses-the-last-time"),
    ],
)
def test_a_wrong_stage_is_placed(make: type[Ear], equation: str, deviation: str) -> None:
    """Without a declared profile, and named by the diagnosis."""
    report = judged(make)
    assert (report.verdict, report.departs_at) == ("nonconformant", equation), report.notes
    assert deviation in [d["deviation"] for d in report.diagnosis]


class Padded(Ear):
    """Zeros stand around what each stage reads."""

    def convolved(self, u: Tensor, l: int) -> Tensor:
        return super().convolved(pad(u, (1, 1)), l)


class OtherwiseActivated(Ear):
    """ReLU follows each stage."""

    def activated(self, z: Tensor, l: int) -> Tensor:
        return relu(z)


class OfAllChannels(Ear):
    """All channels form one group."""

    def over_time(self, z: Tensor) -> Tensor:
        return nn.functional.group_norm(z, 1, self.gain, self.lift)


@pytest.mark.parametrize("make", [Padded, OtherwiseActivated, OfAllChannels])
def test_other_stages_stay_open(make: type[Ear]) -> None:
    """They may be right elsewhere: to have them judged as wav2vec 2.0 you declare that profile."""
    assert judged(make, explain=False).verdict == "undetermined"
