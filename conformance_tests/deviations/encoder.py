"""Wrong stacks: layers left out or mixed up; what spoils all of them stands in ``calls``."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from conformance_tests.deviations import calls, deviation, wrong_constants
from encoder_spec.encoder import encoder, final_norm, no_final_norm, shared, unshared

__all__ = ["calls"]

STACK, FINAL, NO_FINAL = "encoder", "encoder.final_norm", "encoder.no_final_norm"

FFN_PARAMETERS = ("W_1", "b_1", "W_2", "b_2", "W_G", "b_G")

F: TypeAlias = Callable[..., Tensor]
Layers: TypeAlias = Sequence[F]

# Legitimate elsewhere ----------------------------------------------------------------------

deviation(
    "final-norm-missing",
    FINAL,
    "ENC-17",
    "NVIDIA-NeMo/Speech#2197",
    definition="No norm follows the last layer.",
)(no_final_norm)
deviation(
    "final-norm-too-many",
    NO_FINAL,
    ("ENC-14", "ENC-17"),
    "pytorch/pytorch#24930",
    definition="A norm with parameters of its own follows the last layer.",
)(final_norm)
deviation(
    "layers-shared",
    "encoder.unshared",
    ("ENC-15", "ENC-17"),
    "espnet/espnet#1278",
    definition="One layer is used N times instead of N layers.",
)(shared)
deviation(
    "layers-not-shared",
    "encoder.shared",
    ("ENC-16", "ENC-17"),
    definition="Every layer has parameters of its own, where one set serves all.",
)(unshared)


@deviation("ffn-shared", "encoder.unshared", ("ENC-15", "ENC-17"), "habla-liaa/encodecmae#3")
def ffn_shared(l: int, name: str) -> int:
    """All layers use one feed-forward network; the rest is their own."""
    return 0 if name in FFN_PARAMETERS else l


@deviation("attention-shared", "encoder.unshared", ("ENC-15", "ENC-17"))
def attention_shared(l: int, name: str) -> int:
    """All layers use one attention; the rest is their own."""
    return 0 if "." not in name and name not in FFN_PARAMETERS else l


@deviation("norms-shared", "encoder.unshared", ("ENC-15", "ENC-17"))
def norms_shared(l: int, name: str) -> int:
    """All layers use the same two norms; the rest is their own."""
    return 0 if name.startswith("norm_") else l


wrong_constants(
    "final-norm-eps",
    "The norm at the end has an ε of its own, 1e-3.",
    FINAL,
    ("ENC-13", "NORM-3", "NORM-7", "NORM-10", "NORM-12"),
    "commonly seen",
    **{"norm_final.eps": 1e-3},
)

# The norm at the end -----------------------------------------------------------------------


@deviation("final-norm-unused", FINAL, ("ENC-13", "ENC-8"), "NVIDIA-NeMo/Speech#2197")
def unused(X: Tensor, *, norm_final: F) -> Tensor:
    """The norm at the end exists and is not called."""
    return X


@deviation("final-norm-twice", FINAL, "ENC-13")
def final_twice(X: Tensor, *, norm_final: F) -> Tensor:
    """The norm at the end is applied to its own output once more."""
    return norm_final(norm_final(X))


@deviation("final-norm-on-first-position", FINAL, ("ENC-13", "NORM-1", "NORM-12"), "commonly seen")
def on_first(X: Tensor, *, norm_final: F) -> Tensor:
    """The norm at the end is applied to the first position alone."""
    return torch.cat([norm_final(X[:, :1]), X[:, 1:]], dim=1)


@deviation("final-norm-with-residual", FINAL, "ENC-13")
def with_residual(X: Tensor, *, norm_final: F) -> Tensor:
    """The input of the norm at the end is added to its output."""
    return X + norm_final(X)


@deviation("output-activated", NO_FINAL, "ENC-14")
def activated(X: Tensor) -> Tensor:
    """A hyperbolic tangent follows the last layer."""
    return torch.tanh(X)


@deviation("output-of-unit-length", NO_FINAL, "ENC-14", "commonly seen")
def of_unit_length(X: Tensor) -> Tensor:
    """Every output vector is scaled to length 1."""
    return torch.nn.functional.normalize(X, dim=-1)


# Layers and their order ------------------------------------------------------------------


@deviation("last-layer-not-run", STACK, ("ENC-8", "ENC-2"), "LukasHedegaard/continual-inference#70")
def last_left_out(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The last layer is not run: N − 1 of N."""
    return encoder(keep, *inputs, input=input, layers=layers[:-1], final_norm=final_norm, head=head)


@deviation("last-layer-twice", STACK, ("ENC-14", "ENC-2"))
def last_twice(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The last layer is run twice."""
    again = [*layers, layers[-1]]
    return encoder(keep, *inputs, input=input, layers=again, final_norm=final_norm, head=head)


@deviation("first-layer-repeated", STACK, "ENC-8", "espnet/espnet#1278")
def first_repeated(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The first layer is run N times; the others have parameters that nothing reads."""
    same = [layers[0]] * len(layers)
    return encoder(keep, *inputs, input=input, layers=same, final_norm=final_norm, head=head)


@deviation("layers-reversed", STACK, "ENC-2")
def backwards(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The layers are run in reverse order."""
    return encoder(keep, *inputs, input=input, layers=layers[::-1], final_norm=final_norm, head=head)


@deviation("layers-side-by-side", STACK, "ENC-2")
def side_by_side(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """Every layer reads the input of the first one, and their outputs are averaged."""
    X = input(*inputs)
    total = sum((layer(X, keep) for layer in layers), torch.zeros_like(X))
    return head(final_norm(total / len(layers)), keep)


@deviation("outputs-of-layers-averaged", STACK, ("ENC-14", "ENC-2"))
def averaged(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output is the mean of the outputs of all layers."""
    X = input(*inputs)
    total = torch.zeros_like(X)
    for layer in layers:
        X = layer(X, keep)
        total = total + X
    return head(final_norm(total / len(layers)), keep)


@deviation("input-added-to-every-layer", STACK, "ENC-2", "commonly seen")
def input_again(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The input of the stack is added to the input of every layer."""
    E = input(*inputs)
    X = torch.zeros_like(E)
    for layer in layers:
        X = layer(X + E, keep)
    return head(final_norm(X), keep)


@deviation("stack-with-residual", STACK, ("ENC-14", "ENC-2"))
def around(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The input of the first layer is added to the output of the last one."""
    E = X = input(*inputs)
    for layer in layers:
        X = layer(X, keep)
    return head(final_norm(X + E), keep)


@deviation("norm-between-layers", STACK, "ENC-2")
def between(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output of every layer but the last is normed without γ and β before the next reads it."""
    X = input(*inputs)
    for layer in layers[:-1]:
        X = torch.nn.functional.layer_norm(layer(X, keep), X.shape[-1:])
    return head(final_norm(layers[-1](X, keep)), keep)


@deviation("hidden-states-clamped", STACK, "ENC-2", "commonly seen")
def clamped(keep: Tensor, *inputs: Tensor, input: F, layers: Layers, final_norm: F, head: F) -> Tensor:
    """The output of every layer is cut off at ±1."""
    X = input(*inputs)
    for layer in layers:
        X = layer(X, keep).clamp(-1, 1)
    return head(final_norm(X), keep)
