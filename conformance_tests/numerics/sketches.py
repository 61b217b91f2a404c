"""Sketches of large arrays: sums with random signs, in which a difference between two arrays shows.

Two gradients of a large encoder take as much memory as its weights twice more. Their sketches take next to none: of a
matrix the sums of its rows and of its columns, each entry with a sign that is drawn once. Equal arrays have equal
sketches, and of two that differ some sum differs, but for a coincidence of signs in both directions.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor

LARGE = 2**16
"""From so many entries on an array is sketched; a smaller one, half a megabyte, is compared entry by entry."""


def is_sketched(size: int) -> bool:
    """Return whether an array with so many entries is compared by its sketch."""
    return size >= LARGE


def sketch(x: Tensor) -> Tensor:
    """Return the signed sums of a large array's rows and columns, one behind the other; a smaller one as it is.

    Of an array (a, b, …) they are of the matrix (a, b · …). Sketches are linear: that of a sum is the sum of both.
    """
    if not is_sketched(x.numel()):
        return x
    matrix = x.reshape(len(x), -1)
    rows, columns = matrix.shape
    return torch.cat([matrix @ signs(columns).to(x), signs(rows).to(x) @ matrix])


@contextmanager
def as_they_arise(leaves: Mapping[str, Tensor], each: Callable[[str, Tensor], object]) -> Iterator[None]:
    """Hand over the gradient by each leaf as soon as a backward pass has it, by every name, and let it go.

    A pass that is made in several parts, as with checkpoints, hands over summands.
    """
    names: dict[int, list[str]] = {}
    for name, leaf in leaves.items():
        names.setdefault(id(leaf), []).append(name)

    def arisen(leaf: Tensor) -> None:
        gradient, leaf.grad = leaf.grad, None
        if gradient is not None:
            for name in names[id(leaf)]:
                each(name, gradient)

    differentiable = {id(leaf): leaf for leaf in leaves.values() if leaf.requires_grad}
    hooks = [leaf.register_post_accumulate_grad_hook(arisen) for leaf in differentiable.values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def nothing_like(x: Tensor) -> Tensor:
    """Return zeros of the shape of an array, which take no memory."""
    return x.new_zeros(()).expand(x.shape)


@lru_cache(maxsize=64)
def signs(size: int) -> Tensor:
    """Return so many numbers −1 and 1, the same in each process: (size,), float64."""
    generator = torch.Generator().manual_seed(size)
    return torch.randint(2, (size,), generator=generator).double() * 2 - 1
