"""A look at the first layer alone: a wrong equation that is not what an encoder computes mostly shows there.

To evaluate a large encoder with each of hundreds of deviations takes minutes, and with pairs of them an hour. The first
layer takes a fraction of that. What it gives stands among the arrays of an encoder that computes so.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from conformance_tests.deviations import NOT_DEFINED, Deviation, with_deviations
from conformance_tests.diagnosis.observations import UNDECIDED, Observation
from conformance_tests.harness.intermediates import Recorded
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

    def trace(self, encoder: Encoder) -> Trace:
        """Return the intermediates of an encoder's first layer, where that is looked at; else of all of it."""
        looked_at = encoder if self.recorded is None else first_layer(encoder)
        return self.run.trace_of(looked_at, self.wrong.case)

    def may_show(self, wrong: Iterable[Deviation]) -> bool:
        """Return whether the subject may compute what the specification does with these deviations."""
        wrong = tuple(wrong)
        if self.recorded is None or any(d.slot in BEYOND for d in wrong):
            return True
        try:
            return self.recorded.has(self.trace(with_deviations(self.run.encoder, wrong))[-1].value)
        except NOT_DEFINED:
            return False
