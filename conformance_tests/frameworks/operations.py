"""The operations of a JAX function: each with its result, and all of them in float64.

Libraries round on their own account: ``jax.nn.dot_product_attention`` computes the softmax in float32
whatever it is given. Such a rounding belongs to no equation. Here it is left out, as another
framework's ``.to(float64)`` leaves it out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Where an operation keeps the operations that it stands for."""

WHOLE = ("scan", "while", "cond")
"""Operations whose inner ones run more than once, or not at all."""

TYPES = ("new_dtype", "dtype", "preferred_element_type")
"""Where an operation keeps the type of its result."""


def intermediates(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The result of every operation of a function, in order and in float64; behind them what it returns."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    found: list[Any] = []
    results = evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments), found)
    return [*found, jax.tree.structure(shape).unflatten(results)]


def rounds(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function whose arguments are in float64 computes anything in a shorter type."""
    return any(is_shorter(v.aval) for e in operations(jax.make_jaxpr(function)(*arguments).jaxpr) for v in e.outvars)


def operations(jaxpr: Jaxpr) -> Iterator[Any]:
    """Every operation, those inside of others included."""
    for equation in jaxpr.eqns:
        yield equation
        inner = inner_of(equation)
        if inner is not None:
            yield from operations(getattr(inner, "jaxpr", inner))


def inner_of(equation: Any) -> Any:
    """The operations that an operation stands for, if it stands for any."""
    return next((equation.params[key] for key in INNER if key in equation.params), None)


def is_shorter(array: Any) -> bool:
    """Whether an array is floating, and not in float64."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 8


def wide(array: Any) -> Any:
    """A floating array in float64; anything else as it is."""
    return jnp.asarray(array).astype(np.float64) if is_shorter(array) else array


def evaluate(jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any], found: list[Any]) -> list[Any]:
    """Evaluate operation by operation in float64, and append every result to ``found``."""
    given = map(wide, (*constants, *arguments))
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

    def value(variable: Any) -> Any:
        return wide(variable.val) if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        read = [value(v) for v in equation.invars]
        inner = inner_of(equation)
        if inner is not None and equation.primitive.name not in WHOLE:
            results = evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), read, found)
        else:
            results = [wide(r) for r in applied(equation, read)]
            found.extend(results)
        values.update(zip(equation.outvars, results, strict=True))
    return [value(v) for v in jaxpr.outvars]


def applied(equation: Any, arguments: Sequence[Any]) -> list[Any]:
    """What one operation gives; one that has others inside gets its arguments in the types that it declares."""
    params = equation.params
    if equation.primitive.name in WHOLE:
        arguments = [
            a.astype(v.aval.dtype) if is_shorter(v.aval) else a for a, v in zip(arguments, equation.invars, strict=True)
        ]
    else:
        told = {key: params[key] for key in TYPES if params.get(key) is not None}
        short = {k: np.dtype(np.float64) for k, t in told.items() if is_shorter(jax.ShapeDtypeStruct((), t))}
        params = params | short
    bound = equation.primitive.bind(*arguments, **params)
    return list(bound) if equation.primitive.multiple_results else [bound]
