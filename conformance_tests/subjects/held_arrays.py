"""Objects that hold arrays of NumPy and are called: encoders without a framework.

Every array of floating numbers in the object, in its parts, or bound to its function counts as one of its weights if a
change of it changes what the encoder computes. Gradients, caches and moments of an optimiser do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, from_numpy

from conformance_tests.errors import SubjectError
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import Arguments, apart_from_evaluation, arguments_of, entrance
from conformance_tests.subjects.first_call import first_hidden_states
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.live_arrays import LiveArrays


def held_arrays(thing: Any) -> dict[str, np.ndarray]:
    """Return the floating arrays with entries that an object holds, however deep, by dotted names."""
    found: dict[str, np.ndarray] = {}
    seen: set[int] = set()
    waiting = [("", thing)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, np.ndarray):
            if here.size and np.issubdtype(here.dtype, np.floating) and here.flags.writeable:
                found[path.removeprefix(".")] = here
            continue
        if id(here) in seen or isinstance(here, type | ModuleType | str | bytes):
            continue
        seen.add(id(here))
        waiting += [(f"{path}.{name}", value) for name, value in reversed(parts_of(here))]
    return found


def parts_of(thing: Any) -> list[tuple[Any, Any]]:
    """Return what an object holds, by name or place."""
    if isinstance(thing, Mapping):
        return list(thing.items())
    if isinstance(thing, list | tuple):
        return list(enumerate(thing))
    if isinstance(thing, partial):
        return [*parts_of(thing.func), *enumerate(thing.args), *thing.keywords.items()]
    if isinstance(thing, MethodType):
        return parts_of(thing.__self__)
    return list(getattr(thing, "__dict__", {}).items())


class HeldArraysSubject(CalledSubject):
    """An object that computes with the arrays of NumPy that it holds.

    Raises:
        SubjectError: if nothing calls it, or none of its arrays is seen to change what it computes.
    """

    def __init__(self, thing: Any) -> None:
        super().__init__()
        self.hints = Hints()
        self._function = entrance(thing)
        self._arguments, self._evaluation = apart_from_evaluation(arguments_of(self._function))
        arrays = held_arrays(thing)
        self._arrays = LiveArrays(lambda: arrays, live=arrays)
        with self._arrays.put_back(), suppress(Exception):
            self._observe()
        if not self._arrays.live:
            raise SubjectError(
                f"{type(thing).__name__} returns the same whatever stands in its arrays, or never the same twice: hold "
                "the arrays with which it computes, and draw no random numbers"
            )

    def _observe(self) -> None:
        """Find out the precision, and leave out the arrays that the encoder does not compute with."""
        first = self.first_call(lambda x, named: self.call_with_batch([x], named, gradients=False), None)
        if first is None:
            return

        def hidden() -> Tensor:
            return first_hidden_states(self.call_with_batch([first.inputs], first.named, gradients=False))

        def hidden_again() -> Tensor:
            """With the same random numbers each time: that they act in evaluation is another fault."""
            before = np.random.get_state()
            np.random.seed(0)
            try:
                return hidden()
            finally:
                np.random.set_state(before)

        self.draws_numbers = not torch.equal(hidden().nan_to_num(), hidden().nan_to_num())
        self.first_sizes, self.first_forms = Sizes(first.batch, first.length), first.forms
        self.dtype = hidden().dtype
        self._arrays.observe(hidden_again)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: afterwards each array holds what it held."""
        with self._arrays.put_back():
            yield

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: without those that tell evaluation from training."""
        return self._arguments

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Any], gradients: bool) -> Any:  # noqa: ARG002
        """See ``CalledSubject``."""
        inputs = [x.detach().numpy().copy() for x in positional]
        beside = {name: v.numpy().copy() if isinstance(v, Tensor) else v for name, v in named.items()}
        return as_tensors(self._function(*inputs, **beside, **self._evaluation))

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {name: w for name, w in self._arrays.read().items() if name in self._arrays.live}

    def rounded(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``Subject``."""
        return self._arrays.rounded(values)

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``: the arrays are written into."""
        self._arrays.write(values)


def as_tensors(returned: Any) -> Any:
    """Return what an encoder returns, with tensors for its arrays, and for those of others that NumPy can read."""
    if hasattr(returned, "__array__"):
        return from_numpy(np.array(returned))
    if isinstance(returned, tuple | list):
        return [as_tensors(each) for each in returned]
    if isinstance(returned, Mapping):
        return {name: as_tensors(each) for name, each in returned.items()}
    return returned
