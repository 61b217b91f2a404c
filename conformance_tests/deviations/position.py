"""Wrong positions: other angles, other orders of sine and cosine, another place to count from."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conformance_tests.deviations import deviation
from encoder_spec.ffn import gelu
from encoder_spec.position import (
    convolution,
    convolutions,
    learned,
    sinusoidal,
    sinusoidal_concatenated,
    sinusoidal_grid,
    sinusoidal_grid_inclusive,
)

SINUSOIDAL, LEARNED, OFFSET = "position.sinusoidal", "position.learned", "position.learned_offset"
TABLES = (LEARNED, OFFSET)
CONCATENATED, TENSOR2TENSOR = "position.sinusoidal_concatenated", "position.sinusoidal_tensor2tensor"
CONVOLUTION, STACKED = "position.convolution", "position.convolutions"
GRID, GRID_INCLUSIVE = "position.sinusoidal_grid", "position.sinusoidal_grid_inclusive"

Mask: TypeAlias = Bool[Tensor, "#B #n #n"]
Kernel: TypeAlias = Float[Tensor, "kernel d_group d_model"]
Vector: TypeAlias = Float[Tensor, "d_model"]
Kernels: TypeAlias = Float[Tensor, "convolutions kernel d_group d_model"]
Vectors: TypeAlias = Float[Tensor, "convolutions d_model"]


def waves(X: Tensor, exponents: Tensor, first: int = 0, base: float = 10000.0) -> Tensor:
    """Sine at even and cosine at odd features, of pos / base^exponent."""
    n, d = X.shape[-2:]
    angles = torch.arange(first, first + n, dtype=torch.float64)[:, None] / base ** exponents[: (d + 1) // 2]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :d].to(X)


def turned(X: Tensor, of_sine: Tensor, of_cosine: Tensor, quarter: tuple[float, float] = (0.0, 0.5)) -> Tensor:
    """Two sines in turn, each with exponents and a phase (in units of π) of its own."""
    pos = torch.arange(X.shape[-2], dtype=torch.float64)[:, None]
    waves = [torch.sin(pos / 10000**e + q * torch.pi) for e, q in zip((of_sine, of_cosine), quarter, strict=True)]
    return torch.stack(waves, dim=-1).flatten(-2)[:, : X.shape[-1]].to(X)


def pairs(X: Tensor) -> Tensor:
    """2i / d for every pair of features."""
    d = X.shape[-1]
    return 2 * torch.arange((d + 1) // 2, dtype=torch.float64) / d


deviation(
    "position-concatenated",
    SINUSOIDAL,
    "POS-1",
    "commonly seen",
    definition="All sines stand first and all cosines last, instead of in turn.",
)(sinusoidal_concatenated)
deviation(
    "position-interleaved",
    CONCATENATED,
    "POS-6",
    "commonly seen",
    definition="Sines and cosines stand in turn, instead of all sines first.",
)(sinusoidal)
deviation(
    "position-table-without-offset",
    OFFSET,
    "POS-9",
    "commonly seen",
    definition="The learned table is read from its first row on, without the offset.",
)(learned)
deviation(
    "position-added-beside-attention",
    "position.in_attention",
    ("POS-12", "EMB-1", "EMB-7"),
    definition="Sinusoids are added to the tokens, though attention tells positions.",
)(sinusoidal)
deviation(
    "position-added-to-a-set",
    "position.none",
    "POS-11",
    definition="Sinusoids are added, where nothing is to tell positions.",
)(sinusoidal)


@deviation(
    "position-doubled-index",
    SINUSOIDAL,
    "POS-1",
    ("jadore801120/attention-is-all-you-need-pytorch#32", "Kyubyong/transformer#38"),
)
def doubled_index(X: Tensor) -> Tensor:
    """The exponent doubles the index twice: 2·2i/d instead of 2i/d."""
    return waves(X, 2 * pairs(X))


@deviation("position-cosine-has-own-exponent", SINUSOIDAL, "POS-1", "maxjcohen/transformer#62")
def own_exponent(X: Tensor) -> Tensor:
    """Cosine columns use the exponent (2i + 1)/d instead of that of their sine."""
    return turned(X, pairs(X), pairs(X) + 1 / X.shape[-1])


@deviation("position-base-1000", SINUSOIDAL, "POS-1", "maxjcohen/transformer#62")
def base_1000(X: Tensor) -> Tensor:
    """The wavelengths grow to 1000 · 2π instead of 10000 · 2π."""
    return waves(X, pairs(X), base=1000.0)


@deviation("position-exponent-zero", SINUSOIDAL, "POS-1", "Kyubyong/transformer#81")
def exponent_zero(X: Tensor) -> Tensor:
    """Integer division makes every exponent 0, so that all waves are equal."""
    return waves(X, 0 * pairs(X))


@deviation("position-divides-by-half-width-less-one", SINUSOIDAL, "POS-1", "commonly seen")
def half_width_less_one(X: Tensor) -> Tensor:
    """The exponent runs from 0 to 1 over the pairs: i/(d/2 − 1) instead of 2i/d."""
    d = X.shape[-1]
    return waves(X, torch.arange((d + 1) // 2, dtype=torch.float64) / max(1, d // 2 - 1))


@deviation("position-starts-at-one", SINUSOIDAL, "POS-1", "graykode/nlp-tutorial#73")
def from_one(X: Tensor) -> Tensor:
    """The first position is 1 instead of 0."""
    return waves(X, pairs(X), first=1)


@deviation("position-rescaled-to-length", SINUSOIDAL, "POS-1")
def rescaled(X: Tensor) -> Tensor:
    """Positions are divided by the length of the sequence."""
    n = X.shape[-2]
    angles = torch.arange(n, dtype=torch.float64)[:, None] / n / 10000 ** pairs(X)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, : X.shape[-1]].to(X)


@deviation("position-missing", SINUSOIDAL, "POS-1", "commonly seen")
def missing(X: Tensor) -> Tensor:
    """No position is added."""
    return torch.zeros_like(X[0])


@deviation("position-one-vector-for-all", SINUSOIDAL, "POS-1", "DiffPoseTalk/DiffPoseTalk#20")
def one_for_all(X: Tensor) -> Tensor:
    """Every token gets the vector of position 1."""
    return waves(X[:, :1], pairs(X), first=1).expand(X.shape[-2:])


@deviation("position-of-the-batch", SINUSOIDAL, ("POS-1", "ENC-5"), "tanjimin/C.Origami#42")
def of_the_batch(X: Tensor) -> Tensor:
    """The position is that of the sample in the batch, not that of the token in its sequence."""
    return waves(X.transpose(0, 1), pairs(X))[:, None].expand_as(X)


@deviation("position-added-twice", SINUSOIDAL, ("POS-1", "EMB-7", "EMB-11"), "commonly seen")
def twice(X: Tensor) -> Tensor:
    """The vectors are added twice: by the table's owner and by its caller."""
    return 2 * waves(X, pairs(X))


