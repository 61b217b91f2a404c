"""The subject: the encoder under test, seen through the few calls that the suite needs.

Anything with ``weights`` and ``encode(x, mask)`` is a subject already: ``adapt`` wraps it.
What a subject cannot do is left out, and the checks that need it are unsupported.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from conformance_tests.errors import Disagreement, Undetermined, Unsupported
from conformance_tests.numerics.probes import Probes
from conformance_tests.subjects.hints import Hints
from encoder_spec.notation import SpecificationError

Boundary = Callable[[], AbstractContextManager[Any]]
"""What a call of somebody's encoder is made in."""


@runtime_checkable
class ArraySubject(Protocol):
    """The least that a subject offers: arrays in, arrays out, float64 where it can.

    ``encode`` takes ``x`` of shape (B, n, d_model), or token ids (B, n), and a boolean mask
    (B, n) with True = keep or None; it returns the hidden states (B, n, d_model).
    """

    weights: Mapping[str, Any]

    def encode(self, x: Any, mask: Any) -> Any:
        """Evaluate the encoder."""


@dataclass(frozen=True)
class Precision:
    """Where an encoder is judged: a dtype, or the best that it can, and a device."""

    dtype: torch.dtype | None = None
    device: str = "cpu"

    @classmethod
    def named(cls, dtype: str | None, device: str = "cpu") -> "Precision":
        """By the name of a dtype, such as ``float32``; None for the best that the encoder can.

        Raises:
            SpecificationError: for a dtype in which encoders are not judged, or a device that is not there.
        """
        if dtype not in (None, *DTYPES):
            raise SpecificationError(f"there is no dtype {dtype!r} here: choose among {', '.join(DTYPES)}")
        try:
            torch.zeros(1, device=device).item()  # a device that holds numbers, unlike meta
        except (RuntimeError, AssertionError, NotImplementedError) as fault:
            raise SpecificationError(f"there is no device {device!r} here: {str(fault).splitlines()[0]}") from None
        return cls(None if dtype is None else getattr(torch, dtype), device)


BEST = Precision()

DTYPES = ("float64", "float32", "bfloat16", "float16")


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype without its package."""
    return str(dtype).removeprefix("torch.")


class Subject:
    """What the suite asks of an encoder; the base class refuses whatever is optional."""

    hints: Hints
    takes_mask: bool = True
    dtype: torch.dtype = torch.float64
    """The precision in which it computes."""

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Make the encoder ready to be judged; afterwards nothing of it has changed."""
        yield

    @contextmanager
    def computing_in(self, precision: Precision) -> Iterator[None]:
        """Compute in another precision, or on another device.

        Raises:
            Undetermined: if it cannot.
        """
        if precision not in (Precision(), Precision(self.dtype)):
            raise Undetermined(f"it can be judged in {name_of(self.dtype)} alone, where it is")
        yield

    def narrowest_part(self, inputs: tuple[Tensor, ...]) -> torch.dtype | None:
        """Return the precision below that of its output in which it computes a part of itself; None if none is seen."""
        return None

    def as_kept(self, constant: float) -> float:
        """A published constant such as ε as the framework keeps it: some keep float32 whatever they compute in."""
        return constant

    def fixed(self) -> set[str]:
        """The names of the weights that are not to be learned."""
        return set()

    def tables(self) -> dict[str, Tensor]:
        """Arrays that the encoder keeps and that are no weights, by name, in float64."""
        return {}

    def unregistered(self) -> dict[str, str]:
        """Lists of parts with parameters of which the framework does not know, and what each should have been."""
        return {}

    def unmoved(self) -> set[str]:
        """The names of those of its ``tables`` that do not go where the encoder is moved."""
        return set()

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """Find out by experiment how the encoder is called; nothing to find out unless it says so.

        Args:
            probes: inputs to call it with.
            undisturbed: what each call of the encoder is made in, so that one does not disturb the next.

        Raises:
            Undetermined: if it cannot be called, because of something that nobody stated.
        """

    def takes_segments(self) -> bool:
        """Whether a call has a place for the segment ids of an encoder with a table of segments."""
        return True

    def can_hide(self, keep: Tensor) -> bool:
        """Whether its kind of mask can say what this one, (B, n) with True = keep, says."""
        return True

    def conventions(self) -> dict[str, str]:
        """How it is called, in words, as far as that was found out."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """What is worth knowing of how it is called, though it is no fault."""
        return ()

    def unknown(self) -> str:
        """What could not be found out of how it is called, which keeps it from being called conformant."""
        return ""

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """Whether a weight that the hidden states do not depend on matters to anything else that is returned."""
        return False

    def weights(self) -> dict[str, Tensor]:
        """The arrays of the encoder by its own names, in float64."""
        raise NotImplementedError

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """The hidden states (B, n, d_model), with or without gradients being recorded."""
        raise NotImplementedError

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """Give the encoder other weights, by its own names."""
        raise Unsupported("the subject's weights cannot be set")

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """Every array that the encoder computes on the way, in order."""
        raise Unsupported("the subject does not show its intermediates")

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor
    ) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Gradients of Σ cotangent · output: by the (floating) input, and by each weight."""
        raise Unsupported("the subject computes no gradients")


class AdaptedSubject(Subject):
    """An object with ``weights`` and ``encode(x, mask)``, which exchanges NumPy arrays."""

    def __init__(self, subject: ArraySubject) -> None:
        self.subject = subject
        self.hints = Hints()

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {
            name: torch.from_numpy(np.array(array, dtype=np.float64)) for name, array in self.subject.weights.items()
        }

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """See ``Subject``; the suite calls with one array, so further inputs are refused."""
        if len(inputs) > 1:
            raise Unsupported("encode(x, mask) takes one input, but this encoder needs several")
        mask = None if keep is None else keep.numpy()
        return torch.from_numpy(np.array(self.subject.encode(inputs[0].numpy(), mask)))

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """See ``Subject``: arrays of float32 come from a computation in float32."""
        # What cannot be called is found out, and said, by whoever needs the result.
        with suppress(Exception), undisturbed():
            returned = self.encode(probes["plain"].inputs, None).dtype
            self.dtype = returned if returned.is_floating_point else self.dtype


def has_values(array: Tensor) -> bool:
    """Whether it is an ordinary array of numbers: neither meta nor nested, sparse or quantised."""
    return not (array.is_meta or array.is_nested or array.is_quantized) and array.layout is torch.strided


def with_values(output: Tensor) -> Tensor:
    """An output that holds numbers.

    Raises:
        Disagreement: if it has no values, or no real floating ones.
    """
    if not (has_values(output) and output.is_floating_point()):
        kind = "meta" if output.is_meta else str(output.layout).removeprefix("torch.")
        raise Disagreement(
            f"the encoder returned a {kind} tensor of {output.dtype}, but hidden states are numbers: "
            "a dense floating tensor (B, n, d_model)"
        )
    return output
