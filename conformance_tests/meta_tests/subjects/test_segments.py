"""Segment ids go to their own argument alone; a call without a place for them is judged with one segment."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import profile


class Bert(nn.Module):
    """BERT behind another call; ``keep`` has True = keep, and segments are 0 unless given."""

    def __init__(self) -> None:
        super().__init__()
        sizes = Dimensions(d_model=20, h=2, d_ff=28, N=2, V=31, max_len=23)
        self.inside = EncoderModule(Encoder(profile("bert"), sizes))

    def hidden(self, ids: Tensor, keep: Tensor | None, segments: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.inside(ids, torch.zeros_like(ids) if segments is None else segments, keep=keep)
        return hidden


class NoPlaceForSegments(Bert):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.hidden(input_ids, None if attention_mask is None else attention_mask == 1)


class NoPlaceAmongOthers(NoPlaceForSegments):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Tensor:
        return super().forward(input_ids, attention_mask)


class TakesLengths(Bert):
    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.hidden(ids, None if lengths is None else torch.arange(ids.shape[1]) < lengths[:, None])


class SegmentsBehindTheMask(Bert):
    def forward(self, ids: Tensor, mask: Tensor | None = None, sentence_ids: Tensor | None = None) -> Tensor:
        return self.hidden(ids, mask, sentence_ids)


class SegmentsUnderAnotherName(Bert):
    def forward(self, ids: Tensor, which: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.hidden(ids, mask, which)


class HandsOnWhatItIsGiven(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.encoder(*args, **kwargs)


@pytest.mark.parametrize(
    ("make", "takes_segments"),
    [
        (NoPlaceForSegments, False),
        (NoPlaceAmongOthers, False),
        (TakesLengths, False),
        (SegmentsBehindTheMask, True),
        (SegmentsUnderAnotherName, True),
        (lambda: HandsOnWhatItIsGiven(NoPlaceForSegments()), False),
        (lambda: HandsOnWhatItIsGiven(SegmentsBehindTheMask()), True),
    ],
)
def test_segments_are_given_to_nothing_but_their_own_argument(
    make: Callable[[], nn.Module], takes_segments: bool
) -> None:
    """A mask, or lengths, in the second place are no segments: without a place for them, all are 0."""
    report = check(make).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert ("segments" not in report.profile["conventions"]) == takes_segments
    assert {"EMB-8", "MASK-2"} <= {r.id for r in report.of("pass")}
