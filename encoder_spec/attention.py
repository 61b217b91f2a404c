"""Chapters 3 and 4: scaled dot-product attention and its mask.

Letters: Q, K, V queries, keys, values of all heads; S scores; A weights.
Axis h runs over the heads, which never mix here.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.notation import demand


@requirement("ATT-1", "Q, K and V are three independent affine maps of the same X.")
@equation("attention.projections", slot="projections", variant="affine")
def projections(
    X: Float[Tensor, "B n d_model"],
    *,
    W_Q: Float[Tensor, "d_model hd_k"],
    W_K: Float[Tensor, "d_model gd_k"],
    W_V: Float[Tensor, "d_model gd_v"],
    b_Q: Float[Tensor, "hd_k"],
    b_K: Float[Tensor, "gd_k"],
    b_V: Float[Tensor, "gd_v"],
) -> tuple[Float[Tensor, "B n hd_k"], Float[Tensor, "B n gd_k"], Float[Tensor, "B n gd_v"]]:
    r"""Queries, keys and values. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ Q = X W_Q + b_Q, \qquad K = X W_K + b_K, \qquad V = X W_V + b_V $$

    Undefined: whether there are biases. The sources' formulas have none, their code has.
    b_K shifts each row of scores by a constant and cancels in the softmax.
    """
    return X @ W_Q + b_Q, X @ W_K + b_K, X @ W_V + b_V


@requirement("ATT-2", "Q, K and V are three independent linear maps of the same X.")
@equation("attention.projections_without_bias", slot="projections", variant="linear")
def projections_without_bias(
    X: Float[Tensor, "B n d_model"],
    *,
    W_Q: Float[Tensor, "d_model hd_k"],
    W_K: Float[Tensor, "d_model gd_k"],
    W_V: Float[Tensor, "d_model gd_v"],
) -> tuple[Float[Tensor, "B n hd_k"], Float[Tensor, "B n gd_k"], Float[Tensor, "B n gd_v"]]:
    r"""Queries, keys and values without biases. Vaswani et al. 2017, §3.2.2; S0 §3, S1 §4, S4 §4.2.

    $$ Q = X W_Q, \qquad K = X W_K, \qquad V = X W_V $$

    Undefined: nothing.
    """
    return X @ W_Q, X @ W_K, X @ W_V


@requirement("ATT-13", "Q and V are affine maps of X, K is a linear one.")
@equation("attention.projections_linear_keys", slot="projections", variant="affine-but-keys")
def projections_linear_keys(
    X: Float[Tensor, "B n d_model"],
    *,
    W_Q: Float[Tensor, "d_model hd_k"],
    W_K: Float[Tensor, "d_model gd_k"],
    W_V: Float[Tensor, "d_model gd_v"],
    b_Q: Float[Tensor, "hd_k"],
    b_V: Float[Tensor, "gd_v"],
) -> tuple[Float[Tensor, "B n hd_k"], Float[Tensor, "B n gd_k"], Float[Tensor, "B n gd_v"]]:
    r"""Queries and values with biases, keys without. Radford et al. 2022 (Whisper), released code.

    $$ Q = X W_Q + b_Q, \qquad K = X W_K, \qquad V = X W_V + b_V $$

    Undefined: nothing. (A bias of the keys would cancel in the softmax.)
    """
    return X @ W_Q + b_Q, X @ W_K, X @ W_V + b_V


@requirement("ATT-4", "Var(q · k) = d_k for independent entries of zero mean and unit variance.", algebraic=True)
@requirement("ATT-3", "S[j, k] = Σ_c Q[j, c] K[k, c] / √d_k, with the width of one head under the root.")
@equation("attention.scores", slot="scores", variant="scaled")
def scores(Q: Float[Tensor, "B h n d_k"], K: Float[Tensor, "B h n d_k"]) -> Float[Tensor, "B h n n"]:
    r"""Scaled scores. Vaswani et al. 2017, §3.2.1, eq. (1); S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ S = \frac{Q K^\top}{\sqrt{d_k}} $$

    Dividing by √d_k keeps the variance of the scores at 1 whatever d_k is (ATT-4).

    Undefined: nothing.
    """
    return Q @ K.mT / math.sqrt(Q.shape[-1])


@requirement("ATT-5", "S[j, k] = Σ_c Q[j, c] K[k, c], without a scale.")
@equation(
    "attention.scores_unscaled",
    slot="scores",
    variant="unscaled",
    to_be_declared=True,
    but_beside={"bias": "bucketed", "norm": "rms"},
)
def scores_unscaled(Q: Float[Tensor, "B h n d_k"], K: Float[Tensor, "B h n d_k"]) -> Float[Tensor, "B h n n"]:
    r"""Unscaled scores. Raffel et al. 2020 (T5), which moves the scale into the initialisation.

    $$ S = Q K^\top $$

    Undefined: nothing. (Elsewhere than beside the buckets and norms of T5 this is a defect, ``scores-not-scaled``, and
    this variant has to be declared.)
    """
    return Q @ K.mT


def row_of_distance(n: int, rows: int) -> Int[Tensor, "n n"]:
    """Return for each query and key of n positions the row of the table that tells their distance; far ones share."""
    place = torch.arange(n)
    own = rows // 2
    return own + (place - place[:, None]).clamp(-own, rows - 1 - own)


@requirement("ATT-23", "To each score the product of its query with the row of a table for k − j is added.")
@equation("attention.scores_relative_keys", slot="scores", variant="relative-keys")
def scores_relative_keys(
    Q: Float[Tensor, "B h n d_k"], K: Float[Tensor, "B h n d_k"], *, D: Float[Tensor, "buckets d_k"]
) -> Float[Tensor, "B h n n"]:
    r"""Keys with relative positions. Shaw et al. 2018, §3.1–3.3, eq. (4) and (5).

    $$ S[j, k] = \frac{Q_j \left(K_k + D[o + \mathrm{clip}(k - j, -o, n_b - 1 - o)]\right)^\top}{\sqrt{d_k}},
       \qquad o = \lfloor n_b / 2 \rfloor $$

    All heads share the table. What a query asks for may depend on how far away it is to be found, which a number
    that is added to the scores cannot express.

    Undefined: which end of the table is for keys behind the query; here it is the last one. The source has a second
    table for the values, which released encoders leave out.
    """
    row = row_of_distance(Q.shape[-2], len(D)).to(D.device)
    of_distance = (Q @ D.mT).gather(-1, row.expand(*Q.shape[:2], -1, -1))
    return (Q @ K.mT + of_distance) / math.sqrt(Q.shape[-1])


def row_of_bucket(n: int, rows: int, farthest: float) -> Int[Tensor, "n n"]:
    """Return for each query and key of n positions the row of a table with the near distances in its middle.

    Half of the rows tell distances one by one. Those outside of them tell them on a logarithmic scale: the last ones
    have what is ``farthest`` less 1 away, and all beyond. The first half is for keys behind the query.
    """
    exact = rows // 4
    growth = (farthest - 1) / exact
    ends = [*range(exact), *(exact * growth ** (i / (exact - 1)) for i in range(exact))]
    place = torch.arange(n)
    before = place[:, None] - place
    # In float32 a row that ends at a whole distance does so exactly: in float64 it may end 10⁻¹⁴ before it.
    bucket = torch.searchsorted(torch.tensor(ends, dtype=torch.float32), before.abs())
    return (rows // 2 + before.sign() * bucket).clamp(0, rows - 1)


@requirement("ATT-25", "Distances that share a row end as a geometric sequence from n_b/4 to Δ − 1.", algebraic=True)
@requirement(
    "ATT-24",
    "To each score the product of its query with the key of a distance is added, and that of its key with the query "
    "of that distance: three terms, divided by √(3 d_k).",
)
@equation("attention.scores_disentangled", slot="scores", variant="disentangled")
def scores_disentangled(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    *,
    D: Float[Tensor, "buckets d_model"],
    W_Q: Float[Tensor, "d_model hd_k"],
    W_K: Float[Tensor, "d_model hd_k"],
    b_Q: Float[Tensor, "hd_k"],
    b_K: Float[Tensor, "hd_k"],
    farthest: float,
    norm_D: Callable[..., Float[Tensor, "buckets d_model"]],
) -> Float[Tensor, "B h n n"]:
    r"""Disentangled scores. He et al. 2020 (DeBERTa), §3.1; maps, norm and rows as released (v3).

    $$ \begin{gathered}
       S[j, k] = \frac{Q_j K_k^\top + Q_j \bar K_{\beta(j - k)}^\top + \bar Q_{\beta(j - k)} K_k^\top}{\sqrt{3 d_k}},
       \qquad \bar Q = \mathrm{LN}(D) W_Q + b_Q, \quad \bar K = \mathrm{LN}(D) W_K + b_K \\
       \beta(\delta) = \tfrac{n_b}{2} + \mathrm{sgn}(\delta) \begin{cases}
       |\delta| & \text{if } |\delta| \le e \\
       e + \left\lceil (e - 1) \frac{\ln (|\delta| / e)}{\ln ((\Delta - 1) / e)} \right\rceil & \text{otherwise}
       \end{cases} \\
       e = \tfrac{n_b}{4}
       \end{gathered} $$

    A distance has a query and a key as a word has, by the same maps. What lies beyond either end of the table has the
    row at this end. Released encoders have 512 rows and Δ = 512.

    Undefined: whether the last term reads the row of j − k or that of k − j. The source's formula has the latter, its
    code the former, as here.
    """
    rows, (h, n, d_k) = len(D), Q.shape[-3:]
    demand(
        rows % 4 == 0 and rows >= 8 and farthest - 1 > rows // 4,
        f"attention.scores_disentangled: {rows} rows do not tell distances up to {farthest:g}: "
        f"give 8, 12, … rows, and a distance beyond {rows // 4 + 1}",
    )
    distances = norm_D(D)
    Q_D, K_D = ((distances @ W + b).unflatten(-1, (h, d_k)).transpose(0, 1) for W, b in ((W_Q, b_Q), (W_K, b_K)))
    row = row_of_bucket(n, rows, farthest).to(D.device)
    of_queries = (Q @ K_D.mT).gather(-1, row.expand(len(Q), h, n, n))
    of_keys = (K @ Q_D.mT).gather(-1, row.mT.expand(len(Q), h, n, n)).mT
    S: Tensor = (Q @ K.mT + of_queries + of_keys) / math.sqrt(3 * d_k)
    return S


@requirement("ATT-15", "Nothing is added to the scores.")
@equation("attention.unbiased", slot="bias", variant="none")
def unbiased(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    r"""Scores without a bias. Vaswani et al. 2017, §3.2.1, eq. (1); S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ S' = S $$

    Undefined: nothing.
    """
    return S


def slopes(h: int) -> Tensor:
    """Return the slope of each head, from float64.

    For a power of two they are 2^(−8/h), 2^(−16/h), …, 2^(−8). Other heads have those of the next lower power, and then
    every second one of the next higher power.
    """
    lower = 2 ** (h.bit_length() - 1)
    i, beyond = torch.arange(1, lower + 1), torch.arange(h - lower)
    exponents = torch.cat([-8 * i / lower, -4 * (2 * beyond + 1) / lower])  # exact in any precision
    return 2.0 ** exponents.double()


@requirement(
    "ATT-17", "For h a power of two the slopes are a geometric sequence from 2^(−8/h) to 2^(−8).", algebraic=True
)
@requirement("ATT-16", "Each score is lowered by the distance of query and key, times the slope of its head.")
@equation("attention.alibi", slot="bias", variant="alibi")
def alibi(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    r"""Linear biases (ALiBi). Press et al. 2021, §3; in both directions: Portes et al. 2023 (MosaicBERT).

    $$ S'_i[j, k] = S_i[j, k] - m_i \, \lvert j - k \rvert, \qquad m_i = 2^{-8 i / h}, \quad i = 1 \dots h $$

    Nothing is learned, and no length is the last one.

    Undefined: the slopes where h is no power of two; here, as in the released code, those of the powers next to it.
    """
    place = torch.arange(S.shape[-1], dtype=S.dtype, device=S.device)
    distance = (place[:, None] - place).abs()
    return S - slopes(S.shape[-3]).to(S)[:, None, None] * distance


def buckets(n: int, rows: int, farthest: float) -> Int[Tensor, "n n"]:
    """Return for each query and key of n positions the row of the table that tells their distance.

    Half of the rows are for keys up to the query, half for keys behind it. In each half the first half of the rows
    tells distances one by one, and the others tell them on a logarithmic scale up to ``farthest``.
    """
    exact = rows // 4
    begins = [*range(exact), *(exact * (farthest / exact) ** (i / exact) for i in range(exact))]
    place = torch.arange(n)
    ahead = place - place[:, None]
    # In float32 a row that begins at a whole distance does so exactly: in float64 it may begin 10⁻¹⁴ behind it.
    row = torch.searchsorted(torch.tensor(begins, dtype=torch.float32), ahead.abs(), right=True) - 1
    return row + rows // 2 * (ahead > 0)


@requirement("ATT-19", "Distances that share a row begin as a geometric sequence from n_b/4 to Δ.", algebraic=True)
@requirement("ATT-18", "Each score is raised by the entry of a table that its head has for the distance of its key.")
@equation("attention.bucketed", slot="bias", variant="bucketed")
def bucketed(
    S: Float[Tensor, "B h n n"], *, R: Float[Tensor, "buckets h"], farthest: float
) -> Float[Tensor, "B h n n"]:
    r"""Relative positions in buckets. Raffel et al. 2020 (T5), §2.1 and released code; Song et al. 2020 (MPNet).

    $$ \begin{gathered}
       S'_i[j, k] = S_i[j, k] + R[\beta(k - j), i], \qquad
       \beta(\delta) = \tfrac{n_b}{2}\, [\delta > 0] + \begin{cases}
       |\delta| & \text{if } |\delta| < e \\
       e + \min\!\left(e - 1, \left\lfloor e \, \frac{\ln (|\delta| / e)}{\ln (\Delta / e)} \right\rfloor\right)
       & \text{otherwise} \end{cases} \\
       e = \tfrac{n_b}{4}
       \end{gathered} $$

    n_b, the number of rows, is a multiple of 4. Released encoders have 32 rows and Δ = 128.

    Undefined: nothing.
    """
    rows = len(R)
    demand(
        rows % 4 == 0 and farthest > rows // 4,
        f"attention.bucketed: {rows} rows do not tell distances up to {farthest:g}: "
        f"give 4, 8, … rows, and a distance beyond {rows // 4}",
    )
    bias = R[buckets(S.shape[-1], rows, farthest)]
    return S + bias.permute(2, 0, 1)


@requirement("ATT-21", "Each score is raised by the entry of a table that its head has for k − j, clipped to its rows.")
@equation("attention.by_distance", slot="bias", variant="by-distance")
def by_distance(S: Float[Tensor, "B h n n"], *, R: Float[Tensor, "buckets h"]) -> Float[Tensor, "B h n n"]:
    r"""Relative positions in a table. Dai et al. 2021 (CoAtNet), §2.1; clipped as in Shaw et al. 2018, §3.2.

    $$ S'_i[j, k] = S_i[j, k] + R[o + \mathrm{clip}(k - j, -o, n_b - 1 - o),\, i], \qquad
       o = \lfloor n_b / 2 \rfloor $$

    Each distance has a row up to the farthest one; keys farther away have the row of that one. A table for sequences
    of up to L positions has 2L − 1 rows.

    Undefined: which end of the table is for keys behind the query; here it is the last one.
    """
    return S + R[row_of_distance(S.shape[-1], len(R))].permute(2, 0, 1)


def row_of_places(n: int, rows: int, columns: int) -> Int[Tensor, "n n"]:
    """Return for each query and key of n positions, patches of an image last, the row of the table that tells them."""
    first, wide = n - rows * columns, 2 * columns - 1
    y, x = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).T
    found = torch.empty(n, n, dtype=torch.long)
    found[first:, first:] = (y - y[:, None] + rows - 1) * wide + (x - x[:, None] + columns - 1)
    of_patches = (2 * rows - 1) * wide
    found[:first, first:], found[first:, :first], found[:first, :first] = of_patches, of_patches + 1, of_patches + 2
    return found


@requirement("ATT-22", "Each score is raised by the entry of a table that its head has for how far patches lie apart.")
@equation("attention.by_grid", slot="bias", variant="by-grid")
def by_grid(
    S: Float[Tensor, "B h n n"], *, R: Float[Tensor, "buckets h"], rows: int, columns: int
) -> Float[Tensor, "B h n n"]:
    r"""Relative places of patches in a table. Liu et al. 2021a (Swin), §3.2; Bao et al. 2021 (BEiT), released code.

    $$ S'_i[j, k] = S_i[j, k] + R[(2 n_x - 1)(y_k - y_j + n_y - 1) + x_k - x_j + n_x - 1,\, i] $$

    The image has n_y rows of n_x patches, and patch j lies in row y_j and column x_j. The table has a row for each of
    the (2 n_y − 1)(2 n_x − 1) ways from patch to patch. A class token in front of the patches has three more, as in
    BEiT's released code: one where it reads them, one where they read it, and one for itself.

    Undefined: the order of the rows; here keys below the query, and then those right of it, come last.
    """
    read = row_of_places(S.shape[-1], rows, columns)
    needed = int(read.max()) + 1
    demand(
        len(R) >= needed,
        f"attention.by_grid: a table of {len(R)} rows does not tell how far {rows} × {columns} patches lie apart, "
        f"in a sequence of {S.shape[-1]}: give one of {needed} rows",
    )
    return S + R[read].permute(2, 0, 1)


@requirement("MASK-9", "Every query may read every key.")
@equation("attention.global_reach", slot="reach", variant="global")
def global_reach(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    r"""Attention to all positions. Vaswani et al. 2017, §3.2.1; S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ S' = S $$

    Undefined: nothing.
    """
    return S


def within(S: Tensor, distance: Callable[[Tensor], Tensor]) -> Tensor:
    """Return scores with −∞ where a condition on k − j does not hold."""
    place = torch.arange(S.shape[-1], device=S.device)
    return S.masked_fill(~distance(place - place[:, None]), -math.inf)


@requirement("MASK-10", "A query reads the keys up to w/2 positions away, to either side, and no other.")
@equation("attention.local_reach", slot="reach", variant="local")
def local_reach(S: Float[Tensor, "B h n n"], *, window: float) -> Float[Tensor, "B h n n"]:
    r"""Attention within a window. Beltagy et al. 2020 (Longformer), §3.1; Warner et al. 2024 (ModernBERT), §2.1.2.

    $$ S'[j, k] = \begin{cases} S[j, k] & \text{if } |j - k| \le w/2 \\
       -\infty & \text{otherwise} \end{cases} $$

    Through N such layers a position depends on those up to N·w/2 away.

    Undefined: whether w counts the query itself; here, as in the released code, it does not.
    """
    return within(S, lambda ahead: 2 * ahead.abs() <= window)


@requirement("MASK-11", "A query reads its own key and those before it, and no other.")
@equation("attention.causal_reach", slot="reach", variant="causal", to_be_declared=True)
def causal_reach(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    r"""Attention to earlier positions. Vaswani et al. 2017, §3.2.3 (decoder); Radford et al. 2021 (CLIP), §2.4.

    $$ S'[j, k] = \begin{cases} S[j, k] & \text{if } k \le j \\
       -\infty & \text{otherwise} \end{cases} $$

    Undefined: nothing. (An encoder reads both sides unless its owner says otherwise: elsewhere this is a defect,
    ``mask-causal``, and this variant has to be declared.)
    """
    return within(S, lambda ahead: ahead <= 0)


def _demand_mask(keep: Tensor, n: int) -> None:
    demand(keep.dtype == torch.bool, f"attention.mask: the mask must be boolean (True = keep), not {keep.dtype}")
    for axis, what in ((-1, "keys"), (-2, "queries")):
        demand(
            keep.shape[axis] in (1, n),
            f"attention.mask: the mask covers {keep.shape[axis]} {what}, but the sequence has {n} positions",
        )


@requirement("MASK-3", "With every position kept the mask changes nothing.")
@requirement("MASK-2", "The content of padding, if it is finite, never reaches a valid position.")
@requirement("MASK-1", "Masked keys get weight exactly zero; kept scores are untouched.")
@equation("attention.mask", slot="mask", variant="boolean")
def mask(S: Float[Tensor, "B h n n"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B h n n"]:
    r"""Mask. Vaswani et al. 2017, §3.2.3 (there for the decoder); S2 §3.1.

    $$ \tilde S[j, k] = \begin{cases} S[j, k] & \text{if key } k \text{ is kept for query } j \\
       -\infty & \text{otherwise} \end{cases} $$

    True means keep. The mask depends on the query's sequence, never on its head.

    Undefined: what a padded query row contains: it is never compared.
    """
    _demand_mask(keep, S.shape[-1])
    return S.masked_fill(~keep[:, None], -math.inf)


@requirement("MASK-8", "With 0 added everywhere the mask changes nothing.")
@requirement("MASK-7", "The content of masked keys, if it is finite, never reaches a valid position.")
@requirement("MASK-4", "Adding 0 for kept and −∞ for masked keys equals the boolean mask.", algebraic=True)
@equation("attention.mask_additive", slot="mask", variant="additive")
def mask_additive(S: Float[Tensor, "B h n n"], keep: Bool[Tensor, "#B #n #n"]) -> Float[Tensor, "B h n n"]:
    r"""Additive mask. Devlin et al. 2018, released code, with its finite −10000 taken to the limit.

    $$ \tilde S = S + M, \qquad M[j, k] = \begin{cases} 0 & \text{if kept} \\ -\infty & \text{otherwise} \end{cases} $$

    Undefined: a finite fill, which is right only while every score is far smaller.
    """
    _demand_mask(keep, S.shape[-1])
    M = torch.zeros_like(keep, dtype=S.dtype).masked_fill(~keep, -math.inf)
    return S + M[:, None]


@requirement("MASK-6", "A fully masked sequence leaves the outputs of every other sequence of the batch untouched.")
@requirement("MASK-5", "Rows still sum to 1 over the keys that are kept.")
@requirement("ATT-9", "Scores of ±10⁴ give finite weights.")
@requirement("ATT-8", "Adding a constant to a row of scores leaves its weights unchanged.", algebraic=True)
@requirement("ATT-7", "Every row of A sums to 1 and lies in [0, 1]; A is in general not symmetric.", algebraic=True)
@requirement("ATT-6", "A is the softmax of the scores over the keys.")
@equation("attention.weights", slot="weights", variant="softmax")
def weights(S: Float[Tensor, "B h n n"]) -> Float[Tensor, "B h n n"]:
    r"""Attention weights. Vaswani et al. 2017, §3.2.1, eq. (1); S0 §3, S1 §4, S4 §4.2.

    $$ A[j, k] = \frac{\exp S[j, k]}{\sum_{k'} \exp S[j, k']} $$

    The largest score of each row is subtracted first, which changes nothing (ATT-8)
    and keeps exp from overflowing (ATT-9).

    Undefined: a row whose keys are all masked, which is 0/0. Here its weights are zeros,
    so that no gradient is NaN; NaN or uniform weights are other choices, and no encoder
    fails for its own.
    """
    top = S.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(S.dtype).min)
    exp = torch.exp(S - top)
    # The largest term is exp 0 = 1, so that a sum below 1 is a row without any key.
    return exp / exp.sum(dim=-1, keepdim=True).clamp(min=1)


@requirement("ATT-10", "Each head's output is the average of the values with the weights A.")
@equation("attention.output", slot="values", variant="average")
def output(A: Float[Tensor, "B h n n"], V: Float[Tensor, "B h n d_v"]) -> Float[Tensor, "B h n d_v"]:
    r"""Weighted values. Vaswani et al. 2017, §3.2.1, eq. (1); S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ \mathrm{head} = A V $$

    Undefined: nothing.
    """
    return A @ V


@requirement("ATT-12", "The width of the values may differ from that of queries and keys.")
@requirement("ATT-11", "Attention is softmax(QKᵀ/√d_k) V, for each head by itself.")
@equation("attention", slot="attention", variant="dot-product")
def attention(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    V: Float[Tensor, "B h n d_v"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    rotation: Callable[..., Tensor],
    scores: Callable[..., Tensor],
    bias: Callable[..., Tensor],
    reach: Callable[..., Tensor],
    mask: Callable[..., Tensor],
    weights: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> Float[Tensor, "B h n d_v"]:
    r"""Scaled dot-product attention. Vaswani et al. 2017, §3.2.1, eq. (1); S0 §3, S1 §4, S2 §3.1, S4 §4.2.

    $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V $$

    Undefined: where dropout acts; here, as in the released code, on the weights.
    """
    A = weights(mask(reach(bias(scores(rotation(Q), rotation(K)))), keep))
    return values(dropout(A), V)


@requirement("ATT-14", "Queries and keys are normed in each head, over its d_k features, before they are compared.")
@equation("attention.normed", slot="attention", variant="normed")
def normed(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    V: Float[Tensor, "B h n d_v"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    norm_q: Callable[..., Float[Tensor, "B h n d_k"]],
    norm_k: Callable[..., Float[Tensor, "B h n d_k"]],
    rotation: Callable[..., Tensor],
    scores: Callable[..., Tensor],
    bias: Callable[..., Tensor],
    reach: Callable[..., Tensor],
    mask: Callable[..., Tensor],
    weights: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> Float[Tensor, "B h n d_v"]:
    r"""Attention with normed queries and keys. Dehghani et al. 2023 (ViT-22B), §2.

    $$ \mathrm{Attention}(Q, K, V) =
       \mathrm{softmax}\!\left(\frac{\mathrm{LN}_q(Q)\, \mathrm{LN}_k(K)^\top}{\sqrt{d_k}}\right) V $$

    Scores cannot grow without bound in training. All heads share the parameters of either norm.

    Undefined: the order of norm and rotation; here, as in released code, the norm comes first.
    """
    A = weights(mask(reach(bias(scores(rotation(norm_q(Q)), rotation(norm_k(K))))), keep))
    return values(dropout(A), V)


@requirement("ATT-26", "Queries and keys are normed over the features of all heads at once, before they are compared.")
@equation("attention.normed_across_heads", slot="attention")
def normed_across_heads(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    V: Float[Tensor, "B h n d_v"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    norm_q: Callable[..., Float[Tensor, "B n hd_k"]],
    norm_k: Callable[..., Float[Tensor, "B n hd_k"]],
    rotation: Callable[..., Tensor],
    scores: Callable[..., Tensor],
    bias: Callable[..., Tensor],
    reach: Callable[..., Tensor],
    mask: Callable[..., Tensor],
    weights: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> Float[Tensor, "B h n d_v"]:
    r"""Attention with queries and keys that are normed before they are split. Chen et al. 2023 (InternVL), as released.

    $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{\mathrm{LN}_q(Q)\, \mathrm{LN}_k(K)^\top}
       {\sqrt{d_k}}\right) V, \qquad Q = [\, Q_1, \dots, Q_h \,] $$

    The norm sees the heads of a position side by side, in their order: a head may be longer than another one.
    Queries and keys have as many heads.

    Undefined: the order of norm and rotation; here, as in released code, the norm comes first.
    """
    Q, K = across_heads(norm_q, Q), across_heads(norm_k, K)
    A = weights(mask(reach(bias(scores(rotation(Q), rotation(K)))), keep))
    return values(dropout(A), V)


def across_heads(norm: Callable[..., Tensor], X: Tensor) -> Tensor:
    """Return a norm of the features of all heads, which stand side by side in it: (B, h, n, d_k) as (B, n, h·d_k)."""
    normed: Tensor = norm(X.transpose(1, 2).flatten(2)).unflatten(2, (X.shape[1], -1)).transpose(1, 2)
    return normed


@requirement(
    "ATT-20", "Each head multiplies the features of its normed queries and of its normed keys by its own factors."
)
@equation("attention.normed_by_head", slot="attention")
def normed_by_head(
    Q: Float[Tensor, "B h n d_k"],
    K: Float[Tensor, "B h n d_k"],
    V: Float[Tensor, "B h n d_v"],
    keep: Bool[Tensor, "#B #n #n"],
    *,
    norm_q: Callable[..., Float[Tensor, "B h n d_k"]],
    norm_k: Callable[..., Float[Tensor, "B h n d_k"]],
    gamma_q: Float[Tensor, "h d_k"],
    gamma_k: Float[Tensor, "h d_k"],
    rotation: Callable[..., Tensor],
    scores: Callable[..., Tensor],
    bias: Callable[..., Tensor],
    reach: Callable[..., Tensor],
    mask: Callable[..., Tensor],
    weights: Callable[..., Tensor],
    dropout: Callable[..., Tensor],
    values: Callable[..., Tensor],
) -> Float[Tensor, "B h n d_v"]:
    r"""Attention with queries and keys that are normed in each head by its own factors. Henry et al. 2020, §3.

    $$ \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{(\gamma_q \odot \mathrm{LN}_q(Q))
       (\gamma_k \odot \mathrm{LN}_k(K))^\top}{\sqrt{d_k}}\right) V $$

    The norms themselves divide alone: their γ is 1 where the factors are all that is learned. The source has one
    learned number for all features and heads in place of the factors.

    Undefined: the order of factors and rotation; here the factors come first.
    """
    Q, K = gamma_q[:, None] * norm_q(Q), gamma_k[:, None] * norm_k(K)
    A = weights(mask(reach(bias(scores(rotation(Q), rotation(K)))), keep))
    return values(dropout(A), V)
