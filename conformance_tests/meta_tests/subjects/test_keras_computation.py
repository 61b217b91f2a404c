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
