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
# # Gradients by depth
#
# In a Post-LN layer every gradient on its way down passes both norms; in a Pre-LN layer it has the residual path to
# itself ([`layer.post_ln`](../layer.md#layer.post_ln), [`layer.pre_ln`](../layer.md#layer.pre_ln)). The gradient of
# a loss on the output is computed here for stacks of twelve layers, freshly initialised, and its size in each layer
# is plotted.

# %%
import torch
from generators.figures import canvas, show

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import profile

N = 12
last = {}
figure, (left, right) = canvas(2, height=2.8)
for name, label in (("torch-post-ln", "Post-LN"), ("torch-pre-ln", "Pre-LN, final norm")):
    torch.manual_seed(0)
    module = EncoderModule(Encoder(profile(name), Dimensions(d_model=64, h=4, d_ff=256, N=N)), dtype=torch.float64)
    x = torch.randn(4, 16, 64, dtype=torch.float64, requires_grad=True)
    target = torch.randn(4, 16, 64, dtype=torch.float64)
    (module(x) - target).square().mean().backward()
    parameters = dict(module.named_parameters())
    for axes, letter in ((left, "W_2"), (right, "W_Q")):
        norms = [float(parameters[f"layers.{l}.{letter}"].grad.norm()) for l in range(N)]
        axes.plot(range(N), norms, marker="o", markersize=3, label=label)
        axes.set(xlabel="layer", title=f"gradient of {letter}", yscale="log")
        last[label, letter] = norms[-1]
left.set_ylabel("norm")
left.legend()
ratio = last["Post-LN", "W_2"] / last["Pre-LN, final norm", "W_2"]
show(
    figure,
    "The norm of the gradient in each of twelve layers, for two parameters. For W_2 it is about the same in every "
    "layer of the Post-LN stack, and falls from layer to layer in the Pre-LN stack.",
    f"In the last layer the gradient of W_2 is {ratio:.1f} times as large under Post-LN as under Pre-LN, which is why "
    "Post-LN needs a warm-up of the learning rate (Xiong et al. 2020). One backward pass, d_model = 64.",
)
