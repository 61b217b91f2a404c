"""A run: what a check sees of one subject, and what it may demand of it.

A demand that is not met raises: ``Disagreement`` if the subject is wrong, ``Blocked`` if
something earlier is wrong already, ``Unsupported`` if the subject cannot tell.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from torch import Tensor

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.computed import FAST, PADDED, UNPADDED, Case, Computed
from conformance_tests.harness.intermediates import Aligned, departure
from conformance_tests.harness.weight_sets import GIVEN, PERTURBED
from conformance_tests.numerics.compare import Comparison, demand_equal
from conformance_tests.parameters.naming import BESIDE

__all__ = ["FAST", "PADDED", "UNPADDED", "Case", "Run"]


@dataclass
class Run(Computed):
    """What the checks see of one subject: what was computed, and demands on it."""

    identified: bool = True
    stored: Mapping[str, str] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    misreads: dict[Case, Any] = field(default_factory=dict)
    """What ``wiring.misread_in`` has found for a case: many checks ask, and the search is long."""

    @cached_property
    def equations(self) -> frozenset[str]:
        """The ids of the equations that the profile uses."""
        return frozenset(equation.id for equation in self.encoder.equations())

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
        budget: float | None = None,
    ) -> None:
        """Compare, and keep error and budget for the report: see ``compare.demand_equal``."""
        context = f"{place}; {self.context(case)}" if place else self.context(case)
        allowed = self.budget(case) if budget is None else budget
        found = demand_equal(got, want, what, valid=valid, amplification=amplification, context=context, budget=allowed)
        self.comparisons.append(found)

    def demand_agreement(self, case: Case) -> None:
        """The subject's output equals the specification's at every valid position."""
        self.demand_equal(self.output(case), self.expected(case), "encoder: Z", case, valid=self.valid(case))

    def cases(self, *cases: Case) -> list[Case]:
        """The cases with the weights that this subject can take, and the masks that it can be told of, each once."""
        possible = [c for c in cases if self._can_be_asked(c.probe)]
        return list(dict.fromkeys(c if c.weights in self.weight_sets else c._replace(weights=GIVEN) for c in possible))

    def _can_be_asked(self, probe: str) -> bool:
        """Whether the subject can be told of a probe's mask, and reads as many tokens."""
        keep = self.probes[probe].keep
        return not (probe == "many" and self.too_many) if keep is None else self.subject.can_hide(keep)

    @cached_property
    def too_many(self) -> str:
        """What the subject says of so many tokens as probe ``many`` has, if it reads fewer alone; else empty.

        A table of positions ends somewhere. That it refuses so many sequences is a finding, which the checks make.
        """
        case, probe = self.case()._replace(probe="many"), self.probes["many"]
        try:
            self.output(case)
        except Disagreement as refusal:
            with suppress(Disagreement):
                self.encode(case, probe.corner(len(probe.inputs[0]), self.probes.length))
                return str(refusal)
        except (Blocked, Unsupported):
            pass
        return ""

    def with_numbers(self, *cases: Case) -> list[Case]:
        """The cases for which the specification itself has numbers in the subject's precision.

        Raises:
            Unsupported: if it has none for any of them.
        """
        found = []
        reason = Unsupported("the encoder cannot be told of any of these masks")
        for case in self.cases(*cases):
            try:
                self.budget(case)
            except Unsupported as overflow:
                reason = overflow
            else:
                found.append(case)
        if not found:
            raise reason
        return found

    def with_and_without_padding(self) -> list[Case]:
        """The plain case, and the padded ones where masks are taken."""
        return self.cases(Case(), *(PADDED if self.subject.takes_mask else ()))

    def case(self, weights: str = PERTURBED, probe: str = "plain", gradients: bool = True) -> Case:
        """One case, with the weights that this subject can take."""
        return self.cases(Case(weights, probe, gradients))[0]

    def keep(self, case: Case) -> Tensor:
        """The mask of a padded case, (B, n) with True = keep."""
        keep = self.probes[case.probe].keep
        assert keep is not None, f"probe {case.probe} has no mask"
        return keep

    def demand_output_per_position(self) -> None:
        """Go on only where the output has the positions of the input, one for one."""
        self.demand_shaped(self.case())
        profile = self.encoder.profile
        if profile["head"].variant not in ("none", "mlm"):
            raise Unsupported("the head does not give an output for each position")
        if profile["input"].variant == "embedded" and profile["embedding"].variant != "lookup":
            raise Unsupported("an image has no sequence of its own")

    def demand_shaped(self, case: Case) -> None:
        """Go on only with an output of the right shape: parts of another one say nothing."""
        got, want = tuple(self.output(case).shape), tuple(self.expected(case).shape)
        if got != want:
            raise Blocked(f"the output has shape {got} already, where the specification gives {want}")

    def demand_mask(self) -> None:
        """Go on only with a subject that takes a mask."""
        if not self.subject.takes_mask:
            raise Unsupported("the encoder takes no mask")

    def demand_agreeing(self, *cases: Case) -> None:
        """Go on only where the outputs agree: what builds on them says nothing else."""
        for case in cases:
            if not self.agrees(case):
                raise Blocked(f"the outputs disagree with the specification already on probe {case.probe}")

    def stated_parameters(self, weights: str = GIVEN) -> dict[str, Tensor]:
        """The subject's own parameters by canonical path, as it keeps them."""
        return {path: w for path, w in self.parameters(weights).items() if not self.mapping.is_absent(path)}

    def demand_parameter_count(self, what: str, *suffixes: str) -> None:
        """The arrays whose paths end so have as many entries as their declared shapes."""
        got = sum(a.numel() for p, a in self.stated_parameters().items() if p.endswith(suffixes))
        declared = self.encoder.parameter_shapes()
        want = sum(prod(shape) for path, shape in declared.items() if path.endswith(suffixes))
        assert got == want, f"{what}: {got:,} parameters, but the declared shapes sum to {want:,}"

    @cached_property
    def departure(self) -> tuple[Case, Aligned] | None:
        """The first case whose output is wrong, and the first intermediate that is wrong in it.

        None if all agree. Where every intermediate is right, the output is made of them wrongly: by the
        last equation.
        """
        case = self.first_wrong
        if case is None:
            return None
        try:
            aligned = self.aligned(case)
        except (Blocked, Disagreement, Unsupported):
            return None
        place = departure(aligned)
        if place < len(aligned):
            return case, aligned[place]
        last = "final_norm" if self.encoder.profile["head"].variant == "none" else "head"
        return case, next(a for a in aligned if a.spec.equation.slot == last)

    @cached_property
    def first_wrong(self) -> Case | None:
        """The first case whose output disagrees with one that the specification has; None if there is none."""
        for case in self.cases(*UNPADDED, *(PADDED if self.subject.takes_mask else ())):
            try:
                self.expected(case)
                if not self.agrees(case):
                    return case
            except (Blocked, Unsupported):
                continue
        return None

    def largest_error(self, case: Case) -> float:
        """The largest difference of the output, where it agrees."""
        return demand_equal(
            self.output(case), self.expected(case), "", valid=self.valid(case), budget=self.budget(case)
        ).error

    def agrees(self, case: Case) -> bool:
        """Whether the subject's output equals the specification's."""
        try:
            self.largest_error(case)
        except Disagreement:
            return False
        return True

    def demand_intermediate(self, slot: str, *cases: Case) -> None:
        """Every value that the equation in ``slot`` gives stands among the subject's intermediates.

        Behind the place where a subject departs from the specification nothing is expected.

        Raises:
            Disagreement: if the subject departs at this equation.
            Blocked: if it departed earlier, so that this equation never had right inputs.
            Unsupported: if it never forms the value as an array of its own.
        """
        undecided: Blocked | Unsupported | None = None
        there = self.departure
        departs_here = there[:1] if there is not None and there[1].spec.equation.slot == slot else ()
        for case in self.cases(*(cases or (Case(),)), *departs_here):
            try:
                values = self._before_departure(slot, case)
            except (Blocked, Unsupported) as reason:
                undecided = undecided or reason  # another case may tell
                continue
            for here in values:
                self._demand_formed(here, case)
        if undecided is not None:
            raise undecided

    def _demand_formed(self, here: Aligned, case: Case) -> None:
        what = f"{here.spec.equation.id}: {here.letter}"
        if here.found:
            self.comparisons.append(Comparison(here.error, here.budget))
        elif here.got is None:
            raise Disagreement(f"{what} is not among the encoder's intermediates [{self.context(case)}]")
        else:
            place = here.spec.path
            self.demand_equal(here.got, here.want, what, case, here.valid, place=place, budget=here.budget)

    def observed(self, slot: str, case: Case) -> list[Tensor]:
        """What the subject has in this slot: its values, or what stands in their place if it departs there."""
        return [here.got for here in self._before_departure(slot, case) if here.got is not None]

    def _before_departure(self, slot: str, case: Case) -> list[Aligned]:
        """The values of a slot up to where the subject departs, this place included."""
        aligned = self.aligned(case)
        end = len(aligned) if self.agrees(case) else departure(aligned)
        here = [a.nearest() for a in aligned[: end + 1] if a.spec.equation.slot == slot]
        if not here:
            raise Blocked(f"the encoder departs from the specification at {aligned[end].spec.equation.id}")
        unformed = next(
            (a for place, a in enumerate(aligned[:end]) if a.spec.equation.slot == slot and not a.found), None
        )
        if unformed is not None:
            raise Unsupported(f"the encoder forms no array that holds {unformed.spec.equation.id}")
        return here

    @contextmanager
    def measured(self) -> Iterator[list[Comparison]]:
        """Collect the comparisons of one check."""
        self.comparisons = []
        yield self.comparisons

    def gradient_cases(self) -> list[Case]:
        """Where gradients are compared."""
        return [*self.cases(Case()), *(self.cases(*PADDED)[:1] if self.subject.takes_mask else ())]

    def idle_unmapped(self) -> list[str]:
        """The subject's parameters that have no canonical path and influence nothing that it returns.

        A pooler or a head stands beside the hidden states, even where the call does not run it.
        """
        case = self.case()
        probe = self.probes[case.probe]
        self.weight_sets.use(case.weights)
        _, by_name = self.subject.gradients(probe.inputs, probe.keep, self.cotangent(case))
        idle = [name for name in self.mapping.unmapped if not by_name[name].any()]
        return [
            name
            for name in idle
            if not BESIDE.search(name) and not self.subject.influences_anything(name, probe.inputs)
        ]
