"""Which axis is the batch follows from what a change in one sample changes."""

import torch
from torch import Tensor

from conformance_tests.subjects.calling import batch_comes_first

X = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2)


def test_an_output_that_does_not_follow_its_input_shows_no_batch() -> None:
    """With the batch second the first sample changes; with the batch first nothing does, though samples differ."""

    def call(x: Tensor, first: bool) -> Tensor:
        return X if first else x

    assert batch_comes_first(call, X, (True, False)) is False
    assert batch_comes_first(call, X, (False, True)) is False


def test_an_output_in_which_samples_mix_shows_no_batch() -> None:
    """The likeliest order is taken where neither shows one."""

    def call(x: Tensor, first: bool) -> Tensor:
        return x + x.mean(dim=0)

    assert batch_comes_first(call, X, (True, False)) is True
    assert batch_comes_first(call, X, (False, True)) is False
