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
# # Worked example
#
# One sentence of six tokens, `[CLS] 今天 天气 真 好 [SEP]` ("The weather is really good today"),
# goes through one layer of the original encoder. Every number below was computed when this page
# was built, by the equations of this site; the parameters have one decimal, so that any entry can be
# checked by hand. The tint of a cell grows with its magnitude; red ones are negative.

# %%
import torch
from generators.matrices import formula, matrix, show

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import profile

sentence = ["[CLS]", "今天", "天气", "真", "好", "[SEP]"]
encoder = Encoder(profile("vaswani-2017"), Dimensions(d_model=4, h=2, d_ff=7, N=1, V=6))

torch.manual_seed(17)
parameters = {
    path: (0.6 * torch.randn(shape, dtype=torch.float64)).round(decimals=1)
    for path, shape in encoder.parameter_shapes().items()
}
for name in ("norm_1", "norm_2"):
    parameters[f"layers.0.{name}.gamma"] = torch.ones(4, dtype=torch.float64)
    parameters[f"layers.0.{name}.beta"] = torch.zeros(4, dtype=torch.float64)
trace = encoder.trace(parameters, torch.arange(6)[None])

# %% [markdown]
# ## Input
#
# Each token is a row of the embedding table, multiplied by the root of the width. Its position is added.

# %%
(E,), (scaled,) = trace.of("embedding.lookup"), trace.of("embedding.scale")
(PE,), (X,) = trace.of("position.sinusoidal"), trace.of("embedding.input")
show(
    formula("embedding.input"),
    matrix(r"E[x]", E[0], sentence),
    matrix(r"\sqrt{d_\text{model}} \, E[x]", scaled[0], sentence),
    matrix(r"PE", PE, sentence),
    matrix(r"X^{(0)}", X[0], sentence),
)

# %% [markdown]
# ## Queries, keys and values
#
# Three linear maps of the same matrix. Columns 1 and 2 belong to the first head, 3 and 4 to the second.

# %%
((Q, K, V),) = trace.of("attention.projections_without_bias")
show(
    formula("attention.projections_without_bias"),
    matrix("Q", Q[0], sentence),
    matrix("K", K[0], sentence),
    matrix("V", V[0], sentence),
)

# %% [markdown]
# ## Scores
#
# Row j says how well the query of token j fits the key of each token.

# %%
(S,) = trace.of("attention.scores")
show(
    formula("attention.scores"),
    matrix(r"S_1", S[0, 0], sentence, sentence),
    matrix(r"S_2", S[0, 1], sentence, sentence),
)

# %% [markdown]
# ## Weights
#
# The softmax makes of each row of scores a distribution over the tokens: every row sums to 1.

# %%
(A,) = trace.of("attention.weights")
assert torch.allclose(A.sum(dim=-1), torch.ones((), dtype=torch.float64))
show(
    formula("attention.weights"),
    matrix(r"A_1", A[0, 0], sentence, sentence),
    matrix(r"A_2", A[0, 1], sentence, sentence),
)

# %% [markdown]
# ## Heads
#
# Each head averages its values with its weights; the heads stand side by side and are mixed by one more map.

# %%
(C,), (MHA,) = trace.of("multihead.concat"), trace.of("multihead")
show(
    formula("multihead.output_without_bias"),
    matrix(r"\mathrm{Concat}(\mathrm{head}_1, \mathrm{head}_2)", C[0], sentence),
    matrix(r"\mathrm{MHA}(X)", MHA[0], sentence),
)

# %% [markdown]
# ## Residual sum and norm
#
# The sublayer's input is added to its output. Then each row is shifted to mean 0 and scaled to variance 1.

# %%
(sum_1, sum_2), (x_1, x_2) = trace.of("residual"), trace.of("norm.layer_norm")
show(
    formula("norm.layer_norm"),
    matrix(r"X + \mathrm{MHA}(X)", sum_1[0], sentence),
    matrix(r"X' = \mathrm{LN}_1(X + \mathrm{MHA}(X))", x_1[0], sentence),
)

# %% [markdown]
# ## Feed-forward network
#
# The same two maps for each row, with negative entries cut off between them.

# %%
(hidden,), (FFN,) = trace.of("ffn.relu"), trace.of("ffn")
show(
    formula("ffn"),
    matrix(r"\max(0,\, X' W_1 + b_1)", hidden[0], sentence),
    matrix(r"\mathrm{FFN}(X')", FFN[0], sentence),
)

# %% [markdown]
# ## Output
#
# A second residual sum and norm give the output of the layer: six rows of width 4, as at the input.

# %%
show(
    matrix(r"X' + \mathrm{FFN}(X')", sum_2[0], sentence),
    matrix(r"Z = \mathrm{LN}_2(X' + \mathrm{FFN}(X'))", x_2[0], sentence),
)
