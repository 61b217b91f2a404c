"""The encoders that are judged: torch's own in several sizes, BERT-base, and torch's own with a defect."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Broken(nn.TransformerEncoderLayer):
    """A layer that takes no fast path, on which torch would step around the defect."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.activation_relu_or_gelu = 0


class WrongScale(Broken):
    """Scores are divided by d_k in the place of √d_k."""

    def _sa_block(self, x: Tensor, _mask: Any, key_padding_mask: Any, **_: Any) -> Tensor:
        attention = self.self_attn
        packed = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = packed.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None if key_padding_mask is None else key_padding_mask[:, None, None, :]
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=1 / q.shape[-1])
        return attention.out_proj(mixed.transpose(1, 2).flatten(2))


class WrongActivation(Broken):
    """The two maps of the feed-forward network follow each other, with nothing between them."""

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.linear2(self.linear1(x))


class LargerOfVarianceAndEpsilon(nn.LayerNorm):
    """The norm takes the larger of σ² and ε in the place of their sum."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed rows."""
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True).clamp(min=self.eps)
        return centred / variance.sqrt() * self.weight + self.bias


class WrongEpsilon(Broken):
    """Both norms take the larger of σ² and ε."""

    def __init__(self, d_model: int, *arguments: Any, **options: Any) -> None:
        super().__init__(d_model, *arguments, **options)
        self.norm1, self.norm2 = LargerOfVarianceAndEpsilon(d_model), LargerOfVarianceAndEpsilon(d_model)


class WrongMask(Broken):
    """The mask of padding is accepted and never used."""

    def _sa_block(self, x: Tensor, attn_mask: Any, _padding: Any, **options: Any) -> Tensor:
        return super()._sa_block(x, attn_mask, None, **options)


def encoder(
    layers: int,
    d_model: int,
    heads: int,
    d_ff: int,
    layer: type[nn.TransformerEncoderLayer] = nn.TransformerEncoderLayer,
) -> nn.Module:
    """Make torch's encoder, with torch's layers or with broken ones."""
    one = layer(d_model, heads, d_ff, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(one, layers, enable_nested_tensor=False)


class OfOneLength(nn.Module):
    """An encoder of two layers with a learned vector for each position, which reads sequences of one length alone."""

    def __init__(self, positions: int, d_model: int = 64) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(positions, d_model) / math.sqrt(d_model))
        self.encoder = encoder(2, d_model, 4, 4 * d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states (B, n, d_model)."""
        return self.encoder(x + self.positions)


SMALL, MIDDLE, DEEP = (2, 24, 4, 40), (6, 512, 8, 2048), (24, 1024, 16, 4096)
ENORMOUS = (102, 28672, 128, 114688)

small, middle, deep = (partial(encoder, *sizes) for sizes in (SMALL, MIDDLE, DEEP))
small_wrong_scale, small_wrong_activation, small_wrong_epsilon, small_wrong_mask = (
    partial(encoder, *SMALL, wrong) for wrong in (WrongScale, WrongActivation, WrongEpsilon, WrongMask)
)
middle_wrong_scale, middle_wrong_activation, middle_wrong_epsilon, middle_wrong_mask = (
    partial(encoder, *MIDDLE, wrong) for wrong in (WrongScale, WrongActivation, WrongEpsilon, WrongMask)
)
layers_1, layers_2, layers_4, layers_8 = (partial(encoder, layers, 256, 4, 1024) for layers in (1, 2, 4, 8))
positions_32, positions_64, positions_128, positions_256 = (partial(OfOneLength, n) for n in (32, 64, 128, 256))


def bert_base() -> nn.Module:
    """Make BERT-base by transformers, or torch's encoder of that size where it is not installed."""
    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        return encoder(12, 768, 12, 3072)
    # Eager attention is the computation of the paper, step by step.
    return BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=False)


def enormous() -> nn.Module:
    """Make an encoder of 10¹² parameters on the meta device, where nothing is allocated."""
    with torch.device("meta"):
        return encoder(*ENORMOUS)
