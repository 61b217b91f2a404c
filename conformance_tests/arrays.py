"""The arrays of an encoder as most have them: each layer its own, maps with two axes, names without a wrapper's.

Some keep the arrays of all layers in one, with an axis for the layers; some write a map as a convolution
of size 1; a wrapper puts its own name before every other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from torch import Tensor

from conformance_tests.naming import common_owner, layer_prefix, role, stem_and_kind
from conformance_tests.storage import Take

FEWEST_MAPS = 4
"""So many maps a layer has at least: packed projections, the output, two of the feed-forward network."""


@dataclass(frozen=True)
class Piece:
    """What a plain name stands for: one of the encoder's weights, and which part of it."""

    name: str
    take: Take


def pieces(weights: Mapping[str, Tensor]) -> dict[str, Piece]:
    """Every array under its plain name."""
    wrapper, layers = shared_owner(weights), stacked_layers(weights)
    found: dict[str, Piece] = {}
    for name, w in weights.items():
        plain = name.removeprefix(wrapper)
        if layers and w.ndim > 1 and not is_outside(plain):
            found |= {f"layers.{l}.{plain}": Piece(name, partial(of_layer, l)) for l in range(layers)}
        else:
            found[plain] = Piece(name, as_map)
    return found


def plain_statement(stated: Mapping[str, str], weights: Mapping[str, Tensor]) -> dict[str, str]:
    """What an author says of the encoder's own names, said of the plain ones."""
    wrapper, layers = shared_owner(weights), stacked_layers(weights)
    return {
        letter: f"layers.{{l}}.{name}" if layers and not is_outside(name.removesuffix(".T")) else name
        for letter, pattern in stated.items()
        for name in [pattern.removeprefix(wrapper)]
    }


def shared_owner(names: Collection[str]) -> str:
    """The modules that own every array, as they stand before its name; a list of layers is none of them."""
    shared = list(takewhile(lambda part: not part.isdigit(), common_owner(names)))
    numbered = any(
        len(path) > len(shared) + 1 and path[len(shared)].isdigit() for path in (n.split(".") for n in names)
    )
    return "".join(f"{part}." for part in (shared[:-1] if numbered else shared))


def stacked_layers(weights: Mapping[str, Tensor]) -> int:
    """The number of layers, if each array holds that of every layer, along its first axis; else 0."""
    if layer_prefix(weights) or any(name.split(".")[0].isdigit() for name in weights):
        return 0
    inside = [w for name, w in weights.items() if w.ndim > 1 and not is_outside(name)]
    same = len({len(w) for w in inside}) == 1
    return len(inside[0]) if same and sum(w.ndim > 2 for w in inside) >= FEWEST_MAPS else 0


def is_outside(name: str) -> bool:
    """Whether a name speaks of what stands before or behind the layers."""
    return bool(role(stem_and_kind(name)[0], in_layer=False, is_norm=False))


def of_layer(layer: int, w: Tensor) -> Tensor:
    """The array of one layer."""
    return as_map(w[layer])


def as_map(w: Tensor) -> Tensor:
    """An array without the axes of a convolution of size 1."""
    while w.ndim > 2 and w.shape[-1] == 1:
        w = w.squeeze(-1)
    return w


def put_together(names: Sequence[str], take: Take, found: Mapping[str, Piece]) -> tuple[tuple[str, ...], Take]:
    """The weights behind plain names, and how to take from them what ``take`` takes of the pieces."""
    held = [found[name] for name in names]
    return tuple(piece.name for piece in held), lambda *ws: take(
        *(piece.take(w) for piece, w in zip(held, ws, strict=True))
    )
