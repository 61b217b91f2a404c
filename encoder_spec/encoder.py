"""Chapter 10: the stack of layers."""

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from encoder_spec.equation import equation, requirement


@requirement(
    "ENC-19",
    "As it is used, in the precision in which it is kept and with its own weights, the output equals the "
    "specification's up to rounding.",
)
@requirement(
    "ENC-18",
    "The output equals the specification's for hundreds of positions and for dozens of sequences, also where their "
    "lengths differ.",
)
@requirement("ENC-17", "Its parameters are those that its equations declare, with the declared shapes.")
@requirement(
    "ENC-11",
    "Every output depends on every token: beyond the first layer no keys and values can be cached.",
)
@requirement("ENC-10", "Gradients with respect to the parameters equal the specification's.")
@requirement("ENC-9", "The gradient with respect to the input equals the specification's.")
@requirement("ENC-8", "Every parameter influences the output for some input, but for the key bias, which cancels.")
@requirement("ENC-7", "Memory layout is irrelevant: a non-contiguous input gives the same output.")
@requirement("ENC-6", "The caller's input and mask are left unchanged.")
@requirement("ENC-5", "Samples of a batch are independent: each gives the same output alone.")
@requirement("ENC-4", "The output is the same with and without gradients (fast path and slow path).")
@requirement("ENC-3", "The output equals the specification's, with padding, at every valid position.")
@requirement("ENC-2", "The output equals the specification's, without padding.")
@requirement(
    "ENC-1", "The output is (B, n, d_model) for every probe, unless a head changes it, in the dtype of the parameters."
)
@equation("encoder", slot="stack", variant="plain")
def encoder(
    keep: Bool[Tensor, "#B #n #n"],
    *inputs: Tensor,
    input: Callable[..., Tensor],
    layers: Sequence[Callable[..., Tensor]],
    final_norm: Callable[..., Tensor],
    head: Callable[..., Tensor],
) -> Tensor:
    r"""Encoder. Vaswani et al. 2017, §3.1; S0 §8, S1 §8, S2 §1.2, S4 §3.2.

    $$ X^{(l+1)} = \mathrm{Layer}_l(X^{(l)}), \quad l = 0 \dots N - 1, \qquad
       Z = \mathrm{Norm}(X^{(N)}) $$

    Z is the memory that a decoder's cross-attention reads. The norm at the end is a slot:
    ``encoder.final_norm`` or nothing.

    Undefined: nothing.
    """
    X = input(*inputs)
    for layer in layers:
        X = layer(X, keep)
    return head(final_norm(X), keep)


@requirement(
    "ENC-12", "Checkpointing changes neither the output nor any gradient, and keeps less for the backward pass."
)
@equation("encoder.checkpointed", slot="stack")
def checkpointed(
    keep: Bool[Tensor, "#B #n #n"],
    *inputs: Tensor,
    input: Callable[..., Tensor],
    layers: Sequence[Callable[..., Tensor]],
    final_norm: Callable[..., Tensor],
    head: Callable[..., Tensor],
) -> Tensor:
    r"""Encoder with gradient checkpointing. Chen et al. 2016; S3 §8.

    $$ X^{(l+1)} = \mathrm{Layer}_l(X^{(l)}), \quad \text{recomputed in the backward pass} $$

    Undefined: nothing.
    """
    X = input(*inputs)
    for layer in layers:
        X = checkpoint(layer, X, keep, use_reentrant=False)
    return head(final_norm(X), keep)


@requirement("ENC-13", "A norm with parameters of its own follows the last layer.")
@equation("encoder.final_norm", slot="final_norm", variant="norm")
def final_norm(X: Float[Tensor, "B n d_model"], *, norm_final: Callable[..., Tensor]) -> Float[Tensor, "B n d_model"]:
    r"""Final norm. Xiong et al. 2020, table 1; S4 §3.2, step 6.

    $$ Z = \mathrm{LN}(X^{(N)}) $$

    Undefined: nothing.
    """
    return norm_final(X)


@requirement("ENC-14", "Nothing follows the last layer.")
@equation("encoder.no_final_norm", slot="final_norm", variant="none")
def no_final_norm(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "B n d_model"]:
    r"""Without final norm. Vaswani et al. 2017, §3.1; S0 §8, S2 §1.2.

    $$ Z = X^{(N)} $$

    Undefined: nothing.
    """
    return X


@requirement("ENC-15", "Every layer has parameters of its own: their number grows with N.", algebraic=True)
@equation("encoder.unshared", slot="sharing", variant="none")
def unshared(l: int, name: str) -> int:  # noqa: ARG001
    r"""Layers of their own. Vaswani et al. 2017, §3.1; S0 §8, S2 §1.2.

    $$ \theta_l \text{ distinct for each } l $$

    The function gives the layer whose parameter of this name layer l uses.

    Undefined: nothing.
    """
    return l


@requirement("ENC-20", "All layers have one table of relative positions, and all else of their own.", algebraic=True)
@equation("encoder.shared_bias", slot="sharing", variant="bias")
def shared_bias(l: int, name: str) -> int:
    r"""One table of relative positions for all layers. Raffel et al. 2020 (T5), §2.1; Song et al. 2020 (MPNet).

    $$ \theta_l \text{ distinct for each } l, \text{ but } R_l = R_0, \quad D_l = D_0 $$

    A norm of the table, where it has one, is that of all layers, too.

    Undefined: nothing.
    """
    return 0 if name.partition(".")[0] in ("R", "D", "norm_D") else l


@requirement("ENC-16", "All layers use the same parameters: their number does not depend on N.", algebraic=True)
@equation("encoder.shared", slot="sharing", variant="all")
def shared(l: int, name: str) -> int:  # noqa: ARG001
    r"""One layer's parameters used N times. Dehghani et al. 2018, §2.1; Lan et al. 2019 (ALBERT), §3.1; S3 §8.

    $$ \theta_l = \theta_0 \text{ for all } l $$

    Undefined: nothing.
    """
    return 0
