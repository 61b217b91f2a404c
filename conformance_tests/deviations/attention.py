"""Wrong projections, scores, weights and values; what is wrong with masks stands in ``masks``."""

import math
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation, masks
from encoder_spec.attention import projections_linear_keys, projections_without_bias, scores_unscaled

__all__ = ["masks"]

AFFINE, LINEAR = "attention.projections", "attention.projections_without_bias"
SCORES, WEIGHTS, VALUES = "attention.scores", "attention.weights", "attention.output"

Map: TypeAlias = Float[Tensor, "d_model hd_k"]
ValueMap: TypeAlias = Float[Tensor, "d_model hd_v"]
Bias: TypeAlias = Float[Tensor, "hd_k"]
ValueBias: TypeAlias = Float[Tensor, "hd_v"]
Projected: TypeAlias = tuple[Tensor, Tensor, Tensor]

# Projections -------------------------------------------------------------------------------

deviation(
    "projections-without-bias",
    AFFINE,
    ("ENC-17", "ATT-1"),
    "commonly seen",
    definition="The projections have no biases.",
)(projections_without_bias)
deviation(
    "key-projection-without-bias",
    AFFINE,
    ("ENC-17", "ATT-1"),
    "commonly seen",
    definition="The projection of the keys has no bias.",
)(projections_linear_keys)


