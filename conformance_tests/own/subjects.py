"""Encoders for the suite's own tests: written by hand in another style than the specification's.

``Encoder`` has the parameter names of the torch.nn family and says nothing about itself:
no hint can help the suite. Each subclass breaks one thing on purpose.
"""

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Packed projections, as in torch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.nhead_private = heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * width, width) / math.sqrt(width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        packed = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = packed.view(batch, length, 3, self.nhead_private, -1).permute(2, 0, 3, 1, 4)
        logits = self.scale(torch.einsum("bhqc,bhkc->bhqk", q, k), width)
        probabilities = self.mask(logits, pad).softmax(-1)
        mixed = torch.einsum("bhqk,bhkc->bqhc", probabilities, v).reshape(batch, length, width)
        return self.out_proj(mixed)

    def scale(self, logits: Tensor, width: int) -> Tensor:
        return logits / math.sqrt(width // self.nhead_private)

    def mask(self, logits: Tensor, pad: Tensor | None) -> Tensor:
        return logits if pad is None else logits.masked_fill(pad[:, None, None, :], -1e30)


class Norm(nn.Module):
    """Layer normalisation by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * self.weight / self.deviation(centred) + self.bias

    def deviation(self, centred: Tensor) -> Tensor:
        return (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


class Layer(nn.Module):
    """A Post-LN layer."""

    attention: type[Attention] = Attention
    norm: type[Norm] = Norm

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = self.attention(width, heads)
        self.linear1 = nn.Linear(width, inner)
        self.linear2 = nn.Linear(inner, width)
        self.norm1 = self.norm(width)
        self.norm2 = self.norm(width)

    def forward(self, x: Tensor, pad: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, pad))
        return self.norm2(self.add(x, self.linear2(self.linear1(x).relu())))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Encoder(nn.Module):
    """A stack of layers that is called like torch's."""

    layer: type[Layer] = Layer

    def __init__(self, width: int = 30, heads: int = 5, inner: int = 44, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList([self.layer(width, heads, inner) for _ in range(depth)])

    def forward(self, src: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            src = layer(src, src_key_padding_mask)
        return src


def with_attention(broken: type[Attention]) -> type[Encoder]:
    """The encoder with another attention."""
    return type("Broken", (Encoder,), {"layer": type("BrokenLayer", (Layer,), {"attention": broken})})


def with_norm(broken: type[Norm]) -> type[Encoder]:
    """The encoder with another norm."""
    return type("Broken", (Encoder,), {"layer": type("BrokenLayer", (Layer,), {"norm": broken})})


class ScaledByModelWidth(Attention):
    """Scores divided by √d_model."""

    def scale(self, logits: Tensor, width: int) -> Tensor:
        return logits / math.sqrt(width)


class MaskIgnored(Attention):
    """The mask is accepted and never used."""

    def mask(self, logits: Tensor, pad: Tensor | None) -> Tensor:
        return logits


class MaskMultiplied(Attention):
    """Masked scores become 0 instead of −∞."""

    def mask(self, logits: Tensor, pad: Tensor | None) -> Tensor:
        return logits if pad is None else logits * ~pad[:, None, None, :]


class SoftmaxOverQueries(Attention):
    """The softmax runs over the wrong axis."""

    def mask(self, logits: Tensor, pad: Tensor | None) -> Tensor:
        weights = super().mask(logits, pad).softmax(-2)
        return weights.log()


class EpsilonOutside(Norm):
    """ε is added to the standard deviation, with a value that no variant has."""

    def deviation(self, centred: Tensor) -> Tensor:
        return centred.pow(2).mean(-1, keepdim=True).sqrt() + 1e-5


class Unbiased(Norm):
    """n − 1 under the root together with ε: neither of the published norms."""

    def deviation(self, centred: Tensor) -> Tensor:
        return (centred.pow(2).sum(-1, keepdim=True) / (centred.shape[-1] - 1) + 1e-5).sqrt()


class WithoutResidual(Layer):
    """The second residual is dropped."""

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return y


Sound = Encoder
ScoresScaledByModelWidth = with_attention(ScaledByModelWidth)
MaskNeverUsed = with_attention(MaskIgnored)
MaskAsFactor = with_attention(MaskMultiplied)
WrongSoftmax = with_attention(SoftmaxOverQueries)
EpsilonOutsideTheRoot = with_norm(EpsilonOutside)
UnbiasedUnderTheRoot = with_norm(Unbiased)
ResidualDropped = type("Broken", (Encoder,), {"layer": WithoutResidual})
