"""Other ways to run the stack, and what may stand at padding."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike
from encoder_spec.encoder import checkpointed, encoder

STACK = "encoder"

F: TypeAlias = Callable[..., Tensor]
Layers: TypeAlias = Sequence[F]


def padding(keep: Tensor, Z: Tensor) -> Tensor:
    """Where hidden states (B, n, d) belong to padding: (B or 1, n or 1, 1)."""
    return ~keep.any(dim=1)[..., None] if Z.ndim == 3 else torch.zeros((), dtype=torch.bool)


look_alike("layers-recomputed", STACK)(checkpointed)


@look_alike("padding-set-to-zero", STACK)
def padding_set_to_zero(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output at padding is 0, as from nested tensors."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    return Z.masked_fill(padding(keep, Z), 0)


@look_alike("padding-set-to-nan", STACK)
def padding_set_to_nan(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output at padding is NaN."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    return Z.masked_fill(padding(keep, Z), torch.nan)


@look_alike("padding-zeroed-between-layers", STACK)
def padding_zeroed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The hidden states at padding are set to 0 before each layer, and masked as well."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.masked_fill(padding(keep, X), 0), keep)
    return head(final_norm(X), keep)


@look_alike("padding-never-computed", STACK)
def padding_never_computed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Each sample runs by itself with its valid tokens alone; padding is filled up with 0."""
    X = input(*inputs)
    valid = keep.any(dim=1).expand(X.shape[:2])
    Z = torch.zeros_like(X)
    for sample, kept in enumerate(valid):
        if kept.any():
            x = X[sample][None, kept]
            for layer in layers:
                x = layer(x, keep.new_ones(1, 1, 1))
            Z[sample, kept] = final_norm(x)[0]
    return head(Z, keep)


@look_alike("batch-reordered", STACK)
def batch_reordered(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The samples are sorted by length on the way in and put back on the way out."""
    X = input(*inputs)
    masks = keep.expand(len(X), -1, -1)
    order = masks.sum(dim=(1, 2)).argsort(descending=True, stable=True)
    X, masks = X[order], masks[order]
    for layer in layers:
        X = layer(X, masks)
    return head(final_norm(X[order.argsort()]), keep)


@look_alike("sequence-filled-up", STACK)
def filled_up(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Three more padded positions are put behind every sequence and cut off the output again."""
    X = input(*inputs)
    n = X.shape[1]
    told = functional.pad(keep.expand(-1, -1, n), (0, 3), value=False)
    X = functional.pad(X, (0, 0, 0, 3), value=7.0)
    for layer in layers:
        X = layer(X, told)
    return head(final_norm(X)[:, :n], keep)


@look_alike("memory-of-its-own", STACK)
def memory_of_its_own(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Hidden states change their memory order between layers, and inputs are copied first."""
    X = input(*(x.clone() for x in inputs))
    for layer in layers:
        X = layer(X.transpose(0, 1).contiguous().transpose(0, 1), keep.clone())
    return head(final_norm(X), keep)


@look_alike("layers-read-float32", STACK)
def through_float32(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """What a layer reads has been rounded to float32."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.to(torch.float32).to(X.dtype), keep)
    return head(final_norm(X), keep)
