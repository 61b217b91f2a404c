"""Positions that a convolution hears around each place: read off the computation, right and wrong."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, pad, relu
from torch.nn.utils.parametrizations import weight_norm

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.reports.report import TargetReport


class Hearing(nn.Module):
    """A convolution of 6 positions in 4 groups of features, its last result cut off, in front of two layers."""

    def __init__(self, kernel: int = 6, groups: int = 4, bias: bool = True) -> None:
        super().__init__()
        self.heard = weight_norm(nn.Conv1d(28, 28, kernel, padding=kernel // 2, groups=groups, bias=bias), dim=2)
        self.encoder = Plain(plain_layers(), nn.LayerNorm(28))

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = None if attention_mask is None else attention_mask.bool()
        return self.encoder(self.placed(x if keep is None else self.silenced(x, keep)), keep)

    def silenced(self, x: Tensor, keep: Tensor) -> Tensor:
        return x.masked_fill(~keep[..., None], 0.0)

    def placed(self, x: Tensor) -> Tensor:
        return x + self.activated(self.convolved(x))

    def activated(self, z: Tensor) -> Tensor:
        return gelu(z)

    def convolved(self, x: Tensor) -> Tensor:
        return self.heard(x.mT)[..., : x.shape[1]].mT


class PaddedBefore(Hearing):
    """Zeros are put around the sequence by hand, so that nothing is cut off, and the activation is summed first."""

    def placed(self, x: Tensor) -> Tensor:
        return self.activated(self.convolved(x)) + x

    def convolved(self, x: Tensor) -> Tensor:
        K = self.heard.kernel_size[0]
        heard = pad(x.mT, (K // 2, K - 1 - K // 2))
        return nn.functional.conv1d(heard, self.heard.weight, self.heard.bias, groups=self.heard.groups).mT


class Windowed(Hearing):
    """The windows are cut out by hand, position after position, and mapped by one product for each group."""

    def convolved(self, x: Tensor) -> Tensor:
        K, G = self.heard.kernel_size[0], self.heard.groups
        windows = pad(x, (0, 0, K // 2, K - 1 - K // 2)).unfold(1, K, 1).mT
        W = self.heard.weight.unflatten(0, (G, -1)).permute(0, 3, 2, 1).flatten(1, 2)
        rows = windows.unflatten(-1, (G, -1)).permute(3, 0, 1, 2, 4).flatten(3).flatten(1, 2)
        return (rows @ W).unflatten(1, x.shape[:2]).permute(1, 2, 0, 3).flatten(2) + self.heard.bias


class SilentInTheConvolution(Hearing):
    """Padding is hidden from the convolution alone, and stays in the stream, where attention hides it."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = None if attention_mask is None else attention_mask.bool()
        heard = x if keep is None else x * keep[..., None].to(x)
        return self.encoder(x + self.activated(self.convolved(heard)), keep)


class SilentAtPadding(Hearing):
    """It adds nothing at padded positions."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        heard = self.activated(self.convolved(self.silenced(x, keep)))
        return self.encoder(x + self.silenced(heard, keep), keep)


def judged(make: Callable[[], nn.Module]) -> TargetReport:
    torch.manual_seed(0)
    return check(make()).targets[0]


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (Hearing, (6, 7)),
        (lambda: Hearing(5), (5, 7)),
        (lambda: Hearing(6, 1), (6, 28)),
        (lambda: Hearing(6, 28), (6, 1)),
        (lambda: Hearing(64), (64, 7)),
        (lambda: Hearing(bias=False), (6, 7)),
        (PaddedBefore, (6, 7)),
        (Windowed, (6, 7)),
        (SilentInTheConvolution, (6, 7)),
        (SilentAtPadding, (6, 7)),
    ],
)
def test_convolved_positions_are_a_variant(make: Callable[[], nn.Module], sizes: tuple[int, int]) -> None:
    """However kernel, groups, padding and mask are written; most of 64 positions lie beyond what is read."""
    report = judged(make)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    choices = report.profile["choices"]
    assert choices["position"] == "convolution"
    assert (choices["position_kernel"], choices["group_width"]) == sizes


class Loud(Hearing):
    """Padding reaches the convolution."""

    def silenced(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class TrimmedAtTheFront(Hearing):
    """The first result is cut off."""

    def convolved(self, x: Tensor) -> Tensor:
        return self.heard(x.mT)[..., 1:].mT


class OfThePast(Hearing):
    """All zeros stand in front."""

    def convolved(self, x: Tensor) -> Tensor:
        heard = pad(x.mT, (self.heard.kernel_size[0] - 1, 0))
        return nn.functional.conv1d(heard, self.heard.weight, self.heard.bias, groups=self.heard.groups).mT


class NotActivated(Hearing):
    """No GELU follows."""

    def activated(self, z: Tensor) -> Tensor:
        return z


class OtherwiseActivated(Hearing):
    """ReLU follows."""

    def activated(self, z: Tensor) -> Tensor:
        return relu(z)


@pytest.mark.parametrize(
    ("make", "deviation"),
    [
        (Loud, "convolution-hears-padding"),
        (TrimmedAtTheFront, "convolution-trimmed-at-the-front"),
    ],
)
def test_a_wrong_convolution_is_named(make: type[Hearing], deviation: str) -> None:
    report = judged(make)
    assert (report.verdict, report.departs_at) == ("nonconformant", "position.convolution"), report.notes
    assert deviation in [d["deviation"] for d in report.diagnosis]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (OfThePast, "a convolution that hears 5 positions before it, of 6"),
        (NotActivated, "a convolution behind which no GELU stands"),
        (OtherwiseActivated, "a convolution behind which no GELU stands"),
    ],
)
def test_a_convolution_that_may_be_right_elsewhere_is_left_open(make: type[Hearing], says: str) -> None:
    report = judged(make)
    assert report.verdict == "undetermined", [r.message for r in report.of("fail")]
    assert says in str(report.notes)


class Stacked(Hearing):
    """A second convolution hears what the first one gives, as in data2vec."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Conv1d(28, 28, 5, padding=2, groups=4)

    def placed(self, x: Tensor) -> Tensor:
        return x + gelu(self.again(self.activated(self.convolved(x)).mT).mT)


