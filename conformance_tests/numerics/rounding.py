"""Rounding: the budget of a precision below float64, derived from the specification itself.

Nobody computes these sums in one fixed order, so no encoder has to. The specification is
evaluated in the precision at hand in several ways that change nothing on paper: the
entries of the hidden states, of each head, the heads and the hidden units of the
feed-forward network are permuted throughout; and the queries are multiplied by a number by
which the keys are divided. Sums that are accumulated in float32 round alike in every order,
but an encoder that scales its queries first rounds them once more, and a softmax of large
scores magnifies that. How far those results lie from float64 is how far an encoder may lie,
with a margin for ways that were not tried.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import wraps

import torch
from torch import Tensor

from conformance_tests.numerics.compare import BUDGET
from encoder_spec.assembly import Encoder

WAYS = 6
"""So many ways to compute the same are tried, beside the specification's own."""

MARGIN = 4
"""The budget in units of the largest distance found.

A correct encoder's distance is one more draw beside these seven: for the built-in encoders, and for
pretrained weights in float32, it came to a quarter of the budget, and to little more than half at most.
"""

EXACT = 1e-9
"""A way is one only if it changes no float64 result by more, relative to the largest."""

SEARCHED = 100
"""In units of roundoff: how near two values must be for one to be taken for the other while a variant is sought."""

Orders = dict[str, Tensor]


@dataclass(frozen=True)
class Way:
    """One way to compute what is the same on paper.

    Attributes:
        orders: a random order for every axis that is summed over.
        factor: what the queries are multiplied by, and the keys divided, before the scores are formed.
    """

    orders: Orders = field(default_factory=dict)
    factor: float = 1.0


def search_budget(dtype: torch.dtype) -> float:
    """How near two numbers of order 1 must be to be taken for the same while a variant is sought."""
    return BUDGET if dtype is torch.float64 else SEARCHED * torch.finfo(dtype).eps


def budget(
    encoder: Encoder,
    parameters: Mapping[str, Tensor],
    inputs: tuple[Tensor, ...],
    keep: Tensor | None,
    dtype: torch.dtype,
) -> float:
    """How far an output computed in ``dtype`` may be from the specification's in float64.

    Args:
        encoder: the choice of equations.
        parameters: in float64, with values that ``dtype`` can hold.
        inputs: likewise, or ids.
        keep: the mask, True = keep.
        dtype: of the computation.

    Returns:
        The budget, infinite where the specification itself has no number in that precision.
    """
    with torch.no_grad():
        exact = encoder(parameters, *inputs, keep=keep)
        valid = slice(None) if keep is None or exact.ndim < 3 else keep
        scale = float(exact[valid].nan_to_num().abs().max())
        distances = [torch.finfo(dtype).eps * max(scale, 1.0)]
        for way in (Way(), *(way_of(encoder, seed) for seed in range(WAYS))):
            # A wrong equation may form other scores of multiplied queries, and the same in another order.
            for one in dict.fromkeys((way.factor, 1.0)):
                found = distance(encoder, parameters, inputs, keep, dtype, exact, replace(way, factor=one), valid)
                if found is not None:
                    distances.append(found)
                    break
    return MARGIN * max(distances)


def distance(
    encoder: Encoder,
    parameters: Mapping[str, Tensor],
    inputs: tuple[Tensor, ...],
    keep: Tensor | None,
    dtype: torch.dtype,
    exact: Tensor,
    way: Way,
    valid: Tensor | slice,
) -> float | None:
    """How far one way ends from float64; None if it does not compute the same as this encoder."""
    ordered, orders = computing(encoder, way), way.orders
    axes = ordered.symbolic_shapes()
    placed = {path: permuted(value, axes[path], orders) for path, value in parameters.items() if path in axes}
    given = encoder.profile["input"].variant == "given"
    read = tuple(permuted(x, ("B", "n", "d_model"), orders) if given else x for x in inputs)
    is_hidden = encoder.profile["head"].variant == "none"
    want = permuted(exact, ("B", "n", "d_model"), orders) if is_hidden else exact
    if orders:
        again = ordered(placed, *read, keep=keep)
        if float((again - want)[valid].nan_to_num().abs().max()) > EXACT * max(
            1.0, float(want[valid].nan_to_num().abs().max())
        ):
            return None
    rounded = {path: value.to(dtype) for path, value in placed.items()}
    got = ordered(rounded, *(x.to(dtype) if x.is_floating_point() else x for x in read), keep=keep)
    difference = (got.double() - want)[valid]
    lost = want[valid].isfinite() & ~difference.isfinite()
    return math.inf if lost.any() else float(difference.nan_to_num().abs().max())


def way_of(encoder: Encoder, seed: int) -> Way:
    """A random way."""
    generator = torch.Generator().manual_seed(seed)
    sizes = encoder.dimensions

    def shuffled(size: int) -> Tensor:
        return torch.randperm(size, generator=generator)

    heads = shuffled(sizes.h)
    orders = {"d_model": shuffled(sizes.d_model), "d_ff": shuffled(sizes.d_ff)}
    for axis, width in (("hd_k", sizes.d_k), ("hd_v", sizes.d_v)):
        orders[axis] = (heads[:, None] * width + shuffled(width)).flatten()
    return Way(orders, factor=2 ** float(torch.rand((), generator=generator) - 0.5))


def computing(encoder: Encoder, way: Way) -> Encoder:
    """The encoder with the vectors of positions that no parameter holds in the order of a way, and with its factor."""
    position, scores = encoder.profile["position"], encoder.profile["scores"]
    profile = encoder.profile

    @wraps(scores.function)
    def balanced(Q: Tensor, K: Tensor, **supplied: float) -> Tensor:
        return scores.function(Q * way.factor, K / way.factor, **supplied)  # type: ignore[no-any-return]

    @wraps(position.function)
    def placed(X: Tensor, **supplied: float) -> Tensor:
        vectors: Tensor = position.function(X, **supplied)
        return vectors[..., way.orders["d_model"]]

    if way.factor != 1:
        profile = profile.replace(scores=replace(scores, function=balanced))
    if way.orders and not position.parameters and profile["input"].variant == "embedded":
        profile = profile.replace(position=replace(position, function=placed))
    return replace(encoder, profile=profile)


def permuted(value: Tensor, axes: tuple[str, ...], orders: Orders) -> Tensor:
    """An array with every axis that has an order put into it."""
    for place, axis in enumerate(axes):
        if axis in orders:
            value = value.index_select(place, orders[axis])
    return value
