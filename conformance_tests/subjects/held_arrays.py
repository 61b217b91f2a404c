"""Objects that hold arrays of NumPy and are called: encoders without a framework.

Every array of floating numbers in the object, in its parts, or bound to its function counts as one of its weights if a
change of it changes what the encoder computes. Gradients, caches and moments of an optimiser do not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, from_numpy

from conformance_tests.computation.graph import Graph, Value
from conformance_tests.computation.inputs import is_table_of_waves
from conformance_tests.computation.norm import apart
from conformance_tests.computation.shown import EncoderReading
from conformance_tests.errors import SubjectError, Unsupported, one_line
from conformance_tests.numerics.compare import BUDGET
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.calling import EVALUATION, Arguments, apart_from_evaluation, arguments_of, entrance
from conformance_tests.subjects.entered import EnteredSubject
from conformance_tests.subjects.first_call import FirstCall, first_hidden_states, with_output
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.holding import Apart, functions_in, held, walked, whole_numbers_in
from conformance_tests.subjects.likely_inputs import SEQUENCE
from conformance_tests.subjects.live_arrays import LiveArrays
from conformance_tests.subjects.noisy_call import noisy_call
from conformance_tests.subjects.numpy_draws import Averages
from conformance_tests.subjects.numpy_recording import NumpyRecording, differ
from conformance_tests.subjects.subject import Precision

NEARLY = 1e-4
"""How far numbers that float32 rounds on the way may be from exact ones; these are a hundred times as near mostly."""

NOT_RECORDED = "its arrays cannot be replaced by some that record"


def held_arrays(thing: Any) -> dict[str, np.ndarray]:
    """Return the floating arrays with entries that an object holds, however deep, by dotted names."""
    arrays = held(thing, np.ndarray)
    return {n: a for n, a in arrays.items() if a.size and np.issubdtype(a.dtype, np.floating) and a.flags.writeable}


@contextmanager
def in_evaluation(thing: Any) -> Iterator[None]:
    """Let an object, and what it holds, be in evaluation where attributes switch between that and training."""
    switched = [
        (vars(here), name, state)
        for _, here in walked(thing, np.ndarray)
        for name, state in getattr(here, "__dict__", {}).items()
        if isinstance(state, bool) and EVALUATION.get(name, state) is not state
    ]
    for attributes, name, state in switched:
        attributes[name] = not state
    try:
        yield
    finally:
        for attributes, name, state in switched:
            attributes[name] = state


class HeldArraysSubject(EnteredSubject):
    """An object that computes with the arrays of NumPy that it holds.

    Raises:
        SubjectError: if nothing calls it, or none of its arrays is seen to change what it computes.
    """

    ends_with = "what it computes in {}"
    """See ``CalledSubject``: functions of NumPy have no parts with names."""

    def __init__(self, thing: Any) -> None:
        super().__init__()
        self.hints = Hints()
        self._places: dict[str, tuple[int, int]] = {}
        self._thing = thing
        self._recording: NumpyRecording | None = None
        self._tables: set[str] = set()
        self._function = entrance(thing)
        self._arguments, self._evaluation = apart_from_evaluation(arguments_of(self._function))
        arrays = held_arrays(thing)
        self._arrays = LiveArrays(lambda: arrays, live=arrays)
        with self.borrowed(), suppress(Exception):
            self._observe()
        if not self._arrays.live:
            raise SubjectError(
                f"{type(thing).__name__} returns the same whatever stands in its arrays, or never the same twice: hold "
                "the arrays with which it computes, and draw no random numbers"
            )

    def _observe(self) -> None:
        """Find out the precision, and leave out the arrays that the encoder does not compute with."""
        first = self.first_call(self._tried, Sizes())
        if first is None:
            return

        def hidden() -> Tensor:
            return first_hidden_states(self._tried(first.inputs, first.named))

        def hidden_again() -> Tensor:
            """With the same random numbers each time: that they act in evaluation is another fault."""
            before = np.random.get_state()
            np.random.seed(0)
            try:
                return hidden()
            finally:
                np.random.set_state(before)

        def as_it_is() -> Tensor:
            """Call the object itself: copies of it draw the same numbers, where it holds a source of them."""
            given = {name: v.clone() if isinstance(v, Tensor) else v for name, v in first.named.items()}
            return first_hidden_states(self.call_with_batch([first.inputs.clone()], given, gradients=False))

        self.draws_numbers = any(not torch.equal(f().nan_to_num(), f().nan_to_num()) for f in (hidden, as_it_is))
        self.first_sizes, self.first_forms = Sizes(first.batch, first.length), first.forms
        self.dtype = hidden().dtype
        try:
            arrays, read = self._arrays.held(), EncoderReading(self._shown(first)).reached()
            used = {id(array) for name, array in arrays.items() if name in read}
            self._arrays.live = {name for name, array in arrays.items() if id(array) in used}
        except Unsupported:
            self._arrays.observe(hidden_again)
        live = {name: w for name, w in self._arrays.read().items() if name in self._arrays.live}
        self._tables = {name for name, w in live.items() if is_table_of_waves(w)}
        self._arrays.live -= self._tables

    def _tried(self, x: Tensor, named: Mapping[str, Any]) -> Any:
        """Call a copy of it around the same arrays, with copies: what a trial leaves behind spoils no other one."""
        given = {name: v.clone() if isinstance(v, Tensor) else v for name, v in named.items()}
        arrays = {id(array): array for array in self._arrays.held().values()}
        with patch.object(self, "_function", entrance(copied(self._thing, arrays))):
            return self.call_with_batch([x.clone()], given, gradients=False)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: it is in evaluation; afterwards each array holds what it held."""
        with self._arrays.put_back(), in_evaluation(self._thing):
            yield

    @contextmanager
    def computing_in(self, precision: Precision) -> Iterator[None]:
        """See ``Subject``: NumPy computes in the precision of what it is given, so that a lower one can be had."""
        if precision != Precision(torch.float32):
            with super().computing_in(precision):
                yield
            return
        own, self.dtype = self.dtype, torch.float32
        try:
            yield
        finally:
            self.dtype = own

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """See ``Subject``."""
        return super().encode(inputs, keep, gradients).to(self.dtype)

    def narrowest_part(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> torch.dtype | None:
        """See ``Subject``: float32, if the same operations give other numbers in float64, and nearly the same ones.

        Numbers of float32 stay so until they meet a number of float64.
        """
        if self.dtype is not torch.float64:
            return None
        given = self.encode(inputs, keep, gradients=False)
        try:
            with self._recorded():
                exact = self.encode(inputs, keep, gradients=False)
        except Exception:  # what does not record may as well compute in float64
            return None
        off = apart(given, exact)
        return torch.float32 if BUDGET < off < NEARLY else None

    def stated_arguments(self) -> Arguments:
        """See ``EnteredSubject``: without those that tell evaluation from training."""
        return self._arguments

    def asked_of(self, argument: Any) -> Any:
        """See ``EnteredSubject``: a copy of it."""
        arrays = {id(array): array for array in self._arrays.held().values()}
        return entrance(copied(self._thing, arrays))(argument, **self._evaluation)

    def handed_out(self, x: Tensor) -> Any:
        """See ``EnteredSubject``."""
        return x.numpy()

    def numbers(self) -> Sequence[int]:
        """See ``CalledSubject``: those in its parts, however deep."""
        return whole_numbers_in(self._thing, np.ndarray)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Any], gradients: bool) -> Any:  # noqa: ARG002
        """See ``CalledSubject``: it gets the very numbers, in their order in memory, and may write into them."""
        inputs = [x.detach().numpy() for x in positional]
        beside = {name: v.numpy() if isinstance(v, Tensor) else v for name, v in named.items()}
        if self._recording is not None:
            return self._record(self._recording, inputs, beside)
        if self.ending is not None:
            with self._recorded() as recording:
                return self._record(recording, inputs, beside)
        arranged, further = self.arranged(inputs, beside)
        return as_tensors(self._function(*arranged, **further, **self._evaluation))

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """See ``Subject``: what operations on each entry give, by line and place."""
        given = self._operations(graph)
        self._places = {f"{v.line} (operation {i} of {len(given)})": (i, len(given)) for i, v in enumerate(given, 1)}
        codes = (v.codes[None] if self.one_by_one else v.codes for v in given)
        return tuple(zip(self._places, codes, strict=True))

    def _operations(self, graph: Graph) -> list[Value]:
        """Return what may be hidden states, in order of execution."""
        axes = SEQUENCE - 1 if self.one_by_one else SEQUENCE
        return [v for v in graph.values if v.kind == "elementwise" and v.depends and len(v.shape) == axes]

    def _up_to_its_end(self, recording: NumpyRecording, returned: Any) -> Any:
        """Return what the encoder in a model gives; what is returned, where nothing stands behind it.

        Raises:
            Unsupported: if a call with these sizes takes other operations.
        """
        if self.ending is None:
            return as_tensors(returned, recording.tensor)
        place, count = self._places[self.ending.part]
        given = self._operations(recording.graph)
        if len(given) != count:
            raise Unsupported(f"a call of these sizes takes {len(given)} operations, and not {count}")
        return recording.remembered(given[place - 1], self.dtype)

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation."""
        with self._recorded() as recording:
            try:
                self.encode(inputs, keep, gradients=False)
            except Exception as fault:  # whatever it is that the encoder does with arrays which record
                raise Unsupported(f"{NOT_RECORDED}: {one_line(fault)}") from fault
        return [x for x in inputs if x.is_floating_point()] + recording.results()

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, with noise on what is learned."""
        with noisy_call(self, self._tried, sizes) as (called, _, _):
            return self._shown(called)

    def _shown(self, called: FirstCall) -> Graph:
        """Return the computation of a call.

        Raises:
            Unsupported: if a part of it is not recorded.
        """

        def shown(x: Tensor) -> Graph:
            with self._recorded() as recording:
                return with_output(recording.graph, self._tried(x, called.named), recording.codes_of)

        try:
            one, another = map(shown, (called.inputs, called.inputs.flip(1)))
        except Unsupported:
            raise
        except Exception as fault:
            raise Unsupported(f"{NOT_RECORDED}: {one_line(fault)}") from fault
        if differ(one, another) or not EncoderReading(one).reached():
            raise Unsupported("a part of it is computed in single numbers and lists, which record nothing")
        return one

    @contextmanager
    def _recorded(self) -> Iterator[NumpyRecording]:
        """Record calls of a copy of the encoder."""
        self._recording = NumpyRecording(draws=self.draws_numbers)
        try:
            yield self._recording
        finally:
            self._recording = None

    def _record(self, recording: NumpyRecording, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a copy of the encoder that holds arrays which record."""
        sources = held(self._thing, np.random.Generator | np.random.RandomState).values()
        instead: dict[int, Any] = {id(source): Averages(recording.drawn, source) for source in sources}
        for name, array in self._arrays.held().items():
            if id(array) not in instead:
                kind = "constant" if name in self._tables else "parameter"
                instead[id(array)] = recording.known(kind, array, name, learned=kind == "parameter")
        function = entrance(copied(self._thing, instead))
        names = list(self.arguments())
        names += names[-1:] * (len(inputs) - len(names))
        given = [self._as_argument(recording, name, x) for name, x in zip(names, inputs, strict=False)]
        beside = {k: recording.known("argument", v, k) if isinstance(v, np.ndarray) else v for k, v in named.items()}
        arranged, further = self.arranged(given, beside)
        with recording.active():
            returned = function(*arranged, **further, **self._evaluation)
        return self._up_to_its_end(recording, returned)

    def _as_argument(self, recording: NumpyRecording, name: str, x: Any) -> Any:
        """Return an input that records; one sequence without a batch is the first one of a batch."""
        if not self.one_by_one:
            return recording.known("argument", x, name)
        return recording.known("argument", x[None], name)[0]

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {name: w for name, w in self._arrays.read().items() if name in self._arrays.live}

    def tables(self) -> dict[str, Tensor]:
        """See ``Subject``: what a formula gives for each position is not to be learned."""
        return {name: w for name, w in self._arrays.read().items() if name in self._tables}

    def rounded(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``Subject``."""
        return self._arrays.rounded(values)

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``: the arrays are written into."""
        self._arrays.write(values)


def copied(thing: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy, in which functions read copies of what holds arrays or such functions beside their arguments.

    Args:
        thing: what is copied.
        memo: what stands in the place of objects, by their identity.
    """
    apart = {id(function): Apart(function) for function in functions_in(thing)}
    memo |= {number: copy.function for number, copy in apart.items()}
    for copy in apart.values():
        for name, value in copy.reads.items():
            if held(value, np.ndarray | FunctionType):
                copy.put(name, deepcopy(value, memo))
    return deepcopy(thing, memo)


def as_tensor(array: Any) -> Tensor:
    """Copy an array that NumPy can read to a tensor."""
    return from_numpy(np.array(array))


def as_tensors(returned: Any, tensor: Callable[[Any], Tensor] = as_tensor) -> Any:
    """Return what an encoder returns, with tensors for its arrays, and for those of others that NumPy can read.

    Code that differentiates by itself has a class for arrays, which holds the numbers first, and then their gradients.
    """
    if hasattr(returned, "__array__"):
        return tensor(returned)
    if isinstance(returned, tuple | list):
        return [as_tensors(each, tensor) for each in returned]
    if isinstance(returned, Mapping):
        return {name: as_tensors(each, tensor) for name, each in returned.items()}
    held = (each for each in getattr(returned, "__dict__", {}).values() if isinstance(each, np.ndarray))
    if (numbers := next(held, None)) is not None:
        return tensor(numbers)
    return returned
