"""The sizes of an encoder, and symbolic shapes made concrete by them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Self

from encoder_spec.notation import SYMBOLS, demand

Shape = tuple[int, ...]

OF_STAGES = ("widths", "strides")
"""Sizes of which each stage has its own."""


@dataclass(frozen=True)
class Dimensions:
    """Sizes of an encoder; by default those of the base model of Vaswani et al. 2017.

    ``d_k`` and ``d_v`` are d_model/h, ``g`` is h, ``d_e`` is d_model, and ``patch_width`` is ``patch`` unless given;
    ``d_group`` is the whole width unless given. ``widths`` and ``strides`` have those of each stage that samples pass,
    by default those of wav2vec 2.0. ``rows`` and ``columns`` are those of the images that an encoder sees:
    ``Encoder.seeing`` fills them in.

    Raises:
        SpecificationError: if a size is not a positive integer, if h does not
            divide d_model and no head width is given, if groups of features do not divide d_model and d_e, or if
            there are not as many strides as widths.
    """

    d_model: int = 512
    h: int = 8
    g: int = 0
    d_ff: int = 2048
    N: int = 6
    d_k: int = 0
    d_v: int = 0
    d_e: int = 0
    V: int = 37000
    buckets: int = 32
    max_len: int = 512
    r: int = 4
    kernel: int = 128
    d_group: int = 0
    convolutions: int = 5
    segments: int = 2
    channels: int = 3
    patch: int = 16
    patch_width: int = 0
    rows: int = 1
    columns: int = 1
    classes: int = 1000
    widths: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    strides: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)

    def __post_init__(self) -> None:
        for name, size in self.sizes().items():
            optional = name in ("g", "d_k", "d_v", "d_e", "d_group", "patch_width")
            demand(
                isinstance(size, int) and size >= (0 if optional else 1),
                f"{SYMBOLS[name].word} ({name}) must be a positive integer, but is {size!r}",
            )
        demand(
            0 < len(self.widths) == len(self.strides) and min(*self.widths, *self.strides) > 0,
            f"each stage needs a width and a stride, but there are {self.widths} and {self.strides}",
        )
        object.__setattr__(self, "g", self.g or self.h)
        object.__setattr__(self, "d_e", self.d_e or self.d_model)
        width = gcd(self.d_model, self.d_e)
        object.__setattr__(self, "d_group", self.d_group or width)
        demand(
            width % self.d_group == 0,
            f"groups of {self.d_group} features do not divide d_model = {self.d_model} and d_e = {self.d_e}",
        )
        object.__setattr__(self, "patch_width", self.patch_width or self.patch)
        for name in ("d_k", "d_v"):
            if not getattr(self, name):
                demand(
                    self.d_model % self.h == 0,
                    f"the {self.h} heads do not divide d_model = {self.d_model}: "
                    f"choose h among its divisors, or give d_k and d_v",
                )
                object.__setattr__(self, name, self.d_model // self.h)

    def replace(self, **sizes: Any) -> Self:
        """Return these sizes with others in their place; a width that has a default takes it anew.

        As many heads share keys as before.
        """
        if {"d_model", "h"} & set(sizes):
            sizes = {"d_k": 0, "d_v": 0} | sizes
        if "h" in sizes:
            sizes = {"g": self.g * sizes["h"] // self.h} | sizes
        if {"d_model", "d_e"} & set(sizes):
            sizes = {"d_group": 0} | sizes
        if "d_model" in sizes:
            sizes = {"d_e": 0} | sizes
        if "patch" in sizes:
            sizes = {"patch_width": 0} | sizes
        return replace(self, **sizes)

    def sizes(self) -> dict[str, int]:
        """Every size by its letter; those of single stages are left out."""
        return {letter: size for letter, size in vars(self).items() if letter not in OF_STAGES}

    def of_stage(self, number: int) -> dict[str, int]:
        """Return the sizes of one of the stages that samples pass, by letter."""
        heard = self.channels if number else 1
        return {"taps": self.widths[number], "stride": self.strides[number], "heard": heard}

    def frames(self, samples: int) -> int:
        """Return how many positions the stages give for so many samples: ⌊(T − k)/s⌋ + 1, stage by stage."""
        for width, stride in zip(self.widths, self.strides, strict=True):
            samples = max(0, (samples - width) // stride + 1)
        return samples

    def samples(self, frames: int) -> int:
        """Return the fewest samples of which the stages give so many positions."""
        for width, stride in zip(reversed(self.widths), reversed(self.strides), strict=True):
            frames = (frames - 1) * stride + width
        return frames

    def shape(self, axes: tuple[str, ...]) -> Shape:
        """A symbolic shape such as ``("d_model", "hd_k")`` in numbers."""
        return tuple(axis_size(axis, self.sizes()) for axis in axes)


def axis_size(axis: str, sizes: Mapping[str, int]) -> int:
    """The length of one symbolic axis: a number, a letter, or a product of letters."""
    if axis.isdigit():
        return int(axis)
    if axis in sizes:
        return sizes[axis]
    return prod(sizes[factor] for factor in SYMBOLS[axis].factors)
