"""Wrong attention weights, and wrong averages of the values."""

import math

import torch
from torch import Tensor

from conformance_tests.deviations import deviation

WEIGHTS, VALUES = "attention.weights", "attention.output"
BACKWARD = ("ENC-9", "ENC-10")


@deviation(
    "softmax-over-queries", WEIGHTS, ("ATT-6", "ATT-7"), "labmlai/annotated_deep_learning_paper_implementations#146"
)
def over_queries(S: Tensor) -> Tensor:
    """The softmax runs over the queries instead of the keys."""
    return S.softmax(-2).nan_to_num()


@deviation("softmax-over-heads", WEIGHTS, ("ATT-6", "ATT-7"), "commonly seen")
def over_heads(S: Tensor) -> Tensor:
    """The softmax runs over the heads."""
    return S.softmax(1).nan_to_num()


@deviation("softmax-twice", WEIGHTS, ("ATT-6", "ATT-10"))
def softmax_twice(S: Tensor) -> Tensor:
    """The softmax is taken twice."""
    return S.softmax(-1).nan_to_num().softmax(-1)


@deviation("softmax-plus-one", WEIGHTS, ("ATT-6", "ATT-7"), "commonly seen")
def plus_one(S: Tensor) -> Tensor:
    """The sum under the exponentials has 1 added, so that rows sum to less than 1."""
    top = S.amax(-1, keepdim=True).clamp(min=0)
    exp = (S - top).exp()
    return exp / (exp.sum(-1, keepdim=True) + (-top).exp())


@deviation("padding-counted-under-softmax", WEIGHTS, ("ATT-6", "MASK-5"), "commonly seen")
def padding_counted(S: Tensor) -> Tensor:
    """Each masked key adds 1 to the sum under the exponentials, so that rows sum to less than 1."""
    top = S.amax(-1, keepdim=True).clamp(min=torch.finfo(S.dtype).min)
    exp = (S - top).exp()
    return exp / (exp.sum(-1, keepdim=True) + S.isinf().sum(-1, keepdim=True)).clamp(min=1)


@deviation("softmax-of-base-two", WEIGHTS, "ATT-6")
def base_two(S: Tensor) -> Tensor:
    """The powers are those of 2 instead of e."""
    return (S * math.log(2)).softmax(-1).nan_to_num()


@deviation("softmax-without-shift", WEIGHTS, ("ATT-9", "ENC-2"), "commonly seen")
def no_shift(S: Tensor) -> Tensor:
    """The largest score is not subtracted before the exponential, which overflows."""
    exp = S.exp()
    return exp / exp.sum(-1, keepdim=True)


@deviation("weights-rounded-to-float16", WEIGHTS, ("ATT-6", "ENC-2"), "commonly seen")
def rounded(S: Tensor) -> Tensor:
    """The weights are rounded to float16 on their way to the values."""
    return S.softmax(-1).nan_to_num().half().to(S)


@deviation("weights-with-floor", WEIGHTS, ("ATT-6", "ATT-7", "ATT-10"))
def floored(S: Tensor) -> Tensor:
    """A small constant is added to every weight, against division by zero."""
    return S.softmax(-1).nan_to_num() + 1e-9


@deviation("values-transposed-weights", VALUES, "ATT-10")
def transposed_weights(A: Tensor, V: Tensor) -> Tensor:
    """The values are averaged with Aᵀ."""
    return A.mT @ V


@deviation("values-averaged-evenly", VALUES, "ATT-10")
def evenly(A: Tensor, V: Tensor) -> Tensor:
    """The values are averaged evenly over the positions, whatever the weights."""
    return V.mean(-2, keepdim=True).expand_as(V)


@deviation("values-summed-of-the-largest", VALUES, "ATT-10")
def largest(A: Tensor, V: Tensor) -> Tensor:
    """Only the value with the largest weight is taken."""
    chosen = torch.nn.functional.one_hot(A.argmax(-1), A.shape[-1]).to(A)
    return chosen @ V


@deviation("values-divided-by-length", VALUES, ("ATT-10", "MH-3"))
def by_positions(A: Tensor, V: Tensor) -> Tensor:
    """The average is divided by the number of positions once more."""
    return A @ V / A.shape[-1]


@deviation("weights-in-bfloat16", WEIGHTS, ("ATT-6", "ATT-7"))
def weights_in_bfloat16(S: Tensor) -> Tensor:
    """The softmax over the keys is taken in bfloat16."""
    return torch.softmax(S.to(torch.bfloat16), dim=-1).to(S.dtype).nan_to_num()


@deviation("weights-detached", WEIGHTS, BACKWARD)
def weights_detached(S: Tensor) -> Tensor:
    """No gradient flows through the attention weights."""
    return torch.softmax(S, dim=-1).nan_to_num().detach()
