"""A first call of an encoder that nothing is known of: whatever it accepts, at small sizes.

What the input is, and what the other arguments mean, is then read off the computation; here it is enough that the
call goes through and gives finite numbers.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from conformance_tests.subjects.calling import hidden_states, tensors_in

BATCHES = (2, 1)
LENGTH = 5

MOST_WIDTHS = 8
"""The width of the hidden states is among the sizes that occur most often in the shapes of the weights."""

LONGEST, MOST_LENGTHS = 256, 6
"""Lengths that a call is tried with are at most so large and so many: scores grow with their square."""

MOST_CALLS = 400
"""So many fillings of required arguments are tried for one input: two arguments with some twenty each are fewer."""

FEW_SIZES, LARGEST_WIDTH = 3, 1025
"""With fewer different sizes among its weights, every width below this one is tried."""


TryCall = Callable[[Tensor, Mapping[str, Any]], Any]
"""A call with a first argument and further ones by name, which may raise."""


@dataclass(frozen=True)
class FirstCall:
    """Arguments that an encoder accepts.

    Attributes:
        inputs: the first argument, as it is handed over.
        named: the other arguments that it requires, by name.
        batch: the number of sequences, and ``length`` that of positions, where there are any.
    """

    inputs: Tensor
    named: Mapping[str, Tensor | None]
    batch: int
    length: int


NOISE = 0.2
"""What is added to weights, in standard deviations of order 1: none is 0 or 1 any more, and norms stay norms."""


def with_noise(weights: Mapping[str, Tensor], frozen: Collection[str]) -> dict[str, Tensor]:
    """Return weights with noise, but for frozen ones, which are constants; arrays with two names stay one."""
    generator = torch.Generator().manual_seed(0)
    noisy: dict[int, Tensor] = {}
    for name, w in weights.items():
        if id(w) not in noisy:
            noise = NOISE * torch.randn(w.shape, generator=generator, dtype=torch.float64)
            noisy[id(w)] = w if name in frozen or not w.is_floating_point() else w + noise
    return {name: noisy[id(w)] for name, w in weights.items()}


def inputs_of(weights: Mapping[str, Tensor], batch: int, length: int) -> Iterator[Tensor]:
    """Yield what may be the input of an encoder with these weights, the likeliest first: ids, embeddings, images."""
    generator = torch.Generator().manual_seed(0)
    shapes = [tuple(w.shape) for w in weights.values()]
    # Neither 0 nor 1, which are ids of padding in many vocabularies; different ones beside each other.
    yield 2 + (torch.arange(length) + 2 * torch.arange(batch)[:, None]) % 5
    sizes = Counter(size for shape in shapes for size in set(shape) if size > 1)
    likely = [size for size, _ in sizes.most_common(MOST_WIDTHS)]
    for width in likely:
        yield torch.randn(batch, length, width, generator=generator, dtype=torch.float64)
    for shape in dict.fromkeys(s for s in shapes if len(s) == 4 and s[2] == s[3] > 1):
        sides = dict.fromkeys((2 * shape[2], *(k * shape[2] for k in range(1, 17)), 224))
        for side in sides:
            yield torch.randn(batch, shape[1], side, side, generator=generator, dtype=torch.float64)
    for kernel in dict.fromkeys(s for s in shapes if len(s) == 3):
        for time in (2 * length, *(2 * size for size in sizes if size <= LONGEST)):
            yield torch.randn(batch, kernel[1], time, generator=generator, dtype=torch.float64)
    if len(sizes) < FEW_SIZES:
        # All weights may be one vector, whose length says nothing of the width.
        for width in range(2, LARGEST_WIDTH):
            yield torch.randn(batch, length, width, generator=generator, dtype=torch.float64)


def fillings(batch: int, length: int, x: Tensor) -> list[Tensor | None]:
    """Return what a required argument may be: a mask that hides nothing, segments, lengths, or nothing."""
    keep = torch.ones(batch, length, dtype=torch.bool)
    square = torch.ones(batch, length, length, dtype=torch.bool)
    shaped = [keep, keep[:, None], keep[:, None, None], square, square[:, None], square[0]]
    return [
        *shaped,
        *(~m for m in shaped),
        *(m.double() * 0 for m in shaped),
        torch.zeros(batch, length, dtype=torch.long),
        torch.full((batch,), length),
        None,
        *(m.long() for m in shaped),
        x,
    ]


def first_call(
    weights: Mapping[str, Tensor],
    required: Sequence[str],
    call: TryCall,
    length: int | None = None,
) -> FirstCall | None:
    """Return arguments that an encoder accepts; None if none of those tried are.

    Args:
        weights: its arrays by name.
        required: the arguments besides the first one that it asks for.
        call: calls it.
        length: the number of positions; by default few, or as many as some size of the weights.
    """
    sizes = Counter(size for w in weights.values() for size in set(w.shape))
    lengths = (
        [length]
        if length
        else [LENGTH, *(size for size, _ in sizes.most_common() if 1 < size <= LONGEST)][:MOST_LENGTHS]
    )
    tried = 0
    passable: FirstCall | None = None
    for n in lengths:
        for batch in BATCHES:
            for x in inputs_of(weights, batch, n):
                choices = fillings(batch, n, x)
                for values in islice(product(choices, repeat=len(required)), MOST_CALLS):
                    tried += 1
                    named = dict(zip(required, values, strict=True))
                    try:
                        output = call(x, named)
                    except Exception:
                        continue
                    tensors = tensors_in(output)
                    if not tensors:
                        continue
                    accepted = FirstCall(x, named, batch, n)
                    if all(bool(t.isfinite().all()) for t in tensors):
                        return accepted
                    passable = passable or accepted
                if passable or (tried > 4 * MOST_CALLS and len(sizes) >= FEW_SIZES):
                    return passable
    return passable


def first_hidden_states(returned: Any) -> Tensor:
    """Return the hidden states among an encoder's results, while nothing is known of their width."""
    sequences = [t for t in tensors_in(returned) if t.ndim == 3]
    return hidden_states(returned, sequences[0].shape[-1] if sequences else 0)
