"""The axes of an array that holds images: which are what, and which one of a single entry it leaves out.

A signal is an image of one row.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.walking import along_axis

CHANNEL_ROW_COLUMN = "cyx"
"""The axes of images (B, C, H, W) behind that of the batch."""

IN_WORDS = {
    "yxc": "(B, height, width, channels)",
    "xc": "(B, time, channels)",
    "cx": "(B, channels, time)",
    "yx": "(B, height, width), without an axis for the only channel",
    "xy": "(B, width, height), without an axis for the only channel",
}


class ImageAxes(NamedTuple):
    """The axes behind that of the batch, in order: ``c`` of channels, ``y`` of rows, ``x`` of columns."""

    order: str = CHANNEL_ROW_COLUMN

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of channels, rows and columns of an array of this shape; 1 along an axis left out."""
        known = dict(zip(self.order, shape[1:], strict=True))
        return tuple(known.get(axis, 1) for axis in CHANNEL_ROW_COLUMN)

    def along(self, at: Tensor, shape: Sequence[int]) -> tuple[Tensor, ...]:
        """Return channel, row and column of entries at these places of an array of this shape."""
        return tuple(
            along_axis(at, shape, 1 + self.order.index(axis)) if axis in self.order else torch.zeros_like(at)
            for axis in CHANNEL_ROW_COLUMN
        )

    def arranged(self, images: Tensor) -> Tensor:
        """Return images (B, C, H, W) with these axes; those left out have one entry."""
        left_out = [axis for axis in CHANNEL_ROW_COLUMN if axis not in self.order]
        in_order = images.permute(0, *(1 + CHANNEL_ROW_COLUMN.index(axis) for axis in (*self.order, *left_out)))
        return in_order.flatten(len(self.order))

    def __str__(self) -> str:
        """Describe them in words; the usual ones need none."""
        return IN_WORDS.get(self.order, "")


def image_axes(shape: Sequence[int]) -> tuple[ImageAxes, ...]:
    """Return what the axes of a batch of images of this shape may be, the likeliest first."""
    if len(shape) == 1 + len(CHANNEL_ROW_COLUMN):
        return (ImageAxes("yxc" if channels_are_last(shape) else CHANNEL_ROW_COLUMN),)
    return tuple(map(ImageAxes, ("xc", "cx", "yx", "xy"))) if len(shape) == len(CHANNEL_ROW_COLUMN) else ()


def channels_are_last(shape: Sequence[int]) -> bool:
    """Return whether the sides of an image stand before its channels: two equal sides, or those of fewer channels."""
    _, first, middle, last = shape
    return first == middle != last or (first != middle != last and last < min(first, middle))


class Patches(NamedTuple):
    """Patches that tile an image.

    Attributes:
        axes: those of the image.
        shape: that of the array of images, as the patches read it.
        channels: their number.
        height: in pixels, and ``width`` too.
        order: the order of the entries of a patch in which channels go before rows, and rows before columns.
    """

    axes: ImageAxes
    shape: tuple[int, ...]
    channels: int
    height: int
    width: int
    order: Tensor


def tiling(at: Tensor, shape: Sequence[int]) -> Patches | None:
    """Return the patches that rows of entries are, row by row; None unless they are rectangles that tile the image.

    Where no axes give them in this order, the likeliest axes count. An encoder that takes its input apart by
    sides that it keeps reads other images with as many pixels as images of these sides: then its own count.

    Args:
        at: the places of the entries (patches, entries) in an array of images.
        shape: that of the array.
    """
    found: Patches | None = None
    for axes, read_as in image_readings(at[0], shape):
        C, H, W = axes.sizes(read_as)
        channel, y, x = axes.along(at[0], read_as)
        height, width = (along.unique().numel() for along in (y, x))
        rows, columns = H // height, W // width
        if height * width * C != at.shape[1] or at.numel() != shape[0] * rows * columns * at.shape[1]:
            continue
        order = (channel * H * W + y * W + x).argsort()
        patches = Patches(axes, read_as, C, height, width, order)
        _, top, left = axes.along(at[: rows * columns, order[0]], read_as)
        if torch.equal(top // height * columns + left // width, torch.arange(rows * columns)):
            return patches
        found = found or patches
    return found


def image_readings(at: Tensor, shape: Sequence[int]) -> Iterator[tuple[ImageAxes, tuple[int, ...]]]:
    """Yield what the axes of images of a shape may be, with this shape; then with that which one patch shows.

    Args:
        at: the places of the entries of one patch in an array of images.
        shape: that of the array.
    """
    readings = [(axes, tuple(shape)) for axes in image_axes(shape)]
    yield from readings
    steps = at.sort().values.diff()
    if not bool((steps > 1).any()):
        return
    # From the end of a row of a patch to its next one, and back over that row, it is as far as a row of the image.
    before = int((steps > 1).nonzero()[0])
    row = before + int(steps[before])
    for axes, (samples, *_) in readings:
        C, H, W = axes.sizes(shape)
        width, rest = divmod(row, C if axes.order == "yxc" else 1)
        is_image = axes.order in ("yxc", CHANNEL_ROW_COLUMN) and rest == 0
        if is_image and H * W % width == 0:
            sides = {"c": C, "y": H * W // width, "x": width}
            yield axes, (samples, *(sides[axis] for axis in axes.order))
