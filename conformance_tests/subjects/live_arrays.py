"""Arrays of NumPy that an encoder computes with: read, written into, and put back."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


class LiveArrays:
    """The arrays that an encoder holds, and those of them that it is seen to compute with.

    Args:
        held: returns the arrays by name; two names may stand for one array.
        live: names of those that the encoder is taken to compute with until ``observe`` has seen it.
    """

    def __init__(self, held: Callable[[], Mapping[str, np.ndarray]], live: Iterable[str] = ()) -> None:
        self.held = held
        self.live = set(live)

    def read(self) -> dict[str, Tensor]:
        """Return the numbers of each array in float64: one tensor for each array, whatever its names."""
        arrays = self.held()
        found = {id(a): torch.from_numpy(np.array(a, dtype=np.float64)) for a in arrays.values()}
        return {name: found[id(array)] for name, array in arrays.items()}

    def write(self, values: Mapping[str, Tensor]) -> None:
        """Write numbers into arrays."""
        arrays = self.held()
        for name, w in values.items():
            np.asarray(arrays[name])[...] = w.numpy()

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Let each array afterwards hold what it held."""
        arrays = [np.asarray(array) for array in self.held().values()]
        originals = [array.copy() for array in arrays]
        try:
            yield
        finally:
            for array, original in zip(arrays, originals, strict=True):
                if not np.array_equal(array, original, equal_nan=True):
                    array[...] = original

    def rounded(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Round values as the arrays do: each has a precision; one that is not computed with stays as it is."""
        kept = {id(values[name]): np.asarray(array).dtype for name, array in self.held().items() if name in values}
        found = {id(w): torch.from_numpy(w.numpy().astype(kept[id(w)]).astype(np.float64)) for w in values.values()}
        given = self.read()
        return {name: found[id(w)] if name in self.live else given[name] for name, w in values.items()}

    def observe(self, call: Callable[[], Tensor]) -> None:
        """Find out which arrays the encoder computes with, rather than with copies.

        Each kind of array is changed, in all layers at once, and must change the output. Names tell the kinds: a number
        behind a letter, as in ``w1``, is a part of the name.

        Args:
            call: calls the encoder, with the same input each time.
        """
        given, before, random = self.read(), call(), torch.Generator().manual_seed(0)
        kinds: dict[str, list[str]] = {}
        for name in given:
            kinds.setdefault(re.sub(r"(?<![A-Za-z])\d+", "", name), []).append(name)
        live: set[str] = set()
        for names in kinds.values():
            of_kind = {name: given[name] for name in names}
            try:
                self.write({n: w + torch.randn(w.shape, generator=random, dtype=w.dtype) for n, w in of_kind.items()})
                live |= set() if torch.equal(call(), before) else set(names)
            finally:
                self.write(of_kind)
        self.live = live if torch.equal(call(), before) else set()
