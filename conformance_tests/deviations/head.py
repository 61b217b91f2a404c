"""Wrong heads on top: another position read, padding averaged, layers left out."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from conformance_tests.deviations import deviation

NONE, CLS, MEAN, MLM, NSP = "head.none", "head.cls", "head.mean_pool", "head.mlm", "head.nsp"

F: TypeAlias = Callable[..., Tensor]
Class: TypeAlias = Float[Tensor, "d_model classes"]
Classes: TypeAlias = Float[Tensor, "classes"]
Square: TypeAlias = Float[Tensor, "d_model d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]
Table: TypeAlias = Float[Tensor, "V d_model"]
Words: TypeAlias = Float[Tensor, "V"]
Pair: TypeAlias = Float[Tensor, "d_model 2"]
Two: TypeAlias = Float[Tensor, "2"]

# Hidden states -----------------------------------------------------------------------------


@deviation("states-zeroed-at-the-end", NONE, "HEAD-1")
def zeroed_at_the_end(Z: Tensor, keep: Tensor) -> Tensor:
    """The hidden states of the last position are set to 0."""
    return torch.cat([Z[:, :-1], 0 * Z[:, -1:]], dim=1)


# Classes -----------------------------------------------------------------------------------


@deviation("class-read-from-the-end", CLS, "HEAD-2", "commonly seen")
def from_the_end(Z: Tensor, keep: Tensor, *, W_cls: Class, b_cls: Classes) -> Tensor:
    """The classifier reads the last position."""
    return Z[:, -1] @ W_cls + b_cls


@deviation("class-read-from-the-mean", CLS, "HEAD-2", "commonly seen")
def from_the_mean(Z: Tensor, keep: Tensor, *, W_cls: Class, b_cls: Classes) -> Tensor:
    """The classifier reads the mean over the positions."""
    return Z.mean(1) @ W_cls + b_cls


@deviation("class-probabilities", CLS, "HEAD-2", "commonly seen")
def probabilities(Z: Tensor, keep: Tensor, *, W_cls: Class, b_cls: Classes) -> Tensor:
    """The classifier returns probabilities where logits are due."""
    return (Z[:, 0] @ W_cls + b_cls).softmax(-1)


# Means -------------------------------------------------------------------------------------


@deviation("mean-counts-padding", MEAN, "HEAD-3", "commonly seen")
def counts_padding(Z: Tensor, keep: Tensor) -> Tensor:
    """The mean runs over padding as well."""
    return Z.mean(1)


@deviation("mean-divides-by-length", MEAN, "HEAD-3", "commonly seen")
def divides_by_length(Z: Tensor, keep: Tensor) -> Tensor:
    """The sum over the valid positions is divided by the length of all."""
    return Z.masked_fill(~keep.mT.expand(len(Z), Z.shape[1], 1), 0).mean(1)


@deviation("largest-for-mean", MEAN, "HEAD-3")
def largest(Z: Tensor, keep: Tensor) -> Tensor:
    """The largest value over the valid positions stands in for their mean."""
    return Z.masked_fill(~keep.mT.expand(len(Z), Z.shape[1], 1), -torch.inf).amax(1).nan_to_num(neginf=0.0)


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
