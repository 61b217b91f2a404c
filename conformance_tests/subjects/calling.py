"""The call of an encoder, read from its signature, and tried out where that leaves a choice."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import Parameter, getmembers, isfunction
from typing import Any

import numpy as np
import torch
from torch import ScriptMethod, Tensor

from conformance_tests.errors import Disagreement, SubjectError
from conformance_tests.subjects.attributes import attribute, parameters_of
from conformance_tests.subjects.handed_on import BY_NAME, handed_on, taking_names

SEGMENTS = re.compile(r"seg|token_?type|type_ids|sentence|sent_")
"""Names of arguments that take segment ids."""

REQUIRED = Parameter.empty

Arguments = Mapping[str, Any]
"""Arguments of a call, in order, each with its default, or ``Parameter.empty`` where it is required."""


EVALUATION = {
    "deterministic": True,
    "inference": True,
    "train": False,
    "training": False,
    "is_train": False,
    "is_training": False,
    "decode": False,
}
"""Arguments that switch an encoder to evaluation, with their values, where the encoder has no such state."""

EXHAUSTED = (MemoryError, RecursionError)
"""Errors that have nothing to do with the arguments of a call: trying others would only take time."""


ENTRANCES = ("forward", "encode")
"""The methods by which an object without a framework is called, if it is not called itself and has several."""


def entrance(thing: Any) -> Callable[..., Any]:
    """Return the function that calls an object; arguments that it hands on unstated can be given by name.

    Raises:
        SubjectError: if there is none.
    """
    if callable(thing):
        return taking_names(thing)
    for name in (*ENTRANCES, *only_method(type(thing))):
        if callable(called := attribute(thing, name)):
            return taking_names(called)
    raise SubjectError(
        f"{type(thing).__name__} holds arrays, but nothing calls it: make it callable, or give it forward(x, mask) or "
        "encode(x, mask)"
    )


def only_method(kind: type) -> list[str]:
    """Return the name of the only method of a class that takes anything; nothing if there are several."""
    named = {name: found for name, found in getmembers(kind, isfunction) if not name.startswith("_")}
    taking = [name for name, found in named.items() if len(parameters_of(found)) > 1]
    return taking if len(taking) == 1 else []


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Return a function's first argument (with an asterisk if it takes several), and those that go by name.

    Those that it hands on without stating them stand before its options, and behind what it asks for. Where nothing is
    asked for, its own options come first: the input is one of them.
    """
    if isinstance(function, ScriptMethod):
        return {
            a.name: a.default_value if a.has_default_value() else Parameter.empty for a in function.schema.arguments[1:]
        }
    stated = enumerate(parameters_of(function).values())
    own = {
        f"*{p.name}" if p.kind is Parameter.VAR_POSITIONAL else p.name: p.default
        for place, p in stated
        if (place == 0 and p.kind is not Parameter.VAR_KEYWORD) or p.kind in BY_NAME
    }
    further = {p.name: p.default for p in handed_on(function) if p.name not in own}
    if not further:
        return own
    own = {name: default for name, default in own.items() if name[0] != "*"}
    asked = {name: default for name, default in (own | further).items() if default is REQUIRED}
    if not asked:
        return own | further
    return asked | further | {name: default for name, default in own.items() if default is not REQUIRED}


def hands_on(function: Callable[..., Any]) -> bool:
    """Return whether a function passes on whatever it gets, ``(*args, **kwargs)``, and states no argument."""
    if isinstance(function, ScriptMethod):
        return False
    kinds = {p.kind for p in parameters_of(function).values()}
    return kinds == {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}


def apart_from_evaluation(stated: Arguments) -> tuple[Arguments, dict[str, Any]]:
    """Return the arguments but for those that switch an encoder to evaluation, and the values that these need.

    One whose default is evaluation needs none; ``jax.vmap`` would take it for one of a batch.
    """
    switches = EVALUATION.keys() & stated.keys()
    needed = {name: EVALUATION[name] for name in switches if stated[name] is not EVALUATION[name]}
    return {name: default for name, default in stated.items() if name not in switches}, needed


def input_by_name(function: Callable[..., Any]) -> bool:
    """Return whether even the input must be given by its name: all must, or an option stands before it."""
    if isinstance(function, ScriptMethod):
        return False
    first = next(iter(parameters_of(function).values()), None)
    if first is None or first.kind is Parameter.VAR_POSITIONAL:
        return False
    is_option = first.name in EVALUATION or first.name != next(iter(arguments_of(function)), first.name)
    return first.kind is Parameter.KEYWORD_ONLY or is_option


