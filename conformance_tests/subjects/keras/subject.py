"""Keras layers and models as subjects, on the JAX or the torch backend."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.errors import SubjectError
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.bridged import WithWeights
from conformance_tests.subjects.calling import Arguments
from conformance_tests.subjects.dispatched import Recorder, unfused
from conformance_tests.subjects.keras.call import KerasCall, given_weights, kept_seed, quiet
from conformance_tests.subjects.noisy_call import noisy_call
from conformance_tests.subjects.stated import heads_of_kernels, stated_by
from conformance_tests.subjects.subject import Subject
from conformance_tests.subjects.torch_recording import TorchRecording

BACKENDS = ("jax", "torch")
"""Backends on which a call is a function of the variables' values, with visible operations."""


def KerasSubject(thing: Any) -> Subject:
    """Make the subject for a layer, a model, or a list of layers that are called one after the other.

    Raises:
        SubjectError: if it cannot be built, or runs on a backend without a subject.
    """
    if keras.backend.backend() not in BACKENDS:
        raise SubjectError(
            f"Keras runs on {keras.backend.backend()} here: set the environment variable KERAS_BACKEND "
            f"to {' or '.join(BACKENDS)}, which compute the same layers"
        )
    with quiet(), kept_seed():
        call = KerasCall(thing)
        if keras.backend.backend() == "torch":
            return KerasOnTorch(call)
        from conformance_tests.subjects.keras.on_jax import KerasOnJax

        return KerasOnJax(call)


class KerasOnTorch(WithWeights):
    """Layers of Keras on the torch backend: torch's autograd differentiates them."""

    def __init__(self, layers: KerasCall) -> None:
        weights = given_weights(layers)
        super().__init__(weights, stated_by(layers.parts, heads_of_kernels(weights)))
        self.layers = layers

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: everything computes in float64."""
        with quiet(), kept_seed(), self.layers.in_float64():
            yield

    def conventions(self) -> dict[str, str]:
        """See ``CalledSubject``: and that Keras rounds."""
        return super().conventions() | {"precision": "Keras promotes float64 to float32; judged without that"}

    def fixed(self) -> set[str]:
        """See ``Subject``: what is not trainable."""
        return self.layers.frozen()

    def arguments(self) -> Arguments:
        """See ``CalledSubject``."""
        return self.layers.arguments()

    def stated_shape(self) -> tuple[int | None, ...] | None:
        """See ``CalledSubject``."""
        return self.layers.stated_shape()

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:
        """See ``CalledSubject``."""
        with torch.set_grad_enabled(gradients):
            if self.ending is None:
                return self.layers(self.at_hand, positional, named)
            returned: list[Any] = []
            with self.layers.noting(lambda _, given: returned.append(given), self.ending.part):
                self.layers(self.at_hand, positional, named)
            return returned[-1]

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation, with attention unfused."""
        recorder = Recorder()
        with unfused(), recorder:
            self.encode(inputs, keep)
        return [x for x in inputs if x.is_floating_point()] + recorder.results

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, with noise on what is learned."""

        def tried(x: Tensor, named: Mapping[str, Tensor | None]) -> Any:
            return self.call_with_batch([x], named, gradients=False)

        with noisy_call(self, tried, sizes) as (called, weights, frozen):
            recording = TorchRecording(weights, frozen, {}, weights)
            with self.layers.noting(recording.note):
                return recording.of_call(called, next(iter(self.arguments()), ""), tried, {})
