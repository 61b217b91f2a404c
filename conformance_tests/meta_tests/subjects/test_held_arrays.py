"""Encoders without a framework: objects that hold arrays of NumPy, and are called with arrays."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance_tests.engine.judging import check
from conformance_tests.errors import SubjectError
from conformance_tests.subjects.held_arrays import HeldArraysSubject, as_tensors, held_arrays
from conformance_tests.targets.adapting import adapt

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Map:
    """A map with what its training keeps beside it."""

    def __init__(self, wide: int, out: int, random: np.random.Generator) -> None:
        self.w, self.b = random.normal(0, wide**-0.5, (wide, out)), random.normal(0, 0.1, out)
        self.grad_w, self.moments = np.zeros_like(self.w), {"first": np.zeros_like(self.w)}
        self.read = np.zeros((1, 1, wide))

    def __call__(self, x: Array) -> Array:
        self.read = x
        return x @ self.w + self.b


class Norm:
    def __init__(self, d: int) -> None:
        self.gamma, self.beta = np.ones(d), np.zeros(d)

    def __call__(self, x: Array) -> Array:
        return self.gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) + self.beta


class Layer:
    """A Post-LN layer; the division of its scores can be replaced."""

    divisor = 8**0.5

    def __init__(self, d: int, heads: int, inner: int, random: np.random.Generator) -> None:
        self.heads = heads
        self.query, self.key, self.value, self.out = (Map(d, d, random) for _ in range(4))
        self.norms = [Norm(d), Norm(d)]
        self.expand, self.contract = Map(d, inner, random), Map(inner, d, random)

    def forward(self, x: Array, mask: Array | None) -> Array:
        def heads(y: Array) -> Array:
            return y.reshape(*y.shape[:2], self.heads, -1).swapaxes(1, 2)

        scores = heads(self.query(x)) @ heads(self.key(x)).swapaxes(2, 3) / self.divisor
        if mask is not None:
            scores = np.where(mask[:, None, None, :], -1e9, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ heads(self.value(x))
        x = self.norms[0](x + self.out(mixed.swapaxes(1, 2).reshape(x.shape)))
        return self.norms[1](x + self.contract(np.maximum(self.expand(x), 0)))


class Encoder:
    """Reads vectors; true in the mask means padding."""

    layer = Layer

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.layers = [self.layer(24, 3, 40, random) for _ in range(2)]

    def forward(self, x: Array, padding: Array | None = None, training: bool = True) -> tuple[Array, None]:
        for layer in self.layers:
            x = layer.forward(x, padding)
        return (np.random.default_rng().normal(size=x.shape) if training else x), None


class WithFlags(Encoder):
    """Keeps flags of training under several names."""

    def __init__(self) -> None:
        super().__init__()
        self.training, self.layers[0].train, self.layers[1].deterministic = True, True, False


def test_flags_are_those_of_evaluation_while_it_is_judged() -> None:
    encoder = WithFlags()
    subject = HeldArraysSubject(encoder)

    def flags() -> tuple[bool, bool, bool]:
        return encoder.training, encoder.layers[0].train, encoder.layers[1].deterministic

    assert flags() == (True, True, False)
    with subject.borrowed():
        assert flags() == (False, False, True)
    assert flags() == (True, True, False)


class FromADictionary(Encoder):
    """Its arrays have names in one argument, as a loader of batches hands them over."""

    def forward(self, batch: dict[str, Array]) -> tuple[Array, None]:  # type: ignore[override]
        return super().forward(batch["vectors"], batch.get("padding"), training=False)


def test_the_input_may_stand_in_a_dictionary() -> None:
    target = check(FromADictionary).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    conventions = target.profile["conventions"]
    assert conventions["input"] == "entries of batch: vectors, padding"
    assert conventions["mask"] == "padding: (B, n), boolean, True = ignore"


class DividedByTheWidth(Encoder):
    layer = type("Layer", (Layer,), {"divisor": 24**0.5})


def test_an_object_with_arrays_is_judged_like_any_encoder() -> None:
    """Its heads, norms and mask are found, in evaluation, and it holds what it held."""
    encoder = Encoder()
    before = {name: array.copy() for name, array in held_arrays(encoder).items()}
    target = check(encoder).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    choices = target.profile["choices"]
    assert [choices[name] for name in ("layer", "num_heads", "activation", "eps")] == ["post-ln", 3, "relu", 1e-6]
    after = held_arrays(encoder)
    weights = {name for name in before if name.rpartition(".")[2] in ("w", "b", "gamma", "beta")}
    assert all(np.array_equal(before[name], after[name]) for name in weights)


class KeepsItsAxes(Encoder):
    """Takes as many axes as the first array that it meets, right or wrong."""

    axes = 0

    def forward(self, x: Array, padding: Array | None = None, training: bool = True) -> tuple[Array, None]:
        self.axes = self.axes or x.ndim
        if x.ndim != self.axes:
            raise ValueError(f"an array with {self.axes} axes is wanted")
        return super().forward(x, padding, training)


def test_what_a_trial_leaves_behind_spoils_no_other_one() -> None:
    """Ids are tried first, and refused."""
    target = check(KeepsItsAxes()).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes


class KeptInFloat32(Encoder):
    """A table is added in float32; the first root of a number of float64 makes float64 of what it divides."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = (np.random.default_rng(i).normal(size=(300, 24)).astype(np.float32) for i in (1, 2))
        for layer in self.layers:
            layer.divisor = np.sqrt(np.float64(8.0))
            for part in (layer.query, layer.key, layer.value, layer.out, layer.expand, layer.contract):
                part.w, part.b = part.w.astype(np.float32), part.b.astype(np.float32)

    def forward(self, ids: Array, padding: Array | None = None) -> tuple[Array, None]:  # type: ignore[override]
        return super().forward(self.tokens[ids] + self.places[: ids.shape[1]], padding, training=False)


