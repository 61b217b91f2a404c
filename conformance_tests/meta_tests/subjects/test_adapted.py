"""Objects that exchange NumPy arrays, and whose arrays are changed where they compute with them."""

from typing import Any

import numpy as np
import pytest
import torch

from conformance_tests.errors import Unsupported
from conformance_tests.meta_tests.subjects.test_subject import PROBES
from conformance_tests.subjects.adapted import AdaptedSubject
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import ArraySubject


class Arrays:
    """Keeps what it is called with, and returns what it is told to."""

    def __init__(self, returns: Any = None) -> None:
        self.weights: dict[str, Any] = {"w": np.array([2, 3], dtype=np.float32), "n": [[5]]}
        self.returns = returns
        self.got: list[Any] = []

    def encode(self, x: Any, mask: Any) -> Any:
        self.got = [x, mask]
        return x if self.returns is None else self.returns


def test_arrays_go_in_and_tensors_come_out() -> None:
    """The mask is an array of truth values, or None."""
    arrays = Arrays()
    assert isinstance(arrays, ArraySubject)
    subject = AdaptedSubject(arrays)
    x, keep = torch.ones(2, 3, 4, dtype=torch.float64), torch.tensor([[True, False, True]] * 2)
    assert torch.equal(subject.encode((x,), keep), x)
    assert [type(a) for a in arrays.got] == [np.ndarray, np.ndarray]
    assert arrays.got[1].tolist() == [[True, False, True]] * 2
    subject.encode((x,), None)
    assert arrays.got[1] is None
    assert subject.hints == Hints()
    assert subject.subject is arrays


def test_weights_are_copies_in_float64() -> None:
    """Lists of numbers too; what is done to them changes nothing of the subject."""
    arrays = Arrays()
    weights = AdaptedSubject(arrays).weights()
    assert {name: (w.dtype, w.tolist()) for name, w in weights.items()} == {
        "w": (torch.float64, [2, 3]),
        "n": (torch.float64, [[5]]),
    }
    weights["w"][0] = 7
    assert arrays.weights["w"].tolist() == [2, 3]


def test_an_output_is_a_copy() -> None:
    """An encoder may return the array that it keeps."""
    kept = np.zeros((2, 3))
    AdaptedSubject(Arrays(kept)).encode((torch.zeros(2, 3),), None).add_(1)
    assert kept.tolist() == [[0, 0, 0]] * 2


def test_several_inputs_are_refused() -> None:
    two = (torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(Unsupported, match=r"^encode\(x, mask\) takes one input, but this encoder needs several$"):
        AdaptedSubject(Arrays()).encode(two, None)


@pytest.mark.parametrize(
    ("returns", "dtype"),
    [
        (None, torch.float64),
        (np.zeros(2, np.float32), torch.float32),
        (np.zeros(2, np.float16), torch.float16),
        (np.zeros(2, np.int64), torch.float64),
        ("nothing of the kind", torch.float64),
    ],
)
def test_the_precision_is_that_of_what_is_returned(returns: Any, dtype: torch.dtype) -> None:
    """Whole numbers, and what cannot be called, tell of none."""
    subject = AdaptedSubject(Arrays(returns))
    subject.learn(PROBES)
    assert subject.dtype is dtype


class Scaled:
    """Multiplies by what ``weights`` shows, in whichever way a subclass keeps it."""

    def __init__(self) -> None:
        self.kept = {"layer.0.w": np.full(4, 2.0), "layer.1.w": np.full(4, 3.0, np.float32), "scale": np.ones(1)}

    @property
    def weights(self) -> dict[str, Any]:
        return self.kept

    def encode(self, x: Any, _: Any) -> Any:
        return x * self.kept["layer.0.w"] * self.kept["layer.1.w"] * self.kept["scale"]


class ShowsCopies(Scaled):
    """``weights`` returns copies: writing into them changes no output."""

    @property
    def weights(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in self.kept.items()}


class KeepsACopyOfSome(Scaled):
    """It multiplied the maps of its layers when it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.product = self.kept["layer.0.w"] * self.kept["layer.1.w"]

    def encode(self, x: Any, mask: Any) -> Any:
        if mask is not None:
            raise ValueError("no masks here")
        return x * self.product * self.kept["scale"]


class ReadOnly(Scaled):
    """Nothing can be written into its weights."""

    def __init__(self) -> None:
        super().__init__()
        for array in self.kept.values():
            array.flags.writeable = False


class Forgetful(Scaled):
    """Equal calls differ."""

    calls = 0

    def encode(self, x: Any, _: Any) -> Any:
        self.calls += 1
        return super().encode(x, _) + self.calls


def learned(encoder: Any) -> AdaptedSubject:
    subject = AdaptedSubject(encoder)
    subject.learn(PROBES)
    return subject


def test_arrays_that_an_encoder_computes_with_are_written_into_and_put_back() -> None:
    """Each keeps its precision, and afterwards holds what it held."""
    encoder = Scaled()
    subject = learned(encoder)
    before = {name: array.copy() for name, array in encoder.kept.items()}
    x = torch.ones(1, 1, 4, dtype=torch.float64)
    with subject.borrowed():
        other = subject.rounded({name: w + 1 / 3 for name, w in subject.weights().items()})
        subject.set_weights(other)
        assert torch.equal(subject.encode((x,), None), x * other["layer.0.w"] * other["layer.1.w"] * other["scale"])
        assert all(torch.equal(w, other[name]) for name, w in subject.weights().items())
    assert {name: array.dtype for name, array in encoder.kept.items()} == {n: a.dtype for n, a in before.items()}
    assert all(np.array_equal(array, before[name]) for name, array in encoder.kept.items())


@pytest.mark.parametrize("kind", [ShowsCopies, ReadOnly, Forgetful])
def test_weights_that_an_encoder_does_not_compute_with_cannot_be_set(kind: type[Scaled]) -> None:
    """And looking for it leaves them as they were."""
    encoder = kind()
    subject = learned(encoder)
    with pytest.raises(Unsupported, match="the subject's weights cannot be set"):
        subject.set_weights(subject.weights())
    assert all(np.array_equal(array, Scaled().kept[name]) for name, array in encoder.kept.items())


def test_an_array_with_two_names_is_one() -> None:
    encoder = Scaled()
    encoder.kept["tied"] = encoder.kept["layer.0.w"]
    subject = learned(encoder)
    weights = subject.weights()
    assert weights["tied"] is weights["layer.0.w"]
    rounded = subject.rounded(weights)
    assert rounded["tied"] is rounded["layer.0.w"]


def test_an_array_of_which_it_keeps_a_copy_stays_as_it_is() -> None:
    """The others are changed."""
    subject = learned(KeepsACopyOfSome())
    given = subject.weights()
    with subject.borrowed():
        other = subject.rounded({name: w + 1 for name, w in given.items()})
        subject.set_weights(other)
        assert {name for name in given if not torch.equal(other[name], given[name])} == {"scale"}
        assert all(torch.equal(w, other[name]) for name, w in subject.weights().items())


def test_an_encoder_that_refuses_every_mask_is_said_to() -> None:
    """It cannot be judged conformant; one that takes masks can."""
    refusing, taking = learned(KeepsACopyOfSome()), learned(Scaled())
    assert not refusing.takes_mask
    assert refusing.unknown() == (
        "the encoder accepts no padding mask: encode(x, mask) raised ValueError: no masks here"
    )
    assert (taking.takes_mask, taking.unknown()) == (True, "")
