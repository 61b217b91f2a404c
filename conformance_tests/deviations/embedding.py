"""Wrong inputs: tables read, scaled and added another way; rarer kinds of input stand in ``inputs``."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conformance_tests.deviations import deviation, inputs, waveforms
from encoder_spec.embedding import (
    embedding_norm,
    no_embedding_norm,
    no_segments,
    patches_without_bias,
    scale,
    token_dropout,
    unscaled,
)

__all__ = ["inputs", "waveforms"]

LOOKUP, SCALED, UNSCALED = "embedding.lookup", "embedding.scale", "embedding.unscaled"
PATCHES, CLS, INPUT, SEGMENTS = "embedding.patches", "embedding.cls", "embedding.input", "embedding.segments"
NORM, NO_NORM = "embedding.norm", "embedding.no_norm"

deviation(
    "embedding-not-scaled",
    SCALED,
    "EMB-2",
    "OpenNMT/OpenNMT-py#1722",
    definition="The embedding is not multiplied by √d_model.",
)(unscaled)
deviation(
    "embedding-scaled",
    UNSCALED,
    ("EMB-3", "EMB-7", "EMB-8", "EMB-11"),
    "commonly seen",
    definition="The embedding is multiplied by √d_model where it is to stay as it is.",
)(scale)
deviation(
    "segments-missing",
    SEGMENTS,
    ("ENC-17", "EMB-8"),
    "commonly seen",
    definition="No segment vectors are added.",
)(no_segments)
deviation(
    "embedding-norm-missing",
    NORM,
    ("ENC-17", "EMB-10"),
    "commonly seen",
    definition="The sum of the embeddings is not normalised.",
)(no_embedding_norm)
deviation(
    "embedding-norm-added",
    NO_NORM,
    "EMB-12",
    "commonly seen",
    definition="The sum of the embeddings is normalised where it is to stay as it is.",
)(embedding_norm)
deviation(
    "patches-without-bias",
    PATCHES,
    ("ENC-17", "EMB-4"),
    "commonly seen",
    definition="The map of the patches has no bias.",
)(patches_without_bias)


@deviation("embedding-of-the-next-token", LOOKUP, "EMB-1")
def next_token(tokens: Tensor, *, E: Float[Tensor, "V d_model"]) -> Tensor:
    """Ids are counted from 1, so that each token gets the vector of the next one."""
    return E[(tokens + 1) % len(E)]


@deviation("embedding-normalised", LOOKUP, "EMB-1")
def normalised(tokens: Tensor, *, E: Float[Tensor, "V d_model"]) -> Tensor:
    """Every row of the table is scaled to length 1."""
    return torch.nn.functional.normalize(E, dim=-1)[tokens]


@deviation("embedding-rows-clipped", LOOKUP, "EMB-1")
def clipped(tokens: Tensor, *, E: Float[Tensor, "V d_model"]) -> Tensor:
    """Rows longer than 0.1 are shortened to it, as ``max_norm`` does."""
    return (E / E.norm(dim=-1, keepdim=True).clamp(min=0.1) * 0.1)[tokens]


@deviation("embedding-ids-clamped", LOOKUP, "EMB-1")
def clamped(tokens: Tensor, *, E: Float[Tensor, "V d_model"]) -> Tensor:
    """Ids in the second half of the vocabulary all get one vector."""
    return E[tokens.clamp(max=len(E) // 2)]


DROPOUT = "embedding.token_dropout"
OfCall: TypeAlias = Bool[Tensor, "#B #n #n"]
Ids: TypeAlias = Int[Tensor, "B n"]


@deviation("masked-share-of-training-left-out", DROPOUT, "EMB-34")
def share_of_training_left_out(X: Tensor, *, keep: OfCall, ids: Ids, mask_id: int, p_mask: float) -> Tensor:
    """Tokens are multiplied by 1/(1 − r), without the share that is masked in training."""
    return token_dropout(X, keep=keep, ids=ids, mask_id=mask_id, p_mask=0)


@deviation("masked-tokens-kept", DROPOUT, "EMB-34")
def masked_kept(X: Tensor, *, keep: OfCall, ids: Ids, mask_id: int, p_mask: float) -> Tensor:
    """Masked tokens keep their vectors, and all are scaled as if none were masked."""
    return (1 - p_mask) * X


@deviation("masked-share-of-all-positions", DROPOUT, "EMB-34", "commonly seen")
def share_of_all(X: Tensor, *, keep: OfCall, ids: Ids, mask_id: int, p_mask: float) -> Tensor:
    """The share of masked tokens is one of all positions, padding included."""
    return token_dropout(X, keep=torch.ones_like(keep), ids=ids, mask_id=mask_id, p_mask=p_mask)


@deviation("embedding-norm-unused", NORM, ("EMB-10", "ENC-8"), "commonly seen")
def norm_unused(X: Tensor, *, norm_embedding: Callable[..., Tensor]) -> Tensor:
    """The norm of the embeddings exists and is not called."""
    return X


@deviation("embedding-norm-with-residual", NORM, ("EMB-10", "ENC-2"))
def norm_with_residual(X: Tensor, *, norm_embedding: Callable[..., Tensor]) -> Tensor:
    """The sum of the embeddings is added to its own norm."""
    return X + norm_embedding(X)


PatchNorm: TypeAlias = Callable[..., Float[Tensor, "B n patch_area"]]
PatchMap: TypeAlias = Float[Tensor, "patch_area d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]


def tiles(images: Tensor, patch: int, patch_width: int) -> Tensor:
    """Return the patches of images: (B, rows, columns, channels, p, q)."""
    return images.unflatten(-2, (-1, patch)).unflatten(-1, (-1, patch_width)).permute(0, 2, 4, 1, 3, 5)


@deviation("patches-in-column-order", PATCHES, "EMB-4", "commonly seen")
def column_order(
    images: Tensor, *, patch: int, patch_width: int, feature_norm: PatchNorm, W_patch: PatchMap, b_patch: Vector
) -> Tensor:
    """The patches are read column by column instead of row by row."""
    x_p = tiles(images, patch, patch_width).transpose(1, 2)
    return feature_norm(x_p.flatten(-3).flatten(1, 2)) @ W_patch + b_patch


@deviation("patches-channels-last", PATCHES, "EMB-4", "commonly seen")
def channels_last(
    images: Tensor, *, patch: int, patch_width: int, feature_norm: PatchNorm, W_patch: PatchMap, b_patch: Vector
) -> Tensor:
    """The entries of a patch are flattened with the channels last."""
    x_p = tiles(images, patch, patch_width).movedim(3, -1)
    return feature_norm(x_p.flatten(-3).flatten(1, 2)) @ W_patch + b_patch


@deviation("patches-by-reshape", PATCHES, "EMB-4", "commonly seen")
def by_reshape(
    images: Tensor,
    *,
    patch: int,
    patch_width: int,
    feature_norm: PatchNorm,
    W_patch: PatchMap,
    b_patch: Vector,
) -> Tensor:
    """The image is reshaped into rows of the right length, so that patches hold strips of it."""
    return feature_norm(images.reshape(len(images), -1, len(W_patch))) @ W_patch + b_patch


@deviation("cls-at-the-end", CLS, "EMB-5", "commonly seen")
def at_the_end(X: Tensor, *, x_cls: Float[Tensor, "d_model"]) -> Tensor:
    """The class token stands after the last token."""
    return torch.cat([X, x_cls.expand(len(X), 1, -1)], dim=1)


@deviation("segments-exchanged", SEGMENTS, "EMB-8")
def segments_exchanged(X: Tensor, segment_ids: Tensor, *, E_seg: Float[Tensor, "segments d_model"]) -> Tensor:
    """The rows of the segment table are read in reverse order."""
    return X + E_seg.flip(0)[segment_ids]


@deviation("segments-all-first", SEGMENTS, "EMB-8", "commonly seen")
def all_first(X: Tensor, segment_ids: Tensor, *, E_seg: Float[Tensor, "segments d_model"]) -> Tensor:
    """Every position gets the vector of the first segment."""
    return X + E_seg[0 * segment_ids]


@deviation("segments-multiplied", SEGMENTS, "EMB-8")
def multiplied(X: Tensor, segment_ids: Tensor, *, E_seg: Float[Tensor, "segments d_model"]) -> Tensor:
    """The segment vectors multiply the sum instead of being added."""
    return X * E_seg[segment_ids]


def input_with(form: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An input equation that forms X⁰ from embedding, scale and position another way."""

    def embedded(
        tokens: Tensor,
        *segment_ids: Tensor,
        embedding: Callable[..., Tensor],
        token_norm: Callable[..., Tensor],
        token_activation: Callable[..., Tensor],
        embedding_scale: Callable[..., Tensor],
        cls: Callable[..., Tensor],
        position: Callable[..., Tensor],
        segment: Callable[..., Tensor],
        registers: Callable[..., Tensor],
        embedding_norm: Callable[..., Tensor],
        dropout: Callable[..., Tensor],
    ) -> Tensor:
        E = token_activation(token_norm(embedding(tokens)))
        X = form(E, cls, embedding_scale, position)
        return dropout(embedding_norm(registers(segment(X, *segment_ids), E)))

    embedded.__name__ = form.__name__
    return embedded


