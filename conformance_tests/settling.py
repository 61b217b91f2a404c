"""How to read an encoder's parameters, and which encoder to judge it against: settled together, by agreement.

What names and shapes leave open is asked of the first layer's intermediates, one question
after the other; without intermediates, of the outputs.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conformance_tests.behind import behind_one_deviation, behind_wrong_input
from conformance_tests.epsilon import EPSILONS, fitted
from conformance_tests.evidence import Calls, Evidence
from conformance_tests.hints import Hints
from conformance_tests.identify import Identification, identify, open_axes
from conformance_tests.mapping import ParameterMapping, absent_outputs, reading
from conformance_tests.missing import lines, what_is_missing
from conformance_tests.outside import (
    demand_nothing_outside,
    parts_outside,
)
from conformance_tests.questions import Answer, open_storage
from conformance_tests.search import (
    Axes,
    agrees,
    candidates,
    first_layer,
    first_layer_is_found,
    forms,
    guided,
    projections,
    with_eps,
)
from conformance_tests.storage import Storage
from conformance_tests.structure import admissible, as_declared, structure
from conformance_tests.subject import Subject, Undetermined
from conformance_tests.tables import layout_of, stored_sinusoids
from conformance_tests.weights import WeightSets
from encoder_spec.assembly import Encoder
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import Profile

MOST_READINGS = 24
"""So many readings are tried by outputs alone: each is a search of its own."""


@dataclass
class Settled:
    """How the parameters are read, the weights to judge with, and the encoder to judge against."""

    mapping: ParameterMapping
    sets: WeightSets
    found: Identification
    stored: Mapping[str, str]


class Settling:
    """Settles reading and variant of one subject."""

    def __init__(self, subject: Subject, seed: int, declared: Profile | None) -> None:
        self.subject = subject
        self.declared = declared
        self.tables = subject.tables()
        self.calls = Calls(subject, seed, has_head=declared is not None and declared["head"].variant != "none")
        self.weights = self.calls.weights

    def put_back(self) -> None:
        """Give the subject its own weights again."""
        self.calls.put_back()

    def settle(self) -> Settled:
        """See the module.

        Raises:
            Undetermined: if the parameters are those of no encoder, or cannot be told apart.
        """
        questions = self._questions()
        storage = Storage()
        for answers in questions:
            storage = replace(storage, **answers[0])
        mapping = self._read(storage)
        evidence = self._evidence(mapping)
        found = self._judged(mapping, evidence)
        if not found.agrees and not self._is_read_rightly(found.encoder, mapping, evidence):
            mapping, evidence, found = self._otherwise(storage, questions, mapping, evidence, found)
        if not found.agrees and self.declared is None and "norm_final.gamma" not in mapping.sources:
            mapping, found = self._with_plain_final_norm(mapping, evidence, found)
        if not found.agrees and self.declared is None and evidence.recorded is None:
            found = self._behind_one_deviation(mapping, evidence, found)
        self._demand_settled(mapping, evidence, found)
        self._demand_stated(mapping, evidence, found)
        return Settled(mapping, evidence.sets, found, self._stored(mapping))

    # Readings ------------------------------------------------------------------------

    def _questions(self) -> list[list[Answer]]:
        try:
            return open_storage(self.weights, self.subject.hints.sizes.get("h"), self.subject.hints.parameters)
        except SpecificationError as reason:
            raise Undetermined(str(reason)) from None

    def _read(self, storage: Storage) -> ParameterMapping:
        mapping = reading(self.weights, storage, self.subject.hints.parameters)
        if not parts_outside(mapping, self.subject.hints):
            mapping = mapping.with_constants(absent_outputs(mapping, self.weights))
        table = self._table(mapping)
        return mapping if table is None else mapping.with_constants({"P": table})

    def _table(self, mapping: ParameterMapping) -> Tensor | None:
        """The sinusoids that the encoder keeps beside its parameters."""
        if "E" not in mapping.sources or "P" in mapping.sources:
            return None
        width = self.weights[mapping.sources["E"].names[0]].shape[-1]
        fitting = (t.reshape(-1, width) for t in self.tables.values() if t.ndim > 1 and t.shape[-1] == width)
        return next((t for t in fitting if layout_of(t)), None)

    def _stored(self, mapping: ParameterMapping) -> dict[str, str]:
        return stored_sinusoids(mapping, self.weights, self.subject.fixed())

    def _evidence(self, mapping: ParameterMapping) -> Evidence:
        """A few calls of the subject, for identification."""
        return self.calls.evidence(mapping, self._start(mapping), self._stored(mapping))

    def _hints(self, mapping: ParameterMapping) -> Hints:
        """What the subject states; arrays with an axis for the heads, or one for each, tell their number."""
        hints = self.subject.hints
        return replace(hints, sizes={"h": mapping.heads} | hints.sizes) if mapping.heads else hints

    # Judgement -----------------------------------------------------------------------

    def _start(self, mapping: ParameterMapping) -> Encoder:
        """The encoder that parameters and hints state.

        Raises:
            Undetermined: if the parameters are those of no encoder.
        """
        parameters, hints = mapping.canonical(self.weights), self._hints(mapping)
        try:
            return structure(parameters, hints)
        except SpecificationError as reason:
            if self.declared is not None:
                with suppress(SpecificationError):
                    return as_declared(self.declared, parameters, hints)
            demand_nothing_outside(mapping, self.subject.hints, str(reason))
            raise Undetermined(what_is_missing(str(reason), mapping, self.weights)) from None

    def _open(self, mapping: ParameterMapping) -> tuple[Encoder, Axes]:
        start = self._start(mapping)
        axes = open_axes(start, self._hints(mapping))
        if self.declared is not None:
            start = Encoder(with_input_of(self.declared, start), start.dimensions)
            axes = {axis: values for axis, values in axes.items() if axis == "h"}
        return start, axes

    def _judged(self, mapping: ParameterMapping, evidence: Evidence) -> Identification:
        start, axes = self._open(mapping)
        found = identify(evidence.read_as(mapping), start, axes, evidence.recorded)
        if evidence.recorded is None or found.agrees or not axes:
            return found
        found = replace(found, encoder=self._with_its_eps(found.encoder))
        if self._forms_projections(found.encoder, mapping, evidence):
            return found
        behind = behind_wrong_input(found.encoder, axes, evidence.read_as(mapping)[0], evidence.recorded)
        return (
            found if behind is None else replace(found, encoder=self._with_its_eps(behind), behind_something_wrong=True)
        )

    def _behind_one_deviation(
        self, mapping: ParameterMapping, evidence: Evidence, found: Identification
    ) -> Identification:
        """The choices with which some deviation gives the outputs, if there are such; else what was found."""
        behind = behind_one_deviation(*self._open(mapping), evidence.read_as(mapping))
        return found if behind is None else replace(found, encoder=behind, behind_something_wrong=True)

    def _with_its_eps(self, encoder: Encoder) -> Encoder:
        """The encoder, which disagrees, with the ε that the subject states instead of one that nobody would write.

        A norm of a multiple of its input is that of the input for another ε.
        """
        stated = self.subject.hints.choices.get("eps")
        unusual = encoder.profile.constants["eps"] not in EPSILONS
        return encoder.replace(eps=float(stated)) if stated is not None and unusual else encoder

    def _otherwise(
        self,
        storage: Storage,
        questions: list[list[Answer]],
        mapping: ParameterMapping,
        evidence: Evidence,
        found: Identification,
    ) -> tuple[ParameterMapping, Evidence, Identification]:
        """The reading that fits best, with the encoder that it makes."""
        if evidence.recorded is None:
            others = [self._read(replace(storage, **answer)) for answers in questions for answer in answers[1:]]
            for other in others[:MOST_READINGS]:
                found_so = self._judged(other, evidence)
                if found_so.agrees:
                    return other, evidence, found_so
            return mapping, evidence, found
        questions = self._unsettled(questions, found.encoder, mapping, evidence)
        counts = {storage: self._explained(mapping, evidence)}
        best, before = storage, None
        while best != before:
            before = best
            for answers in questions:
                for answer in self._likely(best, answers, evidence):
                    tried = replace(best, **answer)
                    if tried not in counts:
                        counts[tried] = self._explained(self._read(tried), evidence)
                    best = max(best, tried, key=counts.__getitem__)
        if best == storage:
            return mapping, evidence, found
        mapping = self._read(best)
        evidence = self._evidence(mapping)
        return mapping, evidence, self._judged(mapping, evidence)

    def _unsettled(
        self, questions: list[list[Answer]], encoder: Encoder, mapping: ParameterMapping, evidence: Evidence
    ) -> list[list[Answer]]:
        """The questions that the customary reading leaves open, by what of it is among the intermediates."""
        assert evidence.recorded is not None
        experiment = evidence.read_as(mapping)[0]
        settled: set[str] = set()
        if self._forms_projections(encoder, mapping, evidence):
            # Q and K exchanged are found as well; the weights tell them apart.
            ordered = forms("weights", encoder, experiment, evidence.recorded)
            settled |= {"turned", "order", "by_head"} if ordered else {"turned"}
        if forms("norm", encoder, experiment, evidence.recorded):
            settled |= {"plus"}
        return [answers for answers in questions if not set(answers[0]) <= settled]

    def _likely(self, storage: Storage, answers: list[Answer], evidence: Evidence) -> list[Answer]:
        """The answers under which most of Q, K and V are found: a first look, which costs little."""
        found = [self._projections_found(self._read(replace(storage, **answer)), evidence) for answer in answers]
        return [answer for answer, count in zip(answers, found, strict=True) if count == max(found)]

    def _projections_found(self, mapping: ParameterMapping, evidence: Evidence) -> int:
        """How many of Q, K and V of the first layer are found, in whichever order it norms."""
        assert evidence.recorded is not None
        start, axes = self._open(mapping)
        experiment = evidence.read_as(mapping)[0]
        orders = {axis: values for axis, values in axes.items() if axis in ("layer", "norm")}
        most = 0
        for encoder in candidates(first_layer(start), orders):
            encoder = fitted(encoder, "eps", experiment, evidence.recorded)
            most = max(most, sum(map(evidence.recorded.has, projections(encoder, experiment))))
        return most

    def _explained(self, mapping: ParameterMapping, evidence: Evidence) -> int:
        """How much of the first layer a reading explains."""
        assert evidence.recorded is not None
        start, axes = self._open(mapping)
        inside = {axis: values for axis, values in axes.items() if axis not in ("N", "final_norm", "norm_final")}
        return guided(first_layer(start), inside, evidence.read_as(mapping)[0], evidence.recorded)[1]

    def _is_read_rightly(self, encoder: Encoder, mapping: ParameterMapping, evidence: Evidence) -> bool:
        """Whether all that the first layer computes is among the subject's intermediates."""
        recorded = evidence.recorded
        return recorded is not None and first_layer_is_found(encoder, evidence.read_as(mapping)[0], recorded)

    def _with_plain_final_norm(
        self, mapping: ParameterMapping, evidence: Evidence, found: Identification
    ) -> tuple[ParameterMapping, Identification]:
        """The same behind a final norm without parameters, if that makes the outputs agree."""
        width = found.encoder.dimensions.d_model
        normed = mapping.with_constants({"norm_final.gamma": torch.ones(width, dtype=torch.float64)})
        experiments = evidence.read_as(normed)
        for kind in admissible("norm", {"gamma"}):
            encoder = found.encoder.replace(final_norm="norm", norm_final=kind)
            encoder = with_eps(encoder, {"norm_final.eps": []}, experiments)
            if agrees(encoder, experiments):
                return normed, replace(found, encoder=encoder, agrees=True)
        return mapping, found

    def _demand_settled(self, mapping: ParameterMapping, evidence: Evidence, found: Identification) -> None:
        """Go on with a reading that is sure: by what it computes, or because nothing but names was needed.

        Raises:
            Undetermined: if it is not, and the outputs disagree.
        """
        if found.agrees or self.declared is not None:
            return
        demand_nothing_outside(mapping, self.subject.hints, "no choice of equations reproduces its outputs")
        if parts_outside(mapping, self.subject.hints):
            raise Undetermined(what_is_missing("no choice of equations reproduces its outputs", mapping, self.weights))
        if found.given_up:
            raise Undetermined(
                f"none of the first {found.tried} choices of equations reproduces its outputs, and it shows no "
                "intermediates that would tell more. Say what it chooses, for instance:"
                + lines("heads=…", 'choices={"layer": "pre-ln", "activation": "gelu"}')
            )
        sure = found.behind_something_wrong or self._forms_projections(found.encoder, mapping, evidence)
        if mapping.guessed and not sure:
            raise Undetermined(what_is_missing("no choice of equations reproduces its outputs", mapping, self.weights))

    def _demand_stated(self, mapping: ParameterMapping, evidence: Evidence, found: Identification) -> None:
        """Go on only if nothing that the author states is contradicted by agreement.

        Raises:
            Undetermined: if the outputs agree with something else than what is stated.
        """
        stated = self.subject.hints.stated
        if not found.agrees and "num_heads" in stated and self.declared is None:
            start, axes = self._open(mapping)
            width = start.dimensions.h * start.dimensions.d_k
            axes["h"] = [h for h in range(1, width + 1) if width % h == 0]
            found = identify(evidence.read_as(mapping), start, axes, evidence.recorded)
        chosen = found.encoder.choices()
        wrong = [
            f"{k} = {v}, but its outputs agree with {chosen.get(k)}" for k, v in stated.items() if chosen.get(k) != v
        ]
        if found.agrees and wrong and self.declared is None:
            raise Undetermined(f"described: it is stated that {'; '.join(wrong)}: correct the statement")

    def _forms_projections(self, encoder: Encoder, mapping: ParameterMapping, evidence: Evidence) -> bool:
        """Whether Q, K and V of the first layer are among the subject's intermediates."""
        if evidence.recorded is None:
            return False
        values = projections(encoder, evidence.read_as(mapping)[0])
        return bool(values) and all(map(evidence.recorded.has, values))


def with_input_of(declared: Profile, start: Encoder) -> Profile:
    """The declared profile; a subject that starts from given embeddings is judged from there on."""
    return declared.replace(input="given") if start.profile["input"].variant == "given" else declared
