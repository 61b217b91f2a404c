"""Layers of Keras on the JAX backend."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax

from conformance_tests.subjects.calling import Arguments
from conformance_tests.subjects.jax.subject import JaxSubject
from conformance_tests.subjects.keras.call import KerasCall, given_weights, kept_seed, quiet
from conformance_tests.subjects.stated import heads_of_kernels, stated_by


class KerasOnJax(JaxSubject):
    """Layers of Keras on the JAX backend: JAX differentiates them."""

    def __init__(self, layers: KerasCall) -> None:
        weights = given_weights(layers)
        super().__init__(weights, stated_by(layers.parts, heads_of_kernels(weights)))
        self.layers = layers

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: everything computes in float64."""
        with jax.enable_x64(True), quiet(), kept_seed(), self.layers.in_float64():
            yield

    def fixed(self) -> set[str]:
        """See ``Subject``: what is not trainable."""
        return self.layers.frozen()

    def arguments(self) -> Arguments:
        """See ``CalledSubject``."""
        return self.layers.arguments()

    def stated_shape(self) -> tuple[int | None, ...] | None:
        """See ``CalledSubject``."""
        return self.layers.stated_shape()

    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See ``JaxSubject``."""
        return self.layers(weights, positional, named)
