"""The computation of Keras layers as a graph: its parameters bear the subject's own names."""

import os
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs the extra `keras`: run by `make frameworks`")
pytest.importorskip("keras_hub", reason="needs the package keras-hub: run by `make frameworks`")

from conformance_tests.computation.graph import Graph  # noqa: E402
from conformance_tests.computation.reading import read  # noqa: E402
from conformance_tests.meta_tests.encoders.keras_encoders import Stack, graph  # noqa: E402
from conformance_tests.subjects.keras.subject import KerasSubject  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
"""Keras on torch hands its arrays to NumPy in an outdated way."""


def read_of(thing: Any) -> tuple[Graph, Mapping[str, Tensor]]:
    """The graph of an encoder of Keras, and the codes that are read of it; its weights are as they were."""
    subject = KerasSubject(thing)
    before = subject.weights()
    with subject.borrowed():
        computation = subject.computation()
    found = read(computation)
    assert found.unread == []
    after = subject.weights()
    assert all(torch.equal(after[name], w) for name, w in before.items())
    assert {v.name for v in computation.values if v.operation == "parameter"} == before.keys()
    return computation, found.codes


def test_the_maps_of_a_layer_are_entries_of_its_variables() -> None:
    """Keras keeps an axis for the heads, which lie side by side in the map."""
    computation, codes = read_of(Stack())
    for l in range(2):
        kernel = computation.owner(codes[f"layers.{l}.W_K"])
        assert kernel is not None
        assert kernel.name == f"blocks.{l}.att.key_dense.kernel"
        assert torch.equal(codes[f"layers.{l}.W_K"], kernel.codes.reshape(32, 32))


def test_the_inputs_of_a_functional_model_are_arguments() -> None:
    """The sequence comes first, and then the mask."""
    computation, _ = read_of(graph(pre=True)())
    assert [v.name for v in computation.values if v.operation == "argument"] == ["x", "mask"]


class MakesLayersInEachCall(keras.layers.Layer):  # type: ignore[misc]
    """Adds with a layer that it makes when it is called."""

    def call(self, x: Any) -> Any:
        return keras.layers.Add()([x, x])


def test_layers_that_are_made_in_a_call_compute_in_float64_too() -> None:
    given = keras.Input((None, 24))
    subject = KerasSubject(keras.Model(given, MakesLayersInEachCall()(keras.layers.Dense(24)(given))))
    policy = keras.config.dtype_policy()
    with subject.borrowed():
        assert subject.encode((torch.randn(2, 5, 24, dtype=torch.float64),), None).dtype is torch.float64
    assert keras.config.dtype_policy() is policy


def test_a_functional_model_states_the_shape_of_its_input() -> None:
    """Nothing else tells the size of its images: flattened patches are mapped, and no table is for their places."""
    images = keras.Input((12, 12, 3))
    grid = keras.ops.transpose(keras.ops.reshape(images, (-1, 3, 4, 3, 4, 3)), (0, 1, 3, 2, 4, 5))
    patches = keras.ops.reshape(grid, (-1, 9, 48))
    subject = KerasSubject(keras.Model(images, keras.layers.Dense(48)(patches)))
    assert subject.stated_shape() == (None, 12, 12, 3)  # type: ignore[attr-defined]
    with subject.borrowed():
        assert subject.computation().output.shape == (2, 9, 48)
