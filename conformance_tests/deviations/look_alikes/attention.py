"""Other computations of scores, masks, weights and values."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from conformance_tests.deviations.look_alikes import look_alike

SCORES, WEIGHTS, VALUES = "attention.scores", "attention.weights", "attention.output"
MASK = ("attention.mask", "attention.mask_additive")

F: TypeAlias = Callable[..., Tensor]


@look_alike("queries-scaled", SCORES)
def queries_scaled(Q: Tensor, K: Tensor) -> Tensor:
    """The queries are divided by √d_k, not the scores."""
    return (Q / math.sqrt(Q.shape[-1])) @ K.mT


@look_alike("queries-and-keys-scaled", SCORES)
def both_scaled(Q: Tensor, K: Tensor) -> Tensor:
    """Queries and keys are divided by the fourth root of d_k each."""
    root = Q.shape[-1] ** 0.25
    return (Q / root) @ (K / root).mT


@look_alike("scores-by-einsum", SCORES)
def by_einsum(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are computed in index notation, queries behind keys, and transposed."""
    return (torch.einsum("bhkc,bhqc->bhkq", K, Q) * Q.shape[-1] ** -0.5).mT


@look_alike("scores-by-broadcasting", SCORES)
def by_broadcasting(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are sums over all products, formed one by one."""
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(dim=-1) / math.sqrt(Q.shape[-1])


@look_alike("mask-with-huge-fill", MASK)
def huge_fill(S: Tensor, keep: Tensor) -> Tensor:
    """Masked scores are −1e300 instead of −∞."""
    return S.masked_fill(~keep[:, None], -1e300)


@look_alike("mask-with-smallest-number", MASK)
def smallest_number(S: Tensor, keep: Tensor) -> Tensor:
    """Masked scores are the smallest number of the dtype instead of −∞."""
    return torch.where(keep[:, None], S, torch.finfo(S.dtype).min)


@look_alike("mask-of-queries-too", MASK)
def queries_masked_too(S: Tensor, keep: Tensor) -> Tensor:
    """Padded queries attend to nothing: their rows are never compared."""
    both = keep & keep.mT if keep.shape[-2] == 1 else keep
    return S.masked_fill(~both[:, None], -math.inf)


@look_alike("softmax-of-torch", WEIGHTS)
def softmax_of_torch(S: Tensor) -> Tensor:
    """The weights are torch's softmax; a fully masked row is NaN."""
    return torch.softmax(S, dim=-1)


@look_alike("softmax-by-its-logarithm", WEIGHTS)
def by_logarithm(S: Tensor) -> Tensor:
    """The weights are the exponential of the logarithm of the softmax."""
    return torch.log_softmax(S, dim=-1).exp()


@look_alike("softmax-to-base-two", WEIGHTS)
def to_base_two(S: Tensor) -> Tensor:
    """The weights are powers of 2 of the scores times log₂ e; a fully masked row is zeros."""
    powers = torch.exp2((S - S.amax(dim=-1, keepdim=True).clamp(min=-1e300)) * math.log2(math.e))
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-300)


@look_alike("softmax-uniform-where-nothing-is-kept", WEIGHTS)
def uniform_where_empty(S: Tensor) -> Tensor:
    """The weights of a fully masked row are uniform."""
    return torch.softmax(S.masked_fill(S.eq(-math.inf).all(dim=-1, keepdim=True), 0), dim=-1)


@look_alike("values-by-einsum", VALUES)
def values_by_einsum(A: Tensor, V: Tensor) -> Tensor:
    """The values are averaged in index notation."""
    return torch.einsum("bhqk,bhkc->bhqc", A, V)


@look_alike("attention-of-torch", "attention")
def of_torch(Q: Tensor, K: Tensor, V: Tensor, keep: Tensor) -> Tensor:
    """Attention is torch's own fused one."""
    return functional.scaled_dot_product_attention(Q, K, V, attn_mask=keep[:, None].expand(-1, 1, Q.shape[2], -1))


@look_alike("attention-head-by-head", "attention")
def head_by_head(Q: Tensor, K: Tensor, V: Tensor, keep: Tensor, *, scores: F, mask: F, weights: F, values: F) -> Tensor:
    """The heads are computed one after the other."""
    heads = zip(Q.split(1, 1), K.split(1, 1), V.split(1, 1), strict=True)
    return torch.cat([values(weights(mask(scores(q, k), keep)), v) for q, k, v in heads], dim=1)


@look_alike("attention-in-blocks", "attention")
def in_blocks(Q: Tensor, K: Tensor, V: Tensor, keep: Tensor) -> Tensor:
    """The softmax is gathered over blocks of two keys with a running maximum, and no row of weights is ever formed."""
    top = torch.full_like(Q[..., :1], -1e300)
    total, head = torch.zeros_like(top), torch.zeros_like(Q[..., :1] * V[..., :1, :])
    told = keep.expand(-1, -1, K.shape[2])[:, None]
    for k, v, m in zip(K.split(2, 2), V.split(2, 2), told.split(2, -1), strict=True):
        S = (Q @ k.mT / math.sqrt(Q.shape[-1])).masked_fill(~m, -math.inf)
        new = torch.maximum(top, S.amax(dim=-1, keepdim=True))
        exp, shrunk = torch.exp(S - new), torch.exp(top - new)
        total, head, top = shrunk * total + exp.sum(dim=-1, keepdim=True), shrunk * head + exp @ v, new
    return head / total.clamp(min=1e-300)


@look_alike("weights-in-float32", "attention.weights")
def weights_in_float32(S: Tensor) -> Tensor:
    """The softmax over the keys is taken in float32, as many encoders do for the sake of float16."""
    return torch.softmax(S.to(torch.float32), dim=-1).to(S.dtype).nan_to_num()
