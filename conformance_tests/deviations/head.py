"""Wrong heads on top: another position read, padding averaged, layers left out."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.head import any_length, attention_pool, counted, largest, unit_length, valid_positions

NONE, POOLED, CLASSIFIER, MLM, NSP = "head.none", "head.pooled", "head.classifier", "head.mlm", "head.nsp"
TRANSFORMED, POOLER = "head.transformed", "head.pooler"
READ, ATTENTION_POOL = "head.read", "head.attention_pool"
FIRST, MEAN, LAST, COUNTED, LARGEST = (f"head.{pool}" for pool in ("first", "mean", "last", "counted", "largest"))
ANY, UNIT = "head.any_length", "head.unit_length"

F: TypeAlias = Callable[..., Tensor]
Class: TypeAlias = Float[Tensor, "d_model classes"]
Classes: TypeAlias = Float[Tensor, "classes"]
Square: TypeAlias = Float[Tensor, "d_model d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]
Table: TypeAlias = Float[Tensor, "V d_model"]
Words: TypeAlias = Float[Tensor, "V"]
Query: TypeAlias = Float[Tensor, "h d_k"]
Keys: TypeAlias = Float[Tensor, "h d_model d_k"]
Values: TypeAlias = Float[Tensor, "h d_model d_v"]
Outputs: TypeAlias = Float[Tensor, "h d_v d_model"]
Pair: TypeAlias = Float[Tensor, "d_model 2"]
Two: TypeAlias = Float[Tensor, "2"]

# Hidden states -----------------------------------------------------------------------------


@deviation("states-zeroed-at-the-end", NONE, "HEAD-1")
def zeroed_at_the_end(Z: Tensor, keep: Tensor) -> Tensor:
    """The hidden states of the last position are set to 0."""
    return torch.cat([Z[:, :-1], 0 * Z[:, -1:]], dim=1)


# One vector for each sequence ---------------------------------------------------------------


@deviation("class-probabilities", CLASSIFIER, "HEAD-7", "commonly seen")
def probabilities(Z: Tensor, keep: Tensor, *, pool: F, length: F, W_cls: Class, b_cls: Classes) -> Tensor:
    """The classifier returns probabilities where logits are due."""
    return length(pool(Z, keep) @ W_cls + b_cls).softmax(-1)


@deviation("class-bias-ignored", CLASSIFIER, ("HEAD-7", "HEAD-10", "ENC-8"))
def bias_ignored(Z: Tensor, keep: Tensor, *, pool: F, length: F, W_cls: Class, b_cls: Classes) -> Tensor:
    """The classifier has a bias, which is never added."""
    return length(pool(Z, keep) @ W_cls)


@deviation("pooled-and-squashed", POOLED, "HEAD-6", "commonly seen")
def squashed(Z: Tensor, keep: Tensor, *, pool: F, length: F) -> Tensor:
    """The vector of a sequence goes through a hyperbolic tangent."""
    return length(torch.tanh(pool(Z, keep)))


@deviation("vector-kept-beside-its-transform", TRANSFORMED, "HEAD-13")
def kept_beside(Z: Tensor, keep: Tensor, *, pool: F, transform: F) -> Tensor:
    """The pooled vector is added to what comes of it."""
    u = pool(Z, keep)
    return u + transform(u)


@deviation("head-reads-padding", READ, ("HEAD-15", "HEAD-16"), "commonly seen")
def reads_padding(Z: Tensor, keep: Tensor, *, reader: F) -> Tensor:
    """The head reads padding as well."""
    return reader(Z, torch.ones_like(keep))


@deviation("head-divides-by-length", READ, "HEAD-15")
def divided_by_length(Z: Tensor, keep: Tensor, *, reader: F) -> Tensor:
    """The result is multiplied by the share of valid positions, as if it were a mean over all of them."""
    return reader(Z, keep) * valid_positions(Z, keep).double().mean(dim=1)


@deviation("pool-scores-not-scaled", ATTENTION_POOL, "HEAD-16")
def not_scaled(
    Z: Tensor, keep: Tensor, *, q_pool: Query, W_K_pool: Keys, W_V_pool: Values, W_O_pool: Outputs
) -> Tensor:
    """The products of the learned query are not divided by √d_k."""
    q = q_pool * q_pool.shape[-1] ** 0.5
    return attention_pool(Z, keep, q_pool=q, W_K_pool=W_K_pool, W_V_pool=W_V_pool, W_O_pool=W_O_pool)


@deviation("pool-attends-to-padding", ATTENTION_POOL, ("HEAD-15", "HEAD-16"), "commonly seen")
def attends_to_padding(
    Z: Tensor, keep: Tensor, *, q_pool: Query, W_K_pool: Keys, W_V_pool: Values, W_O_pool: Outputs
) -> Tensor:
    """The learned query attends to padding as well."""
    everything = torch.ones_like(keep)
    return attention_pool(Z, everything, q_pool=q_pool, W_K_pool=W_K_pool, W_V_pool=W_V_pool, W_O_pool=W_O_pool)


@deviation("pooler-without-activation", POOLER, "HEAD-14", "commonly seen")
def without_activation(u: Tensor, *, W_pool: Square, b_pool: Vector) -> Tensor:
    """The pooling layer has no hyperbolic tangent."""
    return u @ W_pool + b_pool


@deviation("pooler-bias-ignored", POOLER, ("HEAD-14", "ENC-8"))
def pooler_bias_ignored(u: Tensor, *, W_pool: Square, b_pool: Vector) -> Tensor:
    """The pooling layer has a bias, which is never added."""
    return torch.tanh(u @ W_pool)


@deviation("class-read-from-the-end", FIRST, "HEAD-2", "commonly seen")
def from_the_end(Z: Tensor, keep: Tensor) -> Tensor:
    """The last position is read in the place of the first."""
    return Z[:, -1]


@deviation("class-read-from-the-mean", FIRST, "HEAD-2", "commonly seen")
def from_the_mean(Z: Tensor, keep: Tensor) -> Tensor:
    """The mean over the positions is read in the place of the first one."""
    return Z.mean(1)


@deviation("mean-counts-padding", MEAN, "HEAD-3", "commonly seen")
def counts_padding(Z: Tensor, keep: Tensor) -> Tensor:
    """The mean runs over padding as well."""
    return Z.mean(1)


@deviation("mean-divides-by-length", MEAN, "HEAD-3", "commonly seen")
def divides_by_length(Z: Tensor, keep: Tensor) -> Tensor:
    """The sum over the valid positions is divided by the length of all."""
    return Z.masked_fill(~valid_positions(Z, keep), 0).mean(1)


deviation("largest-for-mean", MEAN, "HEAD-3", definition="The largest value stands in for the mean.")(largest)


@deviation("last-of-padding", (LAST, COUNTED), ("HEAD-8", "HEAD-12"), "commonly seen")
def last_of_padding(Z: Tensor, keep: Tensor) -> Tensor:
    """The last position is read, though it may be padding."""
    return Z[:, -1]


deviation(
    "last-by-count",
    LAST,
    "HEAD-8",
    "commonly seen",
    definition="The number of valid positions is taken for the place behind the last of them.",
)(counted)


@deviation("largest-counts-padding", LARGEST, "HEAD-9", "commonly seen")
def largest_counts_padding(Z: Tensor, keep: Tensor) -> Tensor:
    """The largest value is sought in padding as well."""
    return Z.amax(dim=1)


@deviation("largest-of-zeroed-padding", LARGEST, "HEAD-9", "commonly seen")
def largest_of_zeroed_padding(Z: Tensor, keep: Tensor) -> Tensor:
    """Padding is set to 0, which is larger than any negative value, before the largest value is sought."""
    return Z.masked_fill(~valid_positions(Z, keep), 0).amax(dim=1)


deviation("length-one-for-any", ANY, ("HEAD-10", "HEAD-6"), definition="The vector is brought to length 1.")(
    unit_length
)


@deviation("length-of-the-batch", UNIT, "HEAD-11", "commonly seen")
def along_the_batch(u: Tensor) -> Tensor:
    """Each feature is divided by its length over the sequences of the batch."""
    return torch.nn.functional.normalize(u, dim=0)


@deviation("length-as-sum", UNIT, "HEAD-11")
def as_sum(u: Tensor) -> Tensor:
    """The vector is divided by the sum of its magnitudes."""
    return torch.nn.functional.normalize(u, p=1, dim=-1)


deviation("length-left", UNIT, "HEAD-11", "commonly seen", definition="The vector is left as long as it is.")(
    any_length
)


# Words and pairs of sentences --------------------------------------------------------------


@deviation("words-bias-ignored", MLM, ("HEAD-4", "ENC-8"))
def words_bias_ignored(
    Z: Tensor,
    keep: Tensor,
    *,
    activation: F,
    norm_head: F,
    W_mlm: Square,
    b_mlm: Vector,
    E: Table,
    b_vocab: Words,
) -> Tensor:
    """The logits of the words have a bias, which is never added."""
    return norm_head(activation(Z @ W_mlm + b_mlm)) @ E.mT


@deviation("words-from-normed-table", MLM, "HEAD-4")
def normed_table(
    Z: Tensor,
    keep: Tensor,
    *,
    activation: F,
    norm_head: F,
    W_mlm: Square,
    b_mlm: Vector,
    E: Table,
    b_vocab: Words,
) -> Tensor:
    """The logits are those of a table whose rows have length 1."""
    return norm_head(activation(Z @ W_mlm + b_mlm)) @ torch.nn.functional.normalize(E, dim=-1).mT + b_vocab


@deviation("pair-read-from-the-end", NSP, "HEAD-5")
def pair_from_the_end(Z: Tensor, keep: Tensor, *, W_pool: Square, b_pool: Vector, W_nsp: Pair, b_nsp: Two) -> Tensor:
    """The head for pairs of sentences reads the last position."""
    return torch.tanh(Z[:, -1] @ W_pool + b_pool) @ W_nsp + b_nsp


@deviation("pair-without-tanh", NSP, "HEAD-5", "commonly seen")
def pair_without_tanh(Z: Tensor, keep: Tensor, *, W_pool: Square, b_pool: Vector, W_nsp: Pair, b_nsp: Two) -> Tensor:
    """The layer under the head for pairs of sentences has no hyperbolic tangent."""
    return (Z[:, 0] @ W_pool + b_pool) @ W_nsp + b_nsp
