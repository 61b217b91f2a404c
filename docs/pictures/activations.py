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
# # Activations
#
# ReLU cuts, GELU weighs: an input counts by the probability that a normal number is smaller. The same paper gives
# two approximations of it, which libraries call GELU too: one with tanh
# ([`ffn.gelu_tanh`](../ffn.md#ffn.gelu_tanh)) and one with the logistic function
# ([`ffn.quick_gelu`](../ffn.md#ffn.quick_gelu)).

# %%
import torch
from generators.figures import canvas, show

from encoder_spec.ffn import gelu, gelu_tanh, quick_gelu, relu

x = torch.linspace(-4, 3, 400, dtype=torch.float64)
figure, (left, right) = canvas(2, height=2.8)
for activation, label in ((relu, "ReLU"), (gelu, "GELU"), (quick_gelu, "quick GELU")):
    left.plot(x, activation(x), label=label)
left.set(xlabel="x", ylim=(-0.3, 2))
left.legend()
difference = gelu_tanh(x) - gelu(x)
right.plot(x, difference)
right.set(xlabel="x", title="tanh-GELU − GELU")
right.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
worst = int(difference.abs().argmax())
show(
    figure,
    "Left: ReLU, GELU and quick GELU. Right: the difference of tanh-GELU and GELU, which swings around zero.",
    f"The largest difference is {float(difference.abs().max()):.1e}, at x = {float(x[worst]):.2f}: no training curve "
    "shows it, and every comparison in float64 does.",
)
