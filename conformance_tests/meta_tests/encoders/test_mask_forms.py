"""Masks in the forms in which people write them: each wrong one is named with its place and its number."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainAttention, layers_with, plain_layers

Mask = Callable[[Tensor, Tensor], Tensor]
"""Makes masked scores of scores and a mask (B, 1, 1, n), True = keep."""


class Masking(PlainAttention):
    """Masks as a function says."""

    masked: Mask

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = self.masked(scores, ~hidden)
        return self.out(self.merge(scores.softmax(-1) @ v))


class Masked(Plain):
    """Calls its mask as BERT does: what is to be kept is true."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(x, None if attention_mask is None else attention_mask.bool())


def masking(masked: Mask) -> Plain:
    """An encoder whose layers mask so."""
    encoder = Masked(plain_layers())
    for layer in encoder.layers:
        layer.attention.__class__ = type("Masking", (Masking,), {"masked": staticmethod(masked)})
    return encoder


def lowest(scores: Tensor) -> float:
    return torch.finfo(scores.dtype).min


RIGHT: dict[str, Mask] = {
    "filled with -inf": lambda s, keep: s.masked_fill(~keep, -torch.inf),
    "filled with the lowest number": lambda s, keep: s.masked_fill(~keep, lowest(s)),
    "the lowest number added": lambda s, keep: s + (~keep).to(s) * lowest(s),
    "filled with -1e9": lambda s, keep: torch.where(keep, s, -1e9),
    "filled before the scale": lambda s, keep: (2 * s).masked_fill(~keep, -torch.inf) / 2,
    "filled with -10000": lambda s, keep: s.masked_fill(~keep, -1e4),
    "-10000 added": lambda s, keep: s + (~keep) * -1e4,
}

WRONG: dict[str, tuple[Mask, str]] = {
    "a typo in the exponent": (
        lambda s, keep: s.masked_fill(~keep, -1e-9),
        "masked scores become −1e−09, which real scores can beat",
    ),
    "a sign lost": (lambda s, keep: s.masked_fill(~keep, 1e9), "masked scores become 1e+09, and padding gets the most"),
    "a small fill before the scale": (
        lambda s, keep: torch.where(keep, 4 * s, -30.0) / 4,
        "masked scores become −7.5, which real scores can beat",
    ),
    "a small number added": (lambda s, keep: s + (~keep) * -30.0, "masked scores are lowered by 30, which real scores"),
    "a logarithm with a floor": (
        lambda s, keep: s + torch.log(keep + 1e-9),
        "masked scores are lowered by 20.7233, which real scores can beat",
    ),
    "infinity times zero": (lambda s, keep: s + (~keep) * -math.inf, "the scores to keep become NaN"),
    "turned round, with -1e9": (
        lambda s, keep: s.masked_fill(keep, -1e9),
        "the scores to keep become −1e+09, and padded keys are read",
    ),
    "turned round, the lowest number added": (
        lambda s, keep: s + keep.to(s) * lowest(s),
        "attention_mask hides where it is true, the opposite of what that name means elsewhere",
    ),
    "rows, with -1e9": (
        lambda s, keep: s.masked_fill(~keep.mT, -1e9),
        "the rows of padded queries become −1e+09, and padded keys are read",
    ),
    "rows, with -inf": (
        lambda s, keep: s.masked_fill(~keep.mT, -math.inf),
        "padded queries",
    ),
    "rows and columns, with -inf": (
        lambda s, keep: s.masked_fill(~(keep & keep.mT), -math.inf),
        "padded queries are masked as well as padded keys: their rows are empty, and the softmax makes them NaN",
    ),
    "behind a class token that there is not": (
        lambda s, keep: s.masked_fill(~torch.cat([torch.ones_like(keep[..., :1]), keep[..., :-1]], -1), -math.inf),
        "the mask is moved one position to the right",
    ),
    "made of lengths, with ≤": (
        lambda s, keep: s.masked_fill(torch.arange(s.shape[-1]) > keep.sum(-1, keepdim=True), -math.inf),
        "lets one position more through: it compares with ≤",
    ),
    "not assigned": (lambda s, keep: s.masked_fill(~keep, 0) * 0 + s, "the mask is accepted and never used"),
}


