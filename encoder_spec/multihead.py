"""Chapter 5: several heads side by side."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("MH-2", "h divides the width that is split; anything else is refused.")
@requirement(
    "MH-1",
    "Head i holds columns i·d_k … (i+1)·d_k − 1: splitting one projection equals h separate projections.",
    algebraic=True,
)
@equation("multihead.split", slot="split", variant="heads")
def split(X: Float[Tensor, "B n hd"], *, h: int) -> Float[Tensor, "B h n d_head"]:
    r"""Split into heads. Vaswani et al. 2017, §3.2.2; S0 §3.

    $$ Q = [\, Q_1 \mid \dots \mid Q_h \,], \qquad Q_i = X W_i^Q \in \mathbb{R}^{n \times d_k} $$

    h divides the width. The head axis moves in front of the positions, so that every
    head attends over positions, not positions over heads.

    Undefined: nothing.
    """
    width = X.shape[-1]
    demand(width % h == 0, f"multihead.split: {h} heads do not divide a width of {width}")
    heads: Tensor = X.unflatten(-1, (h, width // h))
    return heads.transpose(-2, -3)


@requirement("MH-9", "Query head i reads key and value head ⌊i·g/h⌋: each serves heads that stand side by side.")
@equation("multihead.groups", slot="groups", variant="side-by-side")
def groups(X: Float[Tensor, "B n gd"], *, h: int, g: int) -> Float[Tensor, "B h n d_head"]:
    r"""Keys or values of which each head serves several queries' heads. Ainslie et al. 2023, §2.2.

    $$ K = [\, K_1 \mid \dots \mid K_g \,], \qquad \text{head } i \text{ reads } K_{\lfloor i g / h \rfloor} $$

    With i and the groups counted from 0. g = h is multi-head attention, and g = 1 multi-query attention (Shazeer 2019).

    Undefined: groups of different sizes, where g does not divide h.
    """
    demand(X.shape[-1] % g == 0, f"multihead.groups: {g} heads do not divide a width of {X.shape[-1]}")
    heads: Tensor = X.unflatten(-1, (g, -1)).transpose(-2, -3)
    return heads[:, torch.arange(h) * g // h]


@requirement("MH-3", "The heads stand side by side in their order: concatenation undoes the split.", algebraic=True)
@equation("multihead.concat", slot="merge", variant="concat")
def concat(heads: Float[Tensor, "B h n d_v"]) -> Float[Tensor, "B n hd_v"]:
    r"""Concatenation of the heads. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4, S4 §4.2.

    $$ \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) \in \mathbb{R}^{n \times h d_v} $$

    Undefined: nothing.
    """
    return heads.transpose(-2, -3).flatten(-2)


@requirement("MH-4", "The output projection equals Σ_i head_i W_i^O, plus its bias.", algebraic=True)
@equation("multihead.output", slot="output", variant="affine")
def output(
    C: Float[Tensor, "B n hd_v"], *, W_O: Float[Tensor, "hd_v d_model"], b_O: Float[Tensor, "d_model"]
) -> Float[Tensor, "B n d_model"]:
    r"""Output projection. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4.

    $$ \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W_O + b_O
       = \sum_{i=1}^{h} \mathrm{head}_i W_i^O + b_O $$

    Undefined: whether there is a bias.
    """
    return C @ W_O + b_O


@requirement("MH-5", "The output projection equals Σ_i head_i W_i^O.", algebraic=True)
@equation("multihead.output_without_bias", slot="output", variant="linear")
def output_without_bias(
    C: Float[Tensor, "B n hd_v"], *, W_O: Float[Tensor, "hd_v d_model"]
) -> Float[Tensor, "B n d_model"]:
    r"""Output projection without bias. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4, S4 §4.2.

    $$ \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W_O = \sum_{i=1}^{h} \mathrm{head}_i W_i^O $$

    Undefined: nothing.
    """
    return C @ W_O


@requirement(
    "MH-8",
    "Its parameters are 4·d_model², and 4·d_model more with biases, for h·d_k = h·d_v = d_model.",
    algebraic=True,
)
@requirement(
    "MH-7", "Without positions the sublayer is permutation-equivariant: permuted inputs give permuted outputs."
)
@requirement("MH-6", "The sublayer is Concat(head_1 … head_h) W_O of the attention of each head.")
@equation("multihead", slot="multihead", variant="self-attention")
def multihead(
    X: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    projections: Callable[..., tuple[Tensor, Tensor, Tensor]],
    split: Callable[..., Tensor],
    attention: Callable[..., Tensor],
    merge: Callable[..., Tensor],
    output: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Multi-head self-attention. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ \mathrm{MHA}(X) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W_O, \qquad
       \mathrm{head}_i = \mathrm{Attention}(Q_i, K_i, V_i) $$

    d_k = d_v = d_model / h is customary, not necessary.

    Undefined: nothing.
    """
    Q, K, V = projections(X)
    heads = attention(split(Q), split(K), split(V), keep)
    return output(merge(heads))


@requirement(
    "MH-11",
    "Its maps are 2·(1 + g/h)·d_model² entries, for h·d_k = h·d_v = d_model.",
    algebraic=True,
)
@requirement(
    "MH-10", "The sublayer is Concat(head_1 … head_h) W_O of the attention of each head, with keys of its group."
)
@equation("multihead.grouped", slot="multihead", variant="grouped-query")
def grouped(
    X: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    projections: Callable[..., tuple[Tensor, Tensor, Tensor]],
    split: Callable[..., Tensor],
    groups: Callable[..., Tensor],
    attention: Callable[..., Tensor],
    merge: Callable[..., Tensor],
    output: Callable[..., Tensor],
) -> Float[Tensor, "B n d_model"]:
    r"""Grouped-query self-attention. Ainslie et al. 2023, §2.2; Boizard et al. 2025 (EuroBERT), §2.1.

    $$ \mathrm{head}_i = \mathrm{Attention}(Q_i, K_{\lfloor i g / h \rfloor}, V_{\lfloor i g / h \rfloor}) $$

    With i and the groups counted from 0.

    Undefined: nothing.
    """
    Q, K, V = projections(X)
    heads = attention(split(Q), groups(K), groups(V), keep)
    return output(merge(heads))