class AmongOthers(Hearing):
    """Learned positions are added as well."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(31, 28))

    def placed(self, x: Tensor) -> Tensor:
        return super().placed(x + self.table[: x.shape[1]])


class Dilated(Hearing):
    """Every other position is heard."""

    def convolved(self, x: Tensor) -> Tensor:
        heard, W = pad(x.mT, (6, 4)), self.heard.weight
        return nn.functional.conv1d(heard, W, self.heard.bias, dilation=2, groups=self.heard.groups).mT


@pytest.mark.parametrize("make", [Stacked, AmongOthers, Dilated])
def test_other_surroundings_stay_open(make: type[Hearing]) -> None:
    """No equation has them, and nothing shows that they are wrong."""
    assert judged(make).verdict == "undetermined"


class InSteps(Hearing):
    """Three convolutions stand one behind the other, with a norm without parameters and GELU behind each."""

    def __init__(self, J: int = 3, kernel: int = 5, groups: int = 4, eps: float = 1e-5) -> None:
        super().__init__()
        del self.heard
        self.steps = nn.ModuleList(
            [nn.Conv1d(28, 28, kernel, padding=kernel // 2, groups=groups, bias=J > 1) for _ in range(J)]
        )
        self.eps = eps

    def placed(self, x: Tensor) -> Tensor:
        told = x
        for step in self.steps:
            told = self.behind(step(told.mT)[..., : x.shape[1]].mT)
        return x + told

    def behind(self, z: Tensor) -> Tensor:
        return gelu(layer_norm(z, (28,), eps=self.eps))


class ByHand(InSteps):
    """The norm is written out, and the convolutions take times before features."""

    def behind(self, z: Tensor) -> Tensor:
        centred = z - z.mean(-1, keepdim=True)
        return gelu(centred / (centred.pow(2).mean(-1, keepdim=True) + self.eps).sqrt())


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (InSteps, (3, 5, 7)),
        (lambda: InSteps(2, 6), (2, 6, 7)),
        (lambda: InSteps(1, 3, 1), (1, 3, 28)),
        (ByHand, (3, 5, 7)),
    ],
)
def test_convolutions_one_behind_the_other_are_a_variant(
    make: Callable[[], nn.Module], sizes: tuple[int, int, int]
) -> None:
    report = judged(make)
    assert (report.verdict, report.level) == ("conformant", "gradient"), report.notes
    choices = report.profile["choices"]
    assert choices["position"] == "convolutions"
    assert (choices["position_convolutions"], choices["position_kernel"], choices["group_width"]) == sizes


def test_norms_of_convolutions_of_positions_may_have_another_epsilon() -> None:
    choices = judged(lambda: InSteps(eps=1e-3)).profile["choices"]
    assert (choices["position.eps"], choices["eps"]) == (1e-3, 1e-5)


class LoudInSteps(InSteps):
    """Padding reaches the first convolution."""

    def silenced(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class ActivatedFirst(InSteps):
    """GELU stands before the norm."""

    def behind(self, z: Tensor) -> Tensor:
        return layer_norm(gelu(z), (28,))


class NormedWithGain(InSteps):
    """The norms have parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(28))

    def behind(self, z: Tensor) -> Tensor:
        return gelu(layer_norm(z, (28,), self.gain))


def test_convolutions_of_positions_that_hear_padding_are_named() -> None:
    report = judged(LoudInSteps)
    assert (report.verdict, report.departs_at) == ("nonconformant", "position.convolutions"), report.notes
    assert "convolutions-of-positions-hear-padding" in [d["deviation"] for d in report.diagnosis]


@pytest.mark.parametrize("make", [ActivatedFirst, NormedWithGain])
def test_other_stacks_of_convolutions_stay_open(make: type[InSteps]) -> None:
    """No equation has them."""
    assert judged(make).verdict == "undetermined"
