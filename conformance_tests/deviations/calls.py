"""Wrong stacks: what spoils masks, state, calls, gradients and precision of all layers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import deviation
from conformance_tests.deviations.drift import drift
from encoder_spec.encoder import encoder

STACK = "encoder"
BACKWARD = ("ENC-9", "ENC-10")

F: TypeAlias = Callable[..., Tensor]
Layers: TypeAlias = Sequence[F]

# The mask on its way ---------------------------------------------------------------------


@deviation("mask-reaches-first-layer-only", STACK, ("MASK-2", "MASK-1"), "keras-team/keras-hub#137")
def first_masked(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Only the first layer is given the mask."""
    X = layers[0](input(*inputs), keep)
    for layer in layers[1:]:
        X = layer(X, torch.ones_like(keep))
    return head(final_norm(X), keep)


@deviation("mask-misses-first-layer", STACK, ("MASK-2", "MASK-1"))
def first_unmasked(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The first layer is not given the mask."""
    X = layers[0](input(*inputs), torch.ones_like(keep))
    for layer in layers[1:]:
        X = layer(X, keep)
    return head(final_norm(X), keep)


@deviation("mask-ignored-without-gradients", STACK, ("ENC-4", "MASK-2"), "pytorch/pytorch#86120")
def unmasked_fast(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """A fast path for calls without gradients does not read the mask."""
    told = keep if torch.is_grad_enabled() else torch.ones_like(keep)
    X = input(*inputs)
    for layer in layers:
        X = layer(X, told)
    return head(final_norm(X), keep)


@deviation("mask-of-first-sample-for-all", STACK, ("MASK-2", "MASK-1"))
def one_mask(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The mask of the first sample serves the whole batch."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X, keep[:1])
    return head(final_norm(X), keep)


@deviation("padding-zeroed-before-first-layer", STACK, ("ENC-3", "MASK-1"), "commonly seen")
def zeroed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Padded positions are set to 0 before the first layer, and nothing is masked."""
    X = input(*inputs)
    if keep.shape[-1] == X.shape[1]:
        X = X * keep.any(dim=1)[..., None]
    for layer in layers:
        X = layer(X, torch.ones_like(keep))
    return head(final_norm(X), keep)


# State and calls -------------------------------------------------------------------------


@deviation(
    "batch-and-sequence-exchanged",
    "position.sinusoidal",
    ("ENC-5", "ENC-1", "POS-1"),
    "IBM/TabFormer#14",
    place="stack",
)
def exchanged(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Batch and sequence are exchanged behind the positions: the layers attend over the samples at one position."""
    X = input(*inputs).transpose(0, 1)
    for layer in layers:
        X = layer(X, keep.transpose(0, 2))
    return head(final_norm(X.transpose(0, 1)), keep)


@deviation("batch-average-subtracted", STACK, "ENC-5")
def centred(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The mean over the batch is subtracted from the input of the first layer."""
    X = input(*inputs)
    X = X - X.mean(dim=0, keepdim=True)
    for layer in layers:
        X = layer(X, keep)
    return head(final_norm(X), keep)


@deviation("padded-columns-dropped", STACK, "ENC-1", "pytorch/pytorch#97111")
def shortened(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Positions at the end that are padding in every sample are cut off the output."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    used = keep.any(dim=0).any(dim=0)
    return Z[:, : int(used.nonzero().max()) + 1] if Z.ndim == 3 and len(used) == Z.shape[1] else Z


@deviation("single-token-squeezed", STACK, ("ENC-1", "ENC-5"), "commonly seen")
def squeezed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Axes of length 1 are taken out of the output: one token loses its axis, and so does a batch of one."""
    return encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head).squeeze()


@deviation("output-in-float32", STACK, "ENC-1", "commonly seen")
def returned_low(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output is returned in float32, whatever the dtype of the parameters."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    return Z.to(torch.float32)


@deviation("memory-order-ignored", STACK, "ENC-7", "pytorch/pytorch#181133")
def raw_memory(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The input is read in the order of its memory, whatever its strides are."""
    raw = [x if x.is_contiguous() else torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) for x in inputs]
    return encoder(keep, *raw, input=input, layers=layers, final_norm=final_norm, head=head)


@deviation("mask-changed-in-place", STACK, "ENC-6")
def mask_changed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The caller's mask is changed in place."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    keep[..., 0] = True
    return Z


@deviation("input-changed-in-place", STACK, "ENC-6", "NVIDIA-NeMo/Speech#7440")
def input_changed(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The caller's input is changed in place."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    inputs[0].data.copy_(inputs[0].data.flip(-1))
    return Z


@deviation("output-drifts-from-call-to-call", STACK, "DROP-1")
def drifting(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """A factor grows with the number of calls."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    return Z * drift()


@deviation("positions-at-padding-alone", STACK, ("ENC-2", "MASK-2"), "speechbrain/speechbrain#2276")
def positions_at_padding(
    keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F, position: F
) -> Tensor:
    """The positions are multiplied by the mask of the padding, so that only padding has one."""
    X = input(*inputs)
    X = X - position(X) * keep[:, 0, :, None]
    for layer in layers:
        X = layer(X, keep)
    return head(final_norm(X), keep)


# Large inputs ----------------------------------------------------------------------------


@deviation("last-sequences-not-encoded", STACK, "ENC-18")
def in_full_batches(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Sequences behind the last full batch of 16 pass the layers unchanged."""
    X = input(*inputs)
    full = len(X) // 16 * 16 or len(X)
    Z, masks = X[:full], keep.expand(len(X), -1, -1)[:full]
    for layer in layers:
        Z = layer(Z, masks)
    return head(final_norm(torch.cat([Z, X[full:]])), keep)


@deviation("sequences-put-back-by-the-order-of-the-sort", STACK, "ENC-18", "commonly seen")
def sorted_twice(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Sequences are sorted by length, the longest first, and put back by the order of the sort, not by its inverse."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    if len(keep) == 1:
        return Z
    length = (keep[:, 0] * torch.arange(1, keep.shape[-1] + 1)).amax(dim=1)
    order = length.argsort(descending=True, stable=True)
    return Z[order][order]


# Gradients -------------------------------------------------------------------------------


@deviation("layers-detached", STACK, (*BACKWARD, "ENC-8"), "lucidrains/CoCa-pytorch#6")
def cut(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """No gradient flows from one layer into the one before."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.detach(), keep)
    return head(final_norm(X), keep)


@deviation("input-detached", STACK, (*BACKWARD, "ENC-8"))
def input_cut(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """No gradient flows into the input of the first layer."""
    X = input(*inputs).detach()
    for layer in layers:
        X = layer(X, keep)
    return head(final_norm(X), keep)


@deviation("output-detached", STACK, (*BACKWARD, "ENC-8"))
def output_cut(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output carries no gradient."""
    return encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head).detach()


@deviation("gradient-scaled-between-layers", STACK, BACKWARD, "commonly seen")
def damped(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The gradient is multiplied by 0.1 between layers."""
    X = input(*inputs)
    for layer in layers:
        X = layer(0.1 * X + 0.9 * X.detach(), keep)
    return head(final_norm(X), keep)


@deviation("gradient-clipped-inside", STACK, BACKWARD)
def clipped(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The gradient of the output is cut off at ±0.1 on its way back."""
    Z = encoder(keep, *inputs, input=input, layers=layers, final_norm=final_norm, head=head)
    if Z.requires_grad:
        Z.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    return Z


# Precision -------------------------------------------------------------------------------


@deviation("layers-read-bfloat16", STACK, "ENC-2", "commonly seen")
def through_bfloat16(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """What a layer reads has been rounded to bfloat16."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.to(torch.bfloat16).to(X.dtype), keep)
    return head(final_norm(X), keep)


@deviation("layers-read-float16", STACK, "ENC-2")
def through_float16(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """What a layer reads has been rounded to float16."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.to(torch.float16).to(X.dtype), keep)
    return head(final_norm(X), keep)


@deviation("layers-round-float32-to-bfloat16", STACK, "ENC-19")
def reduced(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """What a layer reads is rounded to bfloat16 where it is float32, as in a region of mixed precision."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X.to(torch.bfloat16).to(X.dtype) if X.dtype is torch.float32 else X, keep)
    return head(final_norm(X), keep)
