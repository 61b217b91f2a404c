"""Patches of images, by the places of their entries."""

import torch
from torch import Tensor

from conformance_tests.computation.images import tiling


def patches_of(images: Tensor, side: int) -> Tensor:
    """The entries of square patches of images (B, H, W, C), row by row."""
    grid = images.unflatten(2, (-1, side)).unflatten(1, (-1, side)).transpose(2, 3)
    return grid.flatten(3).flatten(0, 2)


def test_images_have_the_sides_that_their_patches_show() -> None:
    """An array of 2 × 32 pixels is read as one of 8 × 8, and one of 8 × 8 is one."""
    at = patches_of(torch.arange(3 * 64).reshape(3, 8, 8, 1), 4)
    for shape in ((3, 2, 32, 1), (3, 8, 8, 1)):
        patches = tiling(at, shape)
        assert patches is not None
        assert (patches.shape, patches.height, patches.width, patches.channels) == ((3, 8, 8, 1), 4, 4, 1)


def test_entries_that_are_no_rectangles_are_no_patches() -> None:
    """Fewer entries apart than a pixel has channels are no row of pixels either."""
    assert tiling(torch.tensor([[0, 2], [4, 6]]), (1, 4, 4, 3)) is None