def test_what_float32_rounds_on_the_way_to_float64_is_judged_in_float32() -> None:
    target = check(KeptInFloat32).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    assert "computes a part in float32 whatever it is given: judged in float32" in target.notes


def test_what_is_wrong_with_it_is_named() -> None:
    target = check(DividedByTheWidth()).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.scores")
    assert "multiplied by 0.204124, where 1/√8 = 0.353553 belongs (test_held_arrays.py:" in target.diagnosis[0]["says"]


class DropsOutAlways(Encoder):
    """Features of the output vanish at random, in evaluation too."""

    def forward(self, x: Array, padding: Array | None = None, training: bool = True) -> tuple[Array, None]:
        hidden, _ = super().forward(x, padding, training)
        return hidden * (np.random.rand(*hidden.shape) > 0.1), None


def test_random_numbers_in_evaluation_are_named() -> None:
    """They are a fault of the encoder, and keep nobody from seeing which arrays it computes with."""
    target = check(DropsOutAlways()).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "dropout.identity"), target.notes
    assert "random numbers enter the output" in target.diagnosis[0]["says"]


class DrawsFromItsOwn(Encoder):
    """Features of the output vanish at random, by a generator that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(1)

    def forward(self, x: Array, padding: Array | None = None, training: bool = True) -> tuple[Array, None]:
        hidden, _ = super().forward(x, padding, training)
        return hidden * (self.random.binomial(1, 0.9, hidden.shape) / 0.9), None


def test_a_generator_that_it_holds_is_known() -> None:
    target = check(DrawsFromItsOwn()).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "dropout.identity"), target.notes
    assert "random numbers enter the output in evaluation (test_held_arrays.py:" in target.diagnosis[0]["says"]


def test_gradients_moments_and_caches_are_no_weights() -> None:
    """Only what changes the output when it is changed."""
    subject = adapt(Encoder())
    assert isinstance(subject, HeldArraysSubject)
    kinds = {name.rpartition(".")[2] for name in subject.weights()}
    assert kinds == {"w", "b", "gamma", "beta"}
    assert len(subject.weights()) == 2 * (6 * 2 + 2 * 2)
    assert {"layers.0.query.grad_w", "layers.0.query.moments.first"} <= held_arrays(Encoder()).keys()


def test_arrays_bound_to_a_function_are_weights() -> None:
    def mapped(x: Array, maps: list[Array]) -> Array:
        for w in maps:
            x = x @ w
        return x

    subject = adapt(partial(mapped, maps=[np.eye(24), 2 * np.eye(24)]))
    assert {name: tuple(w.shape) for name, w in subject.weights().items()} == {"maps.0": (24, 24), "maps.1": (24, 24)}
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    subject.set_weights({name: 3 * w for name, w in subject.weights().items()})
    assert torch.allclose(subject.encode((x,), None), 18 * x)


def test_arrays_beside_the_function_that_takes_them_are_weights() -> None:
    """Beside settings alone, a function is not an encoder."""

    def mapped(maps: list[Array], x: Array) -> Array:
        for w in maps:
            x = x @ w
        return x

    subject = adapt((mapped, [np.eye(24), 2 * np.eye(24)]))
    assert {name: tuple(w.shape) for name, w in subject.weights().items()} == {
        "0.0": (24, 24),
        "0.1": (24, 24),
    }
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    assert torch.allclose(subject.encode((x,), None), 2 * x)
    with pytest.raises(SubjectError, match="tuple is not an encoder"):
        adapt((mapped, {"layers": 2}))


class WritesIntoItsInput(Encoder):
    """Leaves its result in its caller's array."""

    def forward(self, x: Array, padding: Array | None = None, training: bool = True) -> tuple[Array, None]:
        x[:], _ = super().forward(x.copy(), padding, training)
        return x, None


def test_an_array_that_it_is_called_with_is_its_callers() -> None:
    target = check(WritesIntoItsInput).targets[0]
    assert [r.id for r in target.of("fail")] == ["ENC-6"], target.notes


def test_an_object_with_arrays_that_nothing_calls_is_no_encoder() -> None:
    class Table:
        def __init__(self) -> None:
            self.rows = np.ones((3, 4))

    with pytest.raises(SubjectError, match="Table holds arrays, but nothing calls it: make it callable, or give it"):
        adapt(Table())


def test_an_object_that_computes_with_none_of_its_arrays_is_no_encoder() -> None:
    class Idle:
        def __init__(self) -> None:
            self.rows = np.eye(24)

        def __call__(self, x: Array) -> Array:
            return 2 * x

    with pytest.raises(SubjectError, match="Idle returns the same whatever stands in its arrays, or never"):
        adapt(Idle())


def test_only_floating_arrays_that_can_be_changed_are_held() -> None:
    class Holder:
        def __init__(self) -> None:
            self.itself = self
            self.ids, self.nothing, self.frozen = np.arange(3), np.zeros(0), np.ones(2)
            self.frozen.flags.writeable = False
            self.parts = ({"w": np.ones(2)}, [np.zeros((1, 2))])

    assert {name: a.shape for name, a in held_arrays(Holder()).items()} == {"parts.0.w": (2,), "parts.1.0": (1, 2)}


def test_tensors_stand_for_all_arrays_that_come_back() -> None:
    class Foreign:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            return np.full(3, 2.0)

    returned = as_tensors(({"hidden": np.ones(2)}, [np.zeros(1)], None, Foreign()))
    assert isinstance(returned[0]["hidden"], Tensor)
    assert isinstance(returned[1][0], Tensor)
    assert returned[2] is None
    assert returned[3].tolist() == [2.0, 2.0, 2.0]
