"""The calls of a subject from which reading and variant are settled."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conformance_tests.errors import (
    Disagreement,
    Refused,
    SubjectError,
    Undetermined,
    Unsupported,
    message,
    tells_of_memory,
)
from conformance_tests.harness.computed import Case
from conformance_tests.harness.intermediates import Recorded
from conformance_tests.harness.weight_sets import FAINT, GIVEN, PERTURBED, SILENCED, WeightSets
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.foreign_parts import demand_hidden_states, refused
from conformance_tests.identification.missing_facts import table_is_missing
from conformance_tests.numerics.probes import Probes, Sizes
from conformance_tests.numerics.rounding import search_budget
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.subjects.calling import EXHAUSTED
from conformance_tests.subjects.source_lines import LIBRARIES, with_line
from conformance_tests.subjects.subject import Subject
from encoder_spec.assembly import Encoder


@dataclass(frozen=True)
class Evidence:
    """A few calls of the subject, with the weights that one reading of its parameters suggests."""

    sets: WeightSets
    cases: list[Case]
    experiments: list[Experiment]
    recorded: Recorded | None

    def read_as(self, mapping: ParameterMapping) -> list[Experiment]:
        """Return these calls with the parameters read in another way."""
        return [
            replace(e, parameters=self.sets.parameters(case.weights, mapping))
            for e, case in zip(self.experiments, self.cases, strict=True)
        ]


COMPLAINTS = (AttributeError, TypeError, IndexError, KeyError, ValueError, AssertionError, RuntimeError)
"""Errors by which code refuses an input of another form than it expects; torch's own are of the last kind."""


def complains_of_input(fault: Exception) -> bool:
    """Return whether another input may be taken: not if memory ran out, or a part is not written yet."""
    is_own = isinstance(fault, (*EXHAUSTED, NotImplementedError)) or tells_of_memory(message(fault))
    # Authors complain with plain exceptions, too, and frameworks with their classes.
    by_framework = type(fault).__module__.partition(".")[0] in LIBRARIES
    return (isinstance(fault, COMPLAINTS) or type(fault) is Exception or by_framework) and not is_own


