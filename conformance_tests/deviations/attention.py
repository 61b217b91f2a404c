"""Wrong projections and scores; masks, distances, and weights with values stand in modules of their own."""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation, distances, masks, weights
from conformance_tests.deviations.drift import drift
from encoder_spec.attention import (
    across_heads,
    projections_linear_keys,
    projections_without_bias,
    scores,
    scores_unscaled,
)

__all__ = ["distances", "masks", "weights"]

AFFINE, LINEAR = "attention.projections", "attention.projections_without_bias"
LINEAR_KEYS = "attention.projections_linear_keys"
SCORES, UNSCALED = "attention.scores", "attention.scores_unscaled"

Map: TypeAlias = Float[Tensor, "d_model hd_k"]
HeadMap: TypeAlias = Float[Tensor, "d_k d_k"]
HeadBias: TypeAlias = Float[Tensor, "d_k"]
ValueMap: TypeAlias = Float[Tensor, "d_model hd_v"]
Bias: TypeAlias = Float[Tensor, "hd_k"]
ValueBias: TypeAlias = Float[Tensor, "hd_v"]
Projected: TypeAlias = tuple[Tensor, Tensor, Tensor]

# Projections -------------------------------------------------------------------------------

deviation(
    "projections-without-bias",
    AFFINE,
    ("ENC-17", "ATT-1", "MH-8"),
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


@deviation("relu-on-projections", AFFINE, ("ATT-1", "ATT-3", "ATT-24", "ROT-2", "ROT-5"), "CyberZHG/keras-multi-head#8")
def relu_on_projections(
    X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, b_K: Bias, W_V: ValueMap, b_V: ValueBias
) -> Projected:
    """Q, K and V go through a ReLU."""
    return (X @ W_Q + b_Q).relu(), (X @ W_K + b_K).relu(), (X @ W_V + b_V).relu()


@deviation(
    "relu-on-linear-projections", LINEAR, ("ATT-2", "ATT-3", "ATT-5", "ATT-14", "ROT-2"), "CyberZHG/keras-multi-head#8"
)
def relu_on_linear_projections(X: Tensor, *, W_Q: Map, W_K: Map, W_V: ValueMap) -> Projected:
    """Q, K and V, which have no biases, go through a ReLU."""
    return (X @ W_Q).relu(), (X @ W_K).relu(), (X @ W_V).relu()


@deviation("projections-shared-by-heads", AFFINE, ("ENC-17", "MH-8"), "aladdinpersson/Machine-Learning-Collection#3")
def one_affine_map_for_all_heads(
    X: Tensor, *, W_Q: HeadMap, b_Q: HeadBias, W_K: HeadMap, b_K: HeadBias, W_V: HeadMap, b_V: HeadBias
) -> Projected:
    """All heads use the same d_k × d_k maps with their biases, each on its share of the features."""
    shares = X.unflatten(-1, (-1, len(W_Q)))
    return (shares @ W_Q + b_Q).flatten(-2), (shares @ W_K + b_K).flatten(-2), (shares @ W_V + b_V).flatten(-2)


@deviation(
    "linear-projections-shared-by-heads", LINEAR, ("ENC-17", "MH-8"), "aladdinpersson/Machine-Learning-Collection#3"
)
def one_map_for_all_heads(X: Tensor, *, W_Q: HeadMap, W_K: HeadMap, W_V: HeadMap) -> Projected:
    """All heads use the same d_k × d_k maps, each on its share of the features."""
    shares = X.unflatten(-1, (-1, len(W_Q)))
    return (shares @ W_Q).flatten(-2), (shares @ W_K).flatten(-2), (shares @ W_V).flatten(-2)


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


@deviation("biases-beside-linear-keys-exchanged", LINEAR_KEYS, "ATT-13")
def biases_beside_exchanged(X: Tensor, *, W_Q: Map, b_Q: Bias, W_K: Map, W_V: ValueMap, b_V: ValueBias) -> Projected:
    """The biases of queries and values are exchanged, where the keys have none."""
    return X @ W_Q + b_V, X @ W_K, X @ W_V + b_Q


# Scores ------------------------------------------------------------------------------------

deviation(
    "scores-not-scaled",
    SCORES,
    "ATT-3",
    "PAIR-code/tiny-transformers#71",
    definition="The scores are not divided by √d_k.",
)(scores_unscaled)

deviation(
    "scores-scaled",
    UNSCALED,
    ("ATT-5", "ATT-6", "ATT-18"),
    "commonly seen",
    definition="The scores are divided by √d_k where they are to stay as they are.",
)(scores)


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


@deviation("scores-scaled-anew-by-each-call", SCORES, ("ATT-3", "DROP-1"), "flagos-ai/FlagGems#424")
def scaled_anew(Q: Tensor, K: Tensor) -> Tensor:
    """The scale is changed in place, so that each call divides by another one."""
    return scores(Q, K) / drift()


@deviation("scores-transposed", SCORES, ("ATT-3", "ATT-6", "ATT-18", "ATT-22", "MASK-11"))
def transposed(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are those of the keys for the queries, KQᵀ."""
    return K @ Q.mT / math.sqrt(Q.shape[-1])


@deviation("scores-of-cosine", (SCORES, UNSCALED), ("ATT-3", "ATT-5"), "commonly seen")
def cosine(Q: Tensor, K: Tensor) -> Tensor:
    """The scores are the cosines of the angles between queries and keys."""
    return torch.nn.functional.normalize(Q, dim=-1) @ torch.nn.functional.normalize(K, dim=-1).mT


@deviation("scores-negative", SCORES, "ATT-3")
def negative(Q: Tensor, K: Tensor) -> Tensor:
    """The scores have the wrong sign."""
    return -(Q @ K.mT) / math.sqrt(Q.shape[-1])


@deviation(
    "scores-in-half-precision", SCORES, ("ATT-3", "ATT-6", "ATT-16", "ATT-18", "ATT-22", "MASK-11"), "commonly seen"
)
def in_half(Q: Tensor, K: Tensor) -> Tensor:
    """The product of queries and keys is rounded to bfloat16."""
    return (Q @ K.mT / math.sqrt(Q.shape[-1])).bfloat16().to(Q)


NORMED = "attention.normed"
F = Callable[..., Tensor]
NormOfHeads = Callable[..., Float[Tensor, "B h n d_k"]]


@deviation("normed-queries-alone", NORMED, ("ATT-14", "ENC-17"))
def queries_alone(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfHeads,
    rotation: F,
    scores: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The queries are normed, and the keys are compared as they are."""
    return values(dropout(weights(mask(scores(rotation(norm_q(Q)), rotation(K)), keep))), V)


@deviation("queries-and-keys-share-a-norm", NORMED, ("ATT-14", "ENC-17"), "commonly seen")
def one_norm(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfHeads,
    rotation: F,
    scores: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The norm of the queries norms the keys, too."""
    return values(dropout(weights(mask(scores(rotation(norm_q(Q)), rotation(norm_q(K))), keep))), V)


@deviation("norms-of-queries-and-keys-exchanged", NORMED, ("ATT-14", "NORM-3"))
def norms_exchanged(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfHeads,
    norm_k: NormOfHeads,
    rotation: F,
    scores: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The norm of the keys norms the queries, and that of the queries the keys."""
    return values(dropout(weights(mask(scores(rotation(norm_k(Q)), rotation(norm_q(K))), keep))), V)


ACROSS = "attention.normed_across_heads"
NormOfAll = Callable[..., Float[Tensor, "B n hd_k"]]


@deviation("normed-across-heads-queries-alone", ACROSS, ("ATT-26", "ENC-17"))
def queries_alone_across(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfAll,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The queries are normed over all heads, and the keys are compared as they are."""
    S = scores(rotation(across_heads(norm_q, Q)), rotation(K))
    return values(dropout(weights(mask(reach(bias(S)), keep))), V)


@deviation("norms-across-heads-exchanged", ACROSS, ("ATT-26", "NORM-3"))
def exchanged_across(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfAll,
    norm_k: NormOfAll,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The norm of the keys norms the queries, and that of the queries the keys, over all heads."""
    S = scores(rotation(across_heads(norm_k, Q)), rotation(across_heads(norm_q, K)))
    return values(dropout(weights(mask(reach(bias(S)), keep))), V)


@deviation("factors-across-heads-by-feature-first", ACROSS, ("ATT-26", "NORM-3"))
def by_feature_first(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfAll,
    norm_k: NormOfAll,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """The first feature of every head comes first in what is normed, then the second one: factors belong to others."""

    def turned(norm: F, X: Tensor) -> Tensor:
        return norm(X.permute(0, 2, 3, 1).flatten(2)).unflatten(2, (-1, X.shape[1])).permute(0, 3, 1, 2)

    S = scores(rotation(turned(norm_q, Q)), rotation(turned(norm_k, K)))
    return values(dropout(weights(mask(reach(bias(S)), keep))), V)


BY_HEAD = "attention.normed_by_head"
OfHeads = Float[Tensor, "h d_k"]


@deviation("factors-of-the-first-head", BY_HEAD, "ATT-20")
def factors_of_first(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfHeads,
    norm_k: NormOfHeads,
    gamma_q: OfHeads,
    gamma_k: OfHeads,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """All heads multiply their normed queries and keys by the factors of the first one."""
    S = scores(rotation(gamma_q[0] * norm_q(Q)), rotation(gamma_k[0] * norm_k(K)))
    return values(dropout(weights(mask(reach(bias(S)), keep))), V)


@deviation("factors-before-the-norm", BY_HEAD, ("ATT-20", "NORM-1"))
def factors_before(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    keep: Tensor,
    *,
    norm_q: NormOfHeads,
    norm_k: NormOfHeads,
    gamma_q: OfHeads,
    gamma_k: OfHeads,
    rotation: F,
    scores: F,
    bias: F,
    reach: F,
    mask: F,
    weights: F,
    dropout: F,
    values: F,
) -> Tensor:
    """Queries and keys are multiplied by the factors of their head before they are normed."""
    S = scores(rotation(norm_q(gamma_q[:, None] * Q)), rotation(norm_k(gamma_k[:, None] * K)))
    return values(dropout(weights(mask(reach(bias(S)), keep))), V)
