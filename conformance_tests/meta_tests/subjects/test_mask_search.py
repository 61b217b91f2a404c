"""The search for a padding mask: the inputs that it hands to an encoder, and the refusals that it reads."""

import pytest
import torch

from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.mask_search import declines, fewer_positions_than_sequences


def test_of_fewer_positions_none_are_all_of_a_sequence_and_padding() -> None:
    """An encoder may fail on such a sequence, and take its mask all the same."""
    keep = torch.tensor([[False, False, True], [True, False, True], [False, True, False]])
    fewer = fewer_positions_than_sequences(Probe((torch.ones(3, 3, 4),), keep))
    assert fewer.keep is not None
    assert fewer.keep.tolist() == [[True, True], [True, False], [False, True]]


@pytest.mark.parametrize(
    ("refusals", "is_declined"),
    [
        ([NotImplementedError("no masks"), NotImplementedError("no masks")], True),
        ([NotImplementedError("no masks of booleans"), TypeError("give numbers")], False),
    ],
)
def test_masks_are_not_implemented_if_every_form_says_so(refusals: list[Exception], is_declined: bool) -> None:
    assert declines(refusals) == is_declined
