"""What is right for some sizes alone: lengths, windows, tables that end, batches; and positions in the scores."""

from collections.abc import Callable
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import plain_layers
from conformance_tests.meta_tests.encoders.uncatalogued import Make, Reading, attending, distance
from conformance_tests.numerics.probes import MANY


def rotated(x: Tensor) -> Tensor:
    """Every feature turned with its partner in the other half, as complex numbers; the seventh one stays."""
    first, second = x[..., :3], x[..., 3:6]
    places = torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
    rates = 10000.0 ** -(torch.arange(first.shape[-1], dtype=x.dtype) / first.shape[-1])
    turned = torch.complex(first, second) * torch.exp(1j * places * rates)
    return torch.cat([turned.real, turned.imag, x[..., 6:]], -1)


def scored(change: Callable[[Tensor], Tensor]) -> Make:
    """An encoder whose scores are changed."""
    return attending(score=lambda self, q, k: change(q @ k.mT / self.scale))


SOME_SIZES: dict[str, tuple[Make, str]] = {
    "doubled scores of long inputs": (scored(lambda s: s * 2 if s.shape[-1] > 7 else s), "attention.scores"),
    "doubled scores of two tokens": (scored(lambda s: s * 2 if s.shape[-1] == 2 else s), "attention.scores"),
    "doubled scores of large batches": (scored(lambda s: s * 2 if len(s) > 3 else s), "attention.scores"),
    "a scale made for the length of the example": (
        scored(lambda s: s * log(s.shape[-1] + 1) / log(8)),
        "attention.scores",
    ),
}


@pytest.mark.parametrize("name", SOME_SIZES)
def test_what_is_right_for_some_sizes_alone_is_found_where_it_is(name: str) -> None:
    """No length and no number of sequences goes unasked."""
    make, equation = SOME_SIZES[name]
    report = check(make).targets[0]
    assert report.verdict == "nonconformant", report.notes
    assert report.departs_at == equation, [r.message for r in report.of("fail")]


def test_a_linear_bias_of_the_scores_is_no_mistake() -> None:
    """Nor is it where positions are added as well."""
    make = scored(lambda s: s - 2.0 ** -torch.arange(2, 10, 2)[:, None, None] * distance(s.shape[-1]))
    report = check(make).targets[0]
    assert (report.verdict, report.profile["choices"]["bias"]) == ("conformant", "alibi")


def test_a_window_is_no_mistake() -> None:
    """It is wider than short inputs: long ones show it."""

    def hide(_: Any, scores: Tensor, hidden: Tensor | None) -> Tensor:
        far = distance(scores.shape[-1]) > 12
        return scores.masked_fill(far if hidden is None else far | hidden, -1e30)

    report = check(attending(hide=hide)).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    chosen = report.profile["choices"]
    assert (chosen["reach"], chosen["window"]) == ("local", 24)


def test_the_slopes_of_other_heads_are_named() -> None:
    """Those of eight heads, where there are four."""
    make = scored(lambda s: s - 2.0 ** -torch.arange(1, 5)[:, None, None] * distance(s.shape[-1]))
    report = check(make).targets[0]
    assert (report.verdict, report.departs_at) == ("nonconformant", "attention.alibi")
    assert "fall with the distance by 0.5, 0.25, 0.125, 0.0625, where 0.25, 0.0625" in report.diagnosis[0]["says"]


def test_rotary_positions_are_no_mistake() -> None:
    """Whatever they are written in, such as complex numbers."""
    report = check(attending(score=lambda self, q, k: rotated(q) @ rotated(k).mT / self.scale)).targets[0]
    assert (report.verdict, report.diagnosis) == ("conformant", [])
    assert report.profile["choices"]["rotation"] == "halves"


class Ending(Reading):
    """Its table of positions has fifteen rows."""

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.shape[1] > 15:
            raise IndexError("positions end at 15")
        return super().forward(tokens)


def test_an_encoder_whose_positions_end_is_judged_up_to_there() -> None:
    """That long inputs are refused is no mistake, and is said."""
    report = check(lambda: Ending(torch.add)).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
    assert any("positions end at 15" in note and "judged with at most" in note for note in report.notes)


class Crowded(nn.Module):
    """Refuses more than four sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = attending()()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 4:
            raise RuntimeError("too many sequences")
        hidden: Tensor = self.inner(x)
        return hidden


def test_an_encoder_that_refuses_a_larger_batch_is_nonconformant() -> None:
    """A table ends somewhere; a batch may be of any size."""
    report = check(Crowded, explain=False).targets[0]
    assert report.verdict == "nonconformant"
    assert any("too many sequences" in r.message for r in report.of("fail"))


def test_probe_many_is_longer_than_what_is_made_for_short_inputs() -> None:
    """Twice as long, and then some."""
    from conformance_tests.deviations.distances import START_OVER

    assert MANY > 2 * START_OVER


class ForWords(nn.Module):
    """An encoder of 40 ids at most, which makes its positions of a table, with a map to the words behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(53, 28), nn.Embedding(40, 28), nn.Linear(28, 53)
        self.layers = nn.ModuleList(plain_layers())

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        assert x.shape[1] <= 40, f"{x.shape[1]} positions, and at most 40"
        x = x + self.places(torch.arange(x.shape[1])) / 2
        for layer in self.layers:
            x = layer(x, None)
        mapped: Tensor = self.head(x)
        return mapped


def test_an_encoder_that_refuses_a_length_is_not_given_single_sequences() -> None:
    """One of 41 ids would go through as a batch of 41 sequences of one, in which attention does nothing."""
    report = check(ForWords).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")]
