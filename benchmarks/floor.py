"""The least that judging an encoder must cost: import torch, make it, run it forwards and backwards once, in float64.

``python -m benchmarks.floor small`` also prints how many bytes its parameters take in float64.
"""

import json
import sys

import torch

from benchmarks import encoders

BATCH, LENGTH = 3, 7


def main() -> None:
    """Run the encoder that the command line names."""
    torch.set_num_threads(1)
    encoder = getattr(encoders, sys.argv[1])().double()
    if vocabulary := getattr(getattr(encoder, "config", None), "vocab_size", 0):
        output = encoder(torch.randint(vocabulary, (BATCH, LENGTH))).last_hidden_state
    else:
        length = len(encoder.positions) if hasattr(encoder, "positions") else LENGTH
        width = next(m.normalized_shape[0] for m in encoder.modules() if isinstance(m, torch.nn.LayerNorm))
        output = encoder(torch.randn(BATCH, length, width, dtype=torch.float64))
    output.sum().backward()
    print(json.dumps({"parameters": sum(p.nbytes for p in encoder.parameters())}))


if __name__ == "__main__":
    main()
