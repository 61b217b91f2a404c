"""The operations of a JAX function: each with its result, and all of them in float64.

Libraries round without being asked: ``jax.nn.dot_product_attention`` computes the softmax in float32 in any precision.
Such a rounding belongs to no equation. This module leaves it out, as another framework's ``.to(float64)`` does. It also
leaves out a half precision in which all products of matrices are computed, since that is a setting of the whole
encoder. Half precision in single places belongs to the encoder and stays.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Names under which an operation keeps the operations that it stands for."""

WHOLE = ("scan", "while", "cond")
"""Operations whose inner ones run more than once, or not at all."""

TYPES = ("new_dtype", "dtype", "preferred_element_type")
"""Names under which an operation keeps the type of its result."""

PRODUCT = "dot_general"

HALF, SINGLE = 2, 4
"""Bytes in a number."""


def intermediates(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the result of each operation of a function, in order and in float64, and then what it returns."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    found: list[Any] = []
    least = HALF if computes_in_half(closed.jaxpr) else SINGLE
    results = evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments), found, least)
    return [*found, jax.tree.structure(shape).unflatten(results)]


class Place(NamedTuple):
    """Where an operation stands among those of a function, whatever the sizes of its arguments are.

    Sizes decide where arrays are broadcast; between two products of matrices the operations of one kind are counted.
    """

    products: int
    kind: str
    number: int


def places(function: Callable[..., Any], *arguments: Any) -> list[Place]:
    """Return where each of the ``intermediates`` of a function stands."""
    found: list[Place] = []
    products, counted = 0, Counter[str]()
    for kind in kinds(jax.make_jaxpr(function)(*arguments).jaxpr):
        found.append(Place(products, kind, counted[kind]))
        counted[kind] += 1
        if kind == PRODUCT:
            products, counted = products + 1, Counter()
    return found


def kinds(jaxpr: Jaxpr) -> Iterator[str]:
    """Yield the kind of operation that gives each intermediate, in the order of ``evaluate``."""
    for equation in jaxpr.eqns:
        inner = inner_of(equation)
        if inner is not None and equation.primitive.name not in WHOLE:
            yield from kinds(getattr(inner, "jaxpr", inner))
        else:
            yield from [equation.primitive.name] * len(equation.outvars)


def computes_in_half(jaxpr: Jaxpr) -> bool:
    """Return whether all products of matrices are in half precision."""
    products = [v.aval for e in operations(jaxpr) if e.primitive.name == PRODUCT for v in e.outvars]
    return bool(products) and all(array.dtype.itemsize == HALF for array in products)


def rounds(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a function with arguments in float64 computes anything in a shorter type."""
    return any(is_shorter(v.aval) for e in operations(jax.make_jaxpr(function)(*arguments).jaxpr) for v in e.outvars)


def operations(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the operations, those inside of others included."""
    for equation in jaxpr.eqns:
        yield equation
        inner = inner_of(equation)
        if inner is not None:
            yield from operations(getattr(inner, "jaxpr", inner))


def inner_of(equation: Any) -> Any:
    """Return the operations that an operation stands for, if it stands for any."""
    return next((equation.params[key] for key in INNER if key in equation.params), None)


def is_shorter(array: Any, least: int = HALF) -> bool:
    """Return whether an array is floating, with at least so many bytes for a number, and not in float64."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.floating) and least <= dtype.itemsize < 8


def wide(array: Any, least: int) -> Any:
    """Return a floating array with at least so many bytes for a number in float64, and anything else as it is."""
    return jnp.asarray(array).astype(np.float64) if is_shorter(array, least) else array


UNITS = (1.0, math.pi)
"""The squares of the constants that equations have are n/u or u/n, with a whole number n: √d, 1/√d, √(2/π), 1/√2."""

LARGEST_WHOLE = 4096
"""The square of any number in float32 is near a whole number that is larger."""


def as_meant(number: Any) -> Any:
    """Return a single number that float32 has rounded as the constant that it rounds: a root, or a short decimal.

    Beside arrays in float64 it would be the only thing that is rounded.
    """
    array = np.asarray(number)
    if array.ndim or array.dtype != np.float32 or not np.isfinite(array) or not array:
        return number
    square = float(array) ** 2
    squares = [n / u for u in UNITS if 0 < (n := round(square * u)) < LARGEST_WHOLE]
    squares += [u / n for u in UNITS if 0 < (n := round(u / square)) < LARGEST_WHOLE]
    roots = (math.copysign(math.sqrt(each), array) for each in squares)
    return np.float64(next((root for root in roots if np.float32(root) == array), float(str(array))))


def evaluate(
    jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any], found: list[Any], least: int
) -> list[Any]:
    """Evaluate operation by operation in float64, and append every result to ``found``.

    Types of fewer bytes than ``least`` stay as they are.
    """
    given = [wide(array, least) for array in (*map(as_meant, constants), *arguments)]
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

    def value(variable: Any) -> Any:
        return wide(as_meant(variable.val), least) if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        read = [value(v) for v in equation.invars]
        inner = inner_of(equation)
        if inner is not None and equation.primitive.name not in WHOLE:
            results = evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), read, found, least)
        else:
            results = [wide(r, least) for r in applied(equation, read, least)]
            found.extend(results)
        values.update(zip(equation.outvars, results, strict=True))
    return [value(v) for v in jaxpr.outvars]


def applied(equation: Any, arguments: Sequence[Any], least: int) -> list[Any]:
    """Apply one operation; one with others inside gets its arguments in the types that it declares."""
    params = equation.params
    if equation.primitive.name in WHOLE:
        arguments = [
            a.astype(v.aval.dtype) if is_shorter(v.aval) else a for a, v in zip(arguments, equation.invars, strict=True)
        ]
    else:
        told = {key: params[key] for key in TYPES if params.get(key) is not None}
        short = {k: np.dtype(np.float64) for k, t in told.items() if is_shorter(jax.ShapeDtypeStruct((), t), least)}
        params = params | short
    bound = equation.primitive.bind(*arguments, **params)
    return list(bound) if equation.primitive.multiple_results else [bound]
