"""One way to read an encoder's parameters, put to the test: which encoder it makes, and how much that explains."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from conformance_tests.computation.shown import EncoderReading
from conformance_tests.errors import Undetermined
from conformance_tests.harness.intermediates import Recorded
from conformance_tests.identification.epsilon import EPSILONS, fitted
from conformance_tests.identification.evidence import Evidence
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.foreign_parts import demand_nothing_outside
from conformance_tests.identification.identify import Identification, identify, open_axes
from conformance_tests.identification.missing_facts import what_is_missing
from conformance_tests.identification.outputs import NEARER, Search
from conformance_tests.identification.search import (
    Axes,
    candidates,
    first_layer,
    first_layer_is_found,
    forms,
    guided,
    projections,
)
from conformance_tests.identification.structure import as_declared, as_shown, structure
from conformance_tests.identification.wrong_equation import (
    behind_one_deviation,
    behind_wrong_input,
    with_its_activation,
)
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.subjects.hints import Hints
from encoder_spec.assembly import Encoder
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import Profile

LEFT_OPEN = ("norm", "eps", "norm_final", "norm_final.eps")
"""Choices that a computation leaves open whose norms are those of no variant, or show no ε."""


@dataclass(frozen=True)
class Reading:
    """A subject's parameters, read in one way.

    Attributes:
        mapping: the reading.
        weights: the subject's own weights by its own names.
        hints: what the subject states of itself.
        declared: the profile that it is held to, if its author names one.
        shown: what its computation shows, if that is where the reading comes from.
    """

    mapping: ParameterMapping
    weights: Mapping[str, Tensor]
    hints: Hints
    declared: Profile | None
    shown: EncoderReading | None = None

    @property
    def hints_with_heads(self) -> Hints:
        """The subject's hints; arrays with an axis for the heads, or one array for each, show their number."""
        heads = {"h": self.mapping.heads} if self.mapping.heads else {}
        return replace(self.hints, sizes=heads | self.hints.sizes)

    @cached_property
    def start(self) -> Encoder:
        """The encoder that parameters and hints state.

        Raises:
            Undetermined: if the parameters are those of no encoder.
        """
        if self.shown is not None:
            return as_shown(self.shown)
        parameters = self.mapping.canonical(self.weights)
        try:
            return structure(parameters, self.hints_with_heads)
        except SpecificationError as reason:
            if self.declared is not None:
                with suppress(SpecificationError):
                    return as_declared(self.declared, parameters, self.hints_with_heads)
            demand_nothing_outside(self.mapping, self.hints, str(reason))
            raise Undetermined(what_is_missing(str(reason), self.mapping, self.weights)) from None

    def open(self) -> tuple[Encoder, Axes]:
        """Return where the search begins, and the choices left open: of a declared profile the number of heads alone.

        Raises:
            Undetermined: if the parameters are those of no encoder.
        """
        return self._opened(self.start)

    def openings(self) -> list[tuple[Encoder, Axes]]:
        """Return where the search begins, and then the same with positions added to vectors, or without if they are.

        Sinusoids have no parameters, and a parameter need not be used: only outputs show which start is right.
        """
        others = otherwise_placed(self.start) if self.shown is None else []
        return [self._opened(start) for start in (self.start, *others)]

    def _opened(self, start: Encoder) -> tuple[Encoder, Axes]:
        axes = open_axes(start, self.hints_with_heads)
        if self.shown is not None:
            left_open = () if self.shown.norms_are_read else LEFT_OPEN
            axes = {axis: values for axis, values in axes.items() if axis in left_open}
        if self.declared is None:
            return start, axes
        begun = Encoder(with_input_of(self.declared, start), start.dimensions)
        return begun, {axis: values for axis, values in axes.items() if axis == "h"}


