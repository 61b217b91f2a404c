"""Chapter 2: where a token stands.

Each equation maps the embedded sequence to one vector per position. Only its
length, width, dtype and device matter: positions do not depend on content, but
for those that a convolution hears in it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from encoder_spec.equation import equation, requirement
from encoder_spec.ffn import gelu
from encoder_spec.notation import demand
from encoder_spec.rotation import behind_tokens, grid_places


def _angles(X: Tensor) -> Tensor:
    """Pos / 10000^{2i/d} for every position and every pair i of features, in float64."""
    n, d = X.shape[-2:]
    pos = torch.arange(n, dtype=torch.float64, device=X.device)
    i = torch.arange((d + 1) // 2, dtype=torch.float64, device=X.device)
    return pos[:, None] / 10000 ** (2 * i / d)


@requirement("POS-5", "PE(p) · PE(q) depends on p − q alone (even d_model).", algebraic=True)
@requirement("POS-4", "‖PE(pos)‖² = d_model/2 for every position (even d_model).", algebraic=True)
@requirement("POS-3", "PE(pos + k) is a rotation of PE(pos) that depends on k alone (even d_model).", algebraic=True)
@requirement("POS-2", "The table has no parameters and is defined for every length, also beyond any trained one.")
@requirement("POS-1", "Even features are the sine, odd features the cosine of pos/10000^{2i/d_model}.")
@equation("position.sinusoidal", slot="position")
def sinusoidal(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "n d_model"]:
    r"""Sinusoidal positions. Vaswani et al. 2017, §3.5; S0 §2.

    $$ PE_{(pos,\,2i)} = \sin\frac{pos}{10000^{2i/d_\text{model}}}, \qquad
       PE_{(pos,\,2i+1)} = \cos\frac{pos}{10000^{2i/d_\text{model}}} $$

    pos = 0 … n − 1, i = 0 … ⌈d_model/2⌉ − 1, any length n.

    Undefined: an odd d_model. Here the last sine stands without its cosine;
    POS-3 to POS-5 then do not hold, since a pair is incomplete.
    """
    angles = _angles(X)
    PE = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    return PE[:, : X.shape[-1]].to(X.dtype)


@requirement("POS-6", "All sines stand before all cosines, at the frequencies of the interleaved layout.")
@equation("position.sinusoidal_concatenated", slot="position")
def sinusoidal_concatenated(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "n d_model"]:
    r"""Concatenated sinusoids. Marian's layout of Vaswani et al. 2017, §3.5.

    $$ PE_{pos} = \Bigl[\, \sin\tfrac{pos}{10000^{2i/d_\text{model}}} \,\Big|\,
       \cos\tfrac{pos}{10000^{2i/d_\text{model}}} \,\Bigr]_{i = 0 \dots d_\text{model}/2 - 1} $$

    d_model is even: with an odd width the halves would differ.

    Undefined: nothing. (tensor2tensor and fairseq divide by d_model/2 − 1 in the
    exponent instead: ``position.sinusoidal_tensor2tensor``.)
    """
    d = X.shape[-1]
    demand(d % 2 == 0, f"position.sinusoidal_concatenated: d_model must be even, but is {d}")
    angles = _angles(X)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(X.dtype)


@requirement("POS-10", "The frequencies fall from 1 to 1/10000, both included; counting starts from o.")
@equation("position.sinusoidal_tensor2tensor", slot="position")
def sinusoidal_tensor2tensor(X: Float[Tensor, "B n d_model"], *, offset: int) -> Float[Tensor, "n d_model"]:
    r"""Sinusoids of tensor2tensor. Vaswani et al. 2018, released code; Radford et al. 2022 (Whisper) likewise.

    $$ PE_{pos} = \Bigl[\, \sin\tfrac{pos + o}{10000^{i/(d_\text{model}/2 - 1)}} \,\Big|\,
       \cos\tfrac{pos + o}{10000^{i/(d_\text{model}/2 - 1)}} \,\Bigr]_{i = 0 \dots d_\text{model}/2 - 1} $$

    d_model is even and at least 4. fairseq, and M2M100 after it, count from o = 2.

    Undefined: the position of a padding token; here it is counted as any other.
    """
    n, d = X.shape[-2:]
    demand(d % 2 == 0 and d >= 4, f"position.sinusoidal_tensor2tensor: d_model must be even and at least 4, but is {d}")
    pos = torch.arange(offset, offset + n, dtype=torch.float64, device=X.device)
    i = torch.arange(d // 2, dtype=torch.float64, device=X.device)
    angles = pos[:, None] / 10000 ** (i / (d / 2 - 1))
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(X.dtype)


def _of_grid(X: Tensor, axes: Callable[..., Tensor], rows: int, columns: int, steps: Callable[[int], float]) -> Tensor:
    """Sines of one axis of an image, its cosines, and those of the other axis; zeros in front of the patches."""
    quarter = X.shape[-1] // 4
    demand(X.shape[-1] % 4 == 0, f"positions in a grid: d_model must be a multiple of 4, but is {X.shape[-1]}")
    i = torch.arange(quarter, dtype=torch.float64, device=X.device)
    places = axes(grid_places(X.double(), rows, columns))
    angles = places[:, :, None] / 10000 ** (i / steps(quarter))
    return behind_tokens(X, torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(1)).to(X.dtype)


@requirement(
    "POS-15", "Either half of the features tells one axis of the image: all sines, then all cosines, of c·ω_i."
)
@equation("position.sinusoidal_grid", slot="position")
def sinusoidal_grid(
    X: Float[Tensor, "B n d_model"], *, axes: Callable[..., Tensor], rows: int, columns: int
) -> Float[Tensor, "n d_model"]:
    r"""Sinusoids of rows and columns. He et al. 2021 (MAE), released code; Chen et al. 2021 (MoCo v3) likewise.

    $$ PE_j = \Bigl[\, \sin c_j \omega_i \,\Big|\, \cos c_j \omega_i \,\Big|\, \sin c'_j \omega_i \,\Big|\,
       \cos c'_j \omega_i \,\Bigr]_{i = 0 \dots d/4 - 1}, \qquad \omega_i = 10000^{-4i/d_\text{model}} $$

    c and c' are row and column of a patch, counted from 0, in the order that the slot ``axes`` gives them. What stands
    in front of the patches gets zeros. d_model is a multiple of 4.

    Undefined: nothing.
    """
    return _of_grid(X, axes, rows, columns, lambda quarter: quarter)


@requirement("POS-16", "The frequencies of either axis fall from 1 to 1/10000, both included.")
@equation("position.sinusoidal_grid_inclusive", slot="position")
def sinusoidal_grid_inclusive(
    X: Float[Tensor, "B n d_model"], *, axes: Callable[..., Tensor], rows: int, columns: int
) -> Float[Tensor, "n d_model"]:
    r"""Sinusoids of rows and columns, both ends included. Beyer et al. 2022, released code (columns first).

    $$ PE_j = \Bigl[\, \sin c_j \omega_i \,\Big|\, \cos c_j \omega_i \,\Big|\, \sin c'_j \omega_i \,\Big|\,
       \cos c'_j \omega_i \,\Bigr]_{i = 0 \dots d/4 - 1}, \qquad
       \omega_i = 10000^{-i/(d_\text{model}/4 - 1)} $$

    d_model is a multiple of 4 and at least 8.

    Undefined: nothing.
    """
    demand(X.shape[-1] >= 8, f"position.sinusoidal_grid_inclusive: d_model must be at least 8, but is {X.shape[-1]}")
    return _of_grid(X, axes, rows, columns, lambda quarter: quarter - 1)


@requirement("POS-8", "A sequence longer than the table is refused: it has no position vectors.")
@requirement("POS-7", "Position j of every sequence gets row j of the table P.")
@equation("position.learned", slot="position")
def learned(X: Float[Tensor, "B n d_model"], *, P: Float[Tensor, "max_len d_model"]) -> Float[Tensor, "n d_model"]:
    r"""Learned positions. Devlin et al. 2018, §3; Dosovitskiy et al. 2020, eq. (1); S1 §2, S2 §6.

    $$ PE_{pos} = P[pos], \qquad P \in \mathbb{R}^{n_\text{max} \times d_\text{model}} $$

    n ≤ n_max.

    Undefined: nothing.
    """
    n = X.shape[-2]
    demand(
        n <= len(P),
        f"position.learned: a sequence of {n} is longer than the table's {len(P)} rows: shorten it, or raise max_len",
    )
    return P[:n]


@requirement("POS-9", "Position j gets row j + o of the table P; the first o rows are not addressed.")
@equation("position.learned_offset", slot="position")
def learned_offset(
    X: Float[Tensor, "B n d_model"], *, P: Float[Tensor, "max_len d_model"], offset: int
) -> Float[Tensor, "n d_model"]:
    r"""Learned positions with an offset. Liu et al. 2019 (RoBERTa), released code; BART likewise.

    $$ PE_{pos} = P[pos + o] $$

    n + o ≤ n_max. RoBERTa counts from padding_idx + 1 = 2, and BART from 2.

    Undefined: the position of a padding token; here it is counted as any other.
    """
    n = X.shape[-2]
    demand(
        n + offset <= len(P),
        f"position.learned_offset: a sequence of {n} needs {n + offset} rows, but the table has {len(P)}: "
        f"shorten it, or raise max_len",
    )
    return P[offset : offset + n]


@requirement("POS-11", "Nothing is added that tells positions: a permuted sequence gives equally permuted outputs.")
@equation("position.none", slot="position")
def without_position(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "n d_model"]:
    r"""Without positions. Lee et al. 2018 (Set Transformer), §3.1.

    $$ PE_{pos} = 0 $$

    What is encoded is a set: points, agents, columns of a table. A class token stays where it is.

    Undefined: nothing. (Token ids are a sentence unless their owner says otherwise. There a missing position is a
    defect, ``position-missing``, and this variant has to be declared.)
    """
    return torch.zeros_like(X[0])


WITHOUT_POSITIONS: Mapping[str, tuple[str, ...]] = {
    "rotation": ("none",),
    "scores": ("scaled", "unscaled"),
    "bias": ("none",),
}
"""The slots of attention that may tell positions, and their variants that do not."""


def told_in_attention(choices: Mapping[str, Any]) -> bool:
    """Return whether one of the choices of an encoder, by slot, makes its attention tell positions."""
    return any(choices[slot] not in blind for slot, blind in WITHOUT_POSITIONS.items() if slot in choices)


@requirement("POS-12", "Nothing is added to the tokens: what compares queries and keys knows their positions.")
@equation("position.in_attention", slot="position", variant="in-attention")
def in_attention(X: Float[Tensor, "B n d_model"]) -> Float[Tensor, "n d_model"]:
    r"""Positions in attention alone. Su et al. 2021, §3.2; Press et al. 2021, §3.

    $$ PE_{pos} = 0 $$

    A slot of attention tells the positions: ``rotation`` turns queries and keys, ``bias`` changes their scores, or
    ``scores`` compare them with vectors of distances.

    Undefined: nothing.
    """
    return torch.zeros_like(X[0])


@requirement("POS-14", "Padding is 0 where the convolution reads it: what stands there is heard at no other position.")
@requirement("POS-13", "Each position gets a GELU of a convolution: it reads K positions, ⌊K/2⌋ of them before it.")
@equation("position.convolution", slot="position")
def convolution(
    X: Float[Tensor, "B n d_model"],
    *,
    keep: Bool[Tensor, "#B #n #n"],
    W_pos: Float[Tensor, "kernel d_group d_model"],
    b_pos: Float[Tensor, "d_model"],
) -> Float[Tensor, "B n d_model"]:
    r"""Convolutional positions. Baevski et al. 2020 (wav2vec 2.0), §2; Mohamed et al. 2019, §2.1.

    $$ PE_j = \mathrm{GELU}\Bigl(\sum_{k=0}^{K-1} \bar{x}_{j+k-\lfloor K/2 \rfloor} W_k + b\Bigr), \qquad
       \bar{x}_j = \begin{cases} x_j & \text{if } j \text{ is kept} \\ 0 & \text{otherwise} \end{cases} $$

    What lies outside of the sequence is 0, too. The features form groups of $d_c$, which divides their
    number: each feature of PE reads those of its own group. A position that no query keeps is padding. No
    registers join the sequence later: the mask is of as many positions as X.

    Undefined: which position more an even kernel reads; the released code cuts off the last result, so that
    it is one before. (That code keeps directions and lengths of W apart, which is how W is stored.)
    """
    return gelu(_convolved(_kept(X, keep, "position.convolution"), W_pos) + b_pos)


def _kept(X: Tensor, keep: Tensor, equation: str) -> Tensor:
    """X with 0 at each position that no query keeps."""
    n = X.shape[1]
    demand(keep.shape[-1] in (1, n), f"{equation}: the mask is of {keep.shape[-1]} positions, but X has {n}")
    return X.masked_fill(~keep.any(dim=-2)[..., None], 0)


def _convolved(x: Tensor, W: Tensor) -> Tensor:
    """Σ_k x[j + k − ⌊K/2⌋] W[k] within each group of features, with zeros outside of x."""
    K, d_group, width = W.shape
    demand(width % d_group == 0, f"convolved positions: groups of {d_group} features do not divide the {width} of X")
    padded = torch.nn.functional.pad(x, (0, 0, K // 2, K - 1 - K // 2))
    windows = padded.unflatten(-1, (-1, d_group)).unfold(1, K, 1)
    rows = windows.transpose(1, 2).flatten(-2)
    columns = W.unflatten(-1, (-1, d_group)).permute(2, 1, 0, 3).flatten(1, 2)
    convolved: Tensor = (rows @ columns).transpose(1, 2).flatten(-2)
    return convolved


@requirement("POS-18", "Padding is 0 where the first of several convolutions reads it.")
@requirement("POS-17", "Each of J convolutions reads what the one before gives, normalised by its features, then GELU.")
@equation("position.convolutions", slot="position")
def convolutions(
    X: Float[Tensor, "B n d_model"],
    *,
    keep: Bool[Tensor, "#B #n #n"],
    W_around: Float[Tensor, "convolutions kernel d_group d_model"],
    b_around: Float[Tensor, "convolutions d_model"],
    eps: float,
) -> Float[Tensor, "B n d_model"]:
    r"""Stacked convolutional positions. Baevski et al. 2022 (data2vec), released code (sounds).

    $$ PE_j = \bar{x}^{(J)}_j, \qquad
       \bar{x}^{(i)}_j = \mathrm{GELU}\Bigl(\frac{z_j - \mu_j}{\sqrt{\sigma_j^2 + \epsilon}}\Bigr), \quad
       z_j = \sum_{k=0}^{K-1} \bar{x}^{(i-1)}_{j+k-\lfloor K/2 \rfloor} W^{(i)}_k + b^{(i)} $$

    x̄ before the first convolution is x where it is kept and 0 where it is padding; what lies outside of the sequence is
    0 for each convolution. μ and σ² are those of the features of z at one position: the norms have no parameters.
    Groups of features and the mask are as for ``position.convolution``.

    Undefined: nothing. (Padding is 0 for the first convolution alone, so that its number is heard.)
    """
    x = _kept(X, keep, "position.convolutions")
    for W, b in zip(W_around, b_around, strict=True):
        z = _convolved(x, W) + b
        centred = z - z.mean(dim=-1, keepdim=True)
        x = gelu(centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps))
    return x
