"""A run: what a check sees of one subject, and what it may demand and expect of it.

What is not met raises: ``Disagreement`` if the subject is wrong, ``Blocked`` if something
earlier is wrong already, ``Unsupported`` if the subject cannot tell.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, prod
from typing import Self

import torch
from torch import Tensor

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness import wiring
from conformance_tests.harness.computed import FAST, FOR_EACH_POSITION, LARGE, PADDED, UNPADDED, Case, Computed
from conformance_tests.harness.intermediates import Aligned, departure
from conformance_tests.harness.weight_sets import GIVEN, SHARPNESS
from conformance_tests.numerics.compare import Comparison, demand_equal
from conformance_tests.numerics.probes import Probe
from conformance_tests.numerics.sketches import is_sketched
from conformance_tests.subjects.subject import name_of
from encoder_spec.assembly import Intermediate
from encoder_spec.equation import earliest
from encoder_spec.position import told_in_attention

__all__ = ["FAST", "LARGE", "PADDED", "UNPADDED", "Case", "Run"]

LARGEST_SCORE = 5000.0
"""Up to here a mask must hide padding: half of the 10000 that BERT's released code takes from masked scores."""


ROUNDING_ELSEWHERE = 100.0
"""The factor of the budget where an encoder is judged as it is used, and not in float64.

It may round where the specification does not. A constant that a later norm takes out again costs digits, as does a
variance that is a difference of two large numbers: ten budgets were seen. A part in bfloat16 or float16 rounds 8192
times more coarsely than float32, or even more so.
"""

OF_HEAD = ("head", "pool", "length", "transform", "reader")
"""The slots of what stands on top of the hidden states."""