@deviation("position-adds-its-argument", SINUSOIDAL, ("POS-1", "EMB-7", "ENC-2"), "commonly seen")
def with_argument(X: Tensor) -> Tensor:
    """The sum is formed as x + pe(x) where pe(x) contains x already."""
    return X + waves(X, pairs(X))


@deviation("position-scaled-by-root-of-width", SINUSOIDAL, ("POS-1", "EMB-7", "EMB-11"), "commonly seen")
def scaled(X: Tensor, *, d_model: int) -> Tensor:
    """The vectors are multiplied by √d_model together with the embedding."""
    return d_model**0.5 * waves(X, pairs(X))


@deviation("position-in-half-precision", SINUSOIDAL, ("POS-1", "EMB-7", "EMB-11"), "lyuwenyu/RT-DETR#677")
def half_precision(X: Tensor) -> Tensor:
    """The table is kept in float16, whatever the encoder computes in."""
    return waves(X, pairs(X)).half().to(X)


@deviation("learned-position-missing", TABLES, ("POS-7", "POS-9", "EMB-7", "EMB-8", "EMB-11"))
def learned_missing(X: Tensor, *, P: Float[Tensor, "max_len d_model"]) -> Tensor:
    """The table exists and is never added."""
    return torch.zeros_like(X[0])


