"""The operations of a JAX function: each with its result, and all of them in float64.

Libraries round without being asked: ``jax.nn.dot_product_attention`` computes the softmax in float32 in any precision.
Such a rounding belongs to no equation. This module leaves it out, as another framework's ``.to(float64)`` does. It also
leaves out a half precision in which all products of matrices are computed, since that is a setting of the whole
encoder. Half precision in single places belongs to the encoder and stays.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Names under which an operation keeps the operations that it stands for."""

TYPES = ("new_dtype", "dtype", "preferred_element_type")
"""Names under which an operation keeps the type of its result."""

PRODUCT = "dot_general"

HALF, SINGLE = 2, 4
"""Bytes in a number."""


ELEMENTWISE = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "div": "div", "neg": "neg", "max": "maximum",
    "min": "minimum", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "cbrt": "cbrt", "tanh": "tanh", "erf": "erf", "erfc": "erfc", "logistic": "sigmoid",
    "pow": "pow", "abs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil", "round": "round", "rem": "fmod",
    "sin": "sin", "cos": "cos", "tan": "tan", "atan2": "atan2", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le",
    "gt": "gt", "ge": "ge", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not",
    "is_finite": "isfinite", "reduce_precision": "round", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "nextafter": "nextafter",
}  # fmt: skip
"""Primitives on each entry by itself, with the names that torch gives the same operations."""

REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "reduce_prod": "prod",
    "reduce_and": "all",
    "reduce_or": "any",
}
"""Primitives that reduce axes, with the names that torch gives the same operations."""

PASSES_ON = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "sharding_constraint", "device_put", "pvary")
"""Primitives that give what they read."""


class Place(NamedTuple):
    """Where an operation stands among those of a function, whatever the sizes of its arguments are.

    Sizes decide where arrays are broadcast; between two products of matrices the operations of one kind are counted.
    """

    products: int
    kind: str
    number: int


def places(jaxpr: Jaxpr) -> list[Place]:
    """Return where each of the results that ``evaluate`` finds stands."""
    found: list[Place] = []
    products, counted = 0, Counter[str]()
    for kind in kinds(jaxpr):
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


def rounds(jaxpr: Jaxpr) -> bool:
    """Return whether a function with arguments in float64 computes anything in a shorter type."""
    return any(is_shorter(v.aval) for e in operations(jaxpr) for v in e.outvars)


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


class Arithmetic(ABC):
    """An evaluation of functions: what their operations are applied to, and what applies them."""

    @abstractmethod
    def constant(self, array: Any) -> Any:
        """Return a number or an array that is the same in each call."""

    @abstractmethod
    def apply(self, equation: Any, reads: Sequence[Any]) -> list[Any]:
        """Apply an operation, a loop too, and return its results."""

    def inside(self, equation: Any, reads: Sequence[Any], found: list[Any]) -> list[Any]:
        """Return the results of an operation that stands for others."""
        return self.closed(inner_of(equation), reads, found)

    def closed(self, inner: Any, arguments: Sequence[Any], found: list[Any] | None = None) -> list[Any]:
        """Evaluate an inner function."""
        constants = [self.constant(array) for array in getattr(inner, "consts", ())]
        return evaluate(getattr(inner, "jaxpr", inner), constants, arguments, self, found)


class Unrolling(Arithmetic):
    """An evaluation that goes through loops step by step."""

    @abstractmethod
    def entry(self, read: Any, i: int) -> Any:
        """Return one entry along the first axis."""

    @abstractmethod
    def stacked(self, reads: Sequence[Any]) -> Any:
        """Put arrays beside one another along a new first axis."""

    @abstractmethod
    def number(self, read: Any) -> int:
        """Return the only entry."""