@pytest.mark.parametrize("form", RIGHT)
def test_a_mask_that_hides_padding_is_right_in_any_form(form: str) -> None:
    """Fills of −10000 too, wherever they stand: with weights as large as encoders have they hide."""
    target = check(masking(RIGHT[form])).targets[0]
    assert target.verdict == "conformant", target.notes + [r.message for r in target.of("fail")]


@pytest.mark.parametrize("form", WRONG)
def test_a_wrong_mask_is_named_with_its_place_and_number(form: str) -> None:
    """It departs at the mask: queries and keys are not exchanged to fit it."""
    masked, said = WRONG[form]
    target = check(masking(masked)).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.mask"), target.notes
    assert any(said in d["says"] for d in target.diagnosis), [d["says"] for d in target.diagnosis]


class FirstMasked(Plain):
    """A mask that must be given, of ones where a token is, reaches the first layer alone."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        first, second = self.layers
        added: Tensor = second(first(x, (1 - attention_mask[:, None, None]).bool()), None)
        return added


def test_a_call_without_padding_keeps_all_where_a_mask_must_be_given() -> None:
    """Zeros hide all, and what they change in the first layer would be taken for another mistake."""
    report = check(lambda: FirstMasked(plain_layers())).targets[0]
    assert [d["deviation"] for d in report.diagnosis] == ["mask-reaches-first-layer-only"]
    assert "ENC-2" not in {r.id for r in report.of("fail")}


@pytest.mark.parametrize("axis", [1, 2], ids=["heads", "queries"])
def test_a_softmax_over_another_axis_is_named(axis: int) -> None:
    """And is where it departs, whatever else might be exchanged."""

    class Wrong(PlainAttention):
        def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
            q, k, v = self.split(x)
            scores = self.score(q, k)
            if hidden is not None:
                scores = scores.masked_fill(hidden, -1e9)
            return self.out(self.merge(scores.softmax(axis) @ v))

    encoder = Plain(plain_layers())
    for layer in encoder.layers:
        layer.attention.__class__ = Wrong
    target = check(encoder).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.weights")
    assert "the softmax does not run over the keys" in target.diagnosis[0]["says"]


class SkipsFlatMasks(Plain):
    """Uses a mask with four axes alone, and says nothing of others."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, ~mask if mask is not None and mask.ndim == 4 else None)


def test_a_mask_that_is_dropped_without_a_word_is_unused() -> None:
    """Callers hand over (B, n); that another form works does not help them."""
    target = check(SkipsFlatMasks(plain_layers())).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.mask")
    assert "the mask is accepted and never used" in target.diagnosis[0]["says"]


class AddsItsMask(Plain):
    """Adds whatever it is given to the scores."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, None if mask is None else mask[:, None, None].to(x))


class Adding(PlainAttention):
    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k) + (0.0 if hidden is None else hidden)
        return self.out(self.merge(scores.softmax(-1) @ v))


def test_a_mask_that_is_added_is_right_and_booleans_are_said_to_hide_nothing() -> None:
    target = check(AddsItsMask(layers_with(Adding))).targets[0]
    assert target.verdict == "conformant", target.notes
    assert "mask is added to the scores: booleans are taken too, and hide nothing" in target.notes


@pytest.mark.parametrize(("times", "verdict"), [(1.0, "conformant"), (10.0, "nonconformant")])
def test_a_mask_that_is_multiplied_before_it_is_added_is_one_of_numbers(times: float, verdict: str) -> None:
    """Minus infinity would hide whatever it is multiplied by; what is added as it is, and 1 less, is a mask to add."""

    class Multiplies(AddsItsMask):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(x, None if mask is None else times * (mask.to(x) - 1))

    target = check(Multiplies(layers_with(Adding))).targets[0]
    assert target.verdict == verdict, target.notes
    if verdict == "nonconformant":
        assert (target.departs_at, target.profile["conventions"]["mask"]) == (
            "attention.mask",
            "mask: (B, n), 0/1, 1 = keep",
        )
        assert "masked scores are lowered by 10" in target.diagnosis[0]["says"]


class AddsNumbers(Plain):
    """Hides what a mask of booleans says, and adds one of numbers to the scores."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is None or attention_mask.dtype is torch.bool:
            return super().forward(x, attention_mask)
        return self.run(x, attention_mask[:, None, None].to(x))


