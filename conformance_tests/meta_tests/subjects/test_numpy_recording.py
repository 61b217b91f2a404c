"""Arrays of NumPy that record: every operation gives the numbers that NumPy gives, with codes that stand for them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from conformance_tests.engine.judging import check
from conformance_tests.errors import Unsupported
from conformance_tests.subjects.held_arrays import HeldArraysSubject
from conformance_tests.subjects.numpy_recording import NumpyRecording, Recorded, bare

Array = np.ndarray[Any, Any]


@pytest.fixture
def recording() -> NumpyRecording:
    return NumpyRecording()


def given(recording: NumpyRecording) -> tuple[Recorded, Recorded]:
    random = np.random.default_rng(0)
    x = recording.known("argument", random.normal(size=(2, 5, 6)), "x")
    return x, recording.known("parameter", random.normal(size=(6, 6)), "W", learned=True)


def in_place(x: Array) -> Array:
    beside = x * 2.0
    beside += x
    return beside


def written(x: Array) -> Array:
    found = np.zeros((2, 5, 6))
    found[:, 1:3] = x[:, :2]
    return found


def hidden(x: Array) -> Array:
    found = np.array(x)
    found[x > 0] = -1e9
    return found


OPERATIONS: dict[str, Callable[[Array, Array], Any]] = {
    "sums": lambda x, _: x.sum(-1) + np.sum(x, axis=2),
    "mean": lambda x, _: np.mean(x, axis=-1, keepdims=True),
    "mean of turned": lambda x, _: np.mean(x.T, axis=0),
    "variance": lambda x, _: np.var(x, axis=1, ddof=1),
    "deviation": lambda x, _: x.std(-1),
    "average": lambda x, _: np.average(x, axis=1),
    "maximum": lambda x, _: np.exp(x - np.max(x, -1, keepdims=True)),
    "matrices": lambda x, W: x @ W,
    "turned matrices": lambda x, W: np.matmul(W, x.swapaxes(1, 2)),
    "batches": lambda x, _: x @ x.transpose(0, 2, 1),
    "vector": lambda x, W: x @ W[0],
    "dot": lambda x, W: np.dot(x, W),
    "method dot": lambda x, W: x.dot(W),
    "inner": lambda x, W: np.inner(x, W),
    "tensordot": lambda x, W: np.tensordot(x, W, axes=1),
    "tensordot of axes": lambda x, W: np.tensordot(x, W, axes=([2], [1])),
    "outer": lambda x, W: np.outer(x[0, 0], W[1]),
    "einsum": lambda x, _: np.einsum("bqd,bkd->bqk", x, x),
    "einsum of one": lambda x, _: np.einsum("bqd->bdq", x),
    "where": lambda x, _: np.where(x > 0, x, 0.0),
    "triangle": lambda x, _: np.tril(x @ x.swapaxes(1, 2)),
    "clip": lambda x, _: np.clip(x, 0, 1),
    "powers": lambda x, _: np.power(x, 2) + x**3 + np.square(x) + np.float_power(np.abs(x), 0.5),
    "comparisons": lambda x, _: (x > 0) & ~(x > 1),
    "in place": lambda x, _: in_place(x),
    "written": lambda x, _: written(x),
    "hidden": lambda x, _: hidden(x),
    "filled": lambda x, _: np.full_like(x, 2.0) + np.ones_like(x) + np.zeros_like(x),
    "single": lambda x, _: x[0, 0, 0] * 2,
    "reversed": lambda x, _: x[:, ::-1],
    "chosen": lambda x, _: x[:, [0, 2]],
    "iterated": lambda x, _: np.stack([row.sum() for row in x]),
    "in a list": lambda x, _: np.array([x[0], x[1] * 2]),
    "padded": lambda x, _: np.pad(x, ((0, 0), (1, 1), (0, 0))),
    "tiled": lambda x, _: np.tile(x, (1, 2, 1)) * np.repeat(x, 2, axis=1),
    "side by side": lambda x, W: np.concatenate([x[0], W]) @ np.hstack([W, W]),
    "split": lambda x, _: np.split(x, 3, axis=-1)[1] + np.array_split(x, 3, axis=2)[0],
    "reshaped": lambda x, _: np.reshape(x.transpose(0, 2, 1), (2, -1)),
    "axes": lambda x, _: np.moveaxis(np.expand_dims(x, 1), 0, 2).squeeze(),
    "spread": lambda x, _: np.broadcast_to(x[:, :, None], (2, 5, 3, 6)) * 2,
    "norm": lambda x, _: x / np.linalg.norm(x, axis=-1, keepdims=True),
    "of Python": lambda x, _: np.vectorize(math.erf)(x),
    "single precision": lambda x, _: x.astype(np.float32) * np.float32(0.5),
    "copies": lambda x, _: x.copy().flatten() + np.asarray(x).ravel(),
    "taken": lambda x, W: np.take(W, [2, 0], axis=0) @ x[0].take([1, 3], axis=0).T + x.take([5, 4]),
    "along an axis": lambda x, _: np.apply_along_axis(lambda row: row / np.sum(row), -1, x),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_codes_stand_for_the_numbers(recording: NumpyRecording, name: str) -> None:
    x, W = given(recording)
    want = OPERATIONS[name](np.array(bare(x)), np.array(bare(W)))
    with recording.active():
        got = OPERATIONS[name](x, W)
    assert isinstance(got, Recorded)
    np.testing.assert_allclose(bare(got), want, atol=1e-12)
    numbers = recording.graph.numbers(recording.codes(got)).numpy()
    np.testing.assert_allclose(numbers, np.asarray(bare(got), dtype=float), atol=1e-12)
    constant = name == "filled"
    assert recording.graph.depends(recording.codes(got)) is not constant


def test_what_was_read_keeps_its_codes_when_the_array_is_written_into(recording: NumpyRecording) -> None:
    x, W = given(recording)
    with recording.active():
        h = x * 1.5
        product = h @ W
        h += 1.0
        (value,) = recording.graph.owners(recording.codes(product))
    assert recording.graph.owner(value.reads[0]).operation == "mul"  # type: ignore[arg-type, union-attr]
    assert recording.graph.owner(recording.codes(h)).operation == "add"  # type: ignore[union-attr]


def test_products_with_marks_are_look_ups(recording: NumpyRecording) -> None:
    _, W = given(recording)
    ids = recording.known("argument", np.array([[1, 5], [0, 2]]), "ids")
    with recording.active():
        marks = np.zeros((4, 6))
        marks[np.arange(4), ids.flatten()] = 1
        looked_up = [np.eye(6)[ids] @ W, (marks @ W).reshape(2, 2, 6), W[ids], np.take(W, ids, axis=0)]
    for found in looked_up:
        np.testing.assert_array_equal(bare(found), bare(W)[bare(ids)])
        value = recording.graph.owner(recording.codes(found))
        assert value is not None
        assert (value.operation, value.options["axis"]) == ("look-up", 0)
        assert recording.graph.owner(value.arrays[1].reshape(-1)).name == "ids"  # type: ignore[union-attr]


def test_columns_are_looked_up_as_rows_of_the_table_turned(recording: NumpyRecording) -> None:
    _, W = given(recording)
    ids = recording.known("argument", np.array([[1, 3], [0, 2]]), "ids")
    with recording.active():
        found = W.T[:, ids]
    np.testing.assert_array_equal(bare(found), bare(W).T[:, bare(ids)])
    value = recording.graph.owner(recording.codes(found))
    assert value is not None
    assert (value.operation, value.options["axis"]) == ("look-up", 0)
    assert torch.equal(value.arrays[0], recording.codes(W))


def test_draws_that_change_nothing_are_constants() -> None:
    recording = NumpyRecording(draws=False)
    x, _ = given(recording)
    with recording.active():
        kept = x * (np.random.random(x.shape) >= 0)
    np.testing.assert_array_equal(bare(kept), bare(x))
    assert not recording.graph.disturbed
    assert "random" not in {value.operation for value in recording.graph.values}


def test_draws_give_their_average_and_are_remembered(recording: NumpyRecording) -> None:
    x, _ = given(recording)
    with recording.active():
        masks = [np.random.binomial(1, 0.8, size=x.shape) / 0.8, np.random.default_rng(0).random(x.shape) + 0.5]
        found = [x * mask for mask in masks] + [x + np.random.normal(scale=0.1, size=x.shape)]
    for each in found:
        assert torch.equal(recording.codes(each), recording.codes(x))
    assert recording.graph.disturbed
    assert np.random.random(3).std() > 0  # nothing is replaced any more


class Nameless:
    """A layer whose arrays stand in a list, in which no name tells what they are."""

    factor = 6**-0.5

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        shapes = [(24, 24)] * 4 + [(24,), (24,), (24, 40), (40,), (40, 24), (24,), (24,), (24,)]
        self.things = [random.normal(size=shape) / 5 for shape in shapes]

    def __call__(self, x: Array) -> Array:
        a, b, c, d, e, f, g, h, i, j, k, m = self.things

        def normed(y: Array, gamma: Array, beta: Array) -> Array:
            y = y - y.mean(-1, keepdims=True)
            return y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta

        heads = [np.split(x @ w, 4, axis=-1) for w in (c, a, d)]
        mixed = []
        for one, two, three in zip(*heads, strict=True):
            scores = one @ two.swapaxes(1, 2) * self.factor
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(weights / weights.sum(-1, keepdims=True) @ three)
        x = normed(x + np.concatenate(mixed, axis=-1) @ b, e, f)
        return normed(x + np.maximum(x @ g + h, 0) @ i + j, k, m)


def test_nothing_but_the_computation_tells_what_its_arrays_are() -> None:
    target = check(Nameless()).targets[0]
    assert (target.verdict, target.level) == ("conformant", "trace"), target.notes
    choices = target.profile["choices"]
    found = [choices[name] for name in ("layer", "num_heads", "activation", "projections")]
    assert found == ["post-ln", 4, "relu", "linear"]


def test_a_wrong_line_is_named() -> None:
    wrong = type("Wrong", (Nameless,), {"factor": 1 / 6})
    target = check(wrong()).targets[0]
    says = target.diagnosis[0]["says"]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.scores")
    assert "multiplied by 0.166667, where 1/√6 = 0.408248 belongs (test_numpy_recording.py:" in says


def test_what_is_computed_in_numbers_of_python_is_noticed() -> None:
    class InLists(Nameless):
        def __call__(self, x: Array) -> Array:
            return super().__call__(np.array([[list(map(float, row)) for row in rows] for rows in x]))

    class Sorts(Nameless):
        def __call__(self, x: Array) -> Array:
            return super().__call__(x[:, np.argsort(x[0, :, 0])])

    for kind in (InLists, Sorts):
        with pytest.raises(Unsupported, match="a part of it is computed in single numbers and lists"):
            HeldArraysSubject(kind()).computation()
