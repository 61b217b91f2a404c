"""Gradients of a sum of an encoder's outputs: by its input, and sketches of those by its parameters.

Those of a large encoder take as much memory as its weights. So each is sketched as soon as it arises, and not kept.
"""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from conformance_tests.numerics.sketches import nothing_like, sketch
from conformance_tests.parameters.mapping import ParameterMapping


class Gradients(NamedTuple):
    """Gradients of a sum of an encoder's outputs.

    Attributes:
        by_input: by the input; None if it is token ids.
        by_path: by each learned parameter, the sketch of it.
        felt: names of the subject's arrays whose gradient is not 0 throughout; empty for the specification.
    """

    by_input: Tensor | None
    by_path: Mapping[str, Tensor]
    felt: frozenset[str] = frozenset()


class Arising:
    """The gradients by a subject's weights, taken as they arise.

    Args:
        mapping: what of which weight each canonical parameter is.
        held: the weights, by the subject's own names.
    """

    def __init__(self, mapping: ParameterMapping, held: Mapping[str, Tensor]) -> None:
        self._held = held
        self._sources = mapping.with_gradients()
        self._paths: dict[str, list[str]] = {}
        for path, source in self._sources.items():
            for name in source.names:
                self._paths.setdefault(name, []).append(path)
        self._sketches: dict[str, Tensor] = {}
        self._felt: set[str] = set()

    def add(self, name: str, gradient: Tensor) -> None:
        """Take the gradient by a weight, or a summand of it: what is taken of it, and sketches, are linear."""
        if gradient.any():
            self._felt.add(name)
        for path in self._paths.get(name, ()):
            one = self._sketched(path, {name: gradient})
            self._sketches[path] = self._sketches[path] + one if path in self._sketches else one

    def _sketched(self, path: str, by_name: Mapping[str, Tensor]) -> Tensor:
        """Return the sketch of the gradient by a parameter, where only these weights have one."""
        source = self._sources[path]
        gradient = source.take(*(by_name.get(name, nothing_like(self._held[name])) for name in source.names))
        return sketch(gradient if source.times in (0, 1) else gradient / source.times)

    def gradients(self, by_input: Tensor | None) -> Gradients:
        """Return what has arisen; what has not is 0."""
        arisen = self._sketches
        by_path = {path: arisen[path] if path in arisen else self._sketched(path, {}) for path in self._sources}
        return Gradients(by_input, by_path, frozenset(self._felt))
