"""Subjects whose calls are functions of JAX: traced, computed operation by operation, and differentiated."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import torch
from jax.extend.core import ClosedJaxpr
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.errors import Unsupported
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.bridged import BridgedSubject, Pullback
from conformance_tests.subjects.calling import tensors_in
from conformance_tests.subjects.evaluation import Coded
from conformance_tests.subjects.first_call import FEW_TRIALS, MOST_TRIALS
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.jax.documented import ONE_PASS, one_pass_noted
from conformance_tests.subjects.jax.operations import (
    HALF,
    Place,
    evaluate,
    least_of,
    places,
    rounds,
    traced_intermediates,
)
from conformance_tests.subjects.jax.recording import JaxEvaluation
from conformance_tests.subjects.jax.translated import Translated, tensor
from conformance_tests.subjects.likely_inputs import SEQUENCE
from conformance_tests.subjects.noisy_call import noisy_call
from conformance_tests.subjects.one_by_one import without_batch


class Trace(NamedTuple):
    """The operations of a function for arguments of certain shapes, and the structure of what it returns."""

    closed: ClosedJaxpr
    structure: Any


class JaxSubject(BridgedSubject):
    """An encoder that is a function of JAX.

    Its own roundings to a shorter type are left out, and the report says so. Its operations are traced once for each
    shape, and then computed one by one: compiling them would take longer.
    """

    ends_with = "what it computes in {}"
    """See ``CalledSubject``: functions have no parts with names."""

    stages = ((False, FEW_TRIALS), (True, FEW_TRIALS), (False, MOST_TRIALS))
    """See ``CalledSubject``: code for JAX is often written for one sequence, and a refused call takes milliseconds."""

    def __init__(self, weights: Mapping[str, Tensor], hints: Hints) -> None:
        super().__init__(weights, hints)
        self._rounds = False
        self._in_one_pass = False
        self._translates = True
        self._cuts: dict[str, Place] = {}
        self._recorded_places: list[tuple[Place, Tensor]] = []
        self._traces: dict[Hashable, Trace] = {}

    @abstractmethod
    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the encoder as a pure function on arrays of JAX."""

    def _one(self, given: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """Return the arguments of a call; of the only sequence in a batch, if sequences go one by one."""
        if not self.one_by_one:
            return given
        weights, positional, named = given
        return weights, [x[0] for x in positional], {name: without_batch(value) for name, value in named.items()}

    def _traced(self, function: Callable[..., Any], *given: Any) -> Trace:
        """Trace a function for arguments of these shapes."""
        leaves, structure = jax.tree.flatten(as_shapes(given))
        ends = self.ending.part if self.ending else ""
        # Which argument the input is shows in their order alone.
        key = (function.__name__, ends, tuple(self.arguments()), structure, tuple(map(shape_of, leaves)))
        if key not in self._traces:
            with one_pass_noted(self._note_one_pass):
                closed, returned = jax.make_jaxpr(function, return_shape=True)(*structure.unflatten(leaves))
            self._traces[key] = Trace(closed, jax.tree.structure(returned))
        return self._traces[key]

    def _note_one_pass(self) -> None:
        self._in_one_pass = True

    def _computed(self, trace: Trace, given: Any) -> tuple[list[Any], list[Any]]:
        """Return the result of each operation of a function for such arguments, and what it returns."""
        found: list[Any] = []
        arithmetic = Translated(least_of(trace.closed.jaxpr), self._translates)
        constants = list(map(arithmetic.constant, trace.closed.consts))
        with torch.no_grad():
            leaves = [torch.as_tensor(leaf).detach() if is_number(leaf) else leaf for leaf in jax.tree.leaves(given)]
            return found, evaluate(trace.closed.jaxpr, constants, leaves, arithmetic, found)

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """See ``Subject``: what an operation gives, by the line, the latest of several in one; else by its number."""
        found: dict[str, Tensor] = {}
        for number, (place, codes) in enumerate(self._recorded_places):
            value = graph.owner(codes)
            if value is None or value.kind != "elementwise" or not value.depends:
                continue
            if codes.numel() < value.shape.numel():
                continue  # a part of it
            name = value.line or f"operation {number}"
            found.pop(name, None)
            found[name] = codes
            self._cuts[name] = place
        return tuple(found.items())

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``."""
        with in_float64():
            yield

    def documented_otherwise(self) -> Mapping[str, str]:
        """See ``Subject``: norms of Flax with ``use_fast_variance``, which is the default."""
        return {"NORM-6": ONE_PASS} if self._in_one_pass else {}

    def conventions(self) -> dict[str, str]:
        """See ``CalledSubject``: and whether it rounds."""
        said = {"precision": "rounds to a shorter type within; judged without that"} if self._rounds else {}
        return super().conventions() | said

    def _up_to_its_end(self, given: Any) -> tuple[list[Any], Any]:
        """Return the intermediates of a call, and what it returns; up to where it is judged, if that is earlier."""
        trace = self._traced(self.evaluated, *given)
        self._rounds = self._rounds or rounds(trace.closed.jaxpr)
        found, results = self._computed(trace, given)
        if self.ending is None:
            return found, trace.structure.unflatten(results)
        last = self._place_of_its_end(trace)
        return found[: last + 1], found[last]

    def _place_of_its_end(self, trace: Trace) -> int:
        """Return which intermediate it is judged up to.

        Raises:
            Unsupported: if a call with these sizes computes it in another way.
        """
        assert self.ending is not None
        here, place = places(trace.closed.jaxpr), self._cuts[self.ending.part]
        if place not in here:
            raise Unsupported(f"a call of these sizes computes nothing like {self.ending.part}")
        return here.index(place)

    def _pulled_back(
        self, weights: dict[str, Any], positional: list[Any], named: dict[str, Any], cotangents: list[Any]
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return the cotangents of the weights and of the floating inputs."""

        def floating_leaves(weights: dict[str, Any], floating: list[Any]) -> list[Any]:
            left = iter(floating)
            given = (weights, [next(left) if is_floating(x) else x for x in positional], named)
            if self.ending is None:
                return [leaf for leaf in jax.tree.leaves(self.evaluated(*given)) if is_floating(leaf)]
            trace = Trace(jax.make_jaxpr(self.evaluated)(*given), None)
            return [traced_intermediates(trace.closed, *given)[self._place_of_its_end(trace)]]

        returned, pull = jax.vjp(floating_leaves, weights, [x for x in positional if is_floating(x)])
        told = [c.astype(r.dtype) for c, r in zip(cotangents, returned, strict=True)]
        return pull(told)  # type: ignore[no-any-return]

    def value(self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
        """See ``BridgedSubject``."""
        return self._up_to_its_end((dict(weights), list(positional), dict(named)))[1]

    def value_and_pullback(
        self, weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]
    ) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Any], Pullback]:
        """See ``BridgedSubject``."""
        given = (dict(weights), list(positional), dict(named))
        returned, whole = jax.tree.flatten(self._up_to_its_end(given)[1])

        def pullback(cotangents: Sequence[Tensor]) -> list[Tensor]:
            told = [c for c, r in zip(cotangents, returned, strict=True) if r.is_floating_point()]
            trace = self._traced(self._pulled_back, *given, told)
            _, results = self._computed(trace, (*given, told))
            by_weight, by_input = trace.structure.unflatten(results)
            return [*(by_weight[name] for name in weights), *by_input]

        return returned, whole.unflatten, pullback

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: its floating inputs, and the result of every operation."""
        found: list[Tensor] = []

        def recorded(weights: Mapping[str, Tensor], positional: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
            values, returned = self._up_to_its_end((dict(weights), list(positional), dict(named)))
            found.extend(tensors_in([v for v in values if isinstance(v, Tensor) and v.numel() > 1]))
            return returned

        with replaced(self, "value", recorded):
            self.encode(inputs, keep, gradients=False)
        return [x for x in inputs if x.is_floating_point()] + found

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, with noise on what is learned."""
        held = self.weights()

        def tried(x: Tensor, named: Mapping[str, Any]) -> Any:
            # Most calls are refused for their shapes, and that shows while they are traced.
            given = self._one((held, [x], dict(named)))
            trace = self._traced(self.evaluated, *given)
            _, results = self._computed(trace, given)
            return trace.structure.unflatten([r[None] for r in results] if self.one_by_one else results)

        with noisy_call(self, tried, sizes) as (called, weights, frozen):
            return self._recorded((weights, [called.inputs], dict(called.named)), frozen)

    def _recorded(self, given: tuple[Any, Any, Any], frozen: Collection[str]) -> Graph:
        """Record a call, of which some weights are constants."""
        one = self._one(given)
        trace = self._traced(self.evaluated, *one)
        self._translates = self._translates and self._translates_right(trace, one)
        evaluation = JaxEvaluation(Translated(HALF, self._translates))

        def leaf(kind: str, name: str, array: Any) -> Coded:
            learned = kind == "parameter" and name not in frozen
            return evaluation.leaf(kind, torch.as_tensor(array), name, learned=learned)

        weights, positional, named = given
        arguments = [(next(iter(self.arguments()), ""), positional[0])]
        arguments += [(name, named[name]) for name in sorted(named) if named[name] is not None]
        held = [leaf("parameter", name, weights[name]) for name in sorted(weights)]
        handed = [leaf("argument", name, array) for name, array in arguments]
        if self.one_by_one:
            handed = [Coded(without_batch(h.array), without_batch(h.codes)) for h in handed]
        constants = list(map(evaluation.constant, trace.closed.consts))
        found: list[Coded] = []
        results = evaluate(trace.closed.jaxpr, constants, [*held, *handed], evaluation, found)
        axes = SEQUENCE - 1 if self.one_by_one else SEQUENCE
        results_at = zip(places(trace.closed.jaxpr), found, strict=True)
        self._recorded_places = [
            (place, result.codes[None] if self.one_by_one else result.codes)
            for place, result in results_at
            if result.codes.ndim == axes
        ]
        structure = trace.structure
        if self.ending is not None:
            results, structure = [found[self._place_of_its_end(trace)]], jax.tree.structure(0)
        if self.one_by_one:
            results = [Coded(r.array[None], r.codes[None]) for r in results]
        return evaluation.finish(results, structure.unflatten)

    def _translates_right(self, trace: Trace, given: Any) -> bool:
        """Return whether JAX computes the same for a call, up to its roundings."""
        own = map(tensor, jax.tree.leaves(compiled(self.evaluated)(*as_arrays(given))))
        _, results = self._computed(trace, given)
        pairs = [(a.double(), b.double()) for a, b in zip(own, results, strict=True) if isinstance(a, Tensor)]
        near = ROUNDED if rounds(trace.closed.jaxpr) else MEANT
        return all(torch.allclose(a, b, rtol=0, atol=near * (1 + magnitude(b)), equal_nan=True) for a, b in pairs)


MEANT, ROUNDED = 1e-6, 0.05
"""Results may differ by so much of the largest: constants are kept in float32, or parts rounded to half precision."""


def magnitude(x: Tensor) -> float:
    """Return the largest size of the finite entries."""
    finite = x[x.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


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
    return jax.tree.map(lambda leaf: tensor(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def is_number(leaf: Any) -> bool:
    """Return whether a leaf of a call's arguments is a tensor, or a number of Python."""
    return isinstance(leaf, Tensor | bool | int | float)


def shape_of(leaf: Any) -> tuple[Any, ...]:
    """Return what a trace depends on of one leaf of a call's arguments."""
    return (tuple(leaf.shape), str(leaf.dtype)) if hasattr(leaf, "shape") else (type(leaf),)


def is_floating(array: Any) -> bool:
    """Return whether an array is floating."""
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.floating))
