"""Wrong inputs of rarer kinds: bare patches, sounds, vectors, features, special tokens, factorised tables."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from conformance_tests.deviations import Deviation, deviation, enter
from encoder_spec.embedding import (
    cls,
    embedded,
    feature_norm,
    features,
    features_without_bias,
    no_cls,
    no_embedding_norm,
    no_feature_norm,
    no_registers,
    no_segments,
    no_token_activation,
    no_token_norm,
    patches_without_bias,
    registers,
    registers_behind,
    token_activation,
    token_norm,
    unscaled,
    vectors,
)
from encoder_spec.equation import equation_of
from encoder_spec.ffn import gelu, relu
from encoder_spec.position import sinusoidal

BARE_PATCHES, SOUND = "embedding.patches_without_bias", "embedding.convolutions"
VECTORS, FEATURES, BARE_FEATURES = "embedding.vectors", "embedding.features", "embedding.features_without_bias"
FEATURE_NORM, TOKEN_NORM = "embedding.feature_norm", "embedding.token_norm"
TOKEN_ACTIVATION = "embedding.token_activation"
TWO_TOKENS, FACTORISED, GIVEN = "embedding.cls_and_distillation", "embedding.factorised", "embedding.given"
REGISTERS = "embedding.registers"

F: TypeAlias = Callable[..., Tensor]
PatchMap: TypeAlias = Float[Tensor, "patch_area d_model"]
Taps: TypeAlias = Float[Tensor, "3 channels d_model"]
InnerTaps: TypeAlias = Float[Tensor, "3 d_model d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]
Registers: TypeAlias = Float[Tensor, "r d_model"]
FeatureMap: TypeAlias = Float[Tensor, "channels d_model"]
PatchNorm: TypeAlias = Callable[..., Float[Tensor, "B n patch_area"]]
FeatureNorm: TypeAlias = Callable[..., Float[Tensor, "B n channels"]]

# Patches and sounds ------------------------------------------------------------------------


@deviation("bare-patches-channels-last", BARE_PATCHES, "EMB-13", "commonly seen")
def channels_last(
    images: Tensor, *, patch: int, patch_width: int, feature_norm: PatchNorm, W_patch: PatchMap
) -> Tensor:
    """The entries of a patch, whose map has no bias, are flattened with the channels last."""
    x_p = images.unflatten(-2, (-1, patch)).unflatten(-1, (-1, patch_width))
    return feature_norm(x_p.permute(0, 2, 4, 3, 5, 1).flatten(-3).flatten(1, 2)) @ W_patch


@deviation("bare-patches-turned", BARE_PATCHES, "EMB-13", "commonly seen")
def turned(images: Tensor, *, patch: int, patch_width: int, feature_norm: PatchNorm, W_patch: PatchMap) -> Tensor:
    """Rows and columns of the image are exchanged; the map of the patches has no bias."""
    return patches_without_bias(
        images.mT, patch=patch_width, patch_width=patch, feature_norm=feature_norm, W_patch=W_patch
    )


def convolved(u: Tensor, W: Tensor, step: int = 1, first: int = 0) -> Tensor:
    """Σ_k u[t + k − 1] W[k] at every ``step``-th t from ``first`` on, with zeros outside of u."""
    padded = pad(u, (0, 0, 1, 1))
    return sum((padded[:, first + k : k + u.shape[1] : step] @ W[k] for k in range(3)), torch.zeros(()))


@deviation("convolutions-activated-once", SOUND, "EMB-14")
def activated_once(signal: Tensor, *, W_conv: Taps, b_conv: Vector, W_step: InnerTaps, b_step: Vector) -> Tensor:
    """No activation follows the second convolution."""
    return convolved(gelu(convolved(signal.mT, W_conv) + b_conv), W_step, 2) + b_step


@deviation("convolutions-with-relu", SOUND, "EMB-14", "commonly seen")
def with_relu(signal: Tensor, *, W_conv: Taps, b_conv: Vector, W_step: InnerTaps, b_step: Vector) -> Tensor:
    """The convolutions are followed by ReLU instead of GELU."""
    return relu(convolved(relu(convolved(signal.mT, W_conv) + b_conv), W_step, 2) + b_step)


@deviation("convolutions-reversed", SOUND, "EMB-14")
def kernels_reversed(signal: Tensor, *, W_conv: Taps, b_conv: Vector, W_step: InnerTaps, b_step: Vector) -> Tensor:
    """The kernels run backwards in time, as in a convolution proper."""
    U = gelu(convolved(signal.mT, W_conv.flip(0)) + b_conv)
    return gelu(convolved(U, W_step.flip(0), 2) + b_step)


@deviation("convolutions-of-odd-times", SOUND, "EMB-14")
def of_odd_times(signal: Tensor, *, W_conv: Taps, b_conv: Vector, W_step: InnerTaps, b_step: Vector) -> Tensor:
    """The second convolution is taken about the odd times instead of the even ones."""
    U = gelu(convolved(signal.mT, W_conv) + b_conv)
    return gelu(convolved(U, W_step, 2, first=1) + b_step)


# Vectors and features ----------------------------------------------------------------------


@deviation("vectors-added-twice", VECTORS, ("EMB-17", "EMB-2", "EMB-3"), "commonly seen")
def added_twice(x: Tensor) -> Tensor:
    """The vectors are added to the sum of vectors and positions once more."""
    return x + x


@deviation("vectors-normalised", VECTORS, "EMB-17")
def vectors_normalised(x: Tensor) -> Tensor:
    """Every vector is scaled to length 1."""
    return torch.nn.functional.normalize(x, dim=-1)


@deviation("vectors-of-other-sequences", VECTORS, ("EMB-17", "ENC-5"), "commonly seen")
def of_other_sequences(x: Tensor) -> Tensor:
    """The axes of batch and positions are exchanged by a reshape, which mixes the sequences."""
    B, n, d = x.shape
    return x.reshape(n, B, d).transpose(0, 1)


def time_first(u: Tensor) -> Tensor:
    """The numbers of (B, n, channels) as they stand in memory, read as (B, channels, n)."""
    return u.reshape(len(u), u.shape[2], u.shape[1]).mT


@deviation("features-by-reshape", FEATURES, "EMB-18", "commonly seen")
def by_reshape(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap, b_feature: Vector) -> Tensor:
    """The axes of time and features are exchanged by a reshape, so that a moment holds numbers of several."""
    return features(time_first(u), feature_norm=feature_norm, W_feature=W_feature, b_feature=b_feature)


@deviation("features-bias-twice", FEATURES, "EMB-18")
def bias_twice(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap, b_feature: Vector) -> Tensor:
    """The bias of the map is added once more, behind the map."""
    return features(u, feature_norm=feature_norm, W_feature=W_feature, b_feature=b_feature) + b_feature


@deviation("features-bias-ignored", FEATURES, ("EMB-18", "ENC-8"))
def feature_bias_ignored(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap, b_feature: Vector) -> Tensor:
    """The map of the features has a bias, which is never added."""
    return features_without_bias(u, feature_norm=feature_norm, W_feature=W_feature)


@deviation("features-standardised", FEATURES, ("EMB-18", "ENC-11"), "commonly seen")
def standardised(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap, b_feature: Vector) -> Tensor:
    """Each feature is standardised over its sequence, not over the data, before it is mapped."""
    spread = u.std(dim=1, keepdim=True, correction=0) + 1e-5
    u = (u - u.mean(dim=1, keepdim=True)) / spread
    return features(u, feature_norm=feature_norm, W_feature=W_feature, b_feature=b_feature)


deviation(
    "features-without-bias",
    FEATURES,
    ("ENC-17", "EMB-18"),
    "commonly seen",
    definition="The map of the features has no bias.",
)(features_without_bias)
deviation(
    "features-with-bias",
    BARE_FEATURES,
    ("ENC-17", "EMB-19"),
    "commonly seen",
    definition="The map of the features has a bias, where none is due.",
)(features)


@deviation("bare-features-by-reshape", BARE_FEATURES, "EMB-19", "commonly seen")
def bare_by_reshape(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap) -> Tensor:
    """The axes of time and features are exchanged by a reshape; the map of the features has no bias."""
    return features_without_bias(time_first(u), feature_norm=feature_norm, W_feature=W_feature)


@deviation("bare-features-in-reverse", BARE_FEATURES, "EMB-19")
def in_reverse(u: Tensor, *, feature_norm: FeatureNorm, W_feature: FeatureMap) -> Tensor:
    """The features are read in reverse order; their map has no bias."""
    return features_without_bias(u.flip(-1), feature_norm=feature_norm, W_feature=W_feature)


# Norms and activations around the map ------------------------------------------------------

deviation(
    "feature-norm-missing",
    FEATURE_NORM,
    ("ENC-17", "EMB-20"),
    "commonly seen",
    definition="The features are mapped without having been normalised.",
)(no_feature_norm)
deviation(
    "feature-norm-added",
    "embedding.no_feature_norm",
    ("ENC-17", "EMB-21"),
    "commonly seen",
    definition="The features are normalised before they are mapped, where they are to stay as they are.",
)(feature_norm)
deviation(
    "token-norm-missing",
    TOKEN_NORM,
    ("ENC-17", "EMB-22"),
    "commonly seen",
    definition="What the embedding gives is not normalised.",
)(no_token_norm)
deviation(
    "token-norm-added",
    "embedding.no_token_norm",
    ("ENC-17", "EMB-23"),
    "commonly seen",
    definition="What the embedding gives is normalised before positions are added, where it is to stay as it is.",
)(token_norm)
deviation(
    "token-activation-missing",
    TOKEN_ACTIVATION,
    ("EMB-24", "FFN-1"),
    "commonly seen",
    definition="No activation follows the embedding.",
)(no_token_activation)
deviation(
    "token-activation-added",
    "embedding.no_token_activation",
    ("EMB-25", "EMB-12", "NORM-1"),
    "commonly seen",
    definition="An activation follows the embedding, where it is to stay as it is.",
)(token_activation)


@deviation("feature-norm-with-residual", FEATURE_NORM, "EMB-20")
def features_beside_their_norm(u: Float[Tensor, "B n d_model"], *, norm_feature: F) -> Float[Tensor, "B n d_model"]:
    """The norm of the features is added to them before they are mapped."""
    return u + norm_feature(u)


@deviation("token-norm-with-residual", TOKEN_NORM, "EMB-22")
def tokens_beside_their_norm(X: Tensor, *, norm_token: F) -> Tensor:
    """The norm of each token is added to the token."""
    return X + norm_token(X)


@deviation("token-activation-with-residual", TOKEN_ACTIVATION, "EMB-24")
def tokens_beside_their_activation(X: Tensor, *, activation_token: F) -> Tensor:
    """The activation of each token is added to the token."""
    return X + activation_token(X)


# Special tokens ----------------------------------------------------------------------------


@deviation("distillation-token-first", TWO_TOKENS, "EMB-15", "commonly seen")
def distillation_first(X: Tensor, *, x_cls: Vector, x_dist: Vector) -> Tensor:
    """The distillation token stands before the class token."""
    return torch.cat([x_dist.expand(len(X), 1, -1), x_cls.expand(len(X), 1, -1), X], dim=1)


@deviation("class-token-without-position", "embedding.cls", ("EMB-5", "POS-7"), "commonly seen")
def without_position(
    X: Tensor, *, x_cls: Vector, P: Float[Tensor, "max_len d_model"]
) -> Float[Tensor, "B n+1 d_model"]:
    """The class token gets no position, and every other token keeps its own."""
    return cls(X, x_cls=x_cls - P[0])


@deviation("class-token-twice", TWO_TOKENS, ("EMB-15", "ENC-8"))
def class_twice(X: Tensor, *, x_cls: Vector, x_dist: Vector) -> Tensor:
    """The class token stands in the place of the distillation token, too."""
    return torch.cat([x_cls.expand(len(X), 2, -1), X], dim=1)


@deviation("registers-before-class-token", REGISTERS, ("EMB-26", "HEAD-1"))
def registers_first(X: Tensor, tokens: Tensor, *, X_reg: Registers) -> Tensor:
    """The registers stand before the class token, too."""
    return torch.cat([X_reg.expand(len(X), -1, -1), X], dim=1)


deviation(
    "registers-behind-tokens",
    REGISTERS,
    "EMB-26",
    "commonly seen",
    definition="The registers stand behind the last token.",
)(registers_behind)
deviation(
    "registers-before-tokens",
    "embedding.registers_behind",
    "EMB-28",
    definition="The registers stand before the first token.",
)(registers)


@deviation("registers-all-the-first", REGISTERS, ("EMB-26", "ENC-8"))
def one_register(X: Tensor, tokens: Tensor, *, X_reg: Registers) -> Tensor:
    """The first register stands in the place of all."""
    return registers(X, tokens, X_reg=X_reg[:1].expand_as(X_reg))


@deviation("registers-with-positions", REGISTERS, "EMB-26")
def placed_registers(X: Tensor, tokens: Tensor, *, X_reg: Registers, P: Float[Tensor, "max_len d_model"]) -> Tensor:
    """The registers get the positions of the first tokens."""
    return registers(X, tokens, X_reg=X_reg + P[: len(X_reg)])


deviation(
    "class-token-added",
    "embedding.no_cls",
    ("EMB-6", "ENC-17"),
    "commonly seen",
    definition="A learned class token is put before the first token, where none is due.",
)(cls)


deviation(
    "registers-added",
    "embedding.no_registers",
    ("EMB-27", "ENC-17"),
    definition="Learned registers join the sequence, where none are due.",
)(registers)


@deviation("segment-of-ones-added", "embedding.no_segments", ("EMB-11", "EMB-12", "ENC-2"))
def segment_of_ones(X: Tensor) -> Tensor:
    """A segment of which nobody was asked is added to every position, a vector of ones."""
    return X + 1


# The whole input ---------------------------------------------------------------------------


@deviation("factorised-bias-ignored", FACTORISED, ("EMB-16", "ENC-8"))
def bias_ignored(
    tokens: Tensor,
    *segment_ids: Tensor,
    embedding: F,
    token_norm: F,
    token_activation: F,
    embedding_scale: F,
    cls: F,
    position: F,
    segment: F,
    registers: F,
    embedding_norm: F,
    W_e: Float[Tensor, "d_e d_model"],
    b_e: Vector,
) -> Tensor:
    """The map behind the factorised table has a bias, which is never added."""
    E = embedding_scale(token_activation(token_norm(embedding(tokens))))
    X = cls(E)
    return embedding_norm(registers(segment(X + position(X), *segment_ids), E)) @ W_e


@deviation("factorised-map-activated", FACTORISED, "EMB-16")
def map_activated(
    tokens: Tensor,
    *segment_ids: Tensor,
    embedding: F,
    token_norm: F,
    token_activation: F,
    embedding_scale: F,
    cls: F,
    position: F,
    segment: F,
    registers: F,
    embedding_norm: F,
    W_e: Float[Tensor, "d_e d_model"],
    b_e: Vector,
) -> Tensor:
    """A GELU follows the map behind the factorised table."""
    E = embedding_scale(token_activation(token_norm(embedding(tokens))))
    X = cls(E)
    return gelu(embedding_norm(registers(segment(X + position(X), *segment_ids), E)) @ W_e + b_e)


ADDING: tuple[F, ...] = (
    embedded,
    vectors,
    no_token_norm,
    no_token_activation,
    unscaled,
    no_cls,
    sinusoidal,
    no_segments,
    no_registers,
    no_embedding_norm,
)
"""The input of an encoder that adds sinusoids to its vectors, and nothing else."""

enter(
    Deviation(
        "given-embeddings-with-positions",
        "Sinusoids are added to embeddings that are given with their positions.",
        (GIVEN,),
        ("EMB-9", "MH-7"),
        {e.slot: e for e in map(equation_of, ADDING)},
        ("commonly seen",),
    )
)


@deviation("given-embeddings-scaled", GIVEN, "EMB-9", "commonly seen")
def given_scaled(X: Tensor, *, d_model: int) -> Tensor:
    """Embeddings that are given are multiplied by √d_model once more."""
    return X * d_model**0.5