@deviation("learned-position-of-the-batch", LEARNED, ("POS-7", "ENC-5"), "tanjimin/C.Origami#42")
def learned_of_the_batch(X: Tensor, *, P: Float[Tensor, "max_len d_model"]) -> Tensor:
    """The row is that of the sample in the batch, not that of the token in its sequence."""
    return P[: len(X), None].expand_as(X)


deviation(
    "position-frequencies-of-the-paper",
    TENSOR2TENSOR,
    "POS-10",
    "commonly seen",
    definition="The exponent is 2i/d, where it is to run from 0 to 1.",
)(sinusoidal_concatenated)
deviation(
    "grid-frequencies-of-one-axis",
    GRID_INCLUSIVE,
    "POS-16",
    definition="The exponent is 4i/d, where it is to run from 0 to 1 along either axis.",
)(sinusoidal_grid)
deviation(
    "grid-frequencies-to-the-end",
    GRID,
    "POS-15",
    definition="The exponent runs from 0 to 1, where it is 4i/d along either axis.",
)(sinusoidal_grid_inclusive)


deviation(
    "grid-as-a-sequence",
    (GRID, GRID_INCLUSIVE),
    ("POS-15", "POS-16", "ROT-11", "ROT-12"),
    "commonly seen",
    definition="Patches are counted through as a sequence, row after row.",
)(sinusoidal)