def scaled_sum(
    X: Tensor, cls: Callable[..., Tensor], embedding_scale: Callable[..., Tensor], position: Callable[..., Tensor]
) -> Tensor:
    """Scale the sum of both."""
    X = cls(X)
    return embedding_scale(X + position(X))


def subtracted(
    X: Tensor, cls: Callable[..., Tensor], embedding_scale: Callable[..., Tensor], position: Callable[..., Tensor]
) -> Tensor:
    """Take the position away."""
    X = cls(embedding_scale(X))
    return X - position(X)


def multiplied_position(
    X: Tensor, cls: Callable[..., Tensor], embedding_scale: Callable[..., Tensor], position: Callable[..., Tensor]
) -> Tensor:
    """Multiply by the position."""
    X = cls(embedding_scale(X))
    return X * (1 + position(X))


def position_before_cls(
    X: Tensor, cls: Callable[..., Tensor], embedding_scale: Callable[..., Tensor], position: Callable[..., Tensor]
) -> Tensor:
    """Add positions first, the class token then."""
    X = embedding_scale(X)
    return cls(X + position(X))


for id, form, definition in (
    ("sum-of-embedding-and-position-scaled", scaled_sum, "Embedding and position are both multiplied by √d_model."),
    ("position-subtracted", subtracted, "The position is subtracted from the embedding."),
    ("position-multiplied", multiplied_position, "The embedding is multiplied by 1 + position instead of added to it."),
):
    deviation(id, INPUT, ("EMB-7", "EMB-2", "EMB-5", "ENC-2"), "commonly seen", definition=definition)(input_with(form))

deviation(
    "position-before-class-token",
    CLS,
    ("EMB-5", "EMB-7", "ENC-2"),
    "commonly seen",
    place="input",
    definition="Positions are added before the class token is put in front, which gets none.",
)(input_with(position_before_cls))
