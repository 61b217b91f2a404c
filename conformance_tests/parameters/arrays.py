"""The arrays of an encoder as most have them: each layer its own, maps with two axes, under plain names.

Some keep the arrays of all layers in one, with an axis for the layers; some write a map as a convolution
of size 1. What a plain name is, ``plain_names`` says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from conformance_tests.parameters.naming import layer_prefix
from conformance_tests.parameters.plain_names import FEWEST_MAPS, is_outside, plain_names, shared_owner
from conformance_tests.parameters.storage import Take


@dataclass(frozen=True)
class Piece:
    """What a plain name stands for: one of the encoder's weights, and which part of it."""

    name: str
    take: Take


def pieces(weights: Mapping[str, Tensor]) -> dict[str, Piece]:
    """Every array under its plain name."""
    plain, layers = plain_names(weights), stacked_layers(weights)
    found: dict[str, Piece] = {}
    for name, w in weights.items():
        if layers and w.ndim > 1 and not is_outside(plain[name]):
            found |= {f"layers.{l}.{plain[name]}": Piece(name, partial(of_layer, l)) for l in range(layers)}
        else:
            found[plain[name]] = Piece(name, as_map)
    return found


def plain_statement(stated: Mapping[str, str], weights: Mapping[str, Tensor]) -> dict[str, str]:
    """What an author says of the encoder's own names, said of the plain ones."""
    plain, layers, wrapper = plain_names(weights), stacked_layers(weights), shared_owner(weights)

    def said(pattern: str) -> str:
        name = pattern.removesuffix(".T")
        turned = pattern[len(name) :]
        usual, spelled = name.removeprefix(wrapper), plain.get(name.replace("{l}", "0"), "")
        if spelled not in ("", usual.replace("{l}", "0")):
            usual = re.sub(r"(^|\.)0\.", r"\1{l}.", spelled, count=1) if "{l}" in name else spelled
        return f"layers.{{l}}.{usual}{turned}" if layers and not is_outside(usual) else usual + turned

    return {letter: said(pattern) for letter, pattern in stated.items()}


def stacked_layers(weights: Mapping[str, Tensor]) -> int:
    """The number of layers, if each array holds that of every layer, along its first axis; else 0."""
    if layer_prefix(weights) or any(name.split(".")[0].isdigit() for name in weights):
        return 0
    inside = [w for name, w in weights.items() if w.ndim > 1 and not is_outside(name)]
    same = len({len(w) for w in inside}) == 1
    return len(inside[0]) if same and sum(w.ndim > 2 for w in inside) >= FEWEST_MAPS else 0


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
