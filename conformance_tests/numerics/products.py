"""Products of float32 numbers, computed in float32: torch may be told to compute them in less.

On a GPU that is TF32, which keeps ten bits of each factor, and on some processors bfloat16. No budget of float32 covers
that. Torch has two ways to say so: one setting for all matrix products and one for cuDNN, and from 2.9 on one for each
part of a library. Where the two contradict each other, torch refuses to read the former.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import torch

PARTS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
"""The parts of libraries that compute products, as ``torch.backends`` names them."""

FULL = "ieee"
"""The precision of a part that computes in float32 itself."""


class Products(NamedTuple):
    """Settings of torch for products of float32 numbers; None, or no part, where torch has no such setting to read.

    Attributes:
        matrices: that for all matrix products: ``highest``, ``high`` or ``medium``.
        cudnn: whether cuDNN may use TF32.
        parts: those of the parts of libraries, by name.
    """

    matrices: str | None
    cudnn: bool | None
    parts: dict[str, str]


def read_products() -> Products:
    """Return the settings that hold now."""
    matrices = cudnn = None
    with suppress(RuntimeError):
        matrices = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = torch.backends.cudnn.allow_tf32
    return Products(matrices, cudnn, {name: part.fp32_precision for name, part in known_parts().items()})


def write_products(products: Products) -> None:
    """Make these the settings."""
    # Those for all change those of the parts.
    if products.matrices is not None:
        torch.set_float32_matmul_precision(products.matrices)
    if products.cudnn is not None:
        torch.backends.cudnn.allow_tf32 = products.cudnn
    for name, part in known_parts().items():
        part.fp32_precision = products.parts[name]


@cache
def known_parts() -> dict[str, Any]:
    """Return the parts that this torch has settings for, by name."""
    parts: dict[str, Any] = {}
    for name in PARTS:
        library, _, part = name.partition(".")
        parts[name] = getattr(getattr(torch.backends, library), part, None)
    return {name: part for name, part in parts.items() if hasattr(part, "fp32_precision")}


@contextmanager
def full_products() -> Iterator[None]:
    """Compute products of float32 numbers in float32, without TF32; afterwards everything is set as it was."""
    before = read_products()
    matrices = None if before.matrices is None else "highest"
    cudnn = None if before.cudnn is None else False
    write_products(Products(matrices, cudnn, dict.fromkeys(before.parts, FULL)))
    try:
        yield
    finally:
        write_products(before)
