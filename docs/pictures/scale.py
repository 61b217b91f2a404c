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
# # Why the scores are divided by √d_k
#
# The product of a query and a key is a sum of d_k terms. If these are independent with variance 1, the sum has
# variance d_k: the wider the head, the larger the scores. A softmax of large scores is all but one-hot, and there
# its gradient vanishes. Dividing by √d_k keeps the variance at 1 for every width
# ([ATT-4](../attention.md#ATT-4)).

# %%
import numpy as np
import torch
from generators.figures import canvas, show

from encoder_spec.attention import scores, scores_unscaled, weights

widths = [4, 8, 16, 32, 64, 128, 256, 512]
torch.manual_seed(0)


def measured(score):
    """The spread of the scores, the largest weight of a row, and the gradient that passes the softmax."""
    spread, largest, passing = [], [], []
    for d_k in widths:
        Q, K = (torch.randn(1, 1, 64, d_k, dtype=torch.float64) for _ in range(2))
        S = score(Q, K)
        A = weights(S)
        spread.append(float(S.std()))
        largest.append(float(A.amax(-1).mean()))
        passing.append(float((A * (1 - A)).sum(-1).mean()))
    return spread, largest, passing


scaled, unscaled = measured(scores), measured(scores_unscaled)
figure, plots = canvas(3)
for axes, label, with_scale, without in zip(
    plots, ("standard deviation of S", "largest weight of a row", "Σ A(1 − A) of a row"), scaled, unscaled, strict=True
):
    axes.plot(widths, with_scale, label="divided by √d_k")
    axes.plot(widths, without, label="not divided")
    axes.set(xscale="log", xlabel="d_k", title=label)
    axes.set_xticks([4, 32, 256], ["4", "32", "256"])
    axes.minorticks_off()
plots[0].legend()
show(
    figure,
    "Three curves against d_k. Divided, they are level; not divided, the scores spread as the root of d_k, the "
    "largest weight nears one, and the gradient through the softmax falls.",
    "64 keys; queries and keys are independent normal numbers.",
)

# %% [markdown]
# ## One row of weights
#
# The same query and the same eight keys, for a head of width 64:

# %%
Q, K = torch.randn(1, 1, 1, 64, dtype=torch.float64), torch.randn(1, 1, 8, 64, dtype=torch.float64)
figure, (left, right) = canvas(2, height=2.2)
for axes, score, title in ((left, scores, "divided by √d_k"), (right, scores_unscaled, "not divided")):
    A = weights(score(Q, K))[0, 0, 0].numpy()
    axes.bar(np.arange(8), A)
    axes.set(title=f"{title}: largest {A.max():.2f}", xlabel="key", ylim=(0, 1))
left.set_ylabel("weight")
show(figure, "Bar charts of the weights of eight keys: spread when divided, nearly one key alone when not.")