def is_open(default: Any) -> bool:
    """Return whether an argument is given nothing where nobody says what: arrays are compared with none of that."""
    return default is None or default is Parameter.empty


def required(arguments: Arguments) -> list[str]:
    """Return the arguments without which the encoder cannot be called, the input itself left out."""
    return [name for name in list(arguments)[1:] if arguments[name] is Parameter.empty]


BATCH_FIRST, SEQUENCE_FIRST, FEATURES_FIRST = "B n d", "n B d", "B d n"
"""The orders of axes in which vectors are handed over."""


def with_another_sample(x: Tensor, b: int = 0) -> Tensor:
    """Return an input (B, …) of which one sample is another one, by default the first."""
    changed = x.clone()
    changed[b] = x[b].flip(0) + 1 if x.is_floating_point() else x[b].flip(0)
    return changed


RANDOM_KEYS, OF_RANDOM = {"key", "rng", "prng"}, {"random", "dropout"}
"""Words for what JAX draws random numbers with, and those that may stand beside them."""


def is_random_key(argument: str) -> bool:
    """Return whether an argument is called as what JAX draws random numbers with."""
    words = set(argument.lower().split("_"))
    return bool(words & RANDOM_KEYS) and words <= RANDOM_KEYS | OF_RANDOM


def order_of_axes(call: Callable[[Tensor, str], Tensor | None], x: Tensor, orders: Sequence[str]) -> str:
    """Return the order in which the batch is the batch: a change in one sample leaves the others alone.

    The output may have its axes in another order than the input.

    Args:
        call: the output (B, n, …) for an input that is handed over in some order.
        x: an input (B, n, …).
        orders: the orders to try, the likeliest first.
    """
    changed = with_another_sample(x)

    def independent(order: str) -> bool:
        a, b = call(x, order), call(changed, order)
        if a is None or b is None or a.ndim < 2:
            return False
        if len(a) != len(x) == a.shape[1]:
            a, b = a.transpose(0, 1), b.transpose(0, 1)
        if len(a) != len(x):
            return False
        return torch.allclose(a[1:], b[1:], rtol=0, atol=1e-9) and not torch.allclose(a[0], b[0], rtol=0, atol=1e-9)

    return next(filter(independent, orders), orders[0])


LAST = "last_hidden_state"
"""The name of the hidden states in transformers and in code that follows it."""


def named_hidden_states(output: Any) -> Tensor | None:
    """Return the result that is called the last hidden states; None if none is."""
    named = output.get(LAST) if isinstance(output, Mapping) else attribute(output, LAST)
    return named if isinstance(named, Tensor) else None


def hidden_states(output: Any, width: int, place: int | None = None) -> Tensor:
    """Return the hidden states among an encoder's results: those with that name, or the tensor (…, …, width).

    In a list, which collects the results of the layers, they are the last entry, wherever the list stands; elsewhere
    the first.

    Args:
        output: everything that the encoder returns.
        width: d_model.
        place: where they stand among the floating tensors of it, if that is known.

    Raises:
        Disagreement: if there is no floating tensor among it.
    """
    if isinstance(output, Tensor):
        return output.to_padded_tensor(0.0) if output.is_nested else output
    named = named_hidden_states(output)
    found = tensors_in(output) if named is None else [named]
    if place is not None and place < len(found):
        return found[place]
    if not found:
        raise Disagreement(
            f"the encoder returned {type(output).__name__}, but hidden states are a tensor (B, n, d_model)"
        )
    likely = tensors_in(output, last_first=True) if len(found) > 1 else found
    return next((t for t in likely if t.ndim == 3 and t.shape[-1] == width), found[0])


def single_axes(output: Tensor) -> tuple[int, ...]:
    """Return the axes behind the first with one entry, where without them three are left: they carry nothing."""
    single = tuple(axis for axis, size in enumerate(output.shape) if axis > 0 and size == 1)
    return single if len(single) == output.ndim - len(("B", "n", "d")) else ()


def tensors_in(output: Any, *, last_first: bool = False) -> list[Tensor]:
    """Return each floating tensor that an encoder returns, however deep; of lists the last entry first, if asked."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() and not output.is_nested else []
    if isinstance(output, np.ndarray) and output.dtype.kind == "f":
        return [torch.from_numpy(output)]  # a module of torch may hand its results over to NumPy
    if is_dataclass(output) and not isinstance(output, Mapping):
        output = vars(output)
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, tuple | list):
        entries = reversed(output) if last_first and isinstance(output, list) else output
        return [t for value in entries for t in tensors_in(value, last_first=last_first)]
    return []
