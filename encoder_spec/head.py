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


@requirement("HEAD-2", "The classifier reads the first position alone.")
@equation("head.cls", slot="head")
def cls(
    Z: Float[Tensor, "B n d_model"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    W_cls: Float[Tensor, "d_model classes"],
    b_cls: Float[Tensor, "classes"],
) -> Float[Tensor, "B classes"]:
    r"""Classifier on the class token. Dosovitskiy et al. 2020, eq. (4); S1 §8.

    $$ y = Z_0 W + b $$

    Undefined: nothing.
    """
    return Z[:, 0] @ W_cls + b_cls


@requirement("HEAD-3", "The mean runs over the valid positions alone; padding has no weight.")
@equation("head.mean_pool", slot="head")
def mean_pool(Z: Float[Tensor, "B n d_model"], keep: Bool[Tensor, "#B 1 #n"]) -> Float[Tensor, "B d_model"]:
    r"""Mean over the valid positions. S2 §8.3.

    $$ y = \frac{\sum_j m_j Z_j}{\sum_j m_j} $$

    m_j is 1 at a valid position and 0 at padding; at least one position is valid.

    Undefined: a sequence that is all padding, which is 0/0: zeros here.
    """
    demand(keep.shape[-2] == 1, "head.mean_pool: the mask must be one for all queries, of shape (B, n)")
    m = keep.transpose(-1, -2).expand(len(Z), Z.shape[1], 1)
    return Z.masked_fill(~m, 0).sum(dim=1) / m.sum(dim=1).clamp(min=1)


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
