"""A test as people write it by hand: the encoder again in a few lines, its weights, one input, ``torch.allclose``.

It compares the outputs of one encoder that was never trained with one input and without padding.
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import encoders


def by_hand(encoder: nn.TransformerEncoder, x: Tensor) -> Tensor:
    """Return what a Post-LN encoder with GELU computes."""
    for layer in encoder.layers:
        attention = layer.self_attn
        maps = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        q, k, v = maps.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        x = layer.norm1(x + attention.out_proj((weights @ v).transpose(1, 2).flatten(2)))
        x = layer.norm2(x + layer.linear2(functional.gelu(layer.linear1(x))))
    return x


def main() -> None:
    """Compare the encoder that the command line names."""
    torch.set_num_threads(1)
    encoder = getattr(encoders, sys.argv[1])().double().eval()
    x = torch.randn(3, 7, encoder.layers[0].linear1.in_features, dtype=torch.float64)
    if not torch.allclose(encoder(x), by_hand(encoder, x)):
        sys.exit("the outputs differ")


if __name__ == "__main__":
    main()
