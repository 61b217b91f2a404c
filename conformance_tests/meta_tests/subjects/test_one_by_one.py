"""Encoders of one sequence get those of a batch one after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from conformance_tests.errors import Unsupported
from conformance_tests.numerics.probes import Probes
from conformance_tests.subjects.held_arrays import HeldArraysSubject
from conformance_tests.subjects.one_by_one import joined, with_batch, without_batch
from conformance_tests.subjects.torch_subject import TorchSubject
from conformance_tests.targets.adapting import adapt
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import TORCH_POST_LN

X = torch.arange(12.0).reshape(2, 3, 2)


@dataclass
class Result:
    hidden: Tensor
    layers: list[Tensor]


@pytest.mark.parametrize(
    ("wrapped", "joined_as"),
    [
        (lambda x: x, X),
        (lambda x: (x, None, 3), (X, None, 3)),
        (lambda x: [x, {"pooled": x[0]}], [X, {"pooled": X[:, 0]}]),
        (lambda x: Result(x, [x, 2 * x]), {"hidden": X, "layers": [X, 2 * X]}),
    ],
)
def test_what_comes_back_is_joined_wherever_it_stands(wrapped: Callable[[Tensor], Any], joined_as: Any) -> None:
    returned = joined([with_batch(wrapped(x)) for x in X])
    torch.testing.assert_close(returned, joined_as)


def test_only_arrays_for_a_batch_of_one_lose_their_batch() -> None:
    assert without_batch(X[:1]).shape == (3, 2)
    assert without_batch(torch.tensor([7])).item() == 7
    assert [without_batch(value) for value in (None, 3)] == [None, 3]
    assert without_batch(X).shape == X.shape
    assert without_batch(torch.tensor(7)).ndim == 0


class Mixing(nn.Module):
    """Adds a map of the mean over the kept positions to each position."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 6)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n, _ = x.shape
        kept = torch.ones(n, dtype=torch.bool) if mask is None else mask
        return x + self.map(x[kept]).mean(0)


def test_a_batch_is_handed_over_in_its_sequences_with_their_masks() -> None:
    """The mask of each sequence is a row; what is recorded of all of them stands together."""
    subject = TorchSubject(Mixing())
    with subject.borrowed():
        subject.computation()
        assert subject.one_by_one
        probes = Probes(Encoder(TORCH_POST_LN, Dimensions(d_model=6, h=2, d_ff=8, N=2)), 0)
        subject.learn(probes)
        padded = probes["scattered"]
        returned = subject.encode(padded.inputs, padded.keep)
        alone = [subject.module(x, keep) for x, keep in zip(padded.inputs[0], padded.keep, strict=True)]
        torch.testing.assert_close(returned, torch.stack(alone))
        recorded = subject.record(padded.inputs, padded.keep)
    assert any(array.shape == returned.shape and torch.equal(array, returned.detach()) for array in recorded)
    assert subject.conventions()["mask"] == "mask: (n,), boolean, True = keep"


def test_sequences_that_are_computed_in_different_ways_are_not_put_together() -> None:
    class Uneven(Mixing):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            y = super().forward(x, mask)
            return y + 0 * y if x[0, 0] > 0 else y

    subject = TorchSubject(Uneven())
    subject.one_by_one = True
    x = torch.stack([torch.ones(3, 6), -torch.ones(3, 6)]).double()
    with subject.borrowed(), pytest.raises(Unsupported, match="computes its sequences in different ways"):
        subject.record((x,), None)


def test_arrays_of_numpy_are_read_one_by_one_too() -> None:
    """An encoder that would take ids for the numbers of one sequence reads vectors."""

    class OneSequence:
        def __init__(self) -> None:
            self.w = np.eye(6)

        def __call__(self, x: Any) -> Any:
            n, _ = x.shape
            return x @ self.w + x.sum(0) / n

    subject = adapt(OneSequence())
    assert isinstance(subject, HeldArraysSubject)
    assert subject.one_by_one
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(subject.encode((x,), None), x + x.mean(1, keepdim=True))


def test_an_encoder_that_takes_a_batch_of_one_is_given_a_sequence_if_it_takes_that_too() -> None:
    """Its products turn all axes round, which a batch of one survives."""

    class Turned:
        def __init__(self) -> None:
            self.w = np.eye(6)

        def __call__(self, x: Any) -> Any:
            if len(x) > 1 and x.ndim > 2:
                raise ValueError("shapes do not go together")
            return x @ self.w + x.sum(-2, keepdims=True)

    subject = adapt(Turned())
    assert isinstance(subject, HeldArraysSubject)
    assert subject.one_by_one
