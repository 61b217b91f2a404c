"""Operations of JAX on tensors: the numbers that JAX computes itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

jax = pytest.importorskip("jax", reason="needs the extra `flax`: run by `make frameworks`")

from jax import lax  # noqa: E402

from conformance_tests.subjects.jax import translated  # noqa: E402
from conformance_tests.subjects.jax.operations import (  # noqa: E402
    ELEMENTWISE,
    PASSES_ON,
    REDUCTIONS,
    SINGLE,
    evaluate,
    operations,
)
from conformance_tests.subjects.jax.translated import NOT_IN_TORCH, OTHERS, Translated, tensor  # noqa: E402

jnp = jax.numpy

X = np.linspace(0.1, 0.9, 24).reshape(2, 3, 4)
Y = np.linspace(0.9, 0.2, 24).reshape(2, 3, 4)
IDS = np.array([[1, 2], [0, 1]])
TRUE = X > 0.5
IMAGE, KERNEL = np.linspace(-1, 1, 2 * 7 * 6 * 3).reshape(2, 7, 6, 3), np.linspace(-1, 1, 90).reshape(2, 3, 3, 5)


def convolution(x: Any, W: Any) -> Any:
    """Channels last, with unequal steps and sides."""
    sides = [(1, 0), (2, 1)]
    return lax.conv_general_dilated(x, W, (2, 1), sides, dimension_numbers=("NHWC", "HWIO", "NHWC"))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (3, 2, 5), (1,)), (X[:, 0, 0],)),
    "clamp": (lambda x: lax.clamp(0.3, x, 0.6), (X,)),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 1), (X, Y)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), (X, 2 * X)),
    "conv_general_dilated": (convolution, (IMAGE, KERNEL)),
    "convert_element_type": (lambda x: lax.convert_element_type(4 * x, jnp.int32), (X,)),
    "dot_general": (lambda x, y: jnp.einsum("bnd,bmd->bmn", x, y), (X, Y)),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 2, 1), (1, 2, 3)), (X,)),
    "dynamic_update_slice": (lambda x: lax.dynamic_update_slice(x, 9 * x[:1, :2], (5, -1, 0)), (X,)),
    "gather": (lambda x, ids: jnp.take(x, ids, axis=1), (X, IDS)),
    "integer_pow": (lambda x: x**-3, (X,)),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float64, x.shape, 1), (X,)),
    "pad": (lambda x: lax.pad(x, 7.0, ((1, 2, 0), (-1, 0, 0), (0, 0, 0))), (X,)),
    "reshape": (lambda x: lax.reshape(x, (6, 4)), (X,)),
    "rev": (lambda x: lax.rev(x, (1, 2)), (X,)),
    "select_n": (lambda which, x, y: lax.select(which, x, y), (TRUE, X, Y)),
    "slice": (lambda x: lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 2)), (X,)),
    "split": (lambda x: lax.split(x, (1, 3), axis=2), (X,)),
    "square": (lambda x: lax.square(x), (X,)),
    "squeeze": (lambda x: lax.squeeze(x[:1], (0,)), (X,)),
    "tile": (lambda x: lax.tile(x, (1, 2, 3)), (X,)),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), (X,)),
    "reduce_sum": (lambda x: x.sum((0, 2)), (X,)),
    "reduce_max": (lambda x: x.max(-1), (X,)),
    "reduce_min": (lambda x: x.min(), (X,)),
    "reduce_prod": (lambda x: x.prod((0, 1)), (X,)),
    "reduce_and": (lambda which: which.all((0, 1)), (TRUE,)),
    "reduce_or": (lambda which: which.any(2), (TRUE,)),
}
"""A call of each primitive that has a form that no others have."""

TWO = ("add", "sub", "mul", "div", "max", "min", "pow", "rem", "atan2", "eq", "ne", "lt", "le", "gt", "ge", "nextafter")
LOGICAL = ("and", "or", "xor")
TRANSLATED = sorted(ELEMENTWISE.keys() - NOT_IN_TORCH - {"add_any", "not"})


def primitive(name: str) -> Callable[..., Any]:
    """An elementwise primitive."""
    return lambda *x: getattr(lax, f"{name}_p").bind(*x, **({"accuracy": None} if name in ACCURATE else {}))


ACCURATE = ("exp", "exp2", "log", "log1p", "expm1", "sqrt", "rsqrt", "cbrt", "tanh", "logistic", "sin", "cos", "tan")
"""Primitives with an option for the accuracy."""


def compared(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], arrays: tuple[Any, ...], name: str) -> None:
    """Compare what tensors give with what JAX gives, and see that nothing else of this name was asked of JAX."""
    asked: list[str] = []
    applied = translated.applied
    note = lambda equation, *given: asked.append(equation.primitive.name) or applied(equation, *given)  # noqa: E731
    monkeypatch.setattr(translated, "applied", note)
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(function)(*arrays)
        assert name in {equation.primitive.name for equation in operations(closed.jaxpr)}
        arithmetic = Translated(SINGLE)
        constants = list(map(arithmetic.constant, closed.consts))
        got = evaluate(closed.jaxpr, constants, list(map(torch.from_numpy, arrays)), arithmetic)
        wanted = list(map(tensor, jax.tree.leaves(function(*arrays))))
    assert name not in asked
    for g, w in zip(got, wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        torch.testing.assert_close(g, w, rtol=1e-13, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("name", TRANSLATED)
def test_an_operation_on_each_entry_gives_the_numbers_of_jax(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With entries between 0 and 1, and 1.5 more where a function is defined from 1 on."""
    x = X + 1.5 if name == "acosh" else X
    arrays = (TRUE, Y > 0.4) if name in LOGICAL else (x, Y) if name in TWO else (x,)
    compared(monkeypatch, primitive(name), arrays, name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_other_operation_gives_the_numbers_of_jax(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compared(monkeypatch, *FUNCTIONS[name], name)


def test_every_operation_that_is_translated_is_compared() -> None:
    assert FUNCTIONS.keys() == OTHERS.keys() | REDUCTIONS.keys()
    assert "stop_gradient" in PASSES_ON


def test_whole_numbers_are_divided_towards_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    compared(monkeypatch, lax.div, (np.array([-7, 7]), np.array([2, 2])), "div")


@pytest.mark.parametrize("ids", [np.array([[1, 7]]), np.array([[-9, 0]])], ids=["beyond", "before"])
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_ids_out_of_bounds_are_moved_or_give_nan(monkeypatch: pytest.MonkeyPatch, ids: Any, mode: str) -> None:
    """As ``jnp.take`` documents; three rows."""
    compared(monkeypatch, lambda x, ids: jnp.take(x, ids, axis=1, mode=mode), (X, ids), "gather")


def cumulated(x: Any) -> Any:
    """A scan backwards, a loop, a branch, and a sum that is not translated."""
    carry, rows = lax.scan(lambda carry, row: (carry + row, carry * row), x[0], x, reverse=True)
    looped = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5), (0, rows))[1]
    return lax.cond(x[0, 0, 0, 0] > 1, lambda y: y, lambda y: lax.cumsum(y, axis=1), looped), carry


