"""How an encoder is called is found out by experiment, and what cannot be is said."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check, described
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.uncatalogued import StepByStep
from conformance_tests.reports import markdown
from conformance_tests.reports.arranged import conventions


def stack() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(28, 2, 44, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


class Wrapped(nn.Module):
    """Torch's encoder behind another call; ``keep`` has True = keep."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = stack()

    def hidden(self, x: Tensor, keep: Tensor | None) -> Tensor:
        hidden: Tensor = self.encoder(x, src_key_padding_mask=None if keep is None else ~keep)
        return hidden


class MaskIsRequired(Wrapped):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.hidden(x, mask[:, 0, 0])


class MaskMayBeNoneButIsRequired(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.hidden(x, mask)


class RequiredMaskWithoutATellingName(Wrapped):
    def forward(self, x: Tensor, b: Tensor) -> Tensor:
        return self.hidden(x, b == 1)


class FlagWithMaskInItsName(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None, return_mask: bool = False) -> Any:
        hidden = self.hidden(x, mask)
        return (hidden, mask) if return_mask else hidden


class PositionalInput(Wrapped):
    def forward(self, x: Tensor, /, mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, mask)


@dataclass
class Output:
    pooled: Tensor
    states: Tensor


class ReturnsADataclass(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Output:
        states = self.hidden(x, mask)
        return Output(states.mean(1), states)


class ReturnsEveryLayer(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        return [x, self.hidden(x, mask)]


CALLS = [
    MaskIsRequired,
    MaskMayBeNoneButIsRequired,
    RequiredMaskWithoutATellingName,
    FlagWithMaskInItsName,
    PositionalInput,
    ReturnsADataclass,
    ReturnsEveryLayer,
]


@pytest.mark.parametrize("make", CALLS)
def test_the_call_is_found_out(make: Callable[[], nn.Module]) -> None:
    """Each computes torch's own encoder: masks included, nothing may be left undecided."""
    report = check(make, level="agreement").targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert not report.of("unsupported")


class MaskAlwaysRaises(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            raise ValueError("bad mask")
        return self.hidden(x, None)


def test_an_encoder_whose_mask_always_raises_is_not_acquitted() -> None:
    """It computes the right output without a mask; that it would with one, nobody has seen."""
    report = check(MaskAlwaysRaises, level="agreement").targets[0]
    assert report.verdict == "undetermined"
    assert any("'mask' refused boolean, 0/1 and additive masks" in note and "bad mask" in note for note in report.notes)


class MaskIsIgnored(Wrapped):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, None)


def test_an_encoder_that_ignores_its_mask_fails() -> None:
    """Padding then changes the output at positions that are kept."""
    report = check(MaskIsIgnored, level="agreement").targets[0]
    assert report.verdict == "nonconformant"
    assert "MASK-2" in {r.id for r in report.of("fail")}


class AsksForMemory(Wrapped):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.hidden(x + memory.mean(), mask)


class FirstHeadAlone(StepByStep):
    """Its first head alone is told of padding."""

    def hide(self, scores: Tensor, hidden: Tensor | None) -> Tensor:
        first, others = scores[:, :1], scores[:, 1:]
        return torch.cat([first if hidden is None else first.masked_fill(hidden, -torch.inf), others], dim=1)


class OddlyNamedMask(Plain):
    """``m`` has True = ignore, and hides padding from the first head alone."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        for layer in self.layers:
            layer.attention = FirstHeadAlone(28, 4)

    def forward(self, x: Tensor, m: Tensor | None = None) -> Tensor:
        return self.run(x, None if m is None else m[:, None, None])


class MaskCalledPad(OddlyNamedMask):
    def forward(self, x: Tensor, pad: Tensor | None = None) -> Tensor:
        return super().forward(x, pad)


@pytest.mark.parametrize(("make", "name"), [(OddlyNamedMask, "m"), (MaskCalledPad, "pad")])
def test_what_acts_as_a_mask_is_one_though_it_hides_too_little(make: Callable[[], nn.Module], name: str) -> None:
    """An encoder is not acquitted because its mask is broken so badly that it seems to be none."""
    report = check(make).targets[0]
    assert report.profile["conventions"]["mask"].startswith(f"{name}: (B, n), boolean, True = ignore")
    assert {"MASK-1", "MASK-2"} <= {r.id for r in report.of("fail")}
    assert report.departs_at == "attention.mask"


class AnotherInput(Plain):
    """``other`` is no mask: even one that keeps everything changes the output."""

    def __init__(self) -> None:
        super().__init__(plain_layers())

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return self.run(x if other is None else x + 1 + other.double().reshape(*x.shape[:2], 1), None)


def test_what_does_not_act_as_a_mask_is_none() -> None:
    report = check(AnotherInput).targets[0]
    assert report.verdict == "conformant"
    assert "mask" not in report.profile["conventions"]


def test_what_an_encoder_asks_for_beside_its_input_is_named() -> None:
    """The suite cannot make up a memory."""
    report = check(AsksForMemory).targets[0]
    assert report.verdict == "undetermined"
    assert "asks for memory" in "".join(report.notes)


def test_an_argument_that_was_never_given_is_named() -> None:
    """Nothing of what it does is judged, and the report says so."""
    notes = check(AnotherInput, level="black-box").targets[0].notes
    assert "left at the default, and not judged: other, in which no mask was found" in notes


class HidesWhereAttentionMaskIsTrue(Wrapped):
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, None if attention_mask is None else attention_mask == 0)


class TakesBooleansAlone(Wrapped):
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is not None and attention_mask.dtype is not torch.bool:
            raise TypeError("masks are booleans")
        return self.hidden(x, None if attention_mask is None else ~attention_mask)


class KeepsWhereKeyPaddingMaskIsTrue(Wrapped):
    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, key_padding_mask)


class KeepsWhereAttentionMaskIsOne(Wrapped):
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.hidden(x, None if attention_mask is None else attention_mask == 1)


OPPOSITES = pytest.mark.parametrize(
    ("make", "means", "opposite"),
    [
        (HidesWhereAttentionMaskIsTrue, "ignore", "attention_mask hides where it is true"),
        (KeepsWhereKeyPaddingMaskIsTrue, "keep", "key_padding_mask hides where it is false"),
    ],
)
"""Encoders, what true means in their masks, and what is said of them."""


@OPPOSITES
def test_a_mask_that_means_the_opposite_of_its_name_departs(
    make: Callable[[], nn.Module],
    means: str,
    opposite: str,
) -> None:
    """Callers hand it what the name means elsewhere, and so does the suite."""
    target = check(make).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.mask")
    assert opposite in target.diagnosis[0]["says"]


def test_a_mask_of_booleans_has_a_meaning_of_its_own_where_callers_hand_over_numbers() -> None:
    """It may hide where it is true, as in torch. The report says so, and nothing fails."""
    target = check(TakesBooleansAlone).targets[0]
    assert target.verdict == "conformant"
    assert any("attention_mask hides where it is true" in note for note in target.notes)


@OPPOSITES
def test_a_meaning_that_its_author_describes_is_no_defect(
    make: Callable[[], nn.Module], means: str, opposite: str
) -> None:
    """The name may still mislead others, and that is remarked."""
    argument = opposite.partition(" ")[0]
    target = check(lambda: described(make(), mask=(argument, means))).targets[0]
    assert target.verdict == "conformant"
    assert any(opposite in note for note in target.notes)


def test_the_mask_that_was_found_is_shown() -> None:
    report = check(KeepsWhereAttentionMaskIsOne, level="agreement")
    target = report.targets[0]
    assert target.verdict == "conformant"
    mask = "attention_mask: (B, n), 0/1, 1 = keep"
    assert mask in conventions(target)
    assert mask in markdown.write(report)


class TakesAnImageMask(nn.Module):
    """Patches of an image, with a mask over patches: True = keep."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 28, 2, 2)
        self.pos_embed = nn.Parameter(torch.randn(9, 28))
        self.encoder = stack()

    def forward(self, image: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.patch_embed(image).flatten(2).mT + self.pos_embed
        hidden: Tensor = self.encoder(x, src_key_padding_mask=None if mask is None else ~mask)
        return hidden


def test_the_polarity_of_a_mask_over_patches_is_found_out() -> None:
    """A mask that keeps everything changes nothing: that tells its polarity where padding has no content."""
    report = check(TakesAnImageMask, level="agreement").targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert "MASK-3" in {r.id for r in report.of("pass")}


def test_an_integer_output_is_named() -> None:
    """Hidden states are floating numbers."""

    class Integers(Wrapped):
        def forward(self, x: Tensor) -> dict[str, int]:
            return {"length": x.shape[1]}

    report = check(Integers()).targets[0]
    assert report.verdict == "error"
    assert "returned dict" in report.notes[0]