def copies(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return inputs in separate memory: some encoders write into theirs."""
    return tuple(x.clone() for x in inputs)


class Calls:
    """Calls a subject, with weights of the suite's choice; what it learns of how to call it, it learns once."""

    def __init__(self, subject: Subject, seed: int, *, has_head: bool = False) -> None:
        self.subject = subject
        self.seed = seed
        self.has_head = has_head
        self.weights = subject.held()
        self.sets: WeightSets | None = None
        self.sizes: Sizes | None = None
        self.narrowed: torch.dtype | None = None
        self.is_narrowed_by_mask = False

    def put_back(self) -> None:
        """Give the subject its own weights again."""
        if self.sets is not None and GIVEN in self.sets:
            self.sets.use(GIVEN)

    def evidence(self, mapping: ParameterMapping, start: Encoder, stored: Mapping[str, str]) -> Evidence:
        """Make a few calls, with weights perturbed as a reading of the parameters suggests.

        Raises:
            Undetermined, SubjectError: if it cannot be called.
        """
        first_time = self.sets is None
        self.put_back()
        if first_time:
            self._learn(start)
        self.sets = sets = WeightSets(self.subject, mapping, self.seed, stored)
        probes = Probes(start, self.seed, self.subject.dtype, self.sizes, self.subject.special_ids)
        some = [Case(PERTURBED), Case(FAINT, "faint"), Case(GIVEN)] if PERTURBED in sets else []
        cases = some or [Case(GIVEN), Case(GIVEN, "faint")]
        experiments = [self.experiment(mapping, sets, probes, case) for case in cases]
        recorded = self.recording(sets, cases[0], experiments[0])
        if recorded is None and PERTURBED in sets:
            # Outputs alone decide: with some sublayers silent they tell the others apart.
            silent = [Case(weights) for weights in SILENCED]
            experiments += [self.experiment(mapping, sets, probes, case) for case in silent]
            cases += silent
        if first_time:
            self.narrowed = self.subject.narrowest_part(copies(experiments[0].inputs), None)
            if self.narrowed is None and self.subject.takes_mask:
                kept = probes["everything-kept"].copy()
                with suppress(Exception):  # it may take other sizes alone, and refuse masks: the checks say so
                    self.narrowed = self.subject.narrowest_part(kept.inputs, kept.keep)
                self.is_narrowed_by_mask = self.narrowed is not None
        return Evidence(sets, cases, experiments, recorded)

    def _learn(self, start: Encoder) -> None:
        """Let the subject learn how it is called: in sizes that are stated, or that it once accepted.

        Those that it accepted are used only if it refuses the suite's: first the length alone, then the batch alone.
        """
        accepted, hints = self.subject.accepted(), self.subject.hints
        is_stated = bool(hints.batch or hints.length)
        image = accepted.image if accepted else None
        patch = start.dimensions.patch, start.dimensions.patch_width
        has_table = any("rows" in equation.constants and equation.parameters for equation in start.equations())
        tells_grids = start.reads_grid and not has_table and not start.profile["position"].parameters
        if image is not None and not tells_grids and (has_table or len(set(image)) > 1 or len(set(patch)) > 1):
            # Positions of another grid of patches would be other ones, as far as they are taken at all.
            self.sizes = Sizes(image=image)
        tried: list[Sizes | None] = [] if is_stated else [self.sizes]
        if accepted is not None:
            alone = Sizes(None, accepted.length, image), Sizes(accepted.batch, None, image)
            tried += [accepted] if is_stated else [*alone, accepted]
        refusal: Refused | None = None
        for sizes in tried:
            probes = Probes(start, self.seed, sizes=sizes, special=self.subject.special_ids)
            try:
                self.subject.learn(probes)
            except Refused as reason:
                refusal = refusal or reason
                continue
            takes = self._takes(probes, "plain")
            if accepted is None or takes:
                self.sizes = (
                    sizes if not takes or self._takes_others(probes) else self._as_chosen(probes, sizes or Sizes())
                )
                return
        if refusal is not None:
            raise refusal

    def _as_chosen(self, probes: Probes, known: Sizes) -> Sizes:
        """Return the only sizes that are taken, with those that the suite chose: the length, or the batch too.

        Args:
            probes: of which it takes those of the chosen sizes alone.
            known: the sizes that are known to be the only ones.
        """
        of_length = known._replace(length=probes.length)
        others = Probes(probes.encoder, self.seed, sizes=of_length, special=self.subject.special_ids)
        return of_length if self._takes_others(others) else of_length._replace(batch=probes.batch)

    def _takes_others(self, probes: Probes) -> bool:
        return any(self._takes(probes, name) for name in ("few", "many"))

    def _takes(self, probes: Probes, name: str) -> bool:
        try:
            self.subject.encode(probes[name].inputs, None)
        except Exception:
            return False
        return True

    def experiment(self, mapping: ParameterMapping, sets: WeightSets, probes: Probes, case: Case) -> Experiment:
        """Call the subject once.

        Raises:
            Undetermined: if it refuses what it is called with, or returns nothing like hidden states.
            SubjectError: if it raises what no input is to blame for.
        """
        probe = probes[case.probe]
        try:
            with sets.in_use(case.weights):
                output = self.subject.encode(probe.inputs, None).detach()
        except (Disagreement, Undetermined):
            raise
        except Unsupported as reason:
            raise Undetermined(str(reason)) from None
        except Exception as fault:
            shape, convention = tuple(probe.inputs[0].shape), self.subject.conventions().get("input")
            given_as = f", given as {convention}," if convention else ""
            refusal = f"calling the encoder on {shape} {probe.inputs[0].dtype}{given_as} raised {with_line(fault)}"
            if probe.inputs[0].is_floating_point() and self.takes_tokens(probe.inputs[0]):
                raise table_is_missing(self.weights, mapping) from None
            left_open = refused(refusal, mapping, self.subject.hints)
            raise left_open if complains_of_input(fault) else SubjectError(refusal) from fault
        if not self.has_head:
            demand_hidden_states(output, probes.encoder, mapping)
        given = probes[case.probe].inputs  # the encoder may have written into those that it got
        return Experiment(sets.parameters(case.weights, mapping), given, output.double(), self.subject.dtype)

    def takes_tokens(self, x: Tensor) -> bool:
        """Return whether it can be called with ids, though no parameter is known as their table."""
        try:
            self.subject.encode((torch.zeros(x.shape[:2], dtype=torch.long),), None)
        except Exception:
            return False
        return True

    def recording(self, sets: WeightSets, first: Case, experiment: Experiment) -> Recorded | None:
        """Return the subject's intermediates in an experiment, if it shows them."""
        try:
            with sets.in_use(first.weights):
                return Recorded(self.subject.record(copies(experiment.inputs), None), search_budget(self.subject.dtype))
        except Unsupported:
            return None
