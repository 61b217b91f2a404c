"""A run: one subject, the specification's encoder beside it, and what both compute.

Everything is computed when a check first asks for it and shared by all checks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.compare import Blocked, Comparison, Disagreement, Unsupported, demand_equal
from conformance_tests.intermediates import Aligned, align, departure
from conformance_tests.mapping import ParameterMapping
from conformance_tests.probes import Probe, Probes
from conformance_tests.subject import Subject
from conformance_tests.weights import FAINT, GIVEN, PERTURBED, WeightSets
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


UNPADDED = (Case(), Case(probe="single"), Case(FAINT, "faint"), Case(GIVEN))
PADDED = (Case(probe="scattered"), Case(probe="right"))
FAST = tuple(case._replace(gradients=False) for case in (Case(), *PADDED))


@dataclass
class Run:
    """What the checks see of one subject."""

    subject: Subject
    encoder: Encoder
    mapping: ParameterMapping
    weight_sets: WeightSets
    seed: int
    identified: bool = True
    comparisons: list[Comparison] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probes = Probes(self.encoder, self.seed)
        # Each case is computed once: the subject may be slow, and must not be asked twice to agree with itself.
        self.output = cache(self._output)
        self.expected = cache(self._expected)
        self.aligned = cache(self._aligned)

    # What the two compute ------------------------------------------------------------

    def parameters(self, weights: str = PERTURBED) -> dict[str, Tensor]:
        """The subject's weights by canonical path, in float64."""
        return self.mapping.canonical(self.weight_sets[weights])

    def encode(self, case: Case, probe: Probe) -> Tensor:
        """Call the subject on a probe of the check's own making."""
        self.weight_sets.use(case.weights)
        try:
            return self.subject.encode(probe.inputs, probe.keep, case.gradients).detach()
        except (Disagreement, Unsupported):
            raise
        except Exception as fault:  # whatever the subject raises is a finding about the subject
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

    def _aligned(self, case: Case) -> list[Aligned]:
        probe = self.probes[case.probe]
        self.weight_sets.use(case.weights)
        recorded = self.subject.record(probe.inputs, probe.keep)
        return align(self.trace(case), recorded, self.encoder.dimensions.h, probe.keep)

    # What checks ask -----------------------------------------------------------------

    def context(self, case: Case) -> str:
        """Sizes, weights and probe, for a message."""
        probe, sizes = self.probes[case.probe], self.encoder.dimensions
        shape = " ".join(f"{letter}={getattr(sizes, letter)}" for letter in ("d_model", "h", "d_k", "d_ff", "N"))
        return f"input {tuple(probe.inputs[0].shape)}, {shape}; {case}; seed {self.seed}"

    def demand_equal(
        self,
        got: Tensor,
        want: Tensor,
        what: str,
        case: Case,
        valid: Tensor | None = None,
        amplification: float = 1.0,
        place: str = "",
    ) -> None:
        """Compare, and keep error and budget for the report: see ``compare.demand_equal``."""
        context = f"{place}; {self.context(case)}" if place else self.context(case)
        found = demand_equal(got, want, what, valid=valid, amplification=amplification, context=context)
        self.comparisons.append(found)

    def demand_agreement(self, case: Case) -> None:
        """The subject's output equals the specification's at every valid position."""
        self.demand_equal(self.output(case), self.expected(case), "encoder: Z", case, valid=self.valid(case))

    def valid(self, case: Case) -> Tensor | None:
        """Which positions of the output are compared: those that are kept."""
        keep = self.probes[case.probe].keep
        return keep if self.expected(case).ndim == 3 else None

    def cases(self, *cases: Case) -> list[Case]:
        """The cases with the weights that this subject can take, each once."""
        return list(dict.fromkeys(c if c.weights in self.weight_sets else c._replace(weights=GIVEN) for c in cases))

    def case(self, weights: str = PERTURBED, probe: str = "plain", gradients: bool = True) -> Case:
        """One case, with the weights that this subject can take."""
        return self.cases(Case(weights, probe, gradients))[0]

    def keep(self, case: Case) -> Tensor:
        """The mask of a padded case, (B, n) with True = keep."""
        keep = self.probes[case.probe].keep
        assert keep is not None, f"probe {case.probe} has no mask"
        return keep

    def demand_mask(self) -> None:
        """Go on only with a subject that takes a mask."""
        if not self.subject.takes_mask:
            raise Unsupported("the encoder takes no mask")

    def demand_agreeing(self, *cases: Case) -> None:
        """Go on only where the outputs agree: what builds on them says nothing else."""
        for case in cases:
            if not self.agrees(case):
                raise Blocked(f"the outputs disagree with the specification already on probe {case.probe}")

    def demand_parameter_count(self, what: str, *suffixes: str) -> None:
        """The arrays whose paths end so have as many entries as their declared shapes."""
        got = sum(a.numel() for p, a in self.parameters(GIVEN).items() if p.endswith(suffixes))
        declared = self.encoder.parameter_shapes()
        want = sum(prod(shape) for path, shape in declared.items() if path.endswith(suffixes))
        assert got == want, f"{what}: {got:,} parameters, but the declared shapes sum to {want:,}"

    @cached_property
    def departure(self) -> Aligned | None:
        """The first intermediate that is wrong, in the first case whose output is; None if all agree."""
        for case in self.cases(*UNPADDED, *(PADDED if self.subject.takes_mask else ())):
            if not self.agrees(case):
                return departure(self.aligned(case))
        return None

    def agrees(self, case: Case) -> bool:
        """Whether the subject's output equals the specification's."""
        try:
            demand_equal(self.output(case), self.expected(case), "", valid=self.valid(case))
        except Disagreement:
            return False
        return True

    def demand_intermediate(self, slot: str, *cases: Case) -> None:
        """Every value that the equation in ``slot`` gives stands among the subject's intermediates.

        Raises:
            Disagreement: if the subject departs from the specification at this equation.
            Blocked: if it departed earlier, so that this equation had wrong inputs.
            Unsupported: if it never forms the value as an array of its own.
        """
        for case in self.cases(*(cases or (Case(),))):
            here = [a for a in self.aligned(case) if a.spec.equation.slot == slot]
            self._demand_found(here, case)

    def observed(self, slot: str, case: Case) -> list[Tensor]:
        """What the subject has in this slot: its values, or what stands in their place if it departs there."""
        here = [a for a in self.aligned(case) if a.spec.equation.slot == slot]
        missing = next((a for a in here if not a.found), None)
        if missing is not None:
            self._demand_departure_at(missing, case)
        return [n.got for n in (a.nearest() for a in here) if n.got is not None]

    def _demand_found(self, here: list[Aligned], case: Case) -> None:
        missing = next((a for a in here if not a.found), None)
        if missing is None:
            self.comparisons.extend(Comparison(a.error, a.budget) for a in here)
            return
        departed = self._demand_departure_at(missing, case)
        what = f"{departed.spec.equation.id}: {departed.letter}"
        if departed.got is None:
            raise Disagreement(f"{what} is not among the encoder's intermediates [{self.context(case)}]")
        self.demand_equal(departed.got, departed.want, what, case, departed.valid, place=departed.spec.path)

    def _demand_departure_at(self, missing: Aligned, case: Case) -> Aligned:
        """The first wrong intermediate of this case, if it is in the slot of ``missing``."""
        id = missing.spec.equation.id
        departed = None if self.agrees(case) else departure(self.aligned(case))
        if departed is None:
            raise Unsupported(f"the encoder agrees, but forms no array that holds {id}")
        if departed.spec.equation.slot != missing.spec.equation.slot:
            raise Blocked(f"the encoder departs from the specification at {departed.spec.equation.id}")
        return departed

    @contextmanager
    def measured(self) -> Iterator[list[Comparison]]:
        """Collect the comparisons of one check."""
        self.comparisons = []
        yield self.comparisons

    def gradient_cases(self) -> list[Case]:
        """Where gradients are compared."""
        return self.cases(Case(), *(PADDED[:1] if self.subject.takes_mask else ()))

    def cotangent(self, case: Case) -> Tensor:
        """Random weights of the outputs in the sum that is differentiated; 0 at padding."""
        want, valid = self.expected(case), self.valid(case)
        generator = torch.Generator().manual_seed(self.seed)
        w = torch.randn(want.shape, generator=generator, dtype=want.dtype)
        return w if valid is None else w * valid[..., None]

    def idle_unmapped(self) -> list[str]:
        """The subject's parameters that have no canonical path and no gradient."""
        case = self.case()
        probe = self.probes[case.probe]
        self.weight_sets.use(case.weights)
        _, by_name = self.subject.gradients(probe.inputs, probe.keep, self.cotangent(case))
        return [name for name in self.mapping.unmapped if not by_name[name].any()]

    def gradients(self, case: Case, cotangent: Tensor) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The subject's gradients of Σ cotangent · output, by input and by canonical parameter."""
        probe = self.probes[case.probe]
        self.weight_sets.use(case.weights)
        by_input, by_name = self.subject.gradients(probe.inputs, probe.keep, cotangent)
        return by_input, self.mapping.canonical(by_name)

    def expected_gradients(self, case: Case, cotangent: Tensor) -> tuple[Tensor | None, Mapping[str, Tensor]]:
        """The specification's gradients, by autograd through its implementation."""
        probe = self.probes[case.probe]
        leaves = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in probe.inputs)
        parameters = {p: v.clone().requires_grad_() for p, v in self.parameters(case.weights).items()}
        output = self.encoder(parameters, *leaves, keep=probe.keep)
        (output * cotangent).sum().backward()
        by_path = {p: torch.zeros_like(v) if v.grad is None else v.grad for p, v in parameters.items()}
        return leaves[0].grad, by_path
