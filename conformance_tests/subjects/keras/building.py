"""Building of Keras layers, which get their variables in their first call, from inputs that fit their parts."""

import copy
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import torch
from keras.src.utils.tracking import Tracker

from conformance_tests.errors import SubjectError, one_line
from conformance_tests.subjects.calling import apart_from_evaluation, arguments_of, required
from conformance_tests.subjects.first_call import LIKELY, by_rank, fillings, value_of
from conformance_tests.subjects.holding import whole_numbers
from conformance_tests.subjects.likely_inputs import COLOURS
from conformance_tests.subjects.stated import HEADS, first_of

POSITIONS = 7
"""The length of the sequence with which a layer is built."""

PER_HEAD = 8
"""The width of a head, where a layer leaves its width to its input."""

SIDES, LARGEST_SIDE = (16, 32, 64, 224), 512
"""Sides of images to try, beside those up to a largest one that a layer keeps: vocabularies are larger."""

WIDTHS = (32, 64, 128, 256, 512, 768)
"""Widths to try where a layer states no number of heads, or has another width."""


def built(layer: Any) -> Any:
    """Return a layer that has its variables: itself, or a copy that was called.

    Raises:
        SubjectError: if it is not a layer, or accepts none of the inputs.
    """
    if not isinstance(layer, keras.layers.Layer):
        raise SubjectError(f"{type(layer).__name__} is not a layer of Keras: give a layer, a model or a list of layers")
    if layer.built and all(part.built for part in layer._flatten_layers()):
        return layer
    refusal = ""
    evaluation = asked_evaluation(layer)
    for inputs in possible_inputs(layer):
        for further in asked_further(layer, inputs):
            tried = copied(layer)
            try:
                tried(inputs, **evaluation, **further)
            except Exception as fault:
                refusal = refusal or message_of(fault)
                continue
            return tried
    raise SubjectError(
        f"{type(layer).__name__} is not built, and calling it on sequences of {POSITIONS} raised {refusal}: "
        "call it once with an input of the right shape before handing it over"
    )


def asked_evaluation(layer: Any) -> dict[str, Any]:
    """Return the switches to evaluation that a call asks for, with their values."""
    arguments = arguments_of(layer.call)
    _, evaluation = apart_from_evaluation(arguments)
    return {name: evaluation[name] for name in required(arguments) if name in evaluation}


def asked_further(layer: Any, inputs: Any) -> Iterator[dict[str, Any]]:
    """Yield values of the arguments that a call asks for beside its input, such as masks that hide nothing."""
    arguments, _ = apart_from_evaluation(arguments_of(layer.call))
    names = required(arguments)
    if not names or not isinstance(inputs, np.ndarray):
        yield {}
        return
    x = torch.as_tensor(inputs)
    keep = torch.ones(x.shape[:2], dtype=torch.bool)
    for forms in islice(by_rank([fillings(name, x.is_floating_point()) for name in names]), LIKELY):
        values = (value_of(form, keep, x) for form in forms)
        yield {name: v.numpy() if isinstance(v, torch.Tensor) else v for name, v in zip(names, values, strict=True)}


def message_of(fault: Exception) -> str:
    """Return the message of an exception in one line, without the layer and the colours that Keras adds to it."""
    lines = [line for line in re.sub(r"\x1b\[\d+m", "", str(fault)).splitlines() if line]
    said = lines[1] if len(lines) > 1 and lines[0].startswith("Exception encountered") else one_line(fault)
    return said.rstrip(".:")


def copied(layer: Any) -> Any:
    """Copy a layer and its parts, so that the one handed over stays as it is; return that one if it cannot be copied.

    Keras itself copies what it can make again from a configuration, which layers of authors rarely have. Variables that
    it has before it is called are those of the copy too: a call gives it others, and leaves these as they are.
    """
    parts = list(layer._flatten_layers())
    shared = {id(each): each for part in parts for each in (*part.variables, *part._seed_generators)}
    with patch.object(keras.layers.Layer, "__deepcopy__", copied_anew, create=True), suppress(Exception):
        return copy.deepcopy(layer, shared)
    return layer


def copied_anew(layer: Any, memo: dict[int, Any]) -> Any:
    """Copy a layer as ``copy.deepcopy`` asks for it: what it collects is copied, any other attribute is the same."""
    kind: Any = type(layer)
    another = memo[id(layer)] = kind.__new__(kind)
    bound = set(vars(another))  # methods that Keras wraps, each for one layer
    for name, value in vars(layer).items():
        if isinstance(value, (keras.layers.Layer, Tracker, list, dict, tuple, set)):
            vars(another)[name] = copy.deepcopy(value, memo)
        elif not (callable(value) and name in bound):
            vars(another)[name] = value
    return another


def possible_inputs(layer: Any) -> Iterator[Any]:
    """Yield token ids where there is an embedding, and embeddings of likely widths."""
    stated = getattr(layer, "_inputs_struct", None)
    if stated is not None:
        yield keras.tree.map_structure(lambda x: np.zeros([size or POSITIONS for size in x.shape], x.dtype), stated)
    ids = np.tile(np.arange(POSITIONS, dtype="int32") % 2, (2, 1))
    parts = list(layer._flatten_layers())
    embeds = any(isinstance(part, keras.layers.Embedding) for part in parts)
    heads = [h for h in (first_of(part, HEADS, int) for part in parts) if h]
    h = heads[0] if heads else 1
    # The layer's numbers come before those of its parts, of which the last ones give what goes around others.
    kept = [n for part in (layer, *reversed(parts)) for n in whole_numbers([part]) if n > h and n % h == 0]
    narrow = [PER_HEAD * h for h in heads[:1]]
    # What a layer keeps may be its width or another size, which tells nothing if it takes any width.
    widths = [*narrow, *kept, *WIDTHS]
    if embeds:
        yield ids
    yield from (np.zeros((2, POSITIONS, width), dtype="float32") for width in dict.fromkeys(widths))
    if not embeds:
        yield ids
    # An image is a square, whose side a layer may keep.
    numbers = (n for n in (*vars(layer).values(), *SIDES) if isinstance(n, int))
    sides = dict.fromkeys(n for n in numbers if min(SIDES) <= n <= LARGEST_SIDE)
    yield from (np.zeros((2, side, side, channels), dtype="float32") for side in sides for channels in COLOURS)
