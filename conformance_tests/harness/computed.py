"""What a subject and the specification compute from the same weights and probes.

Everything is computed when it is first asked for, and kept: a subject may be slow, and a
check must not ask it twice and compare it with itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isinf
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.intermediates import Aligned, Recorded, align
from conformance_tests.harness.weight_sets import FAINT, GIVEN, LOUD, PERTURBED, WeightSets
from conformance_tests.numerics.probes import Probe, Probes
from conformance_tests.numerics.rounding import budget
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.subjects.subject import Subject, name_of
from encoder_spec.assembly import Encoder, Trace
from encoder_spec.notation import SpecificationError


class Case(NamedTuple):
    """Which weights on which probe, and whether gradients are recorded (the slow path) or not."""

    weights: str = PERTURBED
    probe: str = "plain"
    gradients: bool = True

    def __str__(self) -> str:
        path = "with gradients" if self.gradients else "without gradients"
        return f"{self.weights} weights, probe {self.probe}, {path}"


UNPADDED = (
    Case(),
    Case(probe="single"),
    Case(FAINT, "faint"),
    Case(LOUD),
    Case(GIVEN),
    Case(probe="few"),
    Case(probe="many"),
)
PADDED = (Case(probe="scattered"), Case(probe="right"))
FAST = tuple(case._replace(gradients=False) for case in (Case(), *PADDED))


ENTRANCES = {"E", "W_patch", "W_conv"}
"""The parameters that meet the input first: ids, an image or a signal."""


@dataclass
class Computed:
    """A subject beside the specification's encoder."""

    subject: Subject
    encoder: Encoder
    mapping: ParameterMapping
    weight_sets: WeightSets
    seed: int

    def __post_init__(self) -> None:
        self.probes = Probes(self.encoder, self.seed, self.subject.dtype)
        self.output = cache(self._output)
        self.expected = cache(self._expected)
        self.recorded = cache(self._recorded)
        self.aligned = cache(self._aligned)
        self.budget = cache(self._budget)

    def parameters(self, weights: str = PERTURBED) -> dict[str, Tensor]:
        """The subject's weights by canonical path, in float64."""
        return self.mapping.canonical(self.weight_sets[weights])

    def encode(self, case: Case, probe: Probe) -> Tensor:
        """Call the subject on a probe of the check's own making."""
        with self._asking(case):
            return self.subject.encode(probe.inputs, probe.keep, case.gradients).detach()

    @contextmanager
    def _asking(self, case: Case) -> Iterator[None]:
        """Ask the subject, with the weights of a case; whatever it raises is a finding about the subject."""
        unread = [e for e in ENTRANCES & self.encoder.parameter_shapes().keys() if e not in self.mapping.sources]
        if unread:
            raise Blocked(f"the profile reads its input through {unread[0]}, which the encoder does not have")
        self.weight_sets.use(case.weights)
        try:
            yield
        except (Disagreement, Unsupported):
            raise
        except Exception as fault:
            reason = f"{type(fault).__name__}: {fault}".split("\n")[0]
            raise Disagreement(f"encoder: the subject raised {reason} [{case}]") from fault

    def _output(self, case: Case) -> Tensor:
        return self.encode(case, self.probes[case.probe])

    def _expected(self, case: Case) -> Tensor:
        return self.trace(case)[-1].value  # type: ignore[no-any-return]

    def trace(self, case: Case) -> Trace:
        """The specification's intermediates; the last one is its output.

        Raises:
            Blocked: if the subject lacks parameters that the profile needs.
        """
        probe = self.probes[case.probe]
        try:
            with torch.no_grad():
                return self.encoder.trace(self.parameters(case.weights), *probe.inputs, keep=probe.keep)
        except SpecificationError as reason:
            raise Blocked(f"the profile cannot be evaluated: {reason}") from None

    def demand_float64(self, what: str) -> None:
        """Go on only with a subject that computes in float64.

        Raises:
            Unsupported: if it computes in less, where single values decide nothing.
        """
        if self.subject.dtype is not torch.float64:
            raise Unsupported(f"not decidable in {name_of(self.subject.dtype)}: {what} are compared in float64 alone")

    def _budget(self, case: Case) -> float | None:
        """The allowed difference of an output, if it is derived; None in float64, where it is fixed."""
        if self.subject.dtype is torch.float64:
            return None
        probe = self.probes[case.probe]
        allowed = budget(self.encoder, self.parameters(case.weights), probe.inputs, probe.keep, self.subject.dtype)
        if isinf(allowed):
            name = name_of(self.subject.dtype)
            raise Unsupported(f"not decidable in {name}: the specification itself overflows there [{case}]")
        return allowed

    def _recorded(self, case: Case) -> Recorded:
        """Everything that the subject computes in a case, its inputs included."""
        self.demand_float64("intermediates")
        probe = self.probes[case.probe]
        with self._asking(case):
            return Recorded(self.subject.record(probe.inputs, probe.keep))

    def _aligned(self, case: Case) -> list[Aligned]:
        return align(self.trace(case), self.recorded(case), self.encoder.dimensions.h, self.probes[case.probe].keep)

    def valid(self, case: Case) -> Tensor | None:
        """Which positions of the output are compared: those that are kept, or that a head reads."""
        keep, head = self.probes[case.probe].keep, self.encoder.profile["head"].variant
        if keep is None or head in ("none", "mlm"):
            return keep
        return keep.any(dim=1) if head == "mean-pool" else keep[:, 0]

    def cotangent(self, case: Case) -> Tensor:
        """Random weights of the outputs in the sum that is differentiated; 0 at padding."""
        want, valid = self.expected(case), self.valid(case)
        generator = torch.Generator().manual_seed(self.seed)
        w = torch.randn(want.shape, generator=generator, dtype=want.dtype)
        return w if valid is None else w * valid[..., None]

    def gradients(self, case: Case, cotangent: Tensor) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The subject's gradients of Σ cotangent · output, by input and by canonical parameter."""
        self.demand_float64("gradients")
        probe = self.probes[case.probe]
        with self._asking(case):
            by_input, by_name = self.subject.gradients(probe.inputs, probe.keep, cotangent)
        return by_input, self.mapping.gradients(by_name)

    def expected_gradients(
        self, case: Case, cotangent: Tensor, encoder: Encoder | None = None
    ) -> tuple[Tensor | None, Mapping[str, Tensor]]:
        """The specification's gradients, or those of another encoder, by autograd through its implementation."""
        probe = self.probes[case.probe]
        leaves = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in probe.inputs)
        parameters = {p: v.clone().requires_grad_() for p, v in self.parameters(case.weights).items()}
        output = (encoder or self.encoder)(parameters, *leaves, keep=probe.keep)
        (output * cotangent).sum().backward()
        learned = {p: v for p, v in parameters.items() if self.mapping.sources[p].names}
        by_path = {p: torch.zeros_like(v) if v.grad is None else v.grad for p, v in learned.items()}
        return leaves[0].grad, by_path