class HidingOrAdding(Adding):
    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        hides = hidden is not None and hidden.dtype is torch.bool
        return PlainAttention.forward(self, x, hidden) if hides else super().forward(x, hidden)


def test_numbers_that_do_not_do_what_booleans_do_are_said() -> None:
    """Tokenizers give numbers."""
    said = "attention_mask takes 0 and 1 too, which do not do what false and true do"
    target = check(AddsNumbers(layers_with(HidingOrAdding))).targets[0]
    assert target.verdict == "conformant", target.notes
    assert said in target.notes
    assert said not in check(Masked(plain_layers())).targets[0].notes


class HidesAnId(Plain):
    """Takes token ids, and hides the positions of one of them; its table holds a row for padding."""

    def __init__(self, hidden: int, padding: int | None) -> None:
        super().__init__(plain_layers())
        self.table, self.places = nn.Embedding(50, 28, padding_idx=padding), nn.Embedding(300, 28)
        self.hidden = hidden

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        return self.run(x, (ids == self.hidden)[:, None, None])


def test_the_id_that_is_hidden_is_the_one_that_the_table_calls_padding() -> None:
    """The encoder chooses that id, and one that states none may hide any."""
    for padding in (1, None):
        assert check(HidesAnId(1, padding)).targets[0].verdict == "conformant"
    target = check(HidesAnId(1, 0)).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.mask")
    assert "hidden where the id is 1, though the table of embeddings has padding_idx 0" in target.diagnosis[0]["says"]


class ByHand(PlainAttention):
    """A softmax by hand, whose exponents are held below 0, where they are already."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        top = scores if hidden is None else scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        exponentials = (scores - top.amax(-1, keepdim=True)).clamp(max=0).exp()
        if hidden is not None:
            exponentials = exponentials * ~hidden
        return self.out(self.merge(exponentials / exponentials.sum(-1, keepdim=True).clamp_min(1e-30) @ v))


class HoldsLosses(PlainAttention):
    """Holds exponents above a number so far below 0 that its exponential is lost in a sum with 1."""

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x)
        scores = self.score(q, k)
        if hidden is not None:
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        exponentials = (scores - scores.amax(-1, keepdim=True)).clamp(min=-60).exp()
        if hidden is not None:
            exponentials = exponentials * ~hidden
        return self.out(self.merge(exponentials / exponentials.sum(-1, keepdim=True).clamp_min(1e-30) @ v))


class ClampsItsScores(PlainAttention):
    """Holds scores below a bound that some reach."""

    bounds: tuple[float | None, float] = (None, 1.0)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(q, k).clamp(*self.bounds)


class ClampsFewScores(ClampsItsScores):
    """Holds scores within bounds that none of a usual call reaches."""

    bounds = (-40.0, 40.0)


class ClampsInfinities(ClampsItsScores):
    """Holds scores within bounds that keep them from infinity in half precision."""

    bounds = (-50000.0, 50000.0)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (ByHand, "conformant"),
        (HoldsLosses, "conformant"),
        (ClampsInfinities, "conformant"),
        (ClampsItsScores, "nonconformant"),
        (ClampsFewScores, "nonconformant"),
    ],
)
def test_a_bound_that_holds_by_itself_changes_nothing(kind: Any, verdict: str) -> None:
    encoder = Plain(plain_layers())
    for layer in encoder.layers:
        layer.attention.__class__ = kind
    target = check(encoder).targets[0]
    assert target.verdict == verdict, target.notes + [r.message for r in target.of("fail")]


class FewEntries(nn.Module):
    """Tokens become one another in many layers with a norm behind each sum and 16 entries."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        layers = [nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(100)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_outputs_that_depend_on_little_are_no_defect_where_the_specifications_do_not_either() -> None:
    """After so many layers all tokens are nearly equal, and no output shows whether attention looks ahead."""
    target = check(FewEntries()).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")]
