"""Random numbers for arrays: the same for a seed, and for large arrays without drawing each number anew."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from conformance_tests.numerics.sketches import LARGE

BLOCK = 2**20 + 7
"""So many numbers are drawn for all large arrays together; a prime, so that no two rows of one begin at the same place.

To draw each number of a large encoder anew takes longer than a call of it. A large array reads the block from a place
on, round and round: no two arrays are equal, and no two rows.
"""

APART = 611_953
"""From one array's beginning in the block to the next one's: a prime near BLOCK/√3, so that few lie near each other."""


class Noise:
    """Standard normal numbers for arrays with names.

    Args:
        seed: the same one gives the same numbers.
        shapes: those of the arrays, by name; small ones are drawn in this order.
    """

    def __init__(self, seed: int, shapes: Mapping[str, Sequence[int]]) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._seed = seed
        self._begins: dict[str, int] = {}
        self._small: dict[str, Tensor] = {}
        for place, (name, shape) in enumerate(shapes.items()):
            if prod(shape) >= LARGE:
                self._begins[name] = place * APART % BLOCK
            else:
                self._small[name] = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)

    def write(self, name: str, into: Tensor) -> None:
        """Write the numbers of an array into memory of its shape, in float64."""
        if name in self._small:
            into.copy_(self._small[name])
            return
        if not into.is_contiguous():
            into.copy_(self.of(name, into.shape))
            return
        flat, block, begin, done = into.view(-1), block_of(self._seed), self._begins[name], 0
        while done < len(flat):
            some = min(BLOCK - begin, len(flat) - done)
            flat[done : done + some] = block[begin : begin + some]
            begin, done = 0, done + some

    def of(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return the numbers of an array, in float64."""
        numbers = torch.empty(tuple(shape), dtype=torch.float64)
        self.write(name, numbers)
        return numbers


NOISE = 0.2
"""The standard deviation of the noise on weights: enough that none is 0 or 1, and so little that γ stays near 1."""


LARGEST = 1e4
"""The largest weight that is kept: trained encoders have factors of norms up to some hundreds, and less elsewhere.

Memory that was never initialised holds any number, and a very large one hides whatever it is added to and saturates
activations, which then look alike.
"""


IMMODERATE = f"NaN, infinity or numbers beyond {LARGEST:g}"
"""What no weight should hold, for a message."""


def is_moderate(w: Tensor) -> bool:
    """Return whether weights hold numbers that training gives."""
    return bool((w.abs() <= LARGEST).all())


def moderate(w: Tensor) -> Tensor:
    """Return weights, or zeros in the place of an array with NaN, infinity or numbers beyond ``LARGEST``.

    The other numbers of such an array are no more its weights: in the thousands they saturate each activation alike.
    """
    return w if is_moderate(w) else torch.zeros_like(w)


class WithNoise(Mapping[str, Tensor]):
    """Weights with noise, but for frozen ones, which are constants: each is made anew when it is asked for.

    Args:
        weights: arrays of the shapes, by name; one with two names is one object.
        frozen: the names of the constants.
        given: the numbers, by the same names, where these are not those that the arrays hold.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], frozen: Collection[str], given: Mapping[str, Tensor] | None = None
    ) -> None:
        self._given = weights if given is None else given
        self._first = first_names(weights)
        self._noise = Noise(0, {name: weights[name].shape for name in dict.fromkeys(self._first.values())})
        self._constant = {name for name, w in weights.items() if name in frozen or not w.is_floating_point()}

    def __getitem__(self, name: str) -> Tensor:
        first = self._first[name]
        given = self._given[first]
        if first in self._constant:
            return given
        return self._noise.of(first, given.shape).mul_(NOISE).add_(moderate(given))

    def __contains__(self, name: object) -> bool:
        return name in self._first  # without making it

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)


def with_noise(weights: Mapping[str, Tensor], frozen: Collection[str]) -> dict[str, Tensor]:
    """Return weights with noise, but for frozen ones, which are constants; arrays with two names stay one."""
    first, noisy = first_names(weights), WithNoise(weights, frozen)
    made = {name: noisy[name] for name in dict.fromkeys(first.values())}
    return {name: made[first[name]] for name in weights}


def first_names(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the first name of the array that each name stands for: one with two names is one object."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(w), name) for name, w in arrays.items()}


@lru_cache(maxsize=2)
def block_of(seed: int) -> Tensor:
    """Return the numbers that large arrays read: (BLOCK,), float64."""
    return torch.randn(BLOCK, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
