"""Tutorial styles that start from token ids, and differ in embedding and positions."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, Plain, PlainPreNorm, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, heads_mixed_up, tutorial

WRONG_SCALE = every("PlainAttention", scale=1.7)


def interleaved(length: int, width: int) -> Tensor:
    """A table with sine and cosine side by side."""
    table = torch.zeros(length, width)
    place = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table


def concatenated(length: int, width: int) -> Tensor:
    """The sines, then the cosines."""
    rate = 10000.0 ** -(torch.arange(width // 2) / (width // 2))
    angles = torch.arange(length)[:, None] * rate
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class PositionTable(nn.Module):
    """Adds a table that is no parameter."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("pe", table.unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class FromTokens(Plain):
    """Token ids, scaled by √d or not, and a table of sinusoids."""

    def __init__(self, layers: list[nn.Module], table: Callable[[int, int], Tensor], scale: float, **rest: Any) -> None:
        super().__init__(layers, **rest)
        self.embedding = nn.Embedding(41, 28)
        self.pos_encoder = PositionTable(table(29, 28))
        self.factor = scale

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(self.pos_encoder(self.embedding(tokens) * self.factor), mask)


@tutorial(
    every(FromTokens, factor=28.0),
    "embedding.unscaled",
    position="sinusoidal",
    embedding_scale="sqrt-d-model",
    layer="post-ln",
    **PLAIN,
)
def scaled_tokens_with_sinusoids() -> nn.Module:
    return FromTokens(plain_layers(), interleaved, math.sqrt(28))


@tutorial(
    WRONG_SCALE,
    "attention.scores",
    position="sinusoidal-concatenated",
    embedding_scale="none",
    layer="pre-ln",
    final_norm="norm",
    **PLAIN,
)
def tokens_with_concatenated_sinusoids() -> nn.Module:
    return FromTokens(plain_layers(PlainPreNorm), concatenated, 1.0, final=nn.LayerNorm(28))


class LearnedPositions(Plain):
    """Token ids, and a parameter (1, n, d) that is added."""

    def __init__(self) -> None:
        super().__init__(plain_layers())
        self.tok_emb = nn.Embedding(41, 28)
        self.pos_emb = nn.Parameter(torch.randn(1, 23, 28))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        hidden = None if attention_mask is None else attention_mask[:, None, None] == 0
        return self.run(self.tok_emb(input_ids) + self.pos_emb[:, : input_ids.shape[1]], hidden)


@tutorial(
    every("PlainAttention", merge=heads_mixed_up),
    "multihead.concat",
    position="learned",
    embedding_scale="none",
    layer="post-ln",
    **PLAIN,
)
def tokens_with_learned_positions() -> nn.Module:
    return LearnedPositions()


class Numbered(nn.Module):
    """Keeps table and layers under numbers of one sequence, as nn.Sequential does."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict({"word": nn.Embedding(41, 28), "pos": nn.Embedding(23, 28)})
        self.blocks = nn.Sequential(*plain_layers())

    def forward(self, token_ids: Tensor) -> Tensor:
        places = torch.arange(token_ids.shape[1], device=token_ids.device)
        return self.blocks(self.embeddings["word"](token_ids) + self.embeddings["pos"](places))


@tutorial(WRONG_SCALE, "attention.scores", position="learned", embedding_scale="none", layer="post-ln", **PLAIN)
def sequential_without_a_mask() -> nn.Module:
    return Numbered()