@dataclass
class Run(Computed):
    """One subject, as a check sees it.

    A check *compares* numbers (``demand_equal``, ``demand_agreement``, ``demand_parameter_count``), goes on only
    where that says something (``demand_mask``, ``demand_agreeing``, ``demand_shaped`` …), and says what it
    *expects* of a value on the way: ``run.expect("scores").reaches("mask").is_formed()``.

    ``with_head`` is the run of a whole model whose hidden states this one judges, together with the head on top of
    them: it decides the requirements of the head.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    with_head: "Run | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.misread = cache(self._misread)
        self.other_padding = cache(self._other_padding)

    def expect(self, slot: str, *cases: Case) -> "ExpectedValue":
        """Return the value of a slot, as the specification computes it from the subject's own weights and inputs.

        Args:
            slot: the slot whose equation gives the value.
            cases: where it is expected; the plain case alone if none is given.
        """
        return ExpectedValue(self, slot, tuple(self.cases(*(cases or (Case(),)))))

    @cached_property
    def all_equations(self) -> frozenset[str]:
        """The ids of the equations that are judged: those of the head are the whole model's.

        A norm between both is seen in what the head gives: the model may norm the one position alone that it reads.
        """
        if self.with_head is None:
            return self.equations
        of_head = {self.with_head.encoder.profile[slot].id for slot in OF_HEAD} & self.with_head.equations
        return self.equations - {self.encoder.profile["head"].id} | of_head

    def of_equation(self, equation: str) -> "Run":
        """Return the run in which an equation shows."""
        return self if self.with_head is None or equation in self.equations else self.with_head

    def _misread(self, case: Case) -> wiring.Misread | None:
        return wiring.misread(self, case)

    @property
    def departs_at(self) -> str | None:
        """The id of the first equation that is wrong; None if all outputs agree or no intermediates are shown."""
        # Of what shows in the whole output alone, the intermediates tell where it begins.
        places = [finding.slot for finding in self.facts.findings if finding.slot != "stack"]
        if places:
            return earliest(self.encoder.profile[slot].id for slot in places)
        if self.departure is None:
            return self.encoder.profile["stack"].id if self.facts.findings else None
        case, first = self.departure
        misread = self.misread(case)
        return (misread.giver if misread else first.spec.equation).id

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
        comparison = demand_equal(
            got, want, what, valid=valid, amplification=amplification, context=context, budget=allowed
        )
        self.comparisons.append(comparison)

    def demand_agreement(self, case: Case) -> None:
        """Demand that the subject's output equals the specification's at every valid position."""
        self.demand_equal(self.output(case), self.expected(case), "encoder: Z", case, valid=self.valid(case))

    def gradient_in_words(self, path: str) -> str:
        """Return what is compared of the gradient by a parameter: of a large one, sums with random signs."""
        size = prod(self.encoder.parameter_shapes()[path])
        of_sums = "signed sums over rows, then columns, of the " if is_sketched(size) else ""
        return f"encoder: {of_sums}gradient by {path}"

    def demand_agreement_as_used(self) -> None:
        """Demand that the output equals the specification's up to rounding, called as the owner of the encoder does."""
        for case in self.cases(*(case._replace(weights=GIVEN) for case in FAST)):
            used, valid = self.as_used(case.probe), self.valid(case)
            what = f"encoder: Z in {name_of(used.dtype)} with its own weights"
            difference = demand_equal(used.got, used.want, what, valid=valid, context=self.context(case), budget=inf)
            allowed = used.allowed(difference.error / ROUNDING_ELSEWHERE)
            times = 1.0 if allowed is None else ROUNDING_ELSEWHERE
            self.demand_equal(used.got, used.want, what, case, valid, budget=allowed, amplification=times)

    def with_numbers(self, *cases: Case) -> list[Case]:
        """Return the cases for which the specification itself has numbers in the subject's precision.

        Raises:
            Unsupported: if it has none for any of them.
        """
        decidable = []
        reason = Unsupported("the encoder does not take any of these masks")
        for case in self.cases(*cases):
            try:
                self.budget(case)
            except Unsupported as overflow:
                reason = overflow
            else:
                decidable.append(case)
        if not decidable:
            raise reason
        return decidable

    def padded_cases(self) -> list[Case]:
        """Return the padded cases, and one of them with scores that fills which are merely large do not beat."""
        padded = self.cases(*PADDED)
        return [*padded, *(Case(weights, case.probe) for weights in SHARPNESS for case in padded[:1])]

    def with_other_padding(self, *cases: Case) -> list[tuple[Case, Probe, Tensor]]:
        """Return padded cases, their probes with other content at padded positions, and the outputs to compare.

        The content is up to a thousand times larger. Samples whose scores go beyond ``LARGEST_SCORE`` are left out.

        Raises:
            Unsupported: if none is left in any case, or if padding has no content.
        """
        if not self.subject.reads_padding():
            raise Unsupported("padding has no other content: an id stands there, or sequences come without it")
        changed = list(filter(None, map(self._with_other_padding, self.with_numbers(*cases))))
        if not changed:
            raise Unsupported(f"its scores go beyond ±{LARGEST_SCORE:g}, where a finite fill does not hide padding")
        return changed

    def _with_other_padding(self, case: Case) -> tuple[Case, Probe, Tensor] | None:
        valid, found = self.valid(case), self.other_padding(case._replace(gradients=True))
        assert valid is not None, f"probe {case.probe} has no mask"
        if found is None:
            return None
        other, within = found
        return case, other.copy(), valid & (within[:, None] if valid.ndim > 1 else within)

    def _other_padding(self, case: Case) -> tuple[Probe, Tensor] | None:
        """Return a case's probe with other content at padded positions, and in which samples no score is too large."""
        probe = self.probes[case.probe]
        within = self._largest_scores(case, probe) <= LARGEST_SCORE
        # float16 has no number for the squares of content so much larger.
        times = 1.0 if self.subject.dtype is torch.float16 else 1000.0
        other = probe.with_other_padding(times)
        beyond = float((self._largest_scores(case, other) * within).max()) / LARGEST_SCORE
        if beyond > 1:
            # Scores of padded keys grow as their content does; a tenth less leaves room for what is added to it.
            other = probe.with_other_padding(0.9 * times / beyond)
            within &= self._largest_scores(case, other) <= LARGEST_SCORE
        return (other, within) if within.any() else None

    def _largest_scores(self, case: Case, probe: Probe) -> Tensor:
        """Return the magnitude of each sample's largest score of a valid query, as the specification computes it."""
        assert probe.keep is not None
        valid = probe.keep[:, None, :, None]
        largest: list[Tensor] = []

        def look(step: Intermediate) -> None:
            if step.equation.slot == "scores":
                largest.append((step.value.abs() * valid).flatten(1).amax(dim=1))

        self.evaluated(case, probe, look)
        return torch.stack(largest).amax(dim=0)

    def demand_output_per_position(self) -> None:
        """Go on only where the output has the positions of the input, one for one."""
        self.demand_shaped(self.case())
        profile = self.encoder.profile
        if profile["head"].variant not in FOR_EACH_POSITION:
            raise Unsupported("the head does not give an output for each position")
        if not self.probes["plain"].by_position:
            raise Unsupported("an image is not a sequence of positions")

    def demand_a_set(self, what: str) -> None:
        """Demand that reversing the sequence reverses the output, behind the class tokens."""
        chosen = self.encoder.choices()
        if told_in_attention(chosen) or chosen["reach"] != "global":
            raise Unsupported("the scores know positions, so that order does matter")
        self.demand_output_per_position()
        first = self.encoder.prepended
        for case in self.cases(Case(), Case(gradients=False)):
            Z, got = self.output(case), self.encode(case, self.probes[case.probe].reversed())
            want = torch.cat([Z[:, :first], Z[:, first:].flip(1)], dim=1)
            self.demand_equal(got, want, f"{what}: Z of the reversed input", case)

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

    def demand_parameter_count(self, what: str, *suffixes: str) -> None:
        """Demand that the arrays whose paths end so have as many entries as their declared shapes."""
        got = sum(a.numel() for p, a in self.stated_parameters().items() if p.endswith(suffixes))
        declared = self.encoder.parameter_shapes()
        want = sum(prod(shape) for path, shape in declared.items() if path.endswith(suffixes))
        assert got == want, f"{what}: {got:,} parameters, but the declared shapes sum to {want:,}"

    def observed(self, slot: str, case: Case) -> list[Tensor]:
        """Return what the subject has in this slot: its values, or what stands in their place if it departs there."""
        return [here.got for here in self.before_departure(slot, case) if here.got is not None]

    def before_departure(self, slot: str, case: Case) -> list[Aligned]:
        """Return the values of a slot up to where the subject departs, this place included."""
        aligned = self.aligned(case)
        end = len(aligned) if self.agrees(case) else departure(aligned)
        here = [a.nearest() for a in aligned[: end + 1] if a.spec.equation.slot == slot]
        if not here:
            raise Blocked(f"the encoder departs from the specification at {aligned[end].spec.equation.id}")
        unformed = next(
            (a for place, a in enumerate(aligned[:end]) if a.spec.equation.slot == slot and not a.is_found), None
        )
        if unformed is not None:
            raise Unsupported(f"the encoder forms no array that holds {unformed.spec.equation.id}")
        return here

    @contextmanager
    def measured(self) -> Iterator[list[Comparison]]:
        """Collect the comparisons of one check."""
        self.comparisons = []
        yield self.comparisons


