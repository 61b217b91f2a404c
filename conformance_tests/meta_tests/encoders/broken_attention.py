"""Encoders whose attention or mask is broken."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.defects import breaks
from conformance_tests.meta_tests.encoders.subjects import Attention


@breaks("attention.projections", "ATT-1")
class ValuesFromTheKeyMap(Attention):
    """V is computed with W_K, and W_V does nothing."""

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, _ = self.in_proj_weight.chunk(3)
        b_q, b_k, _ = self.in_proj_bias.chunk(3)
        return nn.functional.linear(x, torch.cat([q, k, k]), torch.cat([b_q, b_k, b_k])).chunk(3, -1)


@breaks("attention.projections", "ATT-1", "ENC-8")
class BiasesOfQueriesForgotten(Attention):
    """b_Q exists and is never added."""

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        forgotten, b_k, b_v = self.in_proj_bias.chunk(3)
        biases = torch.cat([0 * forgotten, b_k, b_v])
        return nn.functional.linear(x, self.in_proj_weight, biases).chunk(3, -1)


@breaks("attention.projections", "ATT-1")
class QueriesWithoutMap(Attention):
    """W_Q is left out: the layer's input stands in for the queries."""

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        _, k, v = super().project(x)
        return x, k, v


@breaks("attention.projections_without_bias", "ATT-2", "ENC-8")
class AveragesOfItsInput(Attention):
    """None of the three maps is applied: the weights are a softmax of X Xᵀ / √d_k, and average X."""

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, x, x


@breaks("attention.projections", "ATT-1")
class KeysAndValuesSwapped(Attention):
    """Q, K and V are right, but the scores are those of the values, and the keys are averaged."""

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = super().project(x)
        return q, v, k


@breaks("attention.projections", "ATT-1")
class QueriesAndKeysSwapped(Attention):
    """The scores are transposed: the numbers are right, and the softmax, right in itself, reads others."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return super().score(k, q)


@breaks("attention.scores", "ATT-3")
class ScaledByModelWidth(Attention):
    """Scores are divided by √d_model."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkc->bhqk", q, k) / math.sqrt(q.shape[-1] * self.num_heads)


@breaks("attention.scores", "ATT-3")
class ScaledByWidthWithoutRoot(Attention):
    """Scores are divided by d_k."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkc->bhqk", q, k) / q.shape[-1]


@breaks("attention.scores", "ATT-3", profile="torch-post-ln")
class ScoresUnscaled(Attention):
    """Scores are not divided: T5 does so, the declared profile does not."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkc->bhqk", q, k)


@breaks("attention.scores", "ATT-3")
class QueriesAndKeysSummedApart(Attention):
    """An einsum has two letters for the features, which are summed before they meet."""

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqc,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])


@breaks("multihead.split", "MH-1", "MH-7")
class HeadsSplitWithoutTranspose(Attention):
    """(B, n, h·d_k) is viewed as (B, h, n, d_k), so that heads mix positions."""

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


@breaks("multihead.split", "MH-1")
class HeadsInterleaved(Attention):
    """Head i takes every h-th column instead of d_k consecutive ones."""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)


@breaks("multihead.concat", "MH-3")
class HeadsMergedWithoutTranspose(Attention):
    """(B, h, n, d_v) is viewed as (B, n, h·d_v)."""

    def merge(self, heads: Tensor) -> Tensor:
        return heads.reshape(heads.shape[0], heads.shape[2], -1)


@breaks("multihead.concat", "MH-3")
class HeadsMergedInReverse(Attention):
    """The last head stands first."""

    def merge(self, heads: Tensor) -> Tensor:
        return super().merge(heads.flip(1))


@breaks("multihead.output_without_bias", "MH-5", "ENC-8")
class OutputMapForgotten(Attention):
    """W_O and b_O exist and are never applied."""

    def out(self, merged: Tensor) -> Tensor:
        return merged


@breaks("multihead.output", "MH-4")
class OutputMapTransposed(Attention):
    """A converter forgot to transpose W_O, which is square, so that nothing complains."""

    def out(self, merged: Tensor) -> Tensor:
        return nn.functional.linear(merged, self.out_proj.weight.mT, self.out_proj.bias)


