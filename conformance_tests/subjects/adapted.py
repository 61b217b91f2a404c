"""Objects with ``weights`` and ``encode(x, mask)``: NumPy arrays go in and out.

The suite changes the arrays in ``weights`` where the object computes with them, and puts them back.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import torch
from torch import Tensor

from conformance_tests.errors import Unsupported, one_line
from conformance_tests.numerics.probes import Probe, Probes
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.live_arrays import LiveArrays
from conformance_tests.subjects.subject import ArraySubject, Boundary, Subject


class AdaptedSubject(Subject):
    """An object with ``weights`` and ``encode(x, mask)``, which exchanges NumPy arrays."""

    def __init__(self, subject: ArraySubject) -> None:
        self.subject = subject
        self.hints = Hints()
        self._arrays = LiveArrays(lambda: self.subject.weights)
        self._refusal = ""

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """See ``Subject``: afterwards each array holds what it held."""
        with self._arrays.put_back():
            yield

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``: an array with two names is one."""
        return self._arrays.read()

    def rounded(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See ``Subject``."""
        return self._arrays.rounded(values)

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``: the arrays that it computes with are written into.

        Raises:
            Unsupported: if none was seen to change what the encoder computes.
        """
        if not self._arrays.live:
            raise Unsupported("the subject's weights cannot be set")
        self._arrays.write({name: values[name] for name in self._arrays.live})

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
            self._arrays.observe(lambda: self.encode(probes["plain"].inputs, None))
        self._ask_for_a_mask(probes["scattered"], undisturbed)

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
