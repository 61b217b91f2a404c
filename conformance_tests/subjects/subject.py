"""The subject: the encoder under test, seen through the few calls that the suite needs.

Anything with ``weights`` and ``encode(x, mask)`` is a subject already: ``adapt`` wraps it.
A subject leaves out what it cannot do, and the checks that need it are unsupported.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Rescaling
from conformance_tests.computation.images import ImageAxes
from conformance_tests.computation.shown import Ending, Finding
from conformance_tests.errors import Disagreement, Undetermined, Unsupported
from conformance_tests.numerics.noise import with_noise
from conformance_tests.numerics.probes import Probes, Sizes
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.left_out import Rows
from encoder_spec.notation import SpecificationError

Boundary = Callable[[], AbstractContextManager[Any]]
"""What a call of somebody's encoder is made in."""


@runtime_checkable
class ArraySubject(Protocol):
    """The minimum of a subject: arrays in, arrays out, in float64 where it can.

    ``encode`` takes ``x`` of shape (B, n, d_model), features (B, n, channels), or token ids (B, n), and a boolean
    mask (B, n) with True = keep or None; it returns the hidden states (B, n, d_model).
    """

    weights: Mapping[str, Any]

    def encode(self, x: Any, mask: Any) -> Any:
        """Evaluate the encoder."""


