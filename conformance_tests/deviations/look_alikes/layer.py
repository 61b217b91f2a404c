"""Other computations of residual sums, dropout in evaluation, and layers."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike
from encoder_spec.layer import post_ln

F: TypeAlias = Callable[..., Tensor]


@look_alike("residual-in-the-other-order", "residual")
def other_order(x: Tensor, sublayer: Tensor) -> Tensor:
    """The input is added to the sublayer's output, not the other way round."""
    return torch.add(sublayer, x)


@look_alike("residual-in-place", "residual")
def in_place(x: Tensor, sublayer: Tensor) -> Tensor:
    """The input is added to the sublayer's output in its own memory, which nobody reads again."""
    return sublayer.add_(x)


@look_alike("dropout-of-torch", "dropout.identity")
def dropout_of_torch(x: Tensor, *, P_drop: float) -> Tensor:
    """Dropout is torch's own, told that nothing is trained."""
    return functional.dropout(x, P_drop, training=False)


@look_alike("layer-sample-by-sample", "layer.post_ln")
def sample_by_sample(
    x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F, residual: F, dropout: F
) -> Tensor:
    """The layer works on one sample at a time."""
    masks = keep.expand(len(x), -1, -1)
    supplied = {"multihead": multihead, "ffn": ffn, "norm_1": norm_1, "norm_2": norm_2, "dropout": dropout}
    supplied |= {"residual_1": residual, "residual_2": residual}
    return torch.cat([post_ln(x[b : b + 1], masks[b : b + 1], **supplied) for b in range(len(x))])


@look_alike("layer-in-place", "layer.pre_ln")
def written_in_place(x: Tensor, keep: Tensor, *, multihead: F, ffn: F, norm_1: F, norm_2: F) -> Tensor:
    """The layer adds its sublayers to a copy of its input, in place."""
    stream = x.clone()
    stream = stream + multihead(norm_1(stream), keep)
    stream += ffn(norm_2(stream.clone()))
    return stream
