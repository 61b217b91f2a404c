"""Irrational constants of the equations, which encoders keep rounded: in float32, or with some digits alone."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.norm import apart
from encoder_spec.attention import scores_disentangled, scores_relative_keys

SAME = 1e-12
"""So near, relatively, a number of float64 is the one that belongs there."""

NEAR = 1e-6
"""So near, relatively, a number is the one that belongs there, kept in float32."""

SIX_DIGITS = 5e-6
"""How far, relatively, a number in an activation may be from the one that belongs there and be it, written with six
digits or more. Fused code writes 0.79788456 for √(2/π), and other code 1.41421 for √2; with five digits it can be told
from the activation in float32."""

TELLING = (0.1, 0.9)
"""Shares between these, of either sign, tell the number in an activation: near 0 and 1 they lose digits."""


SHORT_TYPES = (torch.float16, torch.bfloat16)
"""Types in which converted encoders keep their constants, with 11 and 8 binary digits."""


def is_kept_as(number: float, belongs: float) -> bool:
    """Return whether a number is the one that belongs there, as an encoder keeps it: in float32, or in a shorter type.

    A shorter type has so few digits that the number has to be the very one to which it rounds the other, its inverse,
    or the root that both queries and keys are multiplied by.
    """
    if abs(number / belongs - 1) <= NEAR:
        return True
    return any(abs(number / kept - 1) <= SAME for short in SHORT_TYPES for kept in roundings(belongs, short))


def roundings(belongs: float, short: torch.dtype) -> Iterator[float]:
    """Yield what becomes of a positive number that is kept in a shorter type itself, as its inverse or as its root."""

    def rounded(number: float) -> float:
        return float(torch.tensor(number, dtype=torch.float64).to(short))

    yield rounded(belongs)
    yield 1 / rounded(1 / belongs)
    yield rounded(math.sqrt(belongs)) ** 2


class WithConstant(NamedTuple):
    """A variant with a constant: that in words, and the function with another number in its place."""

    constant: str
    function: Callable[..., Tensor]


def multiples(omega: Tensor, x: Tensor, **_: float) -> Tensor:
    """Return the angles of positions of which each turns by those of position 1 further."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.arange(x.shape[-2], dtype=dtype)[:, None] * omega.to(dtype)


def in_halves(
    omega: Tensor, q: Tensor, *, coordinates: Callable[..., Tensor], axes: Callable[..., Tensor], **_: float
) -> Tensor:
    """Return the angles of patches, each axis times its frequencies (2, pairs of it), one axis behind the other."""
    places = axes(coordinates(q))
    return (places[:, :, None] * omega.to(places)).flatten(1)


def interleaved(
    omega: Tensor, q: Tensor, *, coordinates: Callable[..., Tensor], axes: Callable[..., Tensor], **_: float
) -> Tensor:
    """Return these angles with both axes in turn."""
    places = axes(coordinates(q))
    return (places[:, None] * omega.T.to(places)).flatten(1)


def scaled_otherwise(published: Callable[..., Tensor], terms: int) -> Callable[..., Tensor]:
    """Return the function of scores that are divided by √(terms · d_k), with another number in the place of that."""

    def scored(number: float, Q: Tensor, K: Tensor, **distances: Any) -> Tensor:
        return number * math.sqrt(terms * Q.shape[-1]) * published(Q, K, **distances)

    return scored


def falling(slopes: Tensor, S: Tensor) -> Tensor:
    """Return scores (B, h, n, n) that fall with the distance."""
    place = torch.arange(S.shape[-1], dtype=S.dtype)
    return S - slopes.to(S)[:, None, None] * (place[:, None] - place).abs()


def weighed(alpha: float, x: Tensor, sublayer: Tensor, **_: float) -> Tensor:
    """Return the sum of a weighed stream and what a sublayer gives."""
    return alpha * x + sublayer


WITH_CONSTANT = {
    "scaled": WithConstant("1/√d_k", lambda number, Q, K: number * (Q @ K.mT)),
    "relative-keys": WithConstant("1/√d_k", scaled_otherwise(scores_relative_keys, 1)),
    "disentangled": WithConstant("1/√(3 d_k)", scaled_otherwise(scores_disentangled, 3)),
    "sqrt-d-model": WithConstant("√d_model", lambda number, X: number * X),
    "gelu": WithConstant("1/√2", lambda number, x: x / 2 * (1 + torch.erf(number * x))),
    "alibi": WithConstant("2^(−8i/h)", falling),
    "deepnorm": WithConstant("(2N)^¼", weighed),
    "deepnorm-with-decoder": WithConstant("0.81 (N⁴M)^(1/16)", weighed),
    "geometric": WithConstant("θ^(−2i/r)", multiples),
    "axial": WithConstant("θ^(−4i/r)", in_halves),
    "axial-alternating": WithConstant("θ^(−2i/r)", in_halves),
    "axial-interleaved": WithConstant("θ^(−4i/r)", interleaved),
    "gelu-tanh": WithConstant("√(2/π)", lambda number, x: x / 2 * (1 + torch.tanh(number * (x + 0.044715 * x**3)))),
}
"""The variants with an irrational constant, by name."""

ROOTS: Mapping[str, tuple[float, Callable[[Tensor, Tensor], Tensor]]] = {
    "gelu": (math.sqrt(0.5), lambda x, share: share.erfinv() / x),
    "gelu-tanh": (math.sqrt(2 / math.pi), lambda x, share: share.atanh() / (x + 0.044715 * x**3)),
}
"""Activations x/2 (1 + share) among them: their constant, and what it is by x and its share."""


def rounded_root(name: str, value: Tensor, maps: Sequence[Tensor]) -> float | None:
    """Return the number with which an activation gives a value, if it is the one that belongs there with few digits.

    Args:
        name: the variant of the activation.
        value: what the activation gives, times its gate if it has one.
        maps: what the activation reads, then the gate.
    """
    if name not in ROOTS:
        return None
    belongs, solved = ROOTS[name]
    x, *gate = maps
    half = x / 2 * (gate[0] if gate else 1.0)
    share = value / half - 1
    low, high = TELLING
    telling = (share.abs() > low) & (share.abs() < high)
    if not bool(telling.any()):
        return None
    found = solved(x[telling], share[telling])
    root = float(found.median())
    is_one = apart(found / root, torch.ones_like(found)) <= SAME
    off = abs(root / belongs - 1)
    return root if is_one and off > SAME and (off <= SIX_DIGITS or is_kept_as(root, belongs)) else None
