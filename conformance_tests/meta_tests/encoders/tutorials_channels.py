"""Tutorial styles of speech synthesis: features before positions, and masks that zero what is padded."""

import math

import torch
from torch import Tensor, nn

from conformance_tests.meta_tests.encoders.plain import PLAIN, PlainAttention, PlainLayer, plain_layers
from conformance_tests.meta_tests.encoders.tutorials import every, tutorial


class ChannelNorm(nn.Module):
    """A norm over the second axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.g, self.b = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        turned = x.transpose(1, -1)
        return nn.functional.layer_norm(turned, self.g.shape, self.g, self.b, 1e-4).transpose(1, -1)


class ChannelLayer(nn.Module):
    """Convolutions with kernels of one position are all its maps, and padding is set to 0 before each."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv1d(28, 28, 1) for _ in range(4))
        self.wide, self.narrow = nn.Conv1d(28, 37, 1), nn.Conv1d(37, 28, 1)
        self.norms = nn.ModuleList(ChannelNorm(28) for _ in range(2))

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        x = self.norms[0](x + self.attend(x, valid))
        return self.norms[1](x + self.narrow(self.wide(x * valid).relu() * valid) * valid)

    def attend(self, x: Tensor, valid: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(1, (4, 7)).mT for m in self.maps[:3])
        scores = self.scored(q, k).masked_fill((valid[:, None] * valid[..., None]) == 0, -1e4)
        return self.maps[3]((scores.softmax(-1) @ v).mT.flatten(1, 2))  # type: ignore[no-any-return]

    def scored(self, q: Tensor, k: Tensor) -> Tensor:
        return (q / math.sqrt(7)) @ k.mT


class Voice(nn.Module):
    """Vectors (B, d, n) and a mask (B, 1, n) that it cannot do without."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ChannelLayer() for _ in range(2))

    def forward(self, x: Tensor, x_mask: Tensor) -> Tensor:
        x = x * x_mask
        for layer in self.layers:
            x = layer(x, x_mask)
        return x * x_mask


def without_root(q: Tensor, k: Tensor) -> Tensor:
    return (q / 7) @ k.mT


@tutorial(
    every(ChannelLayer, scored=without_root),
    "attention.scores",
    {"input": "(B, d_model, n)", "mask": "x_mask: (B, 1, n), boolean, True = keep"},
    **{**PLAIN, "layer": "post-ln", "eps": 1e-4},
)
def features_before_positions() -> nn.Module:
    return Voice()


class Spoken(Voice):
    """Takes ids, makes a mask of ones for them, and returns (B, d, n)."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(31, 28), nn.Embedding(400, 28)

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        x = (self.letters(ids) + self.places.weight[: ids.shape[1]]).mT
        return super().forward(x, torch.ones_like(x[:, :1]))


@tutorial(
    every(ChannelLayer, scored=without_root),
    "attention.scores",
    {"output": "(B, d_model, n)"},
    **{**PLAIN, "layer": "post-ln", "eps": 1e-4, "embedding": "lookup", "position": "learned"},
)
def features_first_in_what_it_returns() -> nn.Module:
    return Spoken()


class ZeroedLayer(PlainLayer):
    """Sets padded positions to 0 behind each sublayer; a second mask hides them from attention."""

    def forward(self, x: Tensor, gone: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        assert gone is not None
        assert hidden is not None
        x = self.norm1(x + self.attention(x, hidden.repeat(4, 1, 1).unflatten(0, (4, -1)).transpose(0, 1)))
        x = x.masked_fill(gone[..., None], 0)
        return self.norm2(x + self.feed_forward(x)).masked_fill(gone[..., None], 0)


class Zeroed(nn.Module):
    """Two masks that say the same of padding, each in its own shape, and returns more than hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(plain_layers(ZeroedLayer))

    def forward(self, x: Tensor, mask: Tensor, slf_attn_mask: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            x = layer(x, mask, slf_attn_mask)
        return x, (~mask).double().cumsum(-1)


@tutorial(
    every(PlainAttention, scale=7.0),
    "attention.scores",
    {"mask": "slf_attn_mask: (B, 1, n), boolean, True = ignore"},
    **{**PLAIN, "layer": "post-ln"},
)
def two_masks_of_one_meaning() -> nn.Module:
    return Zeroed()
