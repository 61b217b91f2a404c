"""Settle how to read an encoder's parameters, and which encoder to judge it against: together, by agreement.

What names and shapes leave open is asked of the first layer's intermediates, one question
after the other; without intermediates, of the outputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isqrt

import torch
from torch import Tensor

from conformance_tests.computation.attention import attentions
from conformance_tests.computation.feed_forward import feed_forwards
from conformance_tests.computation.graph import Codes, Graph
from conformance_tests.computation.inputs import SINUSOIDS, reads_any, special_ids, tables_by_argument
from conformance_tests.computation.plain import plain
from conformance_tests.computation.reading import (
    as_stretched,
    asks_for_few,
    ending,
    made_for_images,
    read,
    several_patches,
)
from conformance_tests.computation.rotation import rotation
from conformance_tests.computation.shown import EncoderReading, Facts, Finding
from conformance_tests.errors import Departs, Refused, SubjectError, TableUnknown, Undetermined
from conformance_tests.harness.weight_sets import GIVEN, PERTURBED, WeightSets
from conformance_tests.identification.evidence import Calls
from conformance_tests.identification.experiment import Experiment
from conformance_tests.identification.foreign_parts import (
    demand_no_decoder,
    demand_nothing_outside,
    listed,
    parts_outside,
)
from conformance_tests.identification.identify import Identification, identify
from conformance_tests.identification.missing_facts import what_is_missing
from conformance_tests.identification.search import agrees, traced, with_eps
from conformance_tests.identification.statements import (
    applied_again,
    contradicted,
    serving_twice,
    unused,
    without_its_positions,
)
from conformance_tests.identification.structure import admissible, as_shown, number_of_stages
from conformance_tests.identification.trial import Reading, Trial
from conformance_tests.numerics.probes import MANY, Probes, Sizes
from conformance_tests.parameters.gathered import gathered
from conformance_tests.parameters.mapping import ParameterMapping, absent_outputs, canonical_names, reading
from conformance_tests.parameters.questions import Answer, open_storage
from conformance_tests.parameters.storage import Storage
from conformance_tests.parameters.tables import layout_of, stored_sinusoids
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.left_out import Rows
from conformance_tests.subjects.subject import Subject
from encoder_spec.notation import SpecificationError
from encoder_spec.position import WITHOUT_POSITIONS
from encoder_spec.profiles import Profile

MOST_READINGS = 24
"""So many readings are tried: each is a separate search. The encoders of the tests that it settles need up to 15."""

FAR = 257
"""So many positions show windows up to 512, and which distances share a row: as many as the longest probe has."""

MOST_SCORES = 2**24
"""So many scores in all layers take 2 GB while their computation is recorded: larger encoders get fewer positions."""

FEW = 2
"""So many sequences are long. One alone might be taken for a batch of one position each, and the search would go on."""

SEEN_FAR = ("reach", "window", "max_distance")
"""What of an encoder shows in calls alone that are longer than a window, or than the distances that a table tells."""

PLACED_BY_ROWS = {
    "position": ("learned", "learned-offset", *SINUSOIDS),
    "rotation": ("none",),
    "reach": ("global",),
    "bias": ("none",),
    "cls": ("none",),
    "registers": ("none",),
}
"""Choices with which rows of a table tell the places of tokens, and nothing else does."""

FALSE_ID = frozenset({0})
"""The padding id of code that compares its ids with no number, and takes them for true or false."""

NO_ENCODER = "its layers are read, and depart so far that no encoder of these equations can be evaluated"

NOTHING_REPRODUCES = "no choice of equations reproduces its outputs"


Doing = Callable[[str], None]
"""Called with what is being done."""


def tells_distances(shown: EncoderReading) -> bool:
    """Return whether a longer call of an encoder may show more of how far its tokens lie apart."""
    return shown.images is None and "N" in shown.sizes


def slots_of_distances(shown: EncoderReading) -> tuple[str, ...]:
    """Return the slots in which an encoder reads how far its tokens lie apart, other than by turning them."""
    in_scores = shown.choices.get("scores", "scaled") not in WITHOUT_POSITIONS["scores"]
    return ("reach", "bias", "scores") if in_scores else ("reach", "bias")


def untold(_what: str) -> None:
    """Tell nobody."""


@dataclass
class Settled:
    """A reading of the parameters, the weights to judge with, and the encoder to judge against."""

    mapping: ParameterMapping
    sets: WeightSets
    found: Identification
    stored: Mapping[str, str]
    facts: Facts = field(default_factory=Facts)
    sizes: Sizes | None = None


class Settling:
    """Settles reading and variant of one subject."""

    def __init__(self, subject: Subject, seed: int, declared: Profile | None, doing: Doing = untold) -> None:
        self.subject = subject
        self.doing = doing
        self.declared = declared
        self.hints: Hints = subject.hints
        self.tables = subject.tables()
        self.calls = Calls(subject, seed, has_head=declared is not None and declared["head"].variant != "none")
        self.weights = self.calls.weights
        self._ended = False
        self._read_far = False
        self._by_computation: EncoderReading | None = None
        self._is_rounded = False

    @property
    def narrowed(self) -> torch.dtype | None:
        """A narrower precision in which the subject computes a part of itself, if one was seen."""
        return self.calls.narrowed or (torch.float32 if self._is_rounded else None)

    def put_back(self) -> None:
        """Give the subject its own weights again."""
        self.calls.put_back()

    def settle(self) -> Settled:
        """See the module.

        Raises:
            Undetermined: if the parameters are those of no encoder, or cannot be told apart.
        """
        if self.hints.parameters:
            self._questions()  # a statement that names no parameter is reported before anything is read
        settled = self._settled()
        if settled.found.agrees:
            self._learn_defaults(settled)
        findings = (*settled.facts.findings, *self.subject.departures())
        return replace(settled, facts=replace(settled.facts, findings=findings))

    def _learn_defaults(self, settled: Settled) -> None:
        """Let the subject find out what it computes where ids are left out, with weights that tell rows apart."""
        encoder, subject, unlearned = settled.found.encoder, self.subject, settled.facts.unlearned
        known = (unlearned[path] for path in ("E", "P") if path in unlearned)
        rows = Rows(
            encoder.dimensions.segments,
            unlearned.get("E_seg") == 0,
            int(encoder.choices().get("position_offset", 0)),
            {*known, *subject.special_ids},
            place_alone=all(encoder.profile[slot].variant in chosen for slot, chosen in PLACED_BY_ROWS.items()),
        )
        probes = Probes(encoder, self.calls.seed, subject.dtype, settled.sizes, subject.special_ids)
        with settled.sets.in_use(PERTURBED if PERTURBED in settled.sets else GIVEN):
            subject.learn_defaults(probes, rows)

    def _settled(self) -> Settled:
        """Settle by the computation, as far as it shows the encoder, else by names and shapes."""
        shown = self._shown()
        settled = None if shown is None else self._settled_by_computation(shown)
        if settled is not None:
            return settled
        if shown is not None and self._ends_earlier(shown):
            return self._settled()
        try:
            by_names = self._settled_by_some_table(shown)
        except (Undetermined, SubjectError) as reason:
            if shown is not None and (alone := random_numbers(shown) or departing_by_itself(shown, self.weights)):
                raise Departs(NO_ENCODER, [(shown.equation(f.slot), f.says) for f in alone]) from None
            left = [] if shown is None else left_open(shown, self.weights)
            refused = self.subject.refused()
            if not left and refused and isinstance(reason, Undetermined) and refused not in str(reason):
                raise Refused(
                    f"{reason}; no call goes through, and the one that got furthest raised {refused}"
                ) from None
            if not left:
                raise
            # Where the computation shows all but how weights are made, or a part alone, names and shapes add nothing.
            is_all_read = shown is not None and shown.fits_slots and not shown.unread
            said = "" if is_all_read or (shown is not None and shown.is_part) else f"by names and shapes, {reason}"
            left += [finding.says for finding in shown.findings] if shown is not None else []
            raise Undetermined(
                "; ".join(filter(None, (f"its computation shows that {listed(left)}", said, *self.subject.remarks())))
            ) from None
        if shown is None:
            return by_names
        random = random_numbers(shown)
        alone = random or (() if by_names.found.agrees else departing_by_itself(shown, self.weights))
        if alone:
            return replace(by_names, facts=Facts(tuple(alone)))
        return replace(by_names, facts=Facts(unread=tuple(excuses(shown, by_names)), turned=rotation(shown.graph)))

    def _ends_earlier(self, shown: EncoderReading) -> bool:
        """Let the subject end where the hidden states are, if it goes on to something else; return whether it does.

        Raises:
            Undetermined: if it computes hidden states only at the positions that it goes on with.
        """
        if self.calls.has_head or self._ended or (shown.fits_slots and not shown.unread):
            return False
        cuts = self._cuts(shown.graph)
        end = ending(shown.graph, cuts)
        if end is None:
            return False
        if (said := asks_for_few(shown.graph, dict(cuts)[end.part])) and not random_numbers(shown):
            raise Undetermined(f"its computation shows that {said}")
        self._ended = True
        self.put_back()
        self.subject.end_at(end)
        self.calls = Calls(self.subject, self.calls.seed)
        self.weights = self.calls.weights
        return True

    def _computation(self, sizes: Sizes | None = None) -> Graph:
        """Return what the subject computes, as it would plainly be written."""
        return plain(self.subject.computation(sizes))

    def _cuts(self, graph: Graph) -> list[tuple[str, Tensor]]:
        """Return what the subject can be ended at: names, and codes in a graph of it."""
        return [(name, graph.translated(codes)) for name, codes in self.subject.cuts(graph.recorded)]

    def _shown(self) -> EncoderReading | None:
        """Return the encoder that the computation shows; None without one, or if every name is a canonical path."""
        by_names = canonical_names(self.weights)
        if not by_names.unmapped and (self.hints.strides or not number_of_stages(by_names.sources)):
            return None  # names leave open how far stages move
        self.doing("reading its computation")
        shown: EncoderReading | None = None
        # Whatever an encoder does under a recorder, names and outputs can still be asked.
        with suppress(Exception):
            graph = self._computation()
            if not bool(graph.numbers(graph.output).isfinite().all()):
                return None  # numbers tell norms and activations
            self.subject.learn_result(graph.recorded.result)
            self.subject.special_ids = special = special_ids(graph)
            if reads_any(graph, special):
                # Others show what is computed of a usual token.
                self.subject.record_without(special)
                graph = self._computation()
            shown, graph = self._with_arguments(graph)
            shown, graph = self._with_its_images(shown, graph)
            if shown.is_masked_by_ids:
                self.subject.learn_padding(self.subject.special_ids or FALSE_ID, shown.unlearned.get("E"))
            unlearned = self.subject.learn_segments(graph) if "E_seg" in shown.codes else None
            if shown.made_for and shown.images is None:
                # The call makes its positions: one as long as the longest probe shows all that are needed.
                by_batch = shown.position_axis is not None and shown.position_axis[1] == 0
                shown = read(self._computation(Sizes(MANY) if by_batch else Sizes(None, MANY)))
            if unlearned is not None:
                shown.unlearned["E_seg"] = unlearned
            if "position_offset" in shown.choices:
                shown.findings += self._moving_with_length(shown)
            self._is_rounded = shown.is_rounded
            self.subject.learn_idle(self.weights.keys() - shown.reached())
            if shown.images is not None:
                self.subject.learn_images(*shown.images)
                self.subject.learn_rescaling(graph.rescaling)
        return shown

    def _with_arguments(self, graph: Graph) -> tuple[EncoderReading, Graph]:
        """Return a reading, and its graph, with other values of arguments that the suite gave zeros, if these mend it.

        What is attended to beside the input is the input again in an encoder; and where tokens have no positions, an
        argument that looks rows up may be for these. Of several tables that give every token one row, that of segments
        is the one whose rows an argument can number.
        """
        shown, graph = self._given(read(graph), graph, self.subject.further_vectors(), "input", lambda r: not r.foreign)
        shown, graph = self._given(
            shown, graph, self.subject.further_ids(graph), "positions", lambda r: not lacks_positions(r)
        )
        may_be = self.subject.may_number_segments() if shown.leaves_segments_open else ()
        return self._given(shown, graph, may_be, "zeros", lambda r: not r.leaves_segments_open)

    def _with_its_images(self, shown: EncoderReading, graph: Graph) -> tuple[EncoderReading, Graph]:
        """Return a reading, and its graph, of the images that the encoder is made for, if it takes others as well.

        A single patch shows too little of positions that each call makes.
        """
        shape = made_for_images(shown)
        if shape is None:
            return self._with_several_patches(shown, graph)
        self.subject.ask_for(shape)
        with suppress(Exception):  # it may take none of this size
            again = self._computation()
            native = read(again)
            if made_for_images(native) is None and native.images is not None:
                return native, again
        self.subject.ask_for(None)
        self._computation()  # the first call is as it was
        return shown, graph

    def _with_several_patches(self, shown: EncoderReading, graph: Graph) -> tuple[EncoderReading, Graph]:
        """Return a reading, and its graph, of an image of several patches, where one shows too little."""
        shape = several_patches(shown)
        if shape is not None:
            self.subject.ask_for(shape)
            with suppress(Exception):  # it may take none of this size
                again = self._computation()
                shown, graph = read(again), again
            self.subject.ask_for(None)
            self._computation()  # the first call is as it was
        return shown, graph

    def _given(
        self,
        shown: EncoderReading,
        graph: Graph,
        arguments: Sequence[str],
        kind: str,
        is_mended: Callable[[EncoderReading], bool],
    ) -> tuple[EncoderReading, Graph]:
        """Return a reading, and its graph, with values of some kind for an argument, if one of these mends it."""
        if is_mended(shown) or not arguments:
            return shown, graph
        for argument in arguments:
            self.subject.give(argument, kind)
            with suppress(Exception):  # it may take something else
                again = self._computation()
                mended = read(again)
                if is_mended(mended):
                    return mended, again
            self.subject.give(argument, None)
        self._computation()  # the first call is as it was
        return shown, graph

    def _settled_by_computation(self, shown: EncoderReading) -> Settled | None:
        """Test the reading that the computation shows; return None if it shows no encoder, or not all of one."""
        self._call_anew()
        in_turn = any(finding.slot == "sharing" for finding in shown.findings)
        if not shown.fits_slots or (in_turn and self.hints.parts):
            return None  # what is shared in turn by its configuration is so on purpose
        if not self.subject.takes_segments():
            shown = with_one_segment(shown)
        try:
            as_shown(shown)
        except Undetermined:
            return None
        self._by_computation = shown
        self.doing("comparing it with the equations that its computation shows")
        mapping, ungathered = gathered(shown, self.weights)
        is_all_read = shown.layers_are_read and not ungathered and shown.learned().isdisjoint(mapping.unmapped)
        try:
            trial = self._trial(Reading(mapping, self.weights, self.hints, self.declared, shown))
        except (Refused, SubjectError):
            if is_all_read and self.subject.mixes_types:
                raise  # names would not tell more of what refuses this precision
            return None
        except Undetermined:
            return None
        found = trial.identified()
        if not found.agrees and self._shows_more(shown, trial.experiments) and (far := self._seen_far(shown)):
            return self._settled_by_computation(far)
        if not found.agrees and (stretched := as_stretched(shown)):
            other = trial.of(Reading(mapping, self.weights, self.hints, self.declared, stretched))
            if (identified := other.identified()).agrees:
                shown, trial, found = stretched, other, identified
        findings = (
            *contradicted(shown, self.hints),
            *self._departing(shown),
            *serving_twice(shown, mapping),
            *applied_again(shown),
            *unused(shown, mapping, self.weights),
            *without_its_positions(shown, self.tables),
        )
        if shown.foreign_input and not findings:
            if found.agrees:
                raise Undetermined(f"its computation shows that {listed(shown.foreign_input)}; all else agrees")
            return None
        strange = shown.learned().intersection(mapping.unmapped) - shown.departing  # frozen ones are constants
        if not found.agrees and (strange or (not findings and (shown.unread or ungathered))):
            return None
        if not found.agrees and self._ended and not shown.layers_are_read:
            return None  # what was cut off may be the rest of a layer that is not read
        # What a declared profile lacks is said requirement by requirement.
        if findings and self.declared is None and not traced(found.encoder, trial.experiments[0]):
            raise Departs(NO_ENCODER, [(shown.equation(finding.slot), finding.says) for finding in findings])
        demand_stated(trial, found)
        facts = Facts(findings, shown.unlearned, kept=shown.kept)
        return Settled(mapping, trial.evidence.sets, found, self._stored(mapping), facts, self.calls.sizes)

    def _departing(self, shown: EncoderReading) -> list[Finding]:
        """Return the findings of a computation, without those of which its owner declares that they are to be so."""
        declared = {} if self.declared is None else self.declared.choices()
        return [f for f in shown.findings if not f.variant or declared.get(f.slot) != f.variant]

    def settled_far(self, settled: Settled) -> Settled | None:
        """Settle again as a long call shows, where an encoder departs in long calls alone; None if it shows the same.

        An encoder that is held to a profile has to be what that says.
        """
        encoder, shown = settled.found.encoder, self._by_computation
        far = None if shown is None or self.declared is not None else self._seen_far(shown)
        if far is None:
            return None
        try:
            encoder = encoder.replace(**{key: far.choices[key] for key in SEEN_FAR if key in far.choices})
        except SpecificationError:
            return None
        seen = [finding for finding in self._departing(far) if finding.slot in slots_of_distances(far)]
        findings = (*settled.facts.findings, *seen)
        found = replace(settled.found, encoder=encoder)
        return replace(settled, found=found, facts=replace(settled.facts, findings=tuple(dict.fromkeys(findings))))

    def _seen_far(self, shown: EncoderReading) -> EncoderReading | None:
        """Return a reading with what a long call shows of distances; None if it shows the same as a short one."""
        if self._read_far or not tells_distances(shown):
            return None
        self._read_far = True
        self.doing("reading its computation for a long input")
        room = shown.sizes.get("max_len", FAR) - int(shown.choices.get("position_offset", 0))
        return self._seen_at(shown, min(FAR, room, isqrt(MOST_SCORES // (FEW * shown.sizes["N"] * shown.sizes["h"]))))

    def _shows_more(self, shown: EncoderReading, experiments: Sequence[Experiment]) -> bool:
        """Return whether calls as long as the experiments show more of distances than the first one did.

        If not, nothing that longer calls show bears on how the experiments came out. Where a part is rounded, they may
        depart by that alone.
        """
        if self._read_far or not tells_distances(shown):
            return False
        if self.narrowed is not None:
            return True
        first, length = self.subject.accepted(), max(e.inputs[0].shape[1] for e in experiments)
        is_shorter = first is None or first.length is None or first.length < length
        return is_shorter and self._seen_at(shown, length) is not None

    def _seen_at(self, shown: EncoderReading, length: int) -> EncoderReading | None:
        """Return a reading with what a call of some length shows of distances; None if that is the same."""
        learned = self.subject.how_called()
        with suppress(Exception):  # this length may be refused
            other = read(self._computation(Sizes(self.hints.batch or FEW, length)))
            self.subject.call_as(learned)
            slots = slots_of_distances(shown)
            findings = [f for f in shown.findings if f.slot not in slots]
            findings += [f for f in other.findings if f.slot in slots]
            seen = {key: other.choices[key] for key in SEEN_FAR if key in other.choices}
            choices = {key: choice for key, choice in shown.choices.items() if key not in SEEN_FAR} | seen
            # What a kernel for long inputs does otherwise is wrong; rows that no distance has are of another equation.
            foreign = other.foreign if "scores" in slots else shown.foreign
            if (choices, findings, foreign) != (shown.choices, shown.findings, shown.foreign):
                return replace(shown, choices=choices, findings=findings, foreign=foreign)
        self.subject.call_as(learned)
        return None

    def _moving_with_length(self, shown: EncoderReading) -> list[Finding]:
        """Return the finding that the first position reads another row of its table in a longer call, if it does."""
        sizes, learned = self.subject.accepted(), self.subject.how_called()
        first, longer = shown.choices["position_offset"], None
        if sizes is None or sizes.length is None:
            return []
        with suppress(Exception):  # this length may be refused
            longer = read(self._computation(Sizes(self.hints.batch or FEW, sizes.length + 1)))
        self.subject.call_as(learned)
        there = first if longer is None else longer.choices.get("position_offset", 0)
        if there == first:
            return []
        says = (
            f"position 0 reads row {first} of its table among {sizes.length} positions, and row {there} among one more"
        )
        return [Finding("position", says)]

    def _call_anew(self) -> None:
        """Forget how the subject is called, if that was learned with probes for another reading."""
        if self.calls.sets is not None:
            self.put_back()
            self.calls = Calls(self.subject, self.calls.seed, has_head=self.calls.has_head)

    def _settled_by_some_table(self, shown: EncoderReading | None) -> Settled:
        """Settle by names and shapes; where no name tells the table of ids, those that are read by ids are tried.

        Without a computation, each that may be it is.
        """
        try:
            return self._settled_by_names(shown)
        except TableUnknown as unknown:
            known = self.hints
            for name in unknown.tables if shown is None else next(iter(tables_by_argument(shown.graph).values())):
                self.hints = replace(known, parameters=known.parameters | {"E": name})
                with suppress(Undetermined, SubjectError):
                    settled = self._settled_by_names(shown)
                    if settled.found.agrees:
                        return settled
            self.hints = known
            raise

    def _settled_by_names(self, shown: EncoderReading | None) -> Settled:
        """Settle by names and shapes.

        Beside a computation in which something has no slot, the choices that come nearest say nothing: only those count
        that reproduce the outputs, and none does if these depend on parameters that no name gives a path.
        """
        self._call_anew()
        self.doing("comparing it with variants")
        questions = self._questions()
        storage = Storage()
        for answers in questions:
            storage = replace(storage, **answers[0])
        first = self._read(storage)
        try:
            trial = self._trial(first)  # calls that fail may go through in another precision
        except Undetermined:
            demand_no_decoder(first.mapping)
            raise
        # A declared profile is judged requirement by requirement, whatever else is computed.
        is_open = shown is not None and self.declared is None
        if shown is not None and is_open and not self.subject.draws_numbers:
            demand_all_mapped(shown, first)
        is_foreign = shown is not None and is_open and bool(shown.foreign)
        found = trial.identified(or_nearest=not is_foreign)
        if is_foreign and not found.agrees:
            raise Undetermined(NOTHING_REPRODUCES)
        if not found.agrees and not trial.forms_first_layer(found.encoder):
            trial, found = self._otherwise(storage, questions, trial, found)
        if not found.agrees and self.declared is None and "norm_final.gamma" not in trial.reading.mapping.sources:
            trial, found = with_plain_final_norm(trial, found)
        if not found.agrees and self.declared is None and trial.recorded is None:
            found = trial.behind_one_deviation(found)
        mapping, facts = trial.reading.mapping, Facts()
        if self.subject.draws_numbers:
            says = "two calls with the same input and the same weights differ: random numbers enter the output"
            facts = Facts((Finding("dropout", says),))
        else:
            demand_settled(trial, found)
            demand_stated(trial, found)
        return Settled(mapping, trial.evidence.sets, found, self._stored(mapping), facts, self.calls.sizes)

    def _questions(self) -> list[list[Answer]]:
        hints = self.hints
        try:
            return open_storage(self.weights, hints.sizes.get("h"), hints.parameters)
        except SpecificationError as reason:
            raise Undetermined(str(reason)) from None

    def _read(self, storage: Storage) -> Reading:
        """Read the parameters as they are stored in one way."""
        hints = self.hints
        mapping = reading(self.weights, storage, hints.parameters)
        if not self.subject.takes_segments():
            mapping = mapping.with_one_segment()
        if not parts_outside(mapping, hints):
            mapping = mapping.with_constants(absent_outputs(mapping, self.weights))
        table = self._table(mapping)
        mapping = mapping if table is None else mapping.with_constants({"P": table})
        return Reading(mapping, self.weights, hints, self.declared)

    def _table(self, mapping: ParameterMapping) -> Tensor | None:
        """Return the sinusoids that the encoder keeps beside its parameters."""
        widths = {"E": -1, "layers.0.W_Q": 0}
        source = next((path for path in widths if path in mapping.sources), None)
        if source is None or "P" in mapping.sources:
            return None
        width = mapping.canonical(self.weights)[source].shape[widths[source]]
        fitting = (t.reshape(-1, width) for t in self.tables.values() if t.ndim > 1 and t.shape[-1] == width)
        return next((t for t in fitting if layout_of(t)), None)

    def _stored(self, mapping: ParameterMapping) -> dict[str, str]:
        return stored_sinusoids(mapping, self.subject.given(), self.subject.fixed())

    def _trial(self, read: Reading) -> Trial:
        """Return a reading together with calls with weights that it suggests."""
        return Trial(read, self.calls.evidence(read.mapping, read.start, self._stored(read.mapping)))

    def _otherwise(
        self, storage: Storage, questions: list[list[Answer]], trial: Trial, found: Identification
    ) -> tuple[Trial, Identification]:
        """Return the reading that fits best, with the encoder that it makes."""
        if trial.recorded is None:
            others = [replace(storage, **answer) for answers in questions for answer in answers[1:]]
            for number, other in enumerate(others[:MOST_READINGS], 2):
                self.doing(f"comparing it with variants, with reading {number} of its parameters")
                tried = trial.of(self._read(other))
                found_so = tried.identified()
                if found_so.stages_agreed > found.stages_agreed:
                    trial, found = tried, found_so
                if found.agrees:
                    break
            return trial, found
        best = self._best(storage, unsettled(questions, trial, found), trial)
        if best == storage:
            return trial, found
        trial = self._trial(self._read(best))
        return trial, trial.identified()

    def _best(self, storage: Storage, questions: list[list[Answer]], trial: Trial) -> Storage:
        """Return the way of storing that explains most: beginning with one, question by question, until none helps."""
        counts = {storage: trial.explained()}
        best, before = storage, None
        while best != before:
            before = best
            for answers in questions:
                for answer in self._likely(best, answers, trial):
                    tried = replace(best, **answer)
                    if tried not in counts and len(counts) < MOST_READINGS:
                        self.doing(f"comparing it with variants, with reading {len(counts) + 1} of its parameters")
                        counts[tried] = trial.of(self._read(tried)).explained()
                    best = max(best, tried, key=lambda each: counts.get(each, -1))
        return best

    def _likely(self, storage: Storage, answers: list[Answer], trial: Trial) -> list[Answer]:
        """Return the answers under which most of Q, K and V are found: a first look, which costs little."""
        found = [trial.of(self._read(replace(storage, **answer))).projections_found() for answer in answers]
        return [answer for answer, count in zip(answers, found, strict=True) if count == max(found)]


def excuses(shown: EncoderReading, by_names: Settled) -> Iterator[str]:
    """Yield reasons why an encoder that names explain only in part may compute other equations, and do so rightly.

    Its layers read something else than the vectors, images or sounds that it is given, they have feed-forward networks
    and weigh no values by scores, or its output depends on parameters of no slot.
    """
    reads = by_names.found.encoder.reads
    is_entered_otherwise = reads != ("B", "n") and "N" in shown.sizes and not shown.is_entered
    if is_entered_otherwise or (feed_forwards(shown.graph) and not attentions(shown.graph)):
        yield from shown.unread
    yield from depending(shown, by_names.mapping)


def left_open(shown: EncoderReading, weights: Mapping[str, Tensor]) -> list[str]:
    """Return what a computation shows that no slot has, and what of it could not be read; nothing if all was read."""
    left = [*shown.foreign, *shown.foreign_input, *shown.unread]
    if "layers.0.W_Q" not in shown.codes:
        return left  # without layers every parameter would be strange
    mapping, ungathered = gathered(shown, weights)
    left += ungathered
    return left + depending(shown, mapping) if left else left


def random_numbers(shown: EncoderReading) -> tuple[Finding, ...]:
    """Return that random numbers enter the output, if they do: that is wrong in any encoder, whatever it computes."""
    return tuple(finding for finding in shown.findings if finding.slot == "dropout")


WITHIN_ATTENTION = ("projections", "split", "scores", "bias", "reach", "mask", "weights", "merge")
"""Slots of which a finding tells of an attention alone; others depend on what is taken for a sublayer or a norm."""


def departing_by_itself(shown: EncoderReading, weights: Mapping[str, Tensor]) -> list[Finding]:
    """Return what is wrong within attention in an encoder whose layers are all read, whatever enters the first one.

    One with parameters of no slot in its attention may compute other equations there, and do so rightly.
    """
    within = [finding for finding in shown.findings if finding.slot in WITHIN_ATTENTION]
    if not (within and shown.layers_are_read):
        return []
    mapping, ungathered = gathered(shown, weights)
    is_read = not ungathered and shown.within_attention.isdisjoint(mapping.unmapped)
    return within if is_read else []


def depending(shown: EncoderReading, mapping: ParameterMapping) -> list[str]:
    """Return a statement on the parameters that an output depends on and that have no path; nothing without any."""
    strange = sorted(shown.reached().intersection(mapping.unmapped))
    return [f"its output depends on {listed(strange)}"] if strange else []


def lacks_positions(shown: EncoderReading) -> bool:
    """Return whether a reading finds no positions, or wrong ones."""
    return any(finding.slot == "position" for finding in shown.findings)


def with_one_segment(shown: EncoderReading) -> EncoderReading:
    """Return the encoder that a computation shows, with the first row of its table of segments alone."""
    if "E_seg" not in shown.codes:
        return shown
    codes = Codes(shown.codes)
    codes["E_seg"] = codes["E_seg"][:1]
    return replace(shown, codes=codes, sizes=dict(shown.sizes) | {"segments": 1})


def unsettled(questions: list[list[Answer]], trial: Trial, found: Identification) -> list[list[Answer]]:
    """Return the questions that the customary reading leaves open: their parts are not among the intermediates."""
    settled: set[str] = set()
    if trial.forms_projections(found.encoder):
        # Q and K exchanged are found as well; the weights tell them apart.
        settled |= {"order", "by_head"} if trial.forms("weights", found.encoder) else set()
        settled |= set() if has_raw_output(trial.reading.mapping) else {"turned"}
    if trial.forms("norm", found.encoder):
        settled |= {"plus"}
    return [answers for answers in questions if not set(answers[0]) <= settled]


def has_raw_output(mapping: ParameterMapping) -> bool:
    """Return whether W_O is a separate array, which may be stored either way; a module's weight has its custom.

    Where Q, K and V are packed, nothing else is square, so that finding them does not settle it.
    """
    output = mapping.sources.get("layers.0.W_O")
    return output is not None and bool(output.names) and not output.names[0].endswith("weight")


def with_plain_final_norm(trial: Trial, found: Identification) -> tuple[Trial, Identification]:
    """Return the encoder behind a final norm without parameters, if that makes the outputs agree."""
    width = found.encoder.dimensions.d_model
    ones = {"norm_final.gamma": torch.ones(width, dtype=torch.float64)}
    normed = trial.of(replace(trial.reading, mapping=trial.reading.mapping.with_constants(ones)))
    for kind in admissible("norm", {"gamma"}):
        encoder = found.encoder.replace(final_norm="norm", norm_final=kind)
        encoder = with_eps(encoder, {"norm_final.eps": []}, normed.experiments)
        if agrees(encoder, normed.experiments):
            return normed, replace(found, encoder=encoder, agrees=True)
    return trial, found


def demand_all_mapped(shown: EncoderReading, read: Reading) -> None:
    """Go on only if the output depends on no learned parameter without a path: no choice reproduces it otherwise.

    Raises:
        Undetermined: if it depends on one.
    """
    if shown.learned().intersection(parts_outside(read.mapping, read.hints)):
        demand_nothing_outside(read.mapping, read.hints, NOTHING_REPRODUCES)
        raise Undetermined(what_is_missing(NOTHING_REPRODUCES, read.mapping, read.weights))


def demand_settled(trial: Trial, found: Identification) -> None:
    """Go on with a reading that is sure: by what it computes, or because nothing but names was needed.

    Raises:
        Undetermined: if it is not, and the outputs disagree.
    """
    read = trial.reading
    if found.agrees or read.declared is not None:
        return
    demand_nothing_outside(read.mapping, read.hints, NOTHING_REPRODUCES)
    if parts_outside(read.mapping, read.hints):
        raise Undetermined(what_is_missing(NOTHING_REPRODUCES, read.mapping, read.weights))
    if found.given_up:
        raise Undetermined(
            f"none of the first {found.tried} choices of equations reproduces its outputs, and it shows no "
            "intermediates that would tell more. Say with `described` what you know: its heads, or its choices"
        )
    sure = found.behind_something_wrong or trial.forms_projections(found.encoder)
    if read.mapping.guessed and not sure:
        raise Undetermined(what_is_missing(NOTHING_REPRODUCES, read.mapping, read.weights))


def demand_stated(trial: Trial, found: Identification) -> None:
    """Go on only if nothing that the author states is contradicted by agreement.

    Raises:
        Undetermined: if the outputs agree with something else than what is stated.
    """
    if trial.reading.declared is not None:
        return
    stated = trial.reading.hints.stated
    if not found.agrees and "num_heads" in stated:
        start, axes = trial.reading.open()
        width = start.dimensions.h * start.dimensions.d_k
        axes["h"] = [h for h in range(1, width + 1) if width % h == 0]
        found = identify(trial.experiments, start, axes, trial.recorded)
    chosen = found.encoder.choices()
    wrong = [f"{k} = {v}, but its outputs agree with {chosen.get(k)}" for k, v in stated.items() if chosen.get(k) != v]
    if found.agrees and wrong:
        raise Undetermined(f"described: it is stated that {'; '.join(wrong)}: correct the statement")
