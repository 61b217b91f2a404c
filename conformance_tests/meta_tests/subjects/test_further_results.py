"""Results beside the hidden states: functions stand in for models that return them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.further_results import mixes_samples, reads_padding

VECTORS = torch.arange(42.0, dtype=torch.float64).reshape(3, 7, 2).sin()

KEEP = torch.tensor([[1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]]) == 1


@pytest.mark.parametrize(
    ("read", "mixes"),
    [
        (lambda x: x[:, 0], False),
        (lambda x: x.transpose(0, 1), False),
        (lambda x: x.flatten(0, 1), False),
        (lambda x: x[0], True),
        (lambda x: x[:, 0] - x[:, 0].mean(0), True),
        (lambda x: x.mean(0), False),
        (lambda x: x.square().mean(), False),
        (lambda x: x[:, 0] @ x[:, 0].T, False),
        (lambda x: torch.ones(7, 2), False),
        (lambda x: x[:, 0] + torch.rand(2, dtype=x.dtype), False),
    ],
)
def test_each_sequence_has_its_own_part_of_a_result(read: Callable[[Tensor], Tensor], mixes: bool) -> None:
    """A part that is made of other sequences, too, is a mistake; losses, similarities and noise are none.

    A mean over the batch, (7, 2), reads all sequences alike, and so might a statistic.
    """
    assert mixes_samples(lambda inputs, keep: [inputs[0], read(inputs[0])], Probe((VECTORS,))) == mixes


@pytest.mark.parametrize(
    ("read", "reads"),
    [
        (lambda x, keep: x.mean(1), True),
        (lambda x, keep: x.masked_fill(~keep[..., None], 0).sum(1), False),
        (lambda x, keep: x, False),
        (lambda x, keep: x[:, -1], False),
    ],
)
def test_a_vector_for_each_sequence_reads_no_padding(read: Callable[[Tensor, Tensor], Tensor], reads: bool) -> None:
    """Hidden states have padded positions of their own, which may be anything; and some models read the last one."""

    def results(inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        assert keep is not None
        return [read(inputs[0], keep)]

    assert reads_padding(results, Probe((VECTORS,), KEEP)) == reads
