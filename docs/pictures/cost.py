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
# # Where parameters and FLOPs go
#
# A layer has 4d² entries in its attention maps and 2·d·d_ff in the feed-forward network: with the customary
# d_ff = 4d the network holds two thirds of them, whatever d is. The work of the maps grows with the length n of the
# sequence, that of the scores with n²: the formulas are on the page of [costs](../cost.md), and the numbers here
# are theirs.

# %%
import numpy as np
from generators.figures import canvas, show

from encoder_spec.cost import report
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import profile

encoder = profile("torch-post-ln")


def counted(quantity, d_model, n=128):
    """What each part of one layer costs."""
    sizes = Dimensions(d_model=d_model, h=d_model // 64, d_ff=4 * d_model, N=1)
    return {row.part: row.number for row in report(encoder, sizes, n, 1) if row.quantity == quantity}


figure, (left, right) = canvas(2, height=3)
widths = [128, 256, 512, 768, 1024]
parameters = [counted("parameters", d) for d in widths]
bottom = np.zeros(len(widths))
for part in ("attention", "FFN", "norms"):
    share = np.array([p[part] / p["layer"] for p in parameters])
    left.bar([str(d) for d in widths], share, bottom=bottom, label=part, alpha=0.85)
    bottom += share
left.set(xlabel="d_model", title="share of the parameters of a layer")
left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncol=3)
lengths = [2**k for k in range(5, 15)]
for part in ("FFN", "attention.projections", "attention.scores"):
    right.plot(lengths, [counted("FLOPs of a layer", 768, n)[part.replace("FFN", "ffn")] for n in lengths], label=part)
right.set(xscale="log", yscale="log", xlabel="n", title="FLOPs of a layer, d_model = 768")
right.legend()
crossing = counted("crossover at n", 768)
show(
    figure,
    "Left: the feed-forward network holds two thirds of the parameters at every width. Right: FLOPs against the "
    "length of the sequence; the scores grow twice as steeply and overtake the feed-forward network.",
    f"The n² part of attention costs more than the feed-forward network from n = "
    f"{crossing['n² part of attention < FFN']:,} on.",
)