def evaluate(
    jaxpr: Jaxpr,
    constants: Sequence[Any],
    arguments: Sequence[Any],
    arithmetic: Arithmetic,
    found: list[Any] | None = None,
) -> list[Any]:
    """Evaluate operation by operation, and append every result to ``found``: that of a loop as a whole."""
    found = [] if found is None else found
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

    def value(variable: Any) -> Any:
        return arithmetic.constant(variable.val) if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        reads = [value(v) for v in equation.invars]
        if inner_of(equation) is not None and equation.primitive.name not in WHOLE:
            results = arithmetic.inside(equation, reads, found)
        else:
            results = arithmetic.apply(equation, reads)
            found.extend(results)
        values.update(zip(equation.outvars, results, strict=True))
    return [value(v) for v in jaxpr.outvars]


Loop = Callable[[Unrolling, Mapping[str, Any], Sequence[Any]], list[Any]]


def scanned(arithmetic: Unrolling, params: Mapping[str, Any], reads: Sequence[Any]) -> list[Any]:
    """Go through a scan step by step."""
    consts, carried = params["num_consts"], params["num_carry"]
    fixed, carry, over = reads[:consts], list(reads[consts : consts + carried]), reads[consts + carried :]
    steps: list[list[Any]] = []
    for i in range(params["length"])[:: -1 if params["reverse"] else 1]:
        results = arithmetic.closed(params["jaxpr"], [*fixed, *carry, *(arithmetic.entry(read, i) for read in over)])
        carry = results[:carried]
        steps.append(results[carried:])
    if params["reverse"]:
        steps.reverse()
    return [*carry, *map(arithmetic.stacked, zip(*steps, strict=True))]


def looped(arithmetic: Unrolling, params: Mapping[str, Any], reads: Sequence[Any]) -> list[Any]:
    """Go on for as long as a condition holds."""
    consts, inner = params["cond_nconsts"], params["body_nconsts"]
    asked, fixed, carry = reads[:consts], reads[consts : consts + inner], list(reads[consts + inner :])
    while arithmetic.number(arithmetic.closed(params["cond_jaxpr"], [*asked, *carry])[0]):
        carry = arithmetic.closed(params["body_jaxpr"], [*fixed, *carry])
    return carry


def branched(arithmetic: Unrolling, params: Mapping[str, Any], reads: Sequence[Any]) -> list[Any]:
    """Take the branch that a number chooses."""
    branches = params["branches"]
    which = min(max(arithmetic.number(reads[0]), 0), len(branches) - 1)
    return arithmetic.closed(branches[which], reads[1:])


LOOPS: Mapping[str, Loop] = {"scan": scanned, "while": looped, "cond": branched}
"""Operations whose inner ones run more than once, or not at all."""

WHOLE = tuple(LOOPS)


class Traced(Arithmetic):
    """Computes in float64 what JAX traces, so that it can differentiate it.

    Args:
        least: floating types of fewer bytes stay as they are.
    """

    def __init__(self, least: int) -> None:
        self.least = least

    def constant(self, array: Any) -> Any:
        """See ``Arithmetic``."""
        return wide(as_meant(array), self.least)

    def apply(self, equation: Any, reads: Sequence[Any]) -> list[Any]:
        """See ``Arithmetic``: a loop stays a loop."""
        return [wide(result, self.least) for result in applied(equation, reads, self.least)]


def least_of(jaxpr: Jaxpr) -> int:
    """Return how many bytes a floating number of a function has at least that is computed in float64 instead."""
    return HALF if computes_in_half(jaxpr) else SINGLE


def traced_intermediates(closed: ClosedJaxpr, *arguments: Any) -> list[Any]:
    """Return the result of each operation of a function in float64, while JAX traces it."""
    found: list[Any] = []
    traced = Traced(least_of(closed.jaxpr))
    given = [wide(array, traced.least) for array in jax.tree.leaves(arguments)]
    evaluate(closed.jaxpr, [*map(traced.constant, closed.consts)], given, traced, found)
    return found


def applied(equation: Any, arguments: Sequence[Any], least: int) -> list[Any]:
    """Let JAX apply one operation; one with others inside gets its arguments in the types that it declares."""
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
