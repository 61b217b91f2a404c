"""Layers of Keras as a function of the values of their variables, on whichever backend."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter
from typing import Any

import keras
import numpy as np
import torch
from keras import tree
from keras.src.backend.common import global_state
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from torch import Tensor

from conformance_tests.subjects.calling import SEGMENTS, Arguments, arguments_of
from conformance_tests.subjects.keras.building import built
from conformance_tests.subjects.keras.names import named_layers, named_variables
from conformance_tests.subjects.masks import tells_of_a_mask


class KerasCall:
    """A layer, a model, or layers one after the other, as a function of the values of their variables.

    During a call variables have other values, in Keras's own stateless scope; nothing is assigned.
    """

    def __init__(self, thing: Any) -> None:
        self.layers = [built(layer) for layer in (thing if isinstance(thing, list | tuple) else [thing])]
        self.variables = named_variables(self.layers)
        self.parts = named_layers(self.layers)

    def frozen(self) -> set[str]:
        """Return the names of the variables that are not trainable."""
        return {name for name, v in self.variables.items() if not v.trainable}

    def arguments(self) -> Arguments:
        """Return the arguments of the first layer, or the inputs of a functional model, sequences first."""
        first = self.layers[0]
        inputs = functional_inputs(first)
        if inputs is None:
            return {n: default for n, default in arguments_of(first.call).items() if n != "training"}
        beside = [n for n in inputs if tells_of_a_mask(n) or SEGMENTS.search(n)]
        return dict.fromkeys([*(n for n in inputs if n not in beside), *beside], Parameter.empty)

    def stated_shape(self) -> tuple[int | None, ...] | None:
        """Return the shape that a functional model states of its first input; None of every other layer."""
        inputs = functional_inputs(self.layers[0])
        if inputs is None:
            return None
        named = dict(zip(inputs, tree.flatten(self.layers[0]._inputs_struct), strict=True))
        return tuple(named[next(iter(self.arguments()))].shape)

    def __call__(self, values: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the layer with these values of the variables."""
        mapping = [(self.variables[name], value) for name, value in values.items()]
        with keras.StatelessScope(state_mapping=mapping):
            result = called(self.layers[0], list(self.arguments()), positional, named)
            for layer in self.layers[1:]:
                result = called(layer, list(arguments_of(layer.call)), [result], named)
        return result

    @contextmanager
    def noting(self, note: Callable[[str, Any], None], only: str = "") -> Iterator[None]:
        """Note what each part returns, or one part alone, by the path that Keras gives it."""
        parts = (part for layer in self.layers for part in layer._flatten_layers(include_self=False))
        noted = [(part, vars(part).get("call")) for part in parts if only in ("", part.path)]
        for part, _ in noted:
            # Keras calls the method that an instance has, and knows its arguments already.
            vars(part)["call"] = noting_call(part.path, part.call, note)
        try:
            yield
        finally:
            for part, before in noted:
                del vars(part)["call"]
                vars(part).update({"call": before} if before else {})

    @contextmanager
    def in_float64(self) -> Iterator[None]:
        """Let every part compute in float64, and put everything back.

        Keras promotes float64 to float32 where it combines types, a rounding that belongs to no equation.
        """
        policy = keras.DTypePolicy("float64")
        floating = [v for v in self.variables.values() if keras.backend.is_float_dtype(v._dtype)]
        parts = [part for layer in self.layers for part in layer._flatten_layers()]
        parts += [graph for part in parts if (graph := getattr(part, "_functional", None)) is not None]
        # A graph casts its inputs to the type of its symbolic ones.
        inputs = [x for part in parts for x in getattr(part, "_inputs", None) or ()]
        inputs += [x for part in parts for x in part._layers if isinstance(x, keras.layers.InputLayer)]
        replaced = [
            *((layer, "_dtype_policy", policy) for layer in parts if computes_in_floats(layer)),
            *((v, "_dtype", "float64") for v in floating),
            *((x, "_dtype", "float64") for x in inputs if keras.backend.is_float_dtype(x.dtype)),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        floatx, promotion = keras.config.floatx(), BIT64_TO_BIT32_DTYPE["float64"]
        at_large = keras.config.dtype_policy()
        try:
            keras.config.set_floatx("float64")
            keras.config.set_dtype_policy(policy)  # some layers make others anew in each call
            BIT64_TO_BIT32_DTYPE["float64"] = "float64"
            for owner, name, value in replaced:
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)
            keras.config.set_floatx(floatx)
            keras.config.set_dtype_policy(at_large)
            BIT64_TO_BIT32_DTYPE["float64"] = promotion


def noting_call(path: str, call: Callable[..., Any], note: Callable[[str, Any], None]) -> Callable[..., Any]:
    """Return the method that calls a part, which notes what it returns."""

    @wraps(call)
    def noted(*arguments: Any, **named: Any) -> Any:
        returned = call(*arguments, **named)
        note(path, returned)
        return returned

    return noted


def given_weights(call: KerasCall) -> dict[str, Tensor]:
    """Return the values of the floating variables, in float64."""
    return {
        name: torch.from_numpy(np.array(keras.ops.convert_to_numpy(v.value), dtype=np.float64))
        for name, v in call.variables.items()
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def kept_seed() -> Iterator[None]:
    """Put back the random numbers that initialisers draw."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    state = None if generator is None else np.array(keras.ops.convert_to_numpy(generator.state.value))
    try:
        yield
    finally:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, generator)
        if generator is not None:
            generator.state.assign(state)


def called(layer: Any, names: Sequence[str], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call one layer in evaluation mode, without the arrays that are not among its arguments."""
    inputs = functional_inputs(layer)
    if inputs is None:
        taken = arguments_of(layer.call)
        given = {name: value for name, value in named.items() if name in taken}
        if isinstance(layer, keras.Sequential) and given.get("mask") is not None:
            demand_masking(layer)
        # Without a word Keras is in evaluation as well; layers may hand on a word by place, which it refuses.
        says_otherwise = taken.get("training") is not None
        return layer(*positional, **given, **({"training": False} if says_otherwise else {}))
    by_name = dict(zip((n for n in names if n not in named), positional, strict=False)) | dict(named)
    structure = layer._inputs_struct
    if isinstance(structure, Mapping):
        return layer({name: by_name[name] for name in structure}, training=False)
    arrays = [by_name[name] for name in inputs]
    return layer(arrays if isinstance(structure, list | tuple) else arrays[0], training=False)


def demand_masking(sequence: keras.Sequential) -> None:
    """See that a mask reaches each of some layers, which were written without a word of masks.

    Raises:
        NotImplementedError: if it does not: Keras hands a mask on behind layers alone that say that they support it.
    """
    losing = next((layer for layer in sequence.layers[:-1] if not layer.supports_masking), None)
    if losing is not None:
        raise NotImplementedError(f"Keras hands no mask on behind {losing.name!r}, whose supports_masking is False")


def functional_inputs(layer: Any) -> list[str] | None:
    """Return the names of a functional model's inputs, in their order; None for every other layer."""
    structure = getattr(layer, "_inputs_struct", None)
    if structure is None:
        return None
    return list(structure) if isinstance(structure, Mapping) else [x.name for x in tree.flatten(structure)]


def computes_in_floats(layer: Any) -> bool:
    """Return whether a layer's policy is that of floating numbers."""
    return hasattr(layer, "_dtype_policy") and keras.backend.is_float_dtype(layer.compute_dtype)
