"""Small heat maps as images: a pixel for each number, enlarged by the style sheet, as transparent as it is small."""

import base64
import io

import numpy as np
from PIL import Image
from torch import Tensor

from generators.figures import tint

CELL = 9
"""Pixels of a screen for each number."""


def heatmap(values: Tensor, largest: float, says: str) -> str:
    """A matrix as an image; infinities and what is no number stay empty.

    Args:
        values: the matrix.
        largest: the magnitude that is opaque.
        says: what it shows, for those who do not see it.
    """
    finite = np.nan_to_num(values.numpy(), nan=0.0, posinf=0.0, neginf=0.0)
    pixels = (255 * tint(finite, largest)).round().astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(file, "PNG", optimize=True)
    source = base64.b64encode(file.getvalue()).decode()
    rows, columns = values.shape
    return f'<img alt="{says}" width="{columns * CELL}" height="{rows * CELL}" src="data:image/png;base64,{source}">'


def side_by_side(right: Tensor, wrong: Tensor, name: str) -> str:
    """Two matrices on one scale, each under its name."""
    finite = [x[x.isfinite()].abs() for x in (right, wrong)]
    largest = max((float(x.max()) for x in finite if len(x)), default=0.0) or 1.0
    shown = "".join(
        f"<div><span>{title}</span>{heatmap(x, largest, f'{name}, {title}: {span(x)}')}</div>"
        for title, x in (("right", right), ("wrong", wrong))
    )
    return f'<div class="pair scroll" tabindex="0">{shown}</div>'


def span(x: Tensor) -> str:
    """The size and the range of a matrix, in words."""
    finite = x[x.isfinite()]
    size = f"{x.shape[0]} × {x.shape[1]} numbers"
    return (
        f"{size} from {float(finite.min()):.2g} to {float(finite.max()):.2g}" if len(finite) else f"{size}, none finite"
    )
