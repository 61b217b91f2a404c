"""Rounding: the budget of a precision below float64, derived from the specification itself.

The order of a sum is free, so an encoder may choose its own. This module evaluates the specification in a precision in
several ways that are equal on paper. It permutes the entries of the hidden states and of each head, the heads, and the
hidden units of the feed-forward network. It also multiplies the queries by a number and divides the keys by it: sums
accumulated in float32 round alike in every order, but an encoder that scales its queries first rounds them once more,
and a softmax of large scores magnifies that. The largest distance of these results from float64, times a margin for
ways that were not tried, is the distance allowed to an encoder.
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
"""Number of ways to compute the same that are tried beside the specification's own."""

MARGIN = 4
"""The budget in units of the largest distance found.

A correct encoder's distance is one more draw beside these seven. For the built-in encoders, and for pretrained weights
in float32, it came to a quarter of the budget, and at most to little more than half of it.
"""

EXACT = 1e-9
"""Largest change that a way may make to a float64 result, relative to the largest result."""

SEARCHED = 100
"""Largest difference, in units of roundoff, of two values that count as the same while a variant is sought."""

Orders = dict[str, Tensor]


@dataclass(frozen=True)
class Way:
    """One way to compute what is the same on paper.

    Attributes:
        orders: a random order for every axis that is summed over.
        factor: the number that multiplies the queries and divides the keys before the scores are formed.
    """

    orders: Orders = field(default_factory=dict)
    factor: float = 1.0


def search_budget(dtype: torch.dtype) -> float:
    """Return how near two numbers of order 1 must be to count as the same while a variant is sought."""
    return BUDGET if dtype is torch.float64 else SEARCHED * torch.finfo(dtype).eps


def budget(
    encoder: Encoder,
    parameters: Mapping[str, Tensor],
    inputs: tuple[Tensor, ...],
    keep: Tensor | None,
    dtype: torch.dtype,
    enough: float = math.inf,
) -> float:
    """Return how far an output computed in ``dtype`` may be from the specification's in float64.

    Args:
        encoder: the choice of equations.
        parameters: in float64, with values that ``dtype`` can hold.
        inputs: likewise, or ids.
        keep: the mask, True = keep.
        dtype: of the computation.
        enough: a budget that suffices: it grows with each way that is tried, and ways cost two evaluations each.

    Returns:
        The budget, or a part of it that is enough; infinite where the specification itself has no number in that
        precision.
    """
    with torch.no_grad():
        exact = encoder(parameters, *inputs, keep=keep)
        valid = slice(None) if keep is None or exact.ndim < 3 else keep
        scale = float(exact[valid].nan_to_num().abs().max())
        distances = [torch.finfo(dtype).eps * max(scale, 1.0)]
        for way in (Way(), *(way_of(encoder, seed) for seed in range(WAYS))):
            if MARGIN * max(distances) >= enough:
                break
            # A wrong equation may give other scores for multiplied queries, yet the same ones in another order.
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
    """Return how far one way ends from float64; None if it does not compute the same as this encoder."""
    ordered, orders = computing(encoder, way), way.orders
    axes = ordered.symbolic_shapes()
    placed = {path: permuted(value, axes[path], orders) for path, value in parameters.items() if path in axes}
    first, *others = inputs
    read = (permuted(first, encoder.reads, orders), *others)
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
    """Draw a random way."""
    generator = torch.Generator().manual_seed(seed)
    sizes = encoder.dimensions

    def shuffled(size: int) -> Tensor:
        return torch.randperm(size, generator=generator)

    heads = shuffled(sizes.h)
    orders = {"d_group": shuffled(sizes.d_group), "d_ff": shuffled(sizes.d_ff)}
    for axis, width in (("hd_k", sizes.d_k), ("hd_v", sizes.d_v)):
        orders[axis] = (heads[:, None] * width + shuffled(width)).flatten()
    factor = 2 ** float(torch.rand((), generator=generator) - 0.5)
    groups = shuffled(sizes.d_model // sizes.d_group)
    orders["d_model"] = (groups[:, None] * sizes.d_group + orders["d_group"]).flatten()
    return Way(orders, factor)


def computing(encoder: Encoder, way: Way) -> Encoder:
    """Return the encoder that computes in one way: positions without parameters in its order, and with its factor."""
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
    """Put every axis that has an order into this order."""
    for place, axis in enumerate(axes):
        if axis in orders:
            value = value.index_select(place, orders[axis])
    return value