@dataclass(frozen=True)
class ExpectedValue:
    """The value of one slot, in some cases: what the specification computes, and the subject is expected to.

    Each verb raises if the expectation is not met, and returns the value if it is, so that verbs can be chained.
    Where a subject departs from the specification earlier, nothing is expected of what follows.
    """

    run: Run
    slot: str
    cases: tuple[Case, ...]

    def reaches(self, *readers: str) -> Self:  # noqa: ARG002  -- what it names is held against the specification by a test
        """Expect that the equations which read the value read it as it is.

        Looked at in these cases, and in the first one whose output is wrong: there an equation may be right at
        another input than the one that this slot should have given it.

        Args:
            readers: the slots that read it, for people who read the check.

        Raises:
            Disagreement: if an equation is right, but for another input.
            Unsupported: if the subject shows no intermediates.
        """
        run = self.run
        self._demand_nothing_found()
        for case in self.cases:
            for wrong in dict.fromkeys((case, *(run.departure or ())[:1])):
                misread = None if run.agrees(wrong) else run.misread(wrong)
                if misread is not None and misread.giver.slot == self.slot:
                    reader = misread.reader
                    where = f" ({reader.path})" if reader.path else ""
                    what = f"{reader.equation.id}{where} reads another input than in the specification"
                    raise Disagreement(f"{misread.giver.id}: {what} [{run.context(wrong)}]")
        return self

    def is_formed(self) -> Self:
        """Expect the value among the subject's intermediates, in the order of axes that the subject likes.

        Raises:
            Disagreement: if the subject departs at the equation of this slot.
            Blocked: if it departed earlier, so that this equation never had right inputs.
            Unsupported: if it never forms the value as a separate array.
        """
        self._demand_nothing_found()
        undecided: Blocked | Unsupported | None = None
        there = self.run.departure
        departs_here = there[:1] if there is not None and there[1].spec.equation.slot == self.slot else ()
        for case in self.run.cases(*self.cases, *departs_here):
            try:
                values = self.run.before_departure(self.slot, case)
            except (Blocked, Unsupported) as reason:
                undecided = undecided or reason  # another case may tell
                continue
            for here in values:
                self._demand_formed(here, case)
        if undecided is not None:
            raise undecided
        return self

    def is_alike_in_all_processes(self) -> Self:
        """Expect that no process of an encoder that is spread over several was seen to have another value.

        The outputs are those of one of them. Other findings in this slot fail the checks that are about them.

        Raises:
            Disagreement: if one was.
        """
        if self.run.subject.processes > 1:
            self._demand_nothing_found()
        return self

    def _demand_nothing_found(self) -> None:
        """Go on only if the computation shows no departure in this slot by itself."""
        for finding in self.run.facts.findings:
            if finding.slot == self.slot:
                raise Disagreement(f"{self.run.encoder.profile[self.slot].id}: {finding.says}")

    def _demand_formed(self, here: Aligned, case: Case) -> None:
        what = f"{here.spec.equation.id}: {here.letter}"
        if here.is_found:
            self.run.comparisons.append(Comparison(here.error, here.budget))
        elif here.got is None:
            raise Disagreement(f"{what} is not among the encoder's intermediates [{self.run.context(case)}]")
        else:
            place = here.spec.path
            self.run.demand_equal(here.got, here.want, what, case, here.valid, place=place, budget=here.budget)

    def is_not_changed_by(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Expect that a subject which departs does not form the value after a change, such as a scale.

        Raises:
            Disagreement: if it does.
            Unsupported: if the subject shows no intermediates.
        """
        for case in self.cases:
            if self.run.agrees(case):
                continue
            recorded = self.run.recorded(case)
            for here in self.run.aligned(case):
                if here.spec.equation.slot == self.slot and recorded.has(change(here.want)):
                    what = f"{here.spec.equation.id}: {here.letter} is changed by {change.__name__}"
                    raise Disagreement(f"{what}, but not in the profile [{self.run.context(case)}]")
        return self
