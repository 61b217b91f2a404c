"""A look at the first layer alone: a wrong equation that is not what an encoder computes mostly shows there.

To evaluate a large encoder with each of hundreds of deviations takes minutes, and with pairs of them an hour. The first
layer takes a fraction of that. What it gives stands among the arrays of an encoder that computes so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

import torch
from torch import Tensor

from conformance_tests.deviations import NOT_DEFINED, Deviation, with_deviations
from conformance_tests.diagnosis.observations import UNDECIDED, Observation
from conformance_tests.harness.intermediates import Aligned, Recorded, departure
from conformance_tests.harness.run import Run
from conformance_tests.identification.search import first_layer
from conformance_tests.numerics.probes import is_slow
from encoder_spec.assembly import Encoder, Trace

BEYOND = ("stack", "final_norm", "head", "sharing")
"""Slots whose equations say what is done with several layers, or behind the last one."""

ARRAYS_A_LAYER = 2
"""An encoder that holds its hidden states as whole arrays has at least so many of them in a layer: two sums."""


@dataclass(frozen=True)
class FirstLayer:
    """The first layer of a subject whose outputs are wrong.

    Attributes:
        run: the subject beside the profile that it departs from.
        wrong: an output that is wrong.
    """

    run: Run
    wrong: Observation
    _seen: "dict[tuple[Deviation, ...], Seen]" = field(default_factory=dict, repr=False)

    @cached_property
    def recorded(self) -> Recorded | None:
        """The subject's arrays; None if it is quickly evaluated as a whole, or does not hold its hidden states."""
        run, case = self.run, self.wrong.case
        if self.wrong.gradients or not is_slow(run.encoder):
            return None
        try:
            recorded = run.recorded(case)
            like = run.trace_of(first_layer(run.encoder), case)[-1].value
        except (*UNDECIDED, *NOT_DEFINED):
            return None
        held = len(recorded.of_size(like.numel()))
        return recorded if held >= ARRAYS_A_LAYER * run.encoder.dimensions.N else None

    @cached_property
    def right(self) -> Tensor:
        """Return what the first layer gives in the specification."""
        right: Tensor = self.trace(self.run.encoder)[-1].value
        return right

    def trace(self, encoder: Encoder) -> Trace:
        """Return the intermediates of an encoder's first layer, where that is looked at; else of all of it."""
        looked_at = encoder if self.recorded is None else first_layer(encoder)
        return self.run.trace_of(looked_at, self.wrong.case)

    @cached_property
    def departs_within(self) -> bool:
        """Return whether the subject departs inside of the first layer, which reads what it should.

        What is done with several layers does not explain that, unless it is done with the mask.
        """
        run, case = self.run, self.wrong.case
        try:
            aligned = run.aligned(case)
        except UNDECIDED:
            return False  # the specification cannot be evaluated with the weights that there are
        place = departure(aligned)
        if place == len(aligned) or run.probes[case.probe].keep is not None:
            return False
        before = (a for a in aligned[:place] if is_of_first(a))
        return is_of_first(aligned[place]) and any(a.tells for a in before)

    def may_show(self, wrong: Iterable[Deviation]) -> bool:
        """Return whether the subject may compute what the specification does with these deviations."""
        wrong = tuple(wrong)
        inside = tuple(d for d in wrong if d.slot not in BEYOND)
        if self.recorded is None or (len(inside) < len(wrong) and not self.departs_within):
            return True
        # Together they do what the others do without those that do nothing here, which is known by then.
        doing = tuple(d for d in inside if len(inside) == 1 or self.seen((d,)) is not Seen.AS_SPECIFIED)
        return self.seen(doing) is Seen.SHOWN

    def seen(self, wrong: tuple[Deviation, ...]) -> "Seen":
        """Return what is seen of the first layer's output with these deviations; each is evaluated once."""
        if wrong not in self._seen:
            self._seen[wrong] = self._looked_for(wrong)
        return self._seen[wrong]

    def _looked_for(self, wrong: tuple[Deviation, ...]) -> "Seen":
        assert self.recorded is not None
        try:
            output = self.trace(with_deviations(self.run.encoder, wrong))[-1].value
        except NOT_DEFINED:
            return Seen.MISSING
        if self.recorded.holds(output):
            return Seen.SHOWN
        is_right = bool(wrong) and output.shape == self.right.shape and bool(torch.equal(output, self.right))
        return Seen.AS_SPECIFIED if is_right else Seen.MISSING


class Seen(Enum):
    """An output of the first layer: whether the subject has it; else, whether it is the specification's own."""

    SHOWN = auto()
    AS_SPECIFIED = auto()
    MISSING = auto()


def is_of_first(aligned: Aligned) -> bool:
    """Return whether a value is one of the first layer."""
    return f"{aligned.spec.path}.".startswith("layers.0.")
