"""Objects with ``weights`` and ``encode(x, mask)``: NumPy arrays go in and out.

The suite changes the arrays in ``weights`` where the object computes with them, and puts them back.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import torch
from torch import Tensor

from conformance_tests.errors import Unsupported, one_line
from conformance_tests.numerics.probes import Probe, Probes
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import ArraySubject, Boundary, Subject


class AdaptedSubject(Subject):
    """An object with ``weights`` and ``encode(x, mask)``, which exchanges NumPy arrays."""

    def __init__(self, subject: ArraySubject) -> None:
        self.subject = subject
        self.hints = Hints()
        self._live: set[str] = set()
        self._refusal = ""

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: afterwards each array holds what it held."""
        arrays = [np.asarray(array) for array in self.subject.weights.values()]
        originals = [array.copy() for array in arrays]
        try:
            yield
        finally:
            for array, original in zip(arrays, originals, strict=True):
                if not np.array_equal(array, original, equal_nan=True):
                    array[...] = original

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``: an array with two names is one."""
        arrays = self.subject.weights
        found = {id(a): torch.from_numpy(np.array(a, dtype=np.float64)) for a in arrays.values()}
        return {name: found[id(array)] for name, array in arrays.items()}

    def rounded(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``Subject``: each array has a precision; one that it does not compute with stays as it is."""
        held, given = self.subject.weights, self.weights()
        kept = {id(values[name]): np.asarray(array).dtype for name, array in held.items()}
        found = {id(w): torch.from_numpy(w.numpy().astype(kept[id(w)]).astype(np.float64)) for w in values.values()}
        return {name: found[id(w)] if name in self._live else given[name] for name, w in values.items()}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``: the arrays that it computes with are written into.

        Raises:
            Unsupported: if none was seen to change what the encoder computes.
        """
        if not self._live:
            raise Unsupported("the subject's weights cannot be set")
        self._write({name: values[name] for name in self._live})

    def _write(self, values: Mapping[str, Tensor]) -> None:
        for name, w in values.items():
            np.asarray(self.subject.weights[name])[...] = w.numpy()

    def encode(
        self,
        inputs: tuple[Tensor, ...],
        keep: Tensor | None,
        gradients: bool = True,  # noqa: ARG002  -- arrays record none
    ) -> Tensor:
        """See ``Subject``; the suite calls with one array, so further inputs are refused."""
        if len(inputs) > 1:
            raise Unsupported("encode(x, mask) takes one input, but this encoder needs several")
        if keep is not None and not self.takes_mask:
            raise Unsupported("the subject takes no mask")
        mask = None if keep is None else keep.numpy()
        return torch.from_numpy(np.array(self.subject.encode(inputs[0].numpy(), mask)))

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """See ``Subject``: arrays of float32 come from a computation in float32."""
        # The first call that needs the result reports why it fails.
        with suppress(Exception), undisturbed():
            returned = self.encode(probes["plain"].inputs, None).dtype
            self.dtype = returned if returned.is_floating_point else self.dtype
        with suppress(Exception), undisturbed():
            self._live = self._names_of_live_arrays(probes["plain"].inputs)
        self._ask_for_a_mask(probes["scattered"], undisturbed)

    def _names_of_live_arrays(self, inputs: tuple[Tensor, ...]) -> set[str]:
        """Return the names of the arrays in ``weights`` that the encoder computes with, rather than with copies.

        Each kind of array is changed, in all layers at once, and must change the output. Names tell the kinds: a number
        behind a letter, as in ``w1``, is a part of the name.
        """
        given, before, random = self.weights(), self.encode(inputs, None), torch.Generator().manual_seed(0)
        kinds: dict[str, list[str]] = {}
        for name in given:
            kinds.setdefault(re.sub(r"(?<![A-Za-z])\d+", "", name), []).append(name)
        live: set[str] = set()
        for names in kinds.values():
            of_kind = {name: given[name] for name in names}
            try:
                self._write({n: w + torch.randn(w.shape, generator=random, dtype=w.dtype) for n, w in of_kind.items()})
                live |= set() if torch.equal(self.encode(inputs, None), before) else set(names)
            finally:
                self._write(of_kind)
        return live if torch.equal(self.encode(inputs, None), before) else set()

    def _ask_for_a_mask(self, padded: Probe, undisturbed: Boundary) -> None:
        """Find out whether it takes a mask: one that refuses every mask, and no call without, takes none."""
        try:
            with undisturbed():
                self.encode(padded.inputs, None)
        except Exception:
            return
        try:
            with undisturbed():
                self.encode(padded.inputs, padded.keep)
        except Exception as fault:
            self.takes_mask = False
            self._refusal = f"the encoder accepts no padding mask: encode(x, mask) raised {one_line(fault)}"

    def unknown(self) -> str:
        """See ``Subject``: a mask that is refused."""
        return self._refusal
