"""Oracles of chapter 10: index l runs over the layers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def encoder(
    keep: NDArray[np.bool_],
    *inputs: NDArray[Any],
    input: Callable[..., Array],
    layers: Sequence[Callable[..., Array]],
    final_norm: Callable[..., Array],
    head: Callable[..., Array],
) -> Array:
    """X⁰ = Input(x), X^{l+1} = Layer_l(X^l), y = Head(Norm(X^N))."""
    X = [input(*inputs)]
    for l in range(len(layers)):
        X.append(layers[l](X[l], keep))
    return head(final_norm(X[len(layers)]), keep)


def checkpointed(
    keep: NDArray[np.bool_],
    *inputs: NDArray[Any],
    input: Callable[..., Array],
    layers: Sequence[Callable[..., Array]],
    final_norm: Callable[..., Array],
    head: Callable[..., Array],
) -> Array:
    """X^{l+1} = Layer_l(X^l), the plain stack: recomputing a value does not change it."""
    return encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)


def final_norm(X: Array, *, norm_final: Callable[..., Array]) -> Array:
    """Z[b, j] = LN(X^N[b, j])."""
    return norm_final(X)


def no_final_norm(X: Array) -> Array:
    """Z[b, j, c] = X^N[b, j, c]."""
    return X


def unshared(l: int, name: str) -> int:  # noqa: ARG001 — all are its own
    """θ(l) = l."""
    return l


def shared_bias(l: int, name: str) -> int:
    """θ[l, name] = θ[l, name], but R[l] = R[0]."""
    return 0 if name.split(".")[0] in ("R", "D", "norm_D") else l


def shared(l: int, name: str) -> int:  # noqa: ARG001 — no layer differs from layer 0
    """θ(l) = 0."""
    return 0
