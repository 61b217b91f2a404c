"""The specification's forward and backward pass beside that of torch's own encoder, in one process and in turns.

Both have the size of the base model, float64 and one thread. Torch's fast path, which has no backward pass, is off.
"""

import json
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import profile

TURNS = 5
BATCH, LENGTH = 4, 64


def encoders() -> dict[str, nn.Module]:
    """Return both encoders, with the same sizes and the same equations."""
    base = Dimensions()
    ours = EncoderModule(Encoder(profile("torch-post-ln"), base), dtype=torch.float64)
    layer = nn.TransformerEncoderLayer(base.d_model, base.h, base.d_ff, dropout=0.0, batch_first=True)
    theirs = nn.TransformerEncoder(layer, base.N, enable_nested_tensor=False).double()
    return {"specification": ours.eval(), "torch": theirs.eval()}


def pass_of(encoder: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """Return what runs an encoder forwards and backwards once."""

    def once() -> None:
        encoder.zero_grad()
        encoder(x).sum().backward()

    return once


def main() -> None:
    """Print the median processor time of both, as JSON."""
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    x = torch.randn(BATCH, LENGTH, Dimensions().d_model, dtype=torch.float64, requires_grad=True)
    passes = {name: pass_of(encoder, x) for name, encoder in encoders().items()}
    taken: dict[str, list[float]] = {name: [] for name in passes}
    for turn in range(TURNS + 1):
        for name, once in passes.items():
            begun = time.process_time()
            once()
            if turn:  # the first pass of each allocates what the others use again
                taken[name].append(time.process_time() - begun)
    print(json.dumps({name: median(times) for name, times in taken.items()}))


if __name__ == "__main__":
    main()
