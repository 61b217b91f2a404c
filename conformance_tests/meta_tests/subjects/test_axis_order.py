"""Which axis is the batch follows from what a change in one sample changes."""

import torch
from torch import Tensor

from conformance_tests.subjects.calling import BATCH_FIRST, SEQUENCE_FIRST, order_of_axes

X = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2)


def test_an_output_that_does_not_follow_its_input_shows_no_batch() -> None:
    """With the batch second the first sample changes; with the batch first nothing does, though samples differ."""

    def call(x: Tensor, order: str) -> Tensor:
        return X if order == BATCH_FIRST else x

    assert order_of_axes(call, X, (BATCH_FIRST, SEQUENCE_FIRST)) == SEQUENCE_FIRST
    assert order_of_axes(call, X, (SEQUENCE_FIRST, BATCH_FIRST)) == SEQUENCE_FIRST


def test_an_output_in_which_samples_mix_shows_no_batch() -> None:
    """The likeliest order is taken where neither shows one."""

    def call(x: Tensor, order: str) -> Tensor:
        return x + x.mean(dim=0)

    assert order_of_axes(call, X, (BATCH_FIRST, SEQUENCE_FIRST)) == BATCH_FIRST
    assert order_of_axes(call, X, (SEQUENCE_FIRST, BATCH_FIRST)) == SEQUENCE_FIRST


def test_the_batch_is_found_where_input_and_output_have_different_orders() -> None:
    """Vectors (B, n, d) go in, and hidden states (n, B, d) come out."""
    x = torch.randn(2, 3, 4, dtype=torch.float64)

    def call(x: Tensor, order: str) -> Tensor:
        given = x if order == BATCH_FIRST else x.transpose(0, 1)
        hidden = given + given.mean(dim=1, keepdim=True)
        return hidden.transpose(0, 1) if order == BATCH_FIRST else hidden

    assert order_of_axes(call, x, (SEQUENCE_FIRST, BATCH_FIRST)) == BATCH_FIRST
