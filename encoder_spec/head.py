"""Chapter 11: what stands on top of the encoder."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("HEAD-1", "Without a head the encoder returns its hidden states.")
@equation("head.none", slot="head")
def none(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B n d_model"]:
    r"""No head. Vaswani et al. 2017, §3.1: the memory Z; S0 §8.

    $$ y = Z $$

    Undefined: nothing.
    """
    return Z


@requirement("HEAD-6", "The result is the pooled vector of each sequence, as long as it comes or of length 1.")
@equation("head.pooled", slot="head")
def pooled(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    pool: Callable[..., Tensor],
    length: Callable[..., Tensor],
) -> Float[Tensor, "B d_model"]:
    r"""Embedding of a sequence. Reimers & Gurevych 2019, §3; S2 §8.3.

    $$ y = \mathrm{length}(\mathrm{pool}(Z)) $$

    Undefined: nothing.
    """
    return length(pool(Z, keep))


@requirement("HEAD-7", "The result is an affine map of the pooled vector of each sequence.")
@equation("head.classifier", slot="head")
def classifier(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    pool: Callable[..., Tensor],
    length: Callable[..., Float[Tensor, "B classes"]],
    W_cls: Float[Tensor, "d_model classes"],
    b_cls: Float[Tensor, "classes"],
) -> Float[Tensor, "B classes"]:
    r"""Classifier, or projection to a shared space. Dosovitskiy et al. 2020, eq. (4); Radford et al. 2021; S1 §8.

    $$ y = \mathrm{length}(\mathrm{pool}(Z) \, W + b) $$

    Undefined: nothing.
    """
    return length(pool(Z, keep) @ W_cls + b_cls)


@requirement("HEAD-13", "The result is made of the pooled vector of each sequence alone.")
@equation("head.transformed", slot="head")
def transformed(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    pool: Callable[..., Tensor],
    transform: Callable[..., Tensor],
) -> Float[Tensor, "B *axes"]:
    r"""Any function of the pooled vector. Devlin et al. 2018, §4, as released.

    $$ y = T(\mathrm{pool}(Z)) $$

    Undefined: T, which may be any function; the suite takes it from the model itself.
    """
    return transform(pool(Z, keep))


@requirement("HEAD-15", "Each sequence gives what its valid positions give alone.")
@equation("head.read", slot="head")
def read(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B 1 #n"],
    *,
    reader: Callable[..., Tensor],
) -> Float[Tensor, "B *axes"]:
    r"""Any function of the valid positions. Lee et al. 2018 (Set Transformer), §3.2.

    $$ y = R((Z_j)_{m_j = 1}) $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: R, which may be any function of any number of positions; the suite takes it from the model itself.
    """
    return reader(Z, keep)


@requirement(
    "HEAD-16", "Each head of a learned query weighs the valid positions by a softmax of its products with them."
)
@equation("head.attention_pool", slot="reader")
def attention_pool(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B 1 #n"],
    *,
    q_pool: Float[Tensor, "h d_k"],
    W_K_pool: Float[Tensor, "h d_model d_k"],
    W_V_pool: Float[Tensor, "h d_model d_v"],
    W_O_pool: Float[Tensor, "h d_v d_model"],
) -> Float[Tensor, "B d_model"]:
    r"""Attention of a learned query. Lee et al. 2018 (Set Transformer), §3.2; Zhai et al. 2023, as released.

    $$ R(Z) = \sum_{i=1}^{h} \sum_j \alpha_{i,j} \, Z_j W^V_i W^O_i, \qquad
       \alpha_{i,j} \propto m_j \exp \frac{q_i \cdot Z_j W^K_i}{\sqrt{d_k}}, \qquad \sum_j \alpha_{i,j} = 1 $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: a sequence that is all padding: zeros here. The papers have biases as well; they are left out here.
    """
    m = valid_positions(Z, keep)
    scores = torch.einsum("hk,bnm,hmk->bnh", q_pool, Z, W_K_pool) / W_K_pool.shape[-1] ** 0.5
    weights = scores.masked_fill(~m, torch.finfo(Z.dtype).min).softmax(dim=1)
    return torch.einsum("bnh,bnm,hmv,hvd->bd", weights, Z.masked_fill(~m, 0), W_V_pool, W_O_pool)


@requirement("HEAD-14", "The vector goes through an affine map and the hyperbolic tangent.")
@equation("head.pooler", slot="transform")
def pooler(
    u: Float[Tensor, "B d_model"],
    *,
    W_pool: Float[Tensor, "d_model d_model"],
    b_pool: Float[Tensor, "d_model"],
) -> Float[Tensor, "B d_model"]:
    r"""Pooling layer. Devlin et al. 2018, as released.

    $$ T(u) = \tanh(u W_p + b_p) $$

    Undefined: nothing.
    """
    return torch.tanh(u @ W_pool + b_pool)


@requirement("HEAD-2", "The first position alone is read.")
@equation("head.first", slot="pool")
def first(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B d_model"]:
    r"""First position, where class tokens stand. Devlin et al. 2018, §3; Dosovitskiy et al. 2020, eq. (4); S1 §8.

    $$ \mathrm{pool}(Z) = Z_0 $$

    Undefined: a first position that is padding.
    """
    return Z[:, 0]


def valid_positions(Z: Tensor, keep: Tensor) -> Tensor:
    """Return which positions are valid, (B, n, 1), by a mask that is one for all queries."""
    demand(keep.shape[-2] == 1, "head: the mask must be one for all queries, of shape (B, n)")
    return keep.transpose(-1, -2).expand(len(Z), Z.shape[1], 1)


@requirement("HEAD-3", "The mean runs over the valid positions alone; padding has no weight.")
@equation("head.mean", slot="pool")
def mean(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B 1 #n"]) -> Float[Tensor, "B d_model"]:
    r"""Mean over the valid positions. Reimers & Gurevych 2019, §3; S2 §8.3.

    $$ \mathrm{pool}(Z) = \frac{\sum_j m_j Z_j}{\sum_j m_j} $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: a sequence that is all padding, which is 0/0: zeros here.
    """
    m = valid_positions(Z, keep)
    return Z.masked_fill(~m, 0).sum(dim=1) / m.sum(dim=1).clamp(min=1)


@requirement("HEAD-8", "The last valid position alone is read, wherever padding stands.")
@equation("head.last", slot="pool")
def last(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B 1 #n"]) -> Float[Tensor, "B d_model"]:
    r"""Last valid position. Neelakantan et al. 2022, §2; Wang et al. 2023, §3.2.

    $$ \mathrm{pool}(Z) = Z_{\max \{ j : m_j = 1 \}} $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: a sequence that is all padding: its first position here.
    """
    m = valid_positions(Z, keep)
    place = (m * torch.arange(Z.shape[1], device=Z.device)[:, None]).amax(dim=1)
    return Z[torch.arange(len(Z), device=Z.device), place[:, 0]]


@requirement(
    "HEAD-12", "With m valid positions the one with number m − 1 is read: the last, where padding stands behind."
)
@equation("head.counted", slot="pool")
def counted(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B 1 #n"]) -> Float[Tensor, "B d_model"]:
    r"""Last position of a sequence that is padded at its end alone. Neelakantan et al. 2022, §2, as released by others.

    $$ \mathrm{pool}(Z) = Z_{m - 1}, \qquad m = \sum_j m_j $$

    m_j is 1 at a valid position and 0 at padding. With padding in front this is not the last position.

    Undefined: a sequence that is all padding: its first position here.
    """
    number = valid_positions(Z, keep).sum(dim=1)[:, 0]
    return Z[torch.arange(len(Z), device=Z.device), number.clamp(min=1) - 1]


@requirement("HEAD-9", "Each feature is the largest over the valid positions alone.")
@equation("head.largest", slot="pool")
def largest(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B 1 #n"]) -> Float[Tensor, "B d_model"]:
    r"""Largest value of each feature. Reimers & Gurevych 2019, §3.

    $$ \mathrm{pool}(Z)_c = \max_{j \,:\, m_j = 1} Z_{j,c} $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: a sequence that is all padding: zeros here.
    """
    m = valid_positions(Z, keep)
    return Z.masked_fill(~m, -torch.inf).amax(dim=1).masked_fill(~m.any(dim=1), 0)


@requirement("HEAD-10", "The vector comes as long as it is.")
@equation("head.any_length", slot="length", variant="any")
def any_length(u: Float[Tensor, "B d_model"]) -> Float[Tensor, "B d_model"]:
    r"""As long as it comes. Reimers & Gurevych 2019, §3; S2 §8.3.

    $$ \mathrm{length}(u) = u $$

    Undefined: nothing.
    """
    return u


@requirement("HEAD-11", "The vector has length 1: the product of two of them is the cosine of their angle.")
@equation("head.unit_length", slot="length", variant="unit")
def unit_length(u: Float[Tensor, "B d_model"]) -> Float[Tensor, "B d_model"]:
    r"""Vector of length 1. Radford et al. 2021, §2.3; Wang et al. 2022b, §4.

    $$ \mathrm{length}(u) = \frac{u}{\lVert u \rVert_2} $$

    Undefined: a vector of zeros, which is 0/0: zeros here.
    """
    norm = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
    return u / torch.where(norm > 0, norm, 1)


@requirement("HEAD-4", "Logits over the vocabulary at every position, through the token embedding E itself.")
@equation("head.mlm", slot="head")
def mlm(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    activation: Callable[..., Tensor],
    norm_head: Callable[..., Tensor],
    W_mlm: Float[Tensor, "d_model d_model"],
    b_mlm: Float[Tensor, "d_model"],
    E: Float[Tensor, "V d_model"],
    b_vocab: Float[Tensor, "V"],
) -> Float[Tensor, "B n V"]:
    r"""Masked-language-model head. Devlin et al. 2018, §3.1; S2 §8.1.

    $$ y = \mathrm{LN}(\sigma(Z W + b)) \, E^\top + b_V $$

    Undefined: the transformation before E, which the paper leaves out; this is that of its released code.
    """
    return norm_head(activation(Z @ W_mlm + b_mlm)) @ E.mT + b_vocab


@requirement("HEAD-5", "Two logits for each pair of sentences, from the first position through a tanh layer.")
@equation("head.nsp", slot="head")
def nsp(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    W_pool: Float[Tensor, "d_model d_model"],
    b_pool: Float[Tensor, "d_model"],
    W_nsp: Float[Tensor, "d_model 2"],
    b_nsp: Float[Tensor, "2"],
) -> Float[Tensor, "B 2"]:
    r"""Next-sentence head. Devlin et al. 2018, §3.1; S2 §8.1.

    $$ y = \tanh(Z_0 W_p + b_p) \, W + b $$

    Undefined: the pooling layer, which the paper leaves out; this is that of its released code.
    """
    return torch.tanh(Z[:, 0] @ W_pool + b_pool) @ W_nsp + b_nsp