@breaks("attention.weights", "ATT-6", "ATT-7")
class SoftmaxOverQueries(Attention):
    """The softmax runs over the wrong axis."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores.softmax(-2)


@breaks("attention.weights", "ATT-6")
class WeightsAndValuesSummedApart(Attention):
    """An einsum has two letters for the keys: each query gets the sum of all values."""

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        q, k, v = map(self.split, self.project(x))
        weights = self.weigh(self.mask(self.score(q, k), pad), pad)
        return self.out(self.merge(torch.einsum("bhqk,bhvc->bhqc", weights, v)))


@breaks("attention.weights", "ATT-6")
class ShiftedByAnotherQuery(Attention):
    """The softmax subtracts a maximum to keep exp small, and takes that of another query."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        exp = (scores - scores.amax(-1)[..., None, :]).exp()
        return exp / exp.sum(-1, keepdim=True)


@breaks("attention.weights", "ATT-6", "ATT-7")
class SoftmaxOverHeads(Attention):
    """The softmax runs over the heads."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores.softmax(1)


@breaks("attention.weights", "ATT-6", "ATT-7")
class WeightsNotNormalised(Attention):
    """exp without division by its sum, tamed by a sigmoid."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores.sigmoid()


@breaks("attention.weights", "ATT-9", located_by_catalogue=True)
class SoftmaxWithoutShift(Attention):
    """exp overflows where scores are large; everywhere else all is well."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        exp = scores.exp()
        return exp / exp.sum(-1, keepdim=True)


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class MaskNeverUsed(Attention):
    """The mask is accepted and ignored."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class MaskAsFactor(Attention):
    """Masked scores become 0 instead of −∞."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores if pad is None else scores * ~pad[:, None, None, :]


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class MaskAddedAsNumber(Attention):
    """The boolean mask is added to the scores as 0 and 1."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores if pad is None else scores - pad[:, None, None, :].to(scores.dtype)


@breaks("attention.mask", "MASK-1", "MASK-2", "MASK-3", "ENC-3")
class MaskInverted(Attention):
    """True is taken for keep where the caller means ignore."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return super().mask(scores, None if pad is None else ~pad)


@breaks("attention.mask", "MASK-1", "ENC-3")
class MaskOfQueries(Attention):
    """Rows are masked instead of columns: padding still reaches everyone."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores if pad is None else scores.masked_fill(pad[:, None, :, None], -1e30)


@breaks("attention.mask", "ENC-3")
class MaskAfterSoftmax(Attention):
    """Weights of padding are set to 0 after the softmax and not normalised again: rows sum to less than 1."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        weights = scores.softmax(-1)
        return weights if pad is None else weights.masked_fill(pad[:, None, None, :], 0)


@breaks("attention.mask", "MASK-1", "MASK-2", "ENC-3")
class MaskTooWeak(Attention):
    """Masked scores become −10: rare, not impossible."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return scores if pad is None else scores.masked_fill(pad[:, None, None, :], -10.0)


@breaks("attention.global_reach", "ENC-2", "ENC-11", "MASK-1")
class CausalMask(Attention):
    """Each position sees itself and what precedes it, as in a decoder: scores are hidden that no padding hides."""

    def mask(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return super().mask(scores, pad).masked_fill(later, -1e30)


@breaks("dropout.identity", "ATT-10", "DROP-1")
class DropoutInEvaluation(Attention):
    """Weights, right in themselves, are dropped in evaluation too."""

    def weigh(self, scores: Tensor, pad: Tensor | None) -> Tensor:
        return nn.functional.dropout(super().weigh(scores, pad), 0.1, training=True)


@breaks("attention.projections", "ENC-17", "MH-8")
class OneMapForAllHeads(Attention):
    """Queries, keys and values of every head come from the same d_k × d_k maps."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        del self.in_proj_weight, self.in_proj_bias
        self.queries, self.keys, self.values = (nn.Linear(width // heads, width // heads) for _ in range(3))

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        shares = x.unflatten(-1, (self.num_heads, -1))
        return tuple(m(shares).flatten(-2) for m in (self.queries, self.keys, self.values))
