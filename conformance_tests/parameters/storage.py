"""The ways in which an array holds the canonical parameters of a part, and how to take each out of it.

Canonical maps are input × output, with the heads side by side. Encoders store them the other
way round, several in one array, with an axis for the heads, or as kernels of convolutions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Take = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Storage:
    """The way in which an encoder stores and defines its parts, as far as names and shapes do not show it.

    Attributes:
        order: that of the packed Q, K and V.
        by_head: they are packed head by head, with so many heads.
        turned: square maps without a telling name are stored input × output.
        squares: which map each square one without a name is, in the order of definition.
        norms: which norm each one without a name is, in the order of definition.
        gates: which is which of the two inner maps of a gated feed-forward network, or their order in one array.
        plus: what is added to a stored γ.
        outer_norm: whether the only norm outside of the layers, behind or before them, stands where its name says.
    """

    order: str = "QKV"
    by_head: int = 0
    turned: bool = False
    squares: str = "QKVO"
    norms: str = "12"
    gates: str = "1G"
    plus: float = 0.0
    outer_norm: str = "as named"


def places(part: str, kind: str, shape: Sequence[int], width: int, storage: Storage) -> Sequence[tuple[str, Take]]:
    """Return the canonical letters that an array holds, below its layer, and how to take each.

    Args:
        part: the part of the encoder, as ``evidence`` calls it.
        kind: which of the part's arrays it is: weight, bias, kernel, …
        shape: that of the array.
        width: d_model.
        storage: what is not seen in the array itself.
    """
    is_bias = kind in ("bias", "beta")
    if part.startswith("norm"):
        return [(f"{part}.{'beta' if is_bias else 'gamma'}", torch.Tensor.contiguous)] if len(shape) == 1 else []
    if part in ("E", "P", "E_seg", "X_reg"):
        return [(part, lambda w: w.reshape(-1, w.shape[-1]))]
    if part in ("x_cls", "x_dist"):
        return [(part, torch.flatten)]
    if part == "patch" and (len(shape) > 4 or (len(shape) < 2 and not is_bias)):
        return []  # neither a piece of a film nor the γ of a norm beside the map
    if part == "patch":
        return [("b_patch", torch.flatten)] if is_bias else [("W_patch", lambda w: w.flatten(1).mT)]
    if part in ("conv", "step") and not is_bias:
        return [(f"W_{part}", lambda w: w.permute(2, 1, 0))] if len(shape) == 3 else []
    if part in ("QKV", "KV", "1G"):
        letters = {"QKV": storage.order, "1G": storage.gates}.get(part, part)
        heads = storage.by_head if part != "1G" else 0
        return [
            (f"{'b' if is_bias else 'W'}_{letter}", packed(place, len(letters), heads, is_bias, width))
            for place, letter in enumerate(letters)
        ]
    if not part or (len(shape) < 2 and not is_bias):
        return []  # a vector with the name of a map is something else: a gate by channel, say
    if part in ("1", "2", "G") and len(shape) > 2:
        return []  # a convolution over several positions is not a map
    part = {"1": storage.gates[0], "G": storage.gates[1]}.get(part, part)
    return [(f"b_{part}", torch.flatten)] if is_bias else [(f"W_{part}", oriented(part, kind, shape, width, storage))]


def packed(place: int, parts: int, heads: int, is_bias: bool, width: int) -> Take:
    """Take one of the maps that are stored side by side along the output, or so for each of some heads."""

    def take(w: Tensor) -> Tensor:
        rows = w if is_bias or (w.shape[-1] == width and w.shape[0] != width) else w.mT
        rows = rows.unflatten(0, (heads, parts, -1))[:, place].flatten(0, 1) if heads else rows.chunk(parts)[place]
        return rows if is_bias else rows.mT

    return take


def oriented(part: str, kind: str, shape: Sequence[int], width: int, storage: Storage) -> Take:
    """Take a map as input × output.

    Kernels are stored so; weights the other way round, unless their shape says otherwise. Arrays
    with an axis for the heads have it beside the entries of one head.
    """
    if len(shape) == 3:
        return lambda w: heads_side_by_side(w, part == "O", width)
    rows, columns = shape if len(shape) == 2 else (0, 0)
    if rows != columns:
        # W_2, W_O, W_e and W_feature give the hidden width, all others read it.
        as_stored = (columns if part in ("2", "O", "e", "feature") else rows) == width
    else:
        as_stored = kind == "kernel" or (storage.turned and kind != "transposed")
    return torch.Tensor.contiguous if as_stored else lambda w: w.mT


def heads_side_by_side(w: Tensor, gives_width: bool, width: int) -> Tensor:
    """Return a map with an axis for the heads as input × output: of (d, h, d_k), (h, d, d_k) or (h, d_k, d).

    W_O, which gives the hidden width, has the customary order (h, d_k, d).
    """
    hidden = [axis for axis in range(3) if w.shape[axis] == width]
    axis = (hidden[-1] if gives_width else hidden[0]) if hidden else (2 if gives_width else 0)
    by_head = w.movedim(axis, 0).flatten(1)
    return by_head.mT if gives_width else by_head