def test_loops_and_branches_are_gone_through() -> None:
    """What is not translated is computed by JAX."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(cumulated)(X[None])
        got = evaluate(closed.jaxpr, [], [torch.from_numpy(X[None])], Translated(SINGLE))
        wanted = list(map(tensor, cumulated(X[None])))
    for g, w in zip(got, wanted, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-13, atol=1e-15)


def test_half_precision_in_a_single_place_is_kept() -> None:
    """1 + 2⁻⁹ is 1 in bfloat16; with all in half precision left out it stays."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda x: x.astype(jnp.bfloat16).astype(jnp.float64) + 0)(1 + 2.0**-9)
    x = [torch.tensor(1 + 2.0**-9, dtype=torch.float64)]
    assert float(evaluate(closed.jaxpr, [], x, Translated(SINGLE))[0]) == 1
    assert float(evaluate(closed.jaxpr, [], x, Translated(translated.SINGLE // 2))[0]) == 1 + 2.0**-9


def test_single_precision_is_left_out() -> None:
    """The third of 1 is computed in float64."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda x: (x.astype(jnp.float32) / 3).astype(jnp.float64))(1.0)
    (third,) = evaluate(closed.jaxpr, [], [torch.tensor(1.0, dtype=torch.float64)], Translated(SINGLE))
    assert float(third) == pytest.approx(1 / 3, rel=1e-15)


def test_whole_numbers_are_multiplied_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As positions are with frequencies."""
    dimensions = (((0,), (0,)), ((), ()))
    compared(monkeypatch, lambda x, y: lax.dot_general(x, y, dimensions), (np.arange(3), X[0]), "dot_general")


def test_truths_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a mask of rows with one of columns."""
    dimensions = (((1,), (1,)), ((), ()))
    which = np.array([[True, True], [False, True], [False, False]])
    compared(monkeypatch, lambda x, y: lax.dot_general(x, y, dimensions), (which, which), "dot_general")
