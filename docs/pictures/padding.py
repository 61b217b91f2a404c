# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What padding does
#
# Sequences of one batch are padded to one length. A mask keeps the padding out: its scores become −∞, its weights
# exactly zero ([`attention.mask`](../attention.md#attention.mask)). Without it every real token pays attention to
# numbers that mean nothing, and its vector depends on how long the others in the batch happen to be.

# %%
import torch
from generators.figures import canvas, heat, show

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import profile

encoder = Encoder(profile("torch-post-ln"), Dimensions(d_model=16, h=1, d_ff=32, N=1))
generator = torch.Generator().manual_seed(3)
parameters = {
    path: torch.randn(shape, generator=generator, dtype=torch.float64) / (shape[0] ** 0.5 if len(shape) > 1 else 5)
    for path, shape in encoder.parameter_shapes().items()
}
x = torch.randn(1, 9, 16, generator=generator, dtype=torch.float64)
keep = torch.arange(9)[None] < 6

figure, (left, right) = canvas(2, height=3)
for axes, mask, title in ((left, None, "without a mask"), (right, keep, "positions 6 to 8 masked")):
    A = encoder.trace(parameters, x, keep=mask).of("attention.weights")[0][0, 0]
    heat(axes, A.numpy(), title)
    axes.set(xlabel="key")
left.set_ylabel("query")
show(
    figure,
    "Attention weights of nine positions. Without a mask every column has weight; with it the last three "
    "columns are empty.",
    "Every row sums to 1 over the keys that are kept.",
)

# %% [markdown]
# ## Padding must not reach a valid position
#
# The content of the padding is changed, and the change of the output is measured. With a mask the valid positions
# do not move by a single bit ([MASK-2](../attention.md#MASK-2)).

# %%
other = torch.where(keep[..., None], x, 10 * x.flip(1))
figure, (axes,) = canvas(height=2.2)
for mask, label in ((None, "without a mask"), (keep, "with a mask")):
    change = (encoder(parameters, x, keep=mask) - encoder(parameters, other, keep=mask))[0, :6].abs().amax(-1)
    axes.plot(range(6), change.numpy(), marker="o", label=label)
axes.set(xlabel="valid position", ylabel="change of the output")
axes.legend()
show(
    figure,
    "The change of the output at six valid positions when the padding changes: clearly above zero without a "
    "mask, exactly zero with one.",
)