@deviation(
    "convolution-hears-padding",
    CONVOLUTION,
    ("POS-14", "MASK-2", "ENC-3"),
    "huggingface/transformers#25621",
)
def hears_padding(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """The convolution reads padding too, so that padding changes the valid positions beside it."""
    return convolution(X, keep=torch.ones_like(keep), W_pos=W_pos, b_pos=b_pos)


def convolved(X: Tensor, keep: Tensor, W_pos: Tensor, before: int) -> Tensor:
    """Return the convolution alone, with so many of the positions that it reads before each."""
    K, d_group, width = W_pos.shape
    heard = torch.nn.functional.pad(X.masked_fill(~keep.any(dim=-2)[..., None], 0), (0, 0, before, K - 1 - before))
    return torch.nn.functional.conv1d(heard.mT, W_pos.permute(2, 1, 0), groups=width // d_group).mT


@deviation("convolution-trimmed-at-the-front", CONVOLUTION, "POS-13", "commonly seen")
def trimmed_at_the_front(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """The first result of the convolution is cut off instead of the last: each position reads one place too far."""
    return gelu(convolved(X, keep, W_pos, len(W_pos) // 2 - 1) + b_pos)


@deviation("convolution-of-the-past-alone", CONVOLUTION, "POS-13", "commonly seen")
def of_the_past(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """All zeros stand in front of the sequence, so that each position reads itself and what lies before it."""
    return gelu(convolved(X, keep, W_pos, len(W_pos) - 1) + b_pos)


@deviation("convolution-without-activation", CONVOLUTION, "POS-13", "commonly seen")
def not_activated(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """No GELU follows the convolution."""
    return convolved(X, keep, W_pos, len(W_pos) // 2) + b_pos


@deviation("convolution-of-groups-in-turn", CONVOLUTION, "POS-13")
def groups_in_turn(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """Each group reads every G-th feature instead of features side by side."""
    in_turn = X.unflatten(-1, (W_pos.shape[1], -1)).transpose(-1, -2).flatten(-2)
    return convolution(in_turn, keep=keep, W_pos=W_pos, b_pos=b_pos)


@deviation("convolution-backwards", CONVOLUTION, "POS-13", "commonly seen")
def backwards(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """The kernel is applied from its last entry to its first."""
    return convolution(X, keep=keep, W_pos=W_pos.flip(0), b_pos=b_pos)


@deviation("convolution-bias-ignored", CONVOLUTION, ("POS-13", "ENC-8"))
def bias_ignored(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """The convolution has a bias, which is never added."""
    return convolution(X, keep=keep, W_pos=W_pos, b_pos=torch.zeros_like(b_pos))


@deviation("convolution-missing", CONVOLUTION, ("POS-13", "EMB-7", "ENC-8"), "commonly seen")
def convolution_missing(X: Tensor, *, keep: Mask, W_pos: Kernel, b_pos: Vector) -> Tensor:
    """The convolution exists, and what it hears is never added."""
    return torch.zeros_like(X)


# Several convolutions, one behind the other ------------------------------------------------


def stacked(
    X: Tensor, keep: Tensor, W: Tensor, b: Tensor, behind: Callable[[Tensor], Tensor], before: int | None = None
) -> Tensor:
    """Return what convolutions give, one behind the other, with a function behind each."""
    x = X.masked_fill(~keep.any(dim=-2)[..., None], 0)
    everything = torch.ones_like(keep)
    for kernel, bias in zip(W, b, strict=True):
        x = behind(convolved(x, everything, kernel, len(kernel) // 2 if before is None else before) + bias)
    return x


def standardised(z: Tensor, eps: float) -> Tensor:
    """Return vectors with mean 0 and variance 1."""
    return torch.nn.functional.layer_norm(z, z.shape[-1:], eps=eps)


@deviation("convolutions-of-positions-hear-padding", STACKED, ("POS-18", "MASK-2", "ENC-3"))
def stack_hears_padding(X: Tensor, *, keep: Mask, W_around: Kernels, b_around: Vectors, eps: float) -> Tensor:
    """The first of several convolutions reads padding too."""
    return convolutions(X, keep=torch.ones_like(keep), W_around=W_around, b_around=b_around, eps=eps)


@deviation("convolutions-of-positions-without-norms", STACKED, "POS-17", "commonly seen")
def stack_without_norms(X: Tensor, *, keep: Mask, W_around: Kernels, b_around: Vectors, eps: float) -> Tensor:
    """No norm stands behind the convolutions of positions."""
    return stacked(X, keep, W_around, b_around, gelu)


@deviation("convolutions-of-positions-activated-first", STACKED, "POS-17", "commonly seen")
def stack_activated_first(X: Tensor, *, keep: Mask, W_around: Kernels, b_around: Vectors, eps: float) -> Tensor:
    """GELU stands before the norms of the convolutions of positions instead of behind them."""
    return stacked(X, keep, W_around, b_around, lambda z: standardised(gelu(z), eps))


@deviation("convolutions-of-positions-alone", STACKED, ("POS-17", "ENC-8"))
def stack_of_one(X: Tensor, *, keep: Mask, W_around: Kernels, b_around: Vectors, eps: float) -> Tensor:
    """Only the first of the convolutions of positions is applied."""
    return convolutions(X, keep=keep, W_around=W_around[:1], b_around=b_around[:1], eps=eps)


@deviation("convolutions-of-positions-trimmed-at-the-front", STACKED, "POS-17", "commonly seen")
def stack_of_the_past(X: Tensor, *, keep: Mask, W_around: Kernels, b_around: Vectors, eps: float) -> Tensor:
    """Each of the convolutions of positions reads one place too far: the first result is cut off."""
    return stacked(X, keep, W_around, b_around, lambda z: gelu(standardised(z, eps)), W_around.shape[1] // 2 - 1)
