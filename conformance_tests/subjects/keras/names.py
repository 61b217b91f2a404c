"""Names for the parts of Keras models: by attribute, as in other frameworks, and by place in a stack.

Keras numbers the layers of a class throughout a session (``dense_7``), so their names are of no use.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras.src.models.functional import Functional

from conformance_tests.parameters.evidence import ATTENTION, FEED_FORWARD, said
from conformance_tests.parameters.names import words
from conformance_tests.subjects.keras.graph import blocks, plain_names
from conformance_tests.subjects.numbered import Path, telling_names

MAPS = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D)
OWN = ("_layers", "_modules", "_tracker")
"""Attributes in which Keras itself keeps the parts of a layer; models of a graph have more of them."""

MAPS_OF_LAYERS = {*ATTENTION, *FEED_FORWARD}

NORMS = (keras.layers.LayerNormalization, keras.layers.RMSNormalization)


def named_layers(layers: Sequence[Any]) -> dict[str, Any]:
    """Return the parts by name; a list of layers is a stack, a single layer is ``""``."""
    return {".".join(map(str, path)): layer for path, layer in paths_of(layers).items()}


def named_variables(layers: Sequence[Any]) -> dict[str, Any]:
    """Return the floating variables by name."""
    found: dict[int, tuple[Path, Any]] = {}
    for path, layer in paths_of(layers).items():
        for variable in (*layer._trainable_variables, *layer._non_trainable_variables):
            if keras.backend.is_float_dtype(variable._dtype):
                found.setdefault(id(variable), ((*path, variable_name(layer, variable)), variable))
    names = telling_names({path: variable.shape for path, variable in found.values()})
    return dict(zip(names, (variable for _, variable in found.values()), strict=True))


def paths_of(layers: Sequence[Any]) -> dict[Path, Any]:
    """Return the parts by path, each once."""
    found: dict[Path, Any] = {}
    seen: set[int] = set()

    def visit(path: Path, layer: Any) -> None:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        first, number = path, 1
        while path in found:  # the norms of all layers may stand in one graph, beside one another
            number += 1
            path = (*first[:-1], f"{first[-1]}_{number}")
        found[path] = layer
        for below, part in parts_of(layer):
            visit((*path, *below), part)

    if len(layers) == 1:
        visit((), layers[0])
    else:
        for below, layer in stacked(layers):
            visit(below, layer)
    return found


def parts_of(layer: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the parts directly below a layer: its attributes, then those that it keeps only in order."""
    named: set[int] = set()
    width = width_of(layer)
    # On the torch backend, attributes that are layers are among torch's modules.
    for name, value in (vars(layer) | vars(layer).get("_modules", {})).items():
        if name in OWN or (name.startswith("_") and isinstance(layer, keras.Sequential | Functional)):
            continue
        for below, part in inside(value):
            if id(part) not in named:
                named.add(id(part))
                yield (telling(name.strip("_"), part, width), *below), part
    yield from stacked([part for part in layer._layers if id(part) not in named])


def inside(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the layers that an attribute is, or holds."""
    if isinstance(value, keras.layers.Layer):
        yield (), value
    elif isinstance(value, list | tuple | dict):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        yield from (((key, *below), part) for key, held in pairs for below, part in inside(held))


def stacked(layers: Sequence[Any]) -> Iterator[tuple[Path, Any]]:
    """Return names for layers that stand one after the other: those that hold others are the numbered ones."""
    weighty = [layer for layer in layers if layer.weights]
    if [isinstance(layer, MAPS) for layer in weighty] == [True, True]:
        yield from zip((("linear_1",), ("linear_2",)), weighty, strict=True)
        return
    if any(isinstance(layer, keras.layers.MultiHeadAttention) for layer in weighty):
        yield from blocks(weighty)
        return
    number = 0
    for layer, name in zip(weighty, plain_names(weighty), strict=True):
        parts = list(layer._flatten_layers(include_self=False))
        if parts and not any(isinstance(part, keras.layers.Embedding) for part in parts):
            yield ("layers", number), layer
            number += 1
        elif isinstance(layer, keras.layers.LayerNormalization):
            yield ("final_norm" if number else "embedding_norm",), layer
        else:
            yield (name,), layer


def telling(name: str, part: Any, width: int) -> str:
    """Return a telling name for an attribute, whatever it is called, from its class and its shape."""
    if isinstance(part, keras.layers.MultiHeadAttention):
        return name if "attention" in words(name) else f"{name}_attention"
    if isinstance(part, NORMS) and "norm" not in words(name):
        number = re.search(r"\d+$", name)
        return f"norm_{number[0] if number else name}"
    shape = tuple(part.kernel.shape) if isinstance(part, MAPS) and part.built else ()
    if len(shape) == 2 and shape[0] != shape[1] and width in shape and not said(words(name)).keys() & MAPS_OF_LAYERS:
        return "linear_1" if shape[0] == width else "linear_2"
    return name


def width_of(layer: Any) -> int:
    """Return the width of the hidden states, read from the norms directly inside a layer; 0 if there are none."""
    norms = (part for part in layer._layers if isinstance(part, NORMS) and part.weights)
    return next((part.weights[0].shape[0] for part in norms), 0)


def variable_name(layer: Any, variable: Any) -> str:
    """Return the name of a variable: from Keras's own layers, or the attribute of another author's layer."""
    if type(layer).__module__.partition(".")[0] in ("keras", "keras_hub"):
        return str(variable.name)
    held = (name for name, value in vars(layer).items() if value is variable)
    return next(held, str(variable.name)).strip("_")
