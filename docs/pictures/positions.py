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
# # Positions in pictures
#
# Attention reads its inputs as a set: nothing in it knows which token comes first. The encoder adds a vector
# to each token that depends on its place alone. The original one is made of sines and cosines whose wavelengths
# grow from 2π to 10 000 · 2π: [`position.sinusoidal`](../position.md#position.sinusoidal).

# %%
import numpy as np
import torch
from generators.figures import canvas, heat, show

from encoder_spec.position import sinusoidal

X = torch.zeros(1, 64, 48, dtype=torch.float64)
PE = sinusoidal(X).numpy()

figure, (axes,) = canvas(height=3)
heat(axes, PE)
axes.set(xlabel="entry of the vector", ylabel="position")
show(
    figure,
    "Heat map of 64 positions by 48 entries: fast waves on the left, ever slower ones to the right.",
    "Each row is the vector of one position. Sines and cosines stand in turn; blue is positive, red negative.",
)

# %% [markdown]
# ## A shift is a rotation
#
# The vector of position p + k follows from that of position p by turning each pair (sine, cosine) through an
# angle that depends on k alone. That is why the product of two position vectors depends on their distance only
# (the proof is beside the equation). Here it is, computed for every pair:

# %%
products = PE @ PE.T
figure, (left, right) = canvas(2, height=2.9)
heat(left, products, "PE · PEᵀ")
left.set(xlabel="position", ylabel="position")
for place in (10, 30, 50):
    right.plot(np.arange(64) - place, products[place], label=f"from position {place}")
right.set(xlabel="distance", ylabel="product")
right.legend()
spread = max(abs(np.diagonal(products, k) - np.diagonal(products, k)[0]).max() for k in range(64))
show(
    figure,
    "Left: the products of all pairs of positions, constant along diagonals. Right: as a function of distance, "
    "the curves from three positions coincide.",
    f"Along each diagonal the products differ by at most {spread:.0e}.",
)