@deviation("values-from-the-key-map", AFFINE, "ATT-1", "yflyzhang/AnnotatedTransformer#1")
def values_from_keys(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """V is computed with the map of the keys."""
    return X @ W_Q + b_Q, X @ W_K + b_K, X @ W_K + b_K


@deviation("linear-values-from-the-key-map", LINEAR, "ATT-2", "yflyzhang/AnnotatedTransformer#1")
def linear_values_from_keys(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap) -> Projected:
    """V is computed with the map of the keys, which has no bias."""
    return X @ W_Q, X @ W_K, X @ W_K


@deviation("keys-from-the-query-map", AFFINE, "ATT-1")
def keys_from_queries(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """K is computed with the map of the queries."""
    return X @ W_Q + b_Q, X @ W_Q + b_Q, X @ W_V + b_V


@deviation("relu-on-projections", AFFINE, ("ATT-1", "ATT-3"), "CyberZHG/keras-multi-head#8")
def relu_on_projections(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """Q, K and V go through a ReLU."""
    return (X @ W_Q + b_Q).relu(), (X @ W_K + b_K).relu(), (X @ W_V + b_V).relu()


@deviation("relu-on-linear-projections", LINEAR, ("ATT-2", "ATT-3"), "CyberZHG/keras-multi-head#8")
def relu_on_linear_projections(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap) -> Projected:
    """Q, K and V, which have no biases, go through a ReLU."""
    return (X @ W_Q).relu(), (X @ W_K).relu(), (X @ W_V).relu()


@deviation("bias-of-queries-forgotten", AFFINE, "ATT-1")
def query_bias_forgotten(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """The bias of the queries exists and is never added."""
    return X @ W_Q, X @ W_K + b_K, X @ W_V + b_V


@deviation("bias-of-values-forgotten", AFFINE, "ATT-1")
def value_bias_forgotten(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """The bias of the values exists and is never added."""
    return X @ W_Q + b_Q, X @ W_K + b_K, X @ W_V


@deviation("biases-exchanged", AFFINE, "ATT-1")
def biases_exchanged(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """The biases of queries and values are exchanged."""
    return X @ W_Q + b_V, X @ W_K + b_K, X @ W_V + b_Q


@deviation("projections-of-doubled-input", (LINEAR,), "ATT-2")
def doubled_input(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap) -> Projected:
    """The input of the values is added to itself first."""
    return X @ W_Q, X @ W_K, 2 * X @ W_V


# Scores ------------------------------------------------------------------------------------

deviation(
    "scores-not-scaled",
    SCORES,
    "ATT-3",
    "PAIR-code/tiny-transformers#71",
    definition="The scores are not divided by √d_k.",
)(scores_unscaled)


@deviation("scores-scaled-by-d-model", SCORES, "ATT-3", "lucidrains/vit-pytorch#65")
def by_d_model(Q: Tensor, K: Tensor, *, d_model: int) -> Tensor:
    """The scores are divided by √d_model."""
    return Q @ K.mT / math.sqrt(d_model)


@deviation("scores-scaled-without-root", SCORES, "ATT-3", "AI-Hypercomputer/maxtext#3138")
def without_root(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are divided by √d_k twice, which is by d_k."""
    return Q @ K.mT / Q.shape[-1]


@deviation("scores-multiplied-by-root", SCORES, "ATT-3")
def multiplied(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are multiplied by √d_k."""
    return Q @ K.mT * math.sqrt(Q.shape[-1])


@deviation("scores-scaled-by-number-of-heads", SCORES, "ATT-3")
def by_heads(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are divided by the root of the number of heads."""
    return Q @ K.mT / math.sqrt(Q.shape[-3])


@deviation("scores-scaled-by-length", SCORES, "ATT-3")
def by_length(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are divided by the root of the number of positions."""
    return Q @ K.mT / math.sqrt(Q.shape[-2])


@deviation("scores-scaled-by-half-width", SCORES, "ATT-3")
def by_half(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are divided by √(d_k/2)."""
    return Q @ K.mT / math.sqrt(Q.shape[-1] / 2)


@deviation("scores-transposed", SCORES, ("ATT-3", "ATT-6"))
def transposed(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are those of the keys for the queries, KQᵀ."""
    return K @ Q.mT / math.sqrt(Q.shape[-1])


@deviation("scores-of-queries-alone", SCORES, "ATT-3")
def queries_alone(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are QQᵀ."""
    return Q @ Q.mT / math.sqrt(Q.shape[-1])


@deviation("scores-of-cosine", SCORES, "ATT-3", "commonly seen")
def cosine(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are the cosines of the angles between queries and keys."""
    return torch.nn.functional.normalize(Q, dim=-1) @ torch.nn.functional.normalize(K, dim=-1).mT


@deviation("scores-negative", SCORES, "ATT-3")
def negative(Q: Tensor, K: Tensor) -> Tensor:
    """The scores have the wrong sign."""
    return -(Q @ K.mT) / math.sqrt(Q.shape[-1])


@deviation("scores-in-half-precision", SCORES, ("ATT-3", "ATT-6"), "commonly seen")
def in_half(Q: Tensor, K: Tensor) -> Tensor:
    """The product of queries and keys is rounded to bfloat16."""
    return (Q @ K.mT / math.sqrt(Q.shape[-1])).bfloat16().to(Q)


# Weights and values ------------------------------------------------------------------------


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


@deviation("softmax-over-the-batch", WEIGHTS, ("ATT-6", "ENC-5"))
def over_batch(S: Tensor) -> Tensor:
    """The softmax runs over the samples of the batch."""
    return S.softmax(0).nan_to_num()


@deviation("softmax-over-all-pairs", WEIGHTS, ("ATT-6", "ATT-7"))
def over_pairs(S: Tensor) -> Tensor:
    """The softmax runs over queries and keys together."""
    return S.flatten(-2).softmax(-1).view_as(S).nan_to_num()


@deviation("softmax-missing", WEIGHTS, ("ATT-6", "ATT-7"))
def no_softmax(S: Tensor) -> Tensor:
    """The scores are used as weights, without a softmax."""
    return S.nan_to_num(neginf=0.0)


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


@deviation("softmax-of-base-two", WEIGHTS, "ATT-6")
def base_two(S: Tensor) -> Tensor:
    """The powers are those of 2 instead of e."""
    return (S * math.log(2)).softmax(-1).nan_to_num()


@deviation("softmax-without-shift", WEIGHTS, ("ATT-9", "ENC-2"), "commonly seen")
def no_shift(S: Tensor) -> Tensor:
    """The largest score is not subtracted before the exponential, which overflows."""
    exp = S.exp()
    return exp / exp.sum(-1, keepdim=True)


@deviation("sigmoid-for-softmax", WEIGHTS, ("ATT-6", "ATT-7"))
def sigmoid(S: Tensor) -> Tensor:
    """Each weight is the sigmoid of its score; rows do not sum to 1."""
    return S.sigmoid()


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
