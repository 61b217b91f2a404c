"""Tutorial styles that keep the arrays of all layers stacked in one, without a module for any of them."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from conformance_tests.meta_tests.encoders.tutorials import every, tutorial


def blockwise(q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, scale: float) -> Tensor:
    """Attention by blocks of keys with a running softmax: no array holds the scores or the weights."""
    most = q.new_full((*q.shape[:-1], 1), -1e30)
    total, values = torch.zeros_like(most), torch.zeros_like(q)
    for start in range(0, k.shape[-2], 2):
        block = slice(start, start + 2)
        scores = q @ k[..., block, :].mT * scale
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None, block], -1e30)
        higher = torch.maximum(most, scores.amax(-1, keepdim=True))
        weights, shrink = (scores - higher).exp(), (most - higher).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        values = values * shrink + weights @ v[..., block, :]
        most = higher
    return values / total


class Stacked(nn.Module):
    """Pre-LN with GEGLU, whose second half is activated; what is read of the maps comes first, of W_O as well."""

    def __init__(self, width: int = 24, heads: int = 2, inner: int = 40, depth: int = 2) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)

        def stacked(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(depth, *shape, generator=random) * 0.2)

        self.depth, self.heads, self.scale = depth, heads, (width // heads) ** -0.5
        self.in_proj, self.in_bias = stacked(width, 3 * width), stacked(3 * width)
        self.out_proj, self.out_bias = stacked(width, width), stacked(width)
        self.ff_in, self.ff_in_bias = stacked(width, 2 * inner), stacked(2 * inner)
        self.ff_out, self.ff_out_bias = stacked(inner, width), stacked(width)
        self.ln1_scale, self.ln1_shift = stacked(width), stacked(width)
        self.ln2_scale, self.ln2_shift = stacked(width), stacked(width)
        self.final_norm = nn.LayerNorm(width)

    def project(self, x: Tensor, l: int) -> Tensor:
        return x @ self.out_proj[l] + self.out_bias[l]

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        for l in range(self.depth):
            y = functional.layer_norm(x, x.shape[-1:], self.ln1_scale[l], self.ln1_shift[l])
            packed = (y @ self.in_proj[l] + self.in_bias[l]).unflatten(-1, (3, self.heads, -1))
            q, k, v = packed.permute(2, 0, 3, 1, 4)
            x = x + self.project(blockwise(q, k, v, keep, self.scale).transpose(1, 2).flatten(2), l)
            y = functional.layer_norm(x, x.shape[-1:], self.ln2_scale[l], self.ln2_shift[l])
            value, gate = (y @ self.ff_in[l] + self.ff_in_bias[l]).chunk(2, dim=-1)
            x = x + (value * functional.gelu(gate)) @ self.ff_out[l] + self.ff_out_bias[l]
        return self.final_norm(x)


class StackedAndTurned(Stacked):
    """The same, but W_O is stored output × input: its orientation and the order of the gates show together."""

    def project(self, x: Tensor, l: int) -> Tensor:
        return functional.linear(x, self.out_proj[l], self.out_bias[l])


STACKED = {
    "d_model": 24,
    "num_heads": 2,
    "d_ff": 40,
    "num_layers": 2,
    "layer": "pre-ln",
    "ffn": "gated-affine",
    "activation": "gelu",
    "final_norm": "norm",
}


@tutorial(every(Stacked, scale=24**-0.5), "attention.scores", **STACKED)
def stacked_arrays_with_gates() -> nn.Module:
    return Stacked()


@tutorial(every(StackedAndTurned, scale=24**-0.5), "attention.scores", **STACKED)
def stacked_arrays_with_one_map_turned() -> nn.Module:
    return StackedAndTurned()
