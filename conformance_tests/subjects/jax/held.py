"""Functions of JAX with the arrays that they hold: modules that are pytrees, partial functions, plain objects.

They are called as functions of these arrays: each call gets a copy of the object that holds others in their place.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import jax
from torch import Tensor

from conformance_tests.computation.inputs import is_table_of_waves
from conformance_tests.subjects.attributes import attribute, parameters_of, with_attributes
from conformance_tests.subjects.calling import (
    EVALUATION,
    Arguments,
    apart_from_evaluation,
    arguments_of,
    entrance,
    is_random_key,
)
from conformance_tests.subjects.entered import EnteredSubject
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.holding import Apart
from conformance_tests.subjects.jax.subject import JaxSubject, as_arrays, as_tensors, in_float64, is_floating, widened

Replace = Callable[[str, Any], Any]
"""Returns what stands in the place of an array, by its path and itself."""


class HeldSubject(EnteredSubject, JaxSubject):
    """An object that computes with the arrays of JAX that it holds.

    Raises:
        SubjectError: if nothing calls it.
    """

    def __init__(self, thing: Any) -> None:
        self._thing = thing = with_random_key(thing)
        self._arguments, self._evaluation = apart_from_evaluation(arguments_of(entrance(thing)))
        with in_float64():
            held = as_tensors({path: widened(array) for path, array in held_arrays(thing).items()})
        self._tables = {path: array for path, array in held.items() if is_table_of_waves(array)}
        super().__init__({path: array for path, array in held.items() if path not in self._tables}, Hints())

    def stated_arguments(self) -> Arguments:
        """See ``EnteredSubject``: without those that tell evaluation from training."""
        return self._arguments

    def asked_of(self, argument: Any) -> Any:
        """See ``EnteredSubject``."""
        return entrance(self._thing)(argument, **self._evaluation)

    def handed_out(self, x: Tensor) -> Any:
        """See ``EnteredSubject``."""
        return as_arrays(x)

    def tables(self) -> dict[str, Tensor]:
        """See ``Subject``: nothing but their numbers tells sinusoids from what is learned."""
        return self._tables

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """See ``Subject``: nothing tells a learned number from a setting, such as a rate of dropout."""
        return self.weights()[name].ndim == 0 or super().influences_anything(name, inputs)

    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See ``JaxSubject``."""
        function = entrance(rebuilt(self._thing, lambda path, array: weights.get(path, array)))
        positional, named = self.arranged(positional, named)
        return function(*positional, **named, **self._evaluation)


def with_random_key(thing: Any) -> Any:
    """Return a function with a key, if it takes one, with which it draws random numbers, before its input."""
    first, *others = parameters_of(entrance(thing)) or [""]
    return partial(thing, jax.random.PRNGKey(0)) if others and is_random_key(first) else thing


def held_arrays(thing: Any) -> dict[str, Any]:
    """Return the floating arrays of JAX that an object holds, however deep, by dotted names."""
    found: dict[str, Any] = {}

    def note(path: str, array: Any) -> Any:
        found[path] = array
        return array

    rebuilt(thing, note)
    return found


def rebuilt(thing: Any, replace: Replace, path: str = "", made: dict[int, Any] | None = None) -> Any:
    """Return a copy of an object with other floating arrays in it, in evaluation; whatever holds none stays itself.

    Args:
        thing: an array, a pytree, a function, a method, or an object with attributes.
        replace: called once for each array, whatever the number of places at which it stands.
        path: where the object stands.
        made: what was made so far, by the identity of what it was made of.
    """
    made = {} if made is None else made
    if isinstance(thing, bool):
        return EVALUATION.get(path.rpartition(".")[2], thing)
    if id(thing) in made:
        return made[id(thing)]
    made[id(thing)] = thing  # where an object holds itself
    made[id(thing)] = copied(thing, replace, path, made)
    return made[id(thing)]


def copied(thing: Any, replace: Replace, path: str, made: dict[int, Any]) -> Any:
    """Return a copy of an object that was not met before."""

    def inside(part: Any, name: str) -> Any:
        return rebuilt(part, replace, ".".join(filter(None, (path, name))), made)

    if isinstance(thing, jax.Array):
        return replace(path, thing) if is_floating(thing) else thing
    if isinstance(thing, partial):
        parts = [inside(part, str(place)) for place, part in enumerate(thing.args)]
        return partial(inside(thing.func, "func"), *parts, **{k: inside(v, k) for k, v in thing.keywords.items()})
    if isinstance(thing, MethodType):
        return MethodType(thing.__func__, inside(thing.__self__, ""))
    if isinstance(thing, FunctionType):
        return copied_function(thing, inside)
    wrapped = attribute(thing, "__wrapped__")
    if wrapped is not None and attribute(thing, "lower") is not None:  # a compiled function computes what it wraps
        instead = inside(wrapped, "")
        return thing if instead is wrapped else instead
    leaves, whole = jax.tree_util.tree_flatten_with_path(thing)
    if not jax.tree_util.treedef_is_leaf(whole):
        keys = [jax.tree_util.keystr(place, simple=True, separator=".") for place, _ in leaves]
        return whole.unflatten([inside(leaf, key) for key, (_, leaf) in zip(keys, leaves, strict=True)])
    if isinstance(thing, type | ModuleType) or attribute(thing, "__dict__") is None:
        return thing
    held = {name: inside(value, name) for name, value in vars(thing).items()}
    if all(held[name] is value for name, value in vars(thing).items()):
        return thing
    return with_attributes(thing, held)


def copied_function(function: FunctionType, inside: Callable[[Any, str], Any]) -> FunctionType:
    """Return a function that reads copies of what stands beside its arguments; itself if they are the same.

    Args:
        function: reads variables around it (as ``jax.vmap`` reads what it maps), global objects, and defaults.
        inside: copies a part with a name.
    """
    apart = Apart(function)
    instead = {name: inside(value, name) for name, value in apart.reads.items()}
    for name, value in instead.items():
        apart.put(name, value)
    return function if all(instead[name] is value for name, value in apart.reads.items()) else apart.function
