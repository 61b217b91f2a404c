"""Wrong masks: another polarity, another place, another axis, another fill.

When no mask is given the specification hands one of shape (1, 1, 1) that keeps everything.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import deviation

MASK = ("attention.mask", "attention.mask_additive")
F: TypeAlias = Callable[..., Tensor]

LEAKING = ("MASK-1", "MASK-2", "MASK-4", "MASK-7")


def given(keep: Tensor) -> bool:
    """Whether there is a mask at all."""
    return keep.shape[-1] > 1


@deviation("mask-inverted", MASK, (*LEAKING, "MASK-3", "MASK-8"), "tensorflow/text#938")
def inverted(S: Tensor, keep: Tensor) -> Tensor:
    """What is to be kept is masked, and padding is read."""
    return S.masked_fill(keep[:, None], -torch.inf) if given(keep) else S


@deviation("mask-unused", MASK, LEAKING, ("facebookresearch/fairseq#1339", "keras-team/keras-hub#2220"))
def unused(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is accepted and never used."""
    return S


@deviation("mask-multiplies-scores", MASK, LEAKING, "georg-wolflein/good-features#1")
def multiplies(S: Tensor, keep: Tensor) -> Tensor:
    """Masked scores are multiplied by 0, and a score of 0 still has a weight."""
    return S * keep[:, None]


@deviation("mask-added-as-it-is", MASK, LEAKING, "huggingface/transformers#41443")
def added(S: Tensor, keep: Tensor) -> Tensor:
    """The mask of ones and zeros is added to the scores."""
    return S + keep[:, None].to(S) if given(keep) else S


@deviation(
    "mask-of-query-rows",
    MASK,
    LEAKING,
    ("hyunwoongko/transformer#40", "lucidrains/x-transformers#172"),
)
def of_queries(S: Tensor, keep: Tensor) -> Tensor:
    """Rows of padded queries are masked, and padded keys are read."""
    return S.masked_fill(~keep[:, None].mT, -torch.inf) if given(keep) else S


@deviation("mask-small-fill", MASK, LEAKING, "TransformerLensOrg/TransformerLens#318")
def small_fill(S: Tensor, keep: Tensor) -> Tensor:
    """Masked scores become −100, which real scores can beat."""
    return S.masked_fill(~keep[:, None], -100.0)


@deviation("mask-subtracts-a-thousand", MASK, LEAKING, "commonly seen")
def subtracts(S: Tensor, keep: Tensor) -> Tensor:
    """Masked scores are lowered by 1000 instead of replaced."""
    return S - 1000.0 * (~keep[:, None]).to(S)


@deviation("mask-of-the-first-sample", MASK, LEAKING)
def of_first_sample(S: Tensor, keep: Tensor) -> Tensor:
    """Every sample gets the mask of the first."""
    return S.masked_fill(~keep[:1, None], -torch.inf)


@deviation("mask-of-another-sample", MASK, LEAKING, "ArrowLuo/CLIP4Clip#22")
def of_another_sample(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is repeated for the heads in the wrong order, so that heads read another sample's."""
    if not given(keep):
        return S
    B, h = S.shape[:2]
    mixed = keep.repeat(h, 1, 1).reshape(B, h, *keep.shape[1:])
    return S.masked_fill(~mixed, -torch.inf)


@deviation("mask-of-the-first-head", MASK, LEAKING)
def of_first_head(S: Tensor, keep: Tensor) -> Tensor:
    """Only the first head is masked."""
    masked = S.clone()
    masked[:, :1] = S[:, :1].masked_fill(~keep[:, None], -torch.inf)
    return masked


@deviation("mask-reversed", MASK, LEAKING)
def reversed_mask(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is read from the end of the sequence, as if padding stood on the other side."""
    return S.masked_fill(~keep[:, None].flip(-1), -torch.inf)


@deviation("mask-shifted", MASK, LEAKING)
def shifted(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is shifted by one position."""
    return S.masked_fill(~keep[:, None].roll(1, -1), -torch.inf)


@deviation("mask-of-the-end-alone", MASK, LEAKING, "commonly seen")
def end_alone(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is reduced to the number of tokens, as if padding stood at the end."""
    if not given(keep):
        return S
    lengths = keep.sum(-1, keepdim=True)
    return S.masked_fill(~(torch.arange(S.shape[-1]) < lengths)[:, None], -torch.inf)


@deviation("mask-behind-a-class-token", MASK, LEAKING, "commonly seen")
def behind_class_token(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is moved one position to the right, as if a class token stood before the others."""
    if not given(keep):
        return S
    return S.masked_fill(~torch.cat([torch.ones_like(keep[..., :1]), keep[..., :-1]], -1)[:, None], -torch.inf)


@deviation("mask-of-one-token-too-many", MASK, LEAKING, "commonly seen")
def one_too_many(S: Tensor, keep: Tensor) -> Tensor:
    """The mask is made of the number of tokens and lets one position more through: it compares with ≤."""
    if not given(keep):
        return S
    return S.masked_fill(~(torch.arange(S.shape[-1]) <= keep.sum(-1, keepdim=True))[:, None], -torch.inf)


@deviation("mask-lets-padding-through-without-gradients", MASK, ("ENC-4", "MASK-2", "MASK-7"), "pytorch/pytorch#86120")
def without_gradients(S: Tensor, keep: Tensor) -> Tensor:
    """Where no gradients are recorded, on the fast path, the mask is not applied."""
    return S.masked_fill(~keep[:, None], -torch.inf) if torch.is_grad_enabled() else S


@deviation("mask-poisons-with-nan", MASK, ("MASK-6", "MASK-2", "MASK-7"), "pytorch/pytorch#26098")
def poisons(S: Tensor, keep: Tensor) -> Tensor:
    """One fully masked sequence makes every other sequence NaN."""
    masked = S.masked_fill(~keep[:, None], -torch.inf)
    return masked + 0 * masked.amax(-1).sum().clamp(max=0) if not keep.any(-1).all() else masked


@deviation("mask-of-queries-and-keys", MASK, "ENC-3", "pytorch/pytorch#41508")
def of_queries_and_keys(S: Tensor, keep: Tensor) -> Tensor:
    """Padded queries are masked as well as padded keys: their rows are empty, and the softmax makes them NaN."""
    padded_queries = ~keep.diagonal(dim1=1, dim2=2)[..., None] if keep.shape[1] > 1 else ~keep.mT
    return S.masked_fill(~keep[:, None], -torch.inf).masked_fill(padded_queries[:, None], torch.nan)


@deviation("mask-after-softmax", "attention", ("MASK-5", "MASK-1", "MASK-2"), "huggingface/pytorch-image-models#2236")
def after_softmax(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """Masked weights are set to 0 behind the softmax, so that rows sum to less than 1."""
    A = weights(reach(bias(scores(rotation(Q), rotation(K)))))
    return values(dropout(A * keep[:, None]), V)


@deviation("mask-inverts-itself", MASK, ("ENC-6", *LEAKING))
def inverts_itself(S: Tensor, keep: Tensor) -> Tensor:
    """The caller's mask is inverted in place, and inverted again by each further layer."""
    if given(keep):
        keep.logical_not_()
        return S.masked_fill(keep[:, None], -torch.inf)
    return S