@dataclass(frozen=True)
class Trial:
    """A reading, and a few calls of the subject that it has to explain."""

    reading: Reading
    evidence: Evidence

    @cached_property
    def experiments(self) -> list[Experiment]:
        """The calls, with the parameters read in this way."""
        return self.evidence.read_as(self.reading.mapping)

    @property
    def recorded(self) -> Recorded | None:
        """The subject's intermediates in the first experiment, if it shows them."""
        return self.evidence.recorded

    def of(self, reading: Reading) -> "Trial":
        """Return these calls, to be explained by another reading."""
        return Trial(reading, self.evidence)

    def identified(self, *, or_nearest: bool = True) -> Identification:
        """Return the choice of equations that reproduces the subject's outputs, or comes closest to its computation.

        Args:
            or_nearest: whether one is asked for that does not reproduce them.
        """
        start, axes = self.reading.open()
        found = identify(self.experiments, start, axes, self.recorded)
        for opening in self.reading.openings()[1:] if not found.agrees and not found.stages_agreed else ():
            other = identify(self.experiments, *opening, self.recorded)
            found = other if other.agrees or self._is_nearer(other, found) else found
        if self.recorded is None or found.agrees or not axes or not or_nearest:
            return found
        found = replace(found, encoder=self._with_its_eps(found.encoder))
        if not self.forms_projections(found.encoder):
            behind = behind_wrong_input(found.encoder, axes, self.experiments[0], self.recorded)
            if behind is not None:
                found = replace(found, encoder=self._with_its_eps(behind), behind_something_wrong=True)
        stated = "activation" in self.reading.hints.choices
        encoder = with_its_activation(found.encoder, axes, self.experiments[0], self.recorded, stated=stated)
        return replace(found, encoder=encoder)

    def _is_nearer(self, one: Identification, other: Identification) -> bool:
        """Return whether one choice agrees with more outputs than another, or comes much nearer, where both disagree.

        Where intermediates are shown, they say more, and the answer is False.
        """
        if self.recorded is not None:
            return False
        if one.stages_agreed != other.stages_agreed:
            return one.stages_agreed > other.stages_agreed
        first = self.experiments[0]
        return first.distance(one.encoder) < NEARER * first.distance(other.encoder)

    def behind_one_deviation(self, found: Identification) -> Identification:
        """Return the choices with which some deviation gives the outputs, if there are such; else what was found."""
        ended = [found.search] if found.search is not None and found.search.agreed else []
        for search in ended or [Search(*opening, self.experiments) for opening in self.reading.openings()]:
            behind = behind_one_deviation(search)
            if behind is not None:
                return replace(found, encoder=behind, behind_something_wrong=True)
        return found

    def explained(self) -> int:
        """Return how many of the first layer's values are among the subject's intermediates."""
        assert self.recorded is not None
        most = 0
        for start, axes in self.reading.openings():
            inside = {axis: values for axis, values in axes.items() if axis not in ("N", "final_norm", "norm_final")}
            most = max(most, guided(first_layer(start), inside, self.experiments[0], self.recorded)[1])
        return most

    def projections_found(self) -> int:
        """Return how many of Q, K and V of the first layer are found, in whichever order it norms."""
        assert self.recorded is not None
        most = 0
        for start, axes in self.reading.openings():
            orders = {axis: values for axis, values in axes.items() if axis in ("layer", "norm")}
            for encoder in candidates(first_layer(start), orders):
                encoder = fitted(encoder, "eps", self.experiments[0], self.recorded)
                most = max(most, sum(map(self.recorded.has, projections(encoder, self.experiments[0]))))
        return most

    def forms(self, slot: str, encoder: Encoder) -> bool:
        """Return whether what an encoder forms in a slot is among the subject's intermediates."""
        return self.recorded is not None and forms(slot, encoder, self.experiments[0], self.recorded)

    def forms_projections(self, encoder: Encoder) -> bool:
        """Return whether Q, K and V of the first layer are among the subject's intermediates."""
        if self.recorded is None:
            return False
        values = projections(encoder, self.experiments[0])
        return bool(values) and all(map(self.recorded.has, values))

    def forms_first_layer(self, encoder: Encoder) -> bool:
        """Return whether all that the first layer computes is among the subject's intermediates."""
        return self.recorded is not None and first_layer_is_found(encoder, self.experiments[0], self.recorded)

    def _with_its_eps(self, encoder: Encoder) -> Encoder:
        """Return a disagreeing encoder with the ε that the subject states, if its own is one that nobody would write.

        A norm of a multiple of its input is that of the input for another ε.
        """
        stated = self.reading.hints.choices.get("eps")
        unusual = encoder.profile.constants["eps"] not in EPSILONS
        return encoder.replace(eps=float(stated)) if stated is not None and unusual else encoder


def with_input_of(declared: Profile, start: Encoder) -> Profile:
    """Return the declared profile; a subject that starts from given embeddings or vectors is judged from there on.

    What such a subject does not do itself, a scale or a class token, may have been done before.
    """
    entrance, reads = start.profile["input"].variant, start.profile["embedding"].variant
    if declared["embedding"].variant == "vectors":
        return declared
    if entrance == "given":
        return declared.replace(input="given")
    if reads == "vectors":
        before = {slot: "none" for slot in ("embedding_scale", "cls") if start.profile[slot].variant == "none"}
        return declared.replace(embedding="vectors", **before)
    return declared


def otherwise_placed(start: Encoder) -> list[Encoder]:
    """Return the encoder without positions for one of vectors or features that adds some, or the reverse; else none."""
    if start.profile["input"].variant == "given":
        return [start.replace(input="embedded", embedding="vectors")]
    if start.profile["embedding"].variant == "vectors":
        return [start.replace(input="given")]
    is_set = "W_feature" in start.profile["embedding"].parameters and not start.profile["position"].parameters
    return [start.replace(position="none")] if is_set else []
