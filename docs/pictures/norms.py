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
# # Three norms under one name
#
# Sources agree on the mean and on γ and β, and disagree on where ε stands and what the variance is divided by:
# under the root as Ba et al. have it ([`norm.layer_norm`](../norm.md#norm.layer_norm)), outside the root
# ([`norm.std_plus_eps`](../norm.md#norm.std_plus_eps)), or with the standard deviation of d − 1
# ([`norm.unbiased_std_plus_eps`](../norm.md#norm.unbiased_std_plus_eps)). While the variance is near 1 nobody
# notices. They part where it is small.

# %%
import torch
from generators.figures import canvas, show

from encoder_spec.norm import layer_norm, statistics, std_plus_eps, unbiased_std_plus_eps

d, eps = 16, 1e-6
generator = torch.Generator().manual_seed(0)
direction = torch.randn(d, generator=generator, dtype=torch.float64)
direction = (direction - direction.mean()) / direction.std(unbiased=False)
gamma, beta = torch.ones(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
sigmas = torch.logspace(-8, 1, 60, dtype=torch.float64)

figure, (left, right) = canvas(2, height=2.8)
for norm, label in (
    (layer_norm, "ε under the root"),
    (std_plus_eps, "ε outside"),
    (unbiased_std_plus_eps, "ε outside, d − 1"),
):
    out = norm(sigmas[:, None] * direction, statistics=statistics, gamma=gamma, beta=beta, eps=eps)
    deviation = out.std(dim=-1, unbiased=False)
    left.plot(sigmas, deviation, label=label)
    right.plot(sigmas, (deviation - 1).abs(), label=label)
left.set(xscale="log", xlabel="σ of the input", ylabel="σ of the output")
right.set(xscale="log", yscale="log", xlabel="σ of the input", ylabel="|σ of the output − 1|")
left.legend()
show(
    figure,
    "Spread of the normed vector against that of the input. All three give about 1 for large inputs; below "
    "σ = 1e-3 the norm with ε under the root falls first, the other two only near 1e-6.",
    f"d = {d}, ε = {eps:g}, γ = 1, β = 0.",
)

# %% [markdown]
# With the divisor d − 1 the output is smaller by √((d − 1)/d) everywhere, 3 % for d = 16 and 0.07 % for d = 768:
# small enough to train, large enough to fail a comparison ([NORM-11](../norm.md#NORM-11)).
#
# ## Cancellation
#
# The variance may be computed as E[x²] − μ². On paper that is the same; in float32 an offset of the input takes the
# digits away one by one ([NORM-6](../norm.md#NORM-6)).

# %%
offsets = torch.logspace(0, 6, 40, dtype=torch.float64)
x = (direction + offsets[:, None]).to(torch.float32)
exact = statistics(x.double())[1][:, 0]
two_pass = statistics(x)[1][:, 0].double()
one_pass = (x.square().mean(-1) - x.mean(-1).square()).double()
figure, (axes,) = canvas(height=2.6)
axes.plot(offsets, ((two_pass - exact) / exact).abs() + 1e-9, label="mean of (x − μ)²")
axes.plot(offsets, ((one_pass - exact) / exact).abs() + 1e-9, label="E[x²] − μ²")
axes.set(xscale="log", yscale="log", xlabel="offset of the input", ylabel="relative error of σ²")
axes.legend()
show(
    figure,
    "Relative error of the variance in float32 against the offset of the input: the one-pass formula loses "
    "all digits near an offset of 1000, the two-pass formula keeps them far longer.",
)
