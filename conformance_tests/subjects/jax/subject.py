"""Subjects whose calls are functions of JAX: compiled, differentiated, taken apart into their operations."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import jax
import numpy as np
import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.computation.shown import Ending
from conformance_tests.errors import Unsupported
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.bridged import BridgedSubject, Pullback
from conformance_tests.subjects.calling import tensors_in
from conformance_tests.subjects.first_call import FEW_TRIALS, MOST_TRIALS, SEQUENCE
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.jax.operations import Place, intermediates, places, rounds
from conformance_tests.subjects.jax.recording import JaxEvaluation
from conformance_tests.subjects.noisy_call import noisy_call
from conformance_tests.subjects.one_by_one import without_batch


class JaxSubject(BridgedSubject):
    """An encoder that is a function of JAX.

    Its own roundings to a shorter type are left out, and the report says so.
    """

    ends_with = "what it computes in {}"
    """See ``CalledSubject``: functions have no parts with names."""

    stages = ((False, FEW_TRIALS), (True, FEW_TRIALS), (False, MOST_TRIALS))
    """See ``CalledSubject``: code for JAX is often written for one sequence, and a refused call takes milliseconds."""

    def __init__(self, weights: Mapping[str, Tensor], hints: Hints) -> None:
        super().__init__(weights, hints)
        self._rounds: bool | None = None
        self._cuts: dict[str, Place] = {}
        self._shown: tuple[Any, ...] = ()

    @abstractmethod
    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the encoder as a pure function on arrays of JAX."""

    def up_to_its_end(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the encoder, and return the intermediate that it is judged up to, if it ends earlier than the model."""
        given = (weights, positional, named)
        if self.ending is None:
            return self.evaluated(*given)
        return intermediates(self.evaluated, *given)[self._place_of_its_end(*given)]

    def _place_of_its_end(self, *given: Any) -> int:
        """Return which intermediate it is judged up to.

        Raises:
            Unsupported: if a call with these sizes computes it in another way.
        """
        assert self.ending is not None
        here = places(self.evaluated, *given)
        place = self._cuts[self.ending.part]
        if place not in here:
            raise Unsupported(f"a call of these sizes computes nothing like {self.ending.part}")
        return here.index(place)

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """See ``Subject``: what stands behind the end of the encoder was seen to."""
        is_behind = self.ending is not None and name in self.ending.behind
        return is_behind or super().influences_anything(name, inputs)

    def evaluated_with_batch(
        self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Call the encoder; one that takes a sequence without a batch gets the only one of a batch."""
        if not self.one_by_one:
            return self.up_to_its_end(weights, positional, named)
        return jax.tree.map(lambda array: array[None], self.up_to_its_end(weights, *self._alone(positional, named)))

    @staticmethod
    def _alone(positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the only sequence of a batch."""
        return [x[0] for x in positional], {name: without_batch(value) for name, value in named.items()}

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """See ``Subject``: what an operation gives, by the line; the latest of several in one line.

        A value of the graph is found among the intermediates by its numbers.
        """
        weights, positional, named = self._shown
        given = (weights, *self._alone(positional, named)) if self.one_by_one else (weights, positional, named)
        with in_float64():
            arrays, here = intermediates(self.evaluated, *given), places(self.evaluated, *given)
        axes = SEQUENCE - 1 if self.one_by_one else SEQUENCE
        by_shape: dict[tuple[int, ...], list[tuple[Place, Tensor]]] = {}
        for place, array in zip(here, as_tensors(arrays[:-1]), strict=True):
            if isinstance(array, Tensor) and array.ndim == axes:
                by_shape.setdefault(tuple(array.shape), []).append((place, array))
        found: dict[str, Tensor] = {}
        for value in graph.values:
            if value.kind != "elementwise" or not value.depends or not value.line:
                continue
            alike = by_shape.get(tuple(value.data.shape), [])
            same = next((p for p, array in reversed(alike) if torch.equal(array, value.data)), None)
            if same is not None:
                found.pop(value.line, None)
                found[value.line] = value.codes[None] if self.one_by_one else value.codes
                self._cuts[value.line] = same
        return tuple(found.items())

    def end_at(self, ending: Ending) -> None:
        """See ``Subject``."""
        super().end_at(ending)
        for compiled_before in ("_compiled", "_taken_apart", "_pulled_back"):
            vars(self).pop(compiled_before, None)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``."""
        with in_float64():
            yield

    def _in_float64(self, *arguments: Any) -> Any:
        """Call the encoder with every operation in float64."""
        if self._rounds is None:
            self._rounds = rounds(self.evaluated, *arguments)
        if self.ending is not None or not self._rounds:
            return self.up_to_its_end(*arguments)
        return intermediates(self.evaluated, *arguments)[-1]

    def conventions(self) -> dict[str, str]:
        """See ``CalledSubject``: and whether it rounds."""
        said = {"precision": "rounds to a shorter type within; judged without that"} if self._rounds else {}
        return super().conventions() | said

    @cached_property
    def _compiled(self) -> Any:
        return compiled(self._in_float64)

    @cached_property
    def _taken_apart(self) -> Any:
        def taken_apart(*given: Any) -> list[Any]:
            last = None if self.ending is None else self._place_of_its_end(*given) + 1
            return intermediates(self.evaluated, *given)[:last]

        return compiled(taken_apart)

    @cached_property
    def _pulled_back(self) -> Any:
        return compiled(self._pullback)

    def _pullback(
        self, weights: dict[str, Any], positional: list[Any], named: dict[str, Any], cotangents: list[Any]
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return the cotangents of the weights and of the floating inputs."""

        def floating_leaves(weights: dict[str, Any], floating: list[Any]) -> list[Any]:
            left = iter(floating)
            inputs = [next(left) if is_floating(x) else x for x in positional]
            return [leaf for leaf in jax.tree.leaves(self._in_float64(weights, inputs, named)) if is_floating(leaf)]

        _, pull = jax.vjp(floating_leaves, weights, [x for x in positional if is_floating(x)])
        return pull(cotangents)  # type: ignore[no-any-return]

    def value(self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
        """See ``BridgedSubject``."""
        return as_tensors(self._compiled(*as_arrays((dict(weights), list(positional), dict(named)))))

    def value_and_pullback(
        self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]
    ) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any], Pullback]:
        """See ``BridgedSubject``."""
        given = as_arrays((dict(weights), list(positional), dict(named)))
        returned, whole = jax.tree.flatten(self._compiled(*given))

        def pullback(cotangents: Sequence[Tensor]) -> list[Tensor]:
            told = [as_arrays(c).astype(r.dtype) for c, r in zip(cotangents, returned, strict=True) if is_floating(r)]
            by_weight, by_input = as_tensors(self._pulled_back(*given, told))
            return [*(by_weight[name] for name in weights), *by_input]

        return as_tensors(returned), whole.unflatten, pullback

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation."""
        found: list[Tensor] = []

        def recorded(weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
            given = (dict(weights), list(positional), dict(named))
            *values, returned = as_tensors(self._taken_apart(*as_arrays(given)))
            found.extend(tensors_in([v for v in values if isinstance(v, Tensor) and v.numel() > 1]))
            return returned

        with replaced(self, "value", recorded):
            self.encode(inputs, keep, gradients=False)
        return [x for x in inputs if x.is_floating_point()] + found

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, with noise on what is learned."""
        held = as_arrays(self.weights())
        shapes = as_shapes(self.weights())
        returned = compiled(lambda *given: intermediates(self.evaluated_with_batch, *given)[-1])

        def tried(x: Tensor, named: Mapping[str, Any]) -> Any:
            # Most calls are refused for their shapes, and that shows without a number.
            jax.eval_shape(self.evaluated_with_batch, shapes, *as_shapes(([x], dict(named))))
            return as_tensors(returned(held, *as_arrays(([x], dict(named)))))

        with noisy_call(self, tried, sizes) as (called, weights, frozen):
            evaluation = JaxEvaluation()
            first = next(iter(self.arguments()), "")
            given = (weights, [called.inputs], dict(called.named))
            named = [
                *((name, "parameter") for name in sorted(given[0])),
                (first, "argument"),
                *((name, "argument") for name in sorted(given[2]) if given[2][name] is not None),
            ]
            self._shown = as_arrays(given)
            arrays = jax.tree.leaves(self._shown)
            closed, shape = jax.make_jaxpr(self.evaluated_with_batch, return_shape=True)(*as_arrays(given))
            leaves = [
                evaluation.leaf(kind, array, name, learned=kind == "parameter" and name not in frozen)
                for (name, kind), array in zip(named, arrays, strict=True)
            ]
            results = evaluation.jaxpr(closed.jaxpr, closed.consts, leaves)
        return evaluation.finish(results, jax.tree.structure(shape).unflatten)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function without optimising it: each shape is computed a few times, and compiling takes longest."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@contextmanager
def in_float64() -> Iterator[None]:
    """Let JAX have float64, for as long as it is asked for.

    It does not filter its tracebacks meanwhile: that takes half of the time of a call that is refused.
    """
    filtering = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        jax.config.update("jax_traceback_filtering", filtering)


def widened(array: Any) -> Any:
    """Return a floating array in float64, and anything else as it is."""
    return array.astype("float64") if isinstance(array, jax.Array) and is_floating(array) else array


class replaced:  # noqa: N801  -- reads as a sentence in a with statement
    """An attribute of one object, replaced for a while."""

    def __init__(self, owner: object, name: str, value: object) -> None:
        self.owner, self.name, self.value = owner, name, value

    def __enter__(self) -> None:
        vars(self.owner)[self.name] = self.value

    def __exit__(self, *_: object) -> None:
        del vars(self.owner)[self.name]


def as_arrays(tree: Any) -> Any:
    """Replace the tensors of a structure by arrays of JAX."""
    # Of several ways in, this one compiles nothing for each new shape.
    leaf = lambda x: jax.device_put(x.detach().numpy()) if isinstance(x, Tensor) else x  # noqa: E731
    return jax.tree.map(leaf, tree)


def as_shapes(tree: Any) -> Any:
    """Replace the tensors of a structure by their shapes and types, which suffice to find out what a call refuses."""
    leaf = lambda x: jax.ShapeDtypeStruct(x.shape, x.detach().numpy().dtype) if isinstance(x, Tensor) else x  # noqa: E731
    return jax.tree.map(leaf, tree)


def as_tensors(tree: Any) -> Any:
    """Replace the arrays of JAX in a structure by tensors, float32 for the shorter floating types."""
    return jax.tree.map(tensor, tree)


def tensor(array: Any) -> Any:
    """Copy an array to a tensor, and return anything else as it is."""
    if not isinstance(array, jax.Array) or jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    short = is_floating(array) and array.dtype.itemsize < 4
    return torch.from_numpy(np.array(array, dtype=np.float32 if short else None))


def is_floating(array: Any) -> bool:
    """Return whether an array is floating."""
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.floating))