@dataclass(frozen=True)
class Precision:
    """The precision of a judgement: a dtype, or the encoder's best, and a device."""

    dtype: torch.dtype | None = None
    device: str = "cpu"

    @classmethod
    def named(cls, dtype: str | None, device: str = "cpu") -> "Precision":
        """Return the precision with a dtype's name, such as ``float32``; None stands for the encoder's best.

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
    """Return the name of a dtype without its package."""
    return str(dtype).removeprefix("torch.")


class Subject:
    """The calls that the suite needs of an encoder; the base class refuses the optional ones."""

    hints: Hints
    takes_mask: bool = True
    dtype: torch.dtype = torch.float64
    """The precision in which it computes."""
    draws_numbers: bool = False
    """True if two equal calls gave different results: known only where no graph shows the random numbers."""
    special_ids: frozenset[int] = frozenset()
    """Ids of tokens that its computation is seen to compare its input with: such as that of padding."""
    mixes_types: bool = False
    """True if its first call was refused for numbers of two precisions, and recorded with all of them in one."""
    processes: int = 1
    """The number of processes over which it is spread."""
    records_gradients: bool | None = None
    """True if it runs only while gradients are recorded, as with hooks on them; False if only while none are."""

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
            raise Undetermined(f"it can be judged only in {name_of(self.dtype)}, on its own device")
        yield

    def hold_to(self, dtype: torch.dtype | None) -> None:
        """Be recorded in this precision, that of the judgement; with None, in the best that the encoder has."""

    def kept_in(self) -> torch.dtype:
        """Return the precision in which its owner keeps it, and uses it."""
        return self.dtype

    @contextmanager
    def as_used(self) -> Iterator[None]:
        """Compute in the precision in which it is kept, and in the framework's mode for inference, if it has one."""
        yield

    def documented_otherwise(self) -> Mapping[str, str]:
        """Return the requirements that its classes document not to meet, by id, each with what they document."""
        return {}

    def narrowest_part(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> torch.dtype | None:
        """Return the precision below that of its output in which it computes a part of itself; None if none is seen."""
        return None

    def as_kept(self, constant: float) -> float:
        """Return a published constant such as ε as the framework keeps it: some keep float32 in any precision."""
        return constant

    def fixed(self) -> set[str]:
        """Return the names of the weights that are not to be learned."""
        return set()

    def tables(self) -> dict[str, Tensor]:
        """Return the arrays that the encoder keeps and that do not count as weights, by name, in float64."""
        return {}

    def unregistered(self) -> dict[str, str]:
        """Return the attributes whose parameters the framework does not know, and what each should have been."""
        return {}

    def unmoved(self) -> set[str]:
        """Return the names of those of its ``tables`` that do not go where the encoder is moved."""
        return set()

    def learn(self, probes: Probes, undisturbed: Boundary = nullcontext) -> None:
        """Find out by experiment how the encoder is called; by default there is nothing to find out.

        Args:
            probes: inputs to call it with.
            undisturbed: what each call of the encoder is made in, so that one does not disturb the next.

        Raises:
            Undetermined: if it cannot be called without a fact that nobody stated.
        """

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """Return what it can be judged up to in a computation: names, and codes, in order of execution."""
        return tuple(graph.parts)

    def end_at(self, ending: Ending) -> None:
        """Return from now on what one part of a model returns, and leave what stands behind it alone."""
        raise Unsupported("the subject has no parts")

    def with_heads(self, inputs: tuple[Tensor, ...]) -> "tuple[Subject, ...]":
        """Return the whole model around a part that it is judged up to, once for each array that it returns.

        Args:
            inputs: what it can be called with.
        """
        return ()

    def made_of(self, hidden: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return what a whole model, one of ``with_heads``, turns other hidden states than its own into.

        Args:
            hidden: (B, n, d_model), as many as the part gives for these inputs.
            inputs: what the model is called with.

        Raises:
            Unsupported: if the hidden states cannot be replaced.
        """
        raise Unsupported("the subject's hidden states cannot be replaced")

    def learn_head(self, judged: str) -> None:
        """Take up what is judged of what stands behind the part that it is judged up to, as a part of a sentence."""

    def how_called(self) -> Any:
        """Return what was learned of how it is called."""
        return None

    def call_as(self, learned: Any) -> None:
        """Call it from now on as was learned before."""

    def departures(self) -> tuple[Finding, ...]:
        """Return what is wrong with the way in which it is called, as far as that was learned."""
        return ()

    def takes_segments(self) -> bool:
        """Return whether a call has a place for the segment ids of an encoder with a table of segments."""
        return True

    def learn_segments(self, graph: Graph) -> int | None:
        """Find out, from the computation of an encoder with a table of segments, whether a call has a place for ids.

        Returns:
            The row of the table that is not learned, if there is one and a call with ids shows it.
        """

    def further_ids(self, graph: Graph) -> tuple[str, ...]:
        """Return the arguments that were given zeros, and look rows up: what these are is not known."""
        return ()

    def may_number_segments(self) -> tuple[str, ...]:
        """Return the arguments that no recorded call was given, and that may take segment ids, the likeliest first."""
        return ()

    def learn_defaults(self, probes: Probes, rows: Rows) -> None:
        """Find out what ids of segments and positions are where a call leaves them out; see ``left_out``."""

    def left_open(self) -> str:
        """Return what is not known of arguments that are left out, and keeps it from being judged conformant."""
        return ""

    def further_vectors(self) -> tuple[str, ...]:
        """Return the arguments that were given zeros with the axes of the input: what these are is not known."""
        return ()

    def give(self, argument: str, kind: str | None) -> None:
        """Give an argument ``"positions"``, the ``"input"`` or ``"zeros"`` from now on; None takes it back."""

    def ask_for(self, shape: tuple[int, ...] | None) -> None:
        """Call it with an input of this shape from now on; None takes it back."""

    def record_without(self, ids: frozenset[int]) -> None:
        """Let no token in a recorded call have one of these ids, which may be special."""

    def learn_padding(self, ids: frozenset[int], stated: int | None) -> None:
        """Take up the ids by which its attention is seen to hide something, and the one that is stated as padding."""

    def learn_idle(self, weights: Collection[str]) -> None:
        """Take up the names of the weights without a part in what it returns for its input alone."""

    def learn_result(self, place: int | None) -> None:
        """Take up which of the floating arrays that a call returns are the hidden states, where several might be."""

    def learn_images(self, axes: ImageAxes, shape: Sequence[int]) -> None:
        """Take up which axes the images have that it is called with, and the shape of an array of them."""

    def learn_rescaling(self, rescaling: Rescaling | None) -> None:
        """Take up how it rescales its images: it is called with such as become a probe."""

    def can_hide(self, keep: Tensor) -> bool:
        """Return whether its kind of mask can express this one, (B, n) with True = keep."""
        return True

    def reads_padding(self) -> bool:
        """Return whether it reads what stands at padded positions: not where an id there says that they are padded."""
        return True

    def hidden_ids(self) -> frozenset[int]:
        """Return the ids that are known to hide the positions at which they stand."""
        return frozenset()

    def conventions(self) -> dict[str, str]:
        """Return in words how it is called, as far as the suite worked it out."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Return remarks on how it is called that are worth knowing and do not count against it."""
        return ()

    def unknown(self) -> str:
        """Return what is unknown about its call and keeps it from being judged conformant."""
        return ""

    def refused(self) -> str:
        """Return what the call that got furthest was refused with, if none went through."""
        return ""

    def influences_anything(self, name: str, inputs: tuple[Tensor, ...]) -> bool:
        """Return whether a weight without influence on the hidden states influences anything else that is returned."""
        return False

    def materialise(self) -> None:
        """Give numbers to parameters that get them in a first call; most have theirs already.

        Raises:
            SubjectError: if some have none after that.
        """

    def shapes(self) -> dict[str, Tensor]:
        """Return its arrays by its own names, on the device meta: shapes without numbers.

        Arrays with two names stay one.
        """
        with self.borrowed():
            return without_numbers(self.weights())

    def stored_once(self) -> set[str]:
        """Return the names of weights that are kept as one array because they are equal, which need not be shared."""
        return set()

    def tells_constants(self) -> bool:
        """Return whether constants, such as a table of sinusoids, are known from weights: in a file they may not be."""
        return True

    def weights(self) -> dict[str, Tensor]:
        """Return the arrays of the encoder by its own names, in float64."""
        raise NotImplementedError

    def given(self) -> Mapping[str, Tensor]:
        """Return the arrays as the encoder came, in its own precision, by its own names; asked for while it has it."""
        return self.weights()

    def held(self) -> dict[str, Tensor]:
        """Return arrays that hold its weights, by its own names, in float64; one with two names is one object.

        They are the encoder's own where these can be written into. In any case ``set_weights`` makes it compute with
        what they hold.
        """
        return self.weights()

    def encode(self, inputs: tuple[Tensor, ...], keep: Tensor | None, gradients: bool = True) -> Tensor:
        """Return the hidden states (B, n, d_model), with or without gradients being recorded."""
        raise NotImplementedError

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """Give the encoder other weights, by its own names."""
        raise Unsupported("the subject's weights cannot be set")

    def noisy(self, frozen: Collection[str]) -> Mapping[str, Tensor]:
        """Return its weights, as it came, with noise, but for frozen ones; by its own names."""
        return with_noise(self.held(), frozen)

    @contextmanager
    def holding(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Compute with other weights, by its own names; before and afterwards with those with which it came."""
        before = self.weights()
        self.set_weights(values)
        try:
            yield
        finally:
            self.set_weights(before)

    def rounded(self, values: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return weights as the encoder can hold them, in float64; arrays with two names stay one."""
        if self.dtype is torch.float64:
            return values
        found = {id(w): w.to(self.dtype).double() for w in values.values()}
        return {name: found[id(w)] for name, w in values.items()}

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """Return what the encoder computes in some call, as a graph.

        Args:
            sizes: how many sequences of how many positions the call has, where it has any; by default few.

        Raises:
            Unsupported: if it does not show its operations, or no call is found that it accepts.
        """
        raise Unsupported("the subject does not show its operations")

    def accepted(self) -> Sizes | None:
        """Return sizes that it has been called with (of images too); None if it has not been yet."""
        return None

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """Return every array that the encoder computes on the way, in order."""
        raise Unsupported("the subject does not show its intermediates")

    def gradients(
        self, inputs: tuple[Tensor, ...], keep: Tensor | None, cotangent: Tensor, each: Callable[[str, Tensor], None]
    ) -> Tensor | None:
        """Return the gradient of Σ cotangent · output by the (floating) input.

        ``each`` gets the one by each weight, or its summands, with the name, as soon as it arises; none where it is 0.
        """
        raise Unsupported("the subject computes no gradients")


def without_numbers(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return arrays on the device meta, where they have a shape and take no memory; one with two names stays one."""
    made = {id(w): torch.empty(w.shape, dtype=w.dtype, device="meta") for w in arrays.values()}
    return {name: made[id(w)] for name, w in arrays.items()}


def has_values(array: Tensor) -> bool:
    """Return whether it is an ordinary array of numbers: neither meta nor nested, sparse or quantised."""
    return not (array.is_meta or array.is_nested or array.is_quantized) and array.layout is torch.strided


def with_values(output: Tensor) -> Tensor:
    """Return an output that holds numbers.

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
