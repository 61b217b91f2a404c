"""Values that a subject and the specification compute from equal weights and probes, and where the two depart.

Everything is computed when it is first asked for, and kept: a subject may be slow, and a
check must not ask it twice and compare it with itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from math import inf, isinf
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.shown import Facts
from conformance_tests.errors import Blocked, Disagreement, Unsupported, one_line
from conformance_tests.harness.extent import AS_USED, DRAWN, OWN, WITH_GRADIENTS, WITHOUT_GRADIENTS, Extent
from conformance_tests.harness.gradients import Arising, Gradients
from conformance_tests.harness.intermediates import (
    Aligned,
    Recorded,
    align,
    departure,
    made_of,
    reads_first_alone,
)
from conformance_tests.harness.question import Question
from conformance_tests.harness.weight_sets import (
    FAINT,
    GIVEN,
    LOUD,
    NO_ATTENTION,
    NO_FFN,
    PERTURBED,
    SILENT,
    WeightSets,
)
from conformance_tests.numerics.compare import budget_in_float64, demand_equal, difference_at
from conformance_tests.numerics.noise import IMMODERATE, is_moderate
from conformance_tests.numerics.probes import WHOLE, Probe, Probes, Sizes, sizes_in_words
from conformance_tests.numerics.rounding import budget
from conformance_tests.numerics.sketches import as_they_arise, nothing_like, sketch
from conformance_tests.parameters.idle import forgotten, of_any_layer
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.subjects.subject import Subject, name_of
from encoder_spec.assembly import Encoder, Observer, Trace, ignore
from encoder_spec.notation import SpecificationError


class Case(NamedTuple):
    """Weights, a probe, and whether gradients are recorded (the slow path)."""

    weights: str = PERTURBED
    probe: str = "plain"
    gradients: bool = True

    def __str__(self) -> str:
        path = "with gradients" if self.gradients else "without gradients"
        return f"{self.weights} weights, probe {self.probe}, {path}"


def with_machine_epsilon(encoder: Encoder, dtype: torch.dtype) -> Encoder:
    """Return an encoder for another precision than float64: where ε is the distance of 1 from the next number, it is.

    That is the default of torch's RMSNorm.
    """
    of_float64 = torch.finfo(torch.float64).eps
    constants = {name: value for name, value in encoder.choices().items() if name.endswith("eps")}
    own = {name: torch.finfo(dtype).eps for name, value in constants.items() if value == of_float64}
    return encoder.replace(**own) if own else encoder


class Longest(NamedTuple):
    """The most positions that an encoder is asked for, and its error for more; no text if it reads all."""

    positions: int
    refusal: str


class Used(NamedTuple):
    """Output of an encoder as its owner uses it.

    Attributes:
        got: its output, in float64.
        want: the specification's.
        dtype: the precision in which it is kept.
        allowed: returns how far the two may be apart; None in float64, where it is fixed. A budget that is enough is
            not derived further.
    """

    got: Tensor
    want: Tensor
    dtype: torch.dtype
    allowed: Callable[[float], float | None]


class Answer(NamedTuple):
    """The output of a call, and whether its input and its mask still hold what they held."""

    output: Tensor
    leaves_its_input: bool


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
LARGE = tuple(Case(probe=name) for name in ("long", "crowd", "ragged-long", "ragged-crowd", WHOLE))
FAST = tuple(case._replace(gradients=False) for case in (Case(), *PADDED))

FOR_EACH_POSITION = ("none", "mlm")
"""Heads with a result for each position; that of others is one for each sequence."""

LONGER = ("many", "long")
"""Probes of more positions than the plain one, and than some encoders read; the shortest first."""

ENTRANCES = {"E", "W_patch", "W_conv", "W_feature"}
"""The parameters that meet the input first: ids, an image, a signal or features."""


@dataclass
class Computed:
    """A subject beside the specification's encoder.

    Attributes:
        subject: the encoder under test.
        encoder: the specification's encoder that it is judged against.
        mapping: which of the subject's parameters is which.
        weight_sets: the weights with which the subject is judged.
        question: what is asked.
        identified: whether the subject's outputs agreed with this encoder when its variant was sought.
        stored: canonical path → layout, of the sinusoids that the subject keeps as a table.
        facts: what the subject's computation shows by itself.
        sizes: the only number of sequences or of tokens with which the subject can be called.
        looked_at: the cases among which the first wrong output is looked for.
        narrowed: a precision below its own in which the subject computes a part of itself, whatever it is given.
    """

    subject: Subject
    encoder: Encoder
    mapping: ParameterMapping
    weight_sets: WeightSets
    question: Question
    identified: bool = True
    stored: Mapping[str, str] = field(default_factory=dict)
    narrowed: torch.dtype | None = None
    facts: Facts = field(default_factory=Facts)
    sizes: Sizes | None = None
    looked_at: tuple[Case, ...] = (*UNPADDED, *PADDED, *LARGE)

    def __post_init__(self) -> None:
        self.extent = Extent()
        self.probes = Probes(self.encoder, self.question.seed, self.subject.dtype, self.sizes, self.subject.special_ids)
        self.parameters = cache(self._parameters)
        self.answer = cache(self._answer)
        self.expected = cache(self._expected)
        self.gradients = cache(self._gradients)
        self.expected_gradients = cache(self._expected_gradients)
        # Recordings of a large encoder take as much memory as the alignments, which are kept: the last one alone stays.
        self.recorded = lru_cache(None if self.weight_sets.has_room else 1)(self._recorded)
        self.aligned = cache(self._aligned)
        self.budget = cache(self._budget)
        self.can_be_asked = cache(self._can_be_asked)
        self.too_long = cache(self._too_long)

    def _parameters(self, weights: str = PERTURBED) -> Mapping[str, Tensor]:
        """Return the subject's weights by canonical path, in float64."""
        return self.weight_sets.parameters(weights, self.mapping)

    def encode(self, case: Case, probe: Probe) -> Tensor:
        """Call the subject on a probe that the check makes.

        Raises:
            Unsupported: if it takes inputs of another size alone.
        """
        batch, length = probe.inputs[0].shape[:2]
        sizes = self.sizes if probe.by_position else None
        if sizes and (sizes[0] not in (None, batch) or sizes[1] not in (None, length)):
            raise Unsupported(f"it is called with {sizes_in_words(sizes)}, and no others")
        with self._asking(case, probe):
            return self.subject.encode(probe.inputs, probe.keep, case.gradients).detach()

    @contextmanager
    def _asking(self, case: Case, probe: Probe, dtype: torch.dtype | None = None) -> Iterator[None]:
        """Call the subject with the weights of a case; what it raises is a finding about the subject.

        Args:
            case: the weights, and whether gradients are recorded.
            probe: what it is called with.
            dtype: the precision, where it is called as its owner does.
        """
        unread = [e for e in ENTRANCES & self.encoder.parameter_shapes().keys() if e not in self.mapping.sources]
        if unread:
            raise Blocked(f"the profile reads its input through {unread[0]}, which the encoder does not have")
        try:
            with self.weight_sets.in_use(case.weights):
                yield
        except (Disagreement, Unsupported):
            raise
        except Exception as fault:
            reason = one_line(fault)
            if not all(x.is_contiguous() for x in probe.inputs):
                raise Unsupported(f"no other memory order is taken: the encoder raised {reason}") from fault
            raise Disagreement(f"encoder: the subject raised {reason} [{case}]") from fault
        mode = AS_USED if dtype else WITH_GRADIENTS if case.gradients else WITHOUT_GRADIENTS
        self.extent.add(probe, dtype or self.subject.dtype, mode, OWN if case.weights == GIVEN else DRAWN)

    def as_used(self, probe_name: str = "plain") -> Used:
        """Call the subject with its own weights as its owner does, and evaluate the specification beside it.

        Args:
            probe_name: the probe that it is called with.

        Raises:
            Unsupported: if its weights hold no numbers that training gives, or the specification itself has none in
                that precision; if it cannot be called so, as with parameters in several precisions.
        """
        if self.without_value:
            raise Unsupported(f"its own weights hold {IMMODERATE}")
        case, dtype = self.case(GIVEN, probe_name, gradients=False), self.subject.kept_in()
        probe = Probes(self.encoder, self.question.seed, dtype, self.sizes, self.subject.special_ids)[case.probe]
        self.weight_sets.use(case.weights)  # while it still has the precision of the judgement
        try:
            with self.subject.as_used(), self._asking(case, probe, dtype):
                given = probe.copy()
                got = self.subject.encode(given.inputs, given.keep, gradients=False).detach().double()
        except Disagreement as refusal:
            said = f"in {name_of(dtype)}, as it is kept, {refusal}"
            # One that runs so, and takes masks elsewhere, has to take them here.
            raise (Unsupported(said) if probe.keep is None else Disagreement(said)) from None
        parameters = self.parameters(case.weights)
        with self._evaluating():
            want = with_machine_epsilon(self.encoder, dtype)(parameters, *probe.inputs, keep=probe.keep)
        # A part that it computes in less, whatever it is given, rounds here too.
        coarser = max(dtype, self.narrowed or dtype, key=lambda each: torch.finfo(each).eps)
        return Used(got, want, dtype, partial(self._allowed, parameters, probe, coarser, case))

    def _answer(self, case: Case) -> Answer:
        """Call the subject in a case."""
        probe = self.probes[case.probe]
        output = self.encode(case, probe)
        return Answer(output, probe.equals(self.probes[case.probe]))

    def output(self, case: Case) -> Tensor:
        """Return the subject's output in a case."""
        return self.answer(case).output

    def _expected(self, case: Case) -> Tensor:
        """Return the specification's output alone: the intermediates of a large probe would fill the memory.

        It computes the same with gradients and without.
        """
        if not case.gradients:
            return self.expected(case._replace(gradients=True))
        return self.evaluated(case, self.probes[case.probe])

    def evaluated(self, case: Case, probe: Probe, observe: Observer = ignore) -> Tensor:
        """Evaluate the specification with the weights of a case.

        Args:
            case: the weights.
            probe: what is read.
            observe: called with every intermediate.
        """
        with self._evaluating():
            parameters = self.parameters(case.weights)
            return self.encoder(parameters, *probe.inputs, keep=probe.keep, observe=observe)  # type: ignore[no-any-return]

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Evaluate the specification, without gradients."""
        try:
            with torch.no_grad():
                yield
        except SpecificationError as reason:
            raise Blocked(f"the profile cannot be evaluated: {reason}") from None

    def trace(self, case: Case, probe: Probe | None = None) -> Trace:
        """Return the specification's intermediates; the last one is its output.

        Args:
            case: the weights, and the probe unless another one is given.
            probe: what is read in the place of the case's probe.

        Raises:
            Blocked: if the subject lacks parameters that the profile needs.
        """
        trace = Trace()
        self.evaluated(case, self.probes[case.probe] if probe is None else probe, trace.append)
        return trace

    def trace_of(self, encoder: Encoder, case: Case) -> Trace:
        """Return the intermediates of another encoder than the specification's, in a case."""
        probe = self.probes[case.probe].copy()
        with torch.no_grad():
            return encoder.trace(self.parameters(case.weights), *probe.inputs, keep=probe.keep)

    def expected_change_without_last(self, case: Case) -> float:
        """Return by how much the specification's outputs change with the last token, where they do so least.

        In many layers that sum up little, all tokens may become one. Infinity where it cannot be evaluated.
        """
        shorter = self.probes[case.probe].without_last()
        try:
            whole, short = (self.trace(case, probe)[-1].value for probe in (None, shorter))
        except (Blocked, Unsupported, RuntimeError, IndexError):
            return inf
        return float((whole[:, : short.shape[1]] - short).abs().amax(dim=(0, -1)).min())

    def demand_float64(self, what: str) -> None:
        """Go on only with a subject that computes in float64.

        Raises:
            Unsupported: if it computes in less, where single values decide nothing.
        """
        if self.subject.dtype is not torch.float64:
            raise Unsupported(f"not decidable in {name_of(self.subject.dtype)}: {what} are compared in float64 alone")

    def _budget(self, case: Case) -> float | None:
        """Derive the allowed difference of an output; return None in float64, where it is fixed."""
        return self._allowed(self.parameters(case.weights), self.probes[case.probe], self.subject.dtype, case)

    def _allowed(
        self,
        parameters: Mapping[str, Tensor],
        probe: Probe,
        dtype: torch.dtype,
        case: Case,
        enough: float = inf,
    ) -> float | None:
        if dtype is torch.float64:
            return None
        allowed = budget(self.encoder, parameters, probe.inputs, probe.keep, dtype, enough)
        if isinf(allowed):
            raise Unsupported(f"not decidable in {name_of(dtype)}: the specification itself overflows there [{case}]")
        return allowed

    def _recorded(self, case: Case) -> Recorded:
        """Record what the subject computes in a case, its inputs included."""
        self.demand_float64("intermediates")
        probe = self.probes[case.probe]
        with self._asking(case, probe):
            return Recorded(self.subject.record(probe.inputs, probe.keep))

    def _aligned(self, case: Case) -> list[Aligned]:
        aligned = align(self.trace(case), lambda: self.recorded(case), self.encoder.dimensions.h, self._telling(case))
        if all(a.is_found for a in aligned):
            return aligned
        made = made_of(self._differentiable_trace(case))
        return [replace(a, made_of=bits) for a, bits in zip(aligned, made, strict=True)]

    def _differentiable_trace(self, case: Case) -> Trace:
        """Return the intermediates of one sequence, with the graph of what each is computed of."""
        parameters = {path: w.detach().requires_grad_() for path, w in self.parameters(case.weights).items()}
        with torch.enable_grad():
            return self.encoder.trace(parameters, *(x[:1] for x in self.probes[case.probe].inputs))

    def _telling(self, case: Case) -> Tensor | None:
        """Return the mask of a case without the sequences whose outputs agree, if others depart.

        They do not tell where: sequences are independent of each other.
        """
        probe = self.probes[case.probe]
        got, want, valid = self.output(case), self.expected(case), self.valid(case)
        if probe.keep is None or got.shape != want.shape:
            return probe.keep
        apart = difference_at(got, want, valid).flatten(1).amax(dim=1) > budget_in_float64(want)
        return probe.keep & apart[:, None] if apart.any() else probe.keep

    def valid(self, case: Case) -> Tensor | None:
        """Return the mask of the output's positions that are compared, those kept or read by a head; None for all."""
        keep, head = self.probes[case.probe].keep, self.encoder.profile["head"].variant
        if keep is None or head in FOR_EACH_POSITION:
            return keep
        return keep[:, 0] if reads_first_alone(self.equations) else keep.any(dim=1)

    def cotangent(self, case: Case) -> Tensor:
        """Draw random weights of the outputs in the sum that is differentiated; 0 at padding."""
        want, valid = self.expected(case), self.valid(case)
        generator = torch.Generator().manual_seed(self.question.seed)
        w = torch.randn(want.shape, generator=generator, dtype=want.dtype)
        return w if valid is None else w * valid[..., None]

    def _gradients(self, case: Case) -> Gradients:
        """Return the subject's gradients of Σ cotangent · output.

        Raises:
            Unsupported: in half precision, where small gradients vanish.
        """
        if self.subject.dtype not in (torch.float64, torch.float32):
            raise Unsupported(f"not decidable in {name_of(self.subject.dtype)}, where small gradients vanish")
        probe, cotangent = self.probes[case.probe], self.cotangent(case)
        arising = Arising(self.mapping, self.weight_sets.held)
        with self._asking(case, probe):
            by_input = self.subject.gradients(probe.inputs, probe.keep, cotangent, arising.add)
        return arising.gradients(by_input)

    def _expected_gradients(self, case: Case) -> Gradients:
        return self.gradients_through(self.encoder, case)

    def gradients_through(self, encoder: Encoder, case: Case) -> Gradients:
        """Return an encoder's gradients of Σ cotangent · output, by autograd through its implementation.

        Raises:
            Unsupported: if the subject computes in less than float64: then its own cannot be compared with them.
        """
        self.demand_float64("gradients")
        probe = self.probes[case.probe]
        leaves = tuple(x.clone().requires_grad_(x.is_floating_point()) for x in probe.inputs)
        parameters = {p: v.detach().requires_grad_() for p, v in self.parameters(case.weights).items()}
        # The gradient by what stands in two places is the sum of those by each.
        parameters |= {p: parameters[same] for p, same in self.mapping.tied.items() if {p, same} <= parameters.keys()}
        with_gradients = self.mapping.with_gradients()
        compared = [path for path in parameters if path in with_gradients]
        arisen: dict[str, Tensor] = {}

        def arises(path: str, gradient: Tensor) -> None:
            if path in self.facts.unlearned:
                gradient[self.facts.unlearned[path]] = 0
            arisen[path] = sketch(gradient)

        with as_they_arise({path: parameters[path] for path in compared}, arises):
            (encoder(parameters, *leaves, keep=probe.keep) * self.cotangent(case)).sum().backward()
        found = arisen | {path: sketch(nothing_like(parameters[path])) for path in compared if path not in arisen}
        return Gradients(leaves[0].grad, {path: found[path] for path in compared})

    @cached_property
    def without_value(self) -> list[str]:
        """The names of the parameters that hold, as they are given, no numbers that training gives."""
        return [name for name, w in self.weight_sets.given.items() if not is_moderate(w)]

    @cached_property
    def equations(self) -> frozenset[str]:
        """The ids of the equations that the profile uses."""
        return frozenset(equation.id for equation in self.encoder.equations())

    def context(self, case: Case) -> str:
        """Return sizes, weights and probe, for a message."""
        probe, sizes = self.probes[case.probe], self.encoder.dimensions
        shape = " ".join(f"{letter}={getattr(sizes, letter)}" for letter in ("d_model", "h", "d_k", "d_ff", "N"))
        return f"input {tuple(probe.inputs[0].shape)}, {shape}; {case}; seed {self.question.seed}"

    def cases(self, *cases: Case) -> list[Case]:
        """Return the cases whose masks this subject can take, with weights that it can take, each once."""
        possible = [c for c in cases if self.can_be_asked(c.probe)]
        if (recorded := self.subject.records_gradients) is not None:
            possible = [c._replace(gradients=recorded) for c in possible]
        return list(dict.fromkeys(c if c.weights in self.weight_sets else c._replace(weights=GIVEN) for c in possible))

    def _can_be_asked(self, probe: str) -> bool:
        """Return whether the subject can take a probe's mask, and reads as many positions."""
        positions, keep = self.probes[probe].positions, self.probes[probe].keep
        if keep is not None and not (self.subject.takes_mask and self.subject.can_hide(keep)):
            return False
        if probe == WHOLE:
            # The last rows of a table may be kept for something else: a refusal of so many positions is not told.
            return positions > self.probes["long"].positions == self.longest.positions and not self.too_long(probe)
        return positions <= self.probes["plain"].positions or positions <= self.longest.positions

    @cached_property
    def documented_otherwise(self) -> Mapping[str, str]:
        """The requirements that the subject's classes document not to meet, by id, each with what they document."""
        return self.subject.documented_otherwise()

    def _too_long(self, name: str) -> str:
        """Return the subject's error for as many positions as a probe has, if it reads only fewer; else no text.

        A table of positions ends somewhere. That it refuses so many sequences is a finding, which the checks make.
        """
        case, probe = self.case()._replace(probe=name), self.probes[name]
        if probe.positions <= self.probes["plain"].positions:
            return ""
        try:
            self.output(case)
        except Disagreement as refusal:
            shorter = probe if probe.by_position else self.probes["plain"]
            with suppress(Disagreement):
                self.encode(case, shorter.corner(len(probe.inputs[0]), self.probes.length))
                return str(refusal)
        except (Blocked, Unsupported):
            pass
        return ""

    @cached_property
    def longest(self) -> Longest:
        """The most positions that the subject is asked for."""
        most = self.probes["plain"].positions
        for name in LONGER:
            if refusal := self.too_long(name):
                return Longest(most, refusal)
            most = max(most, self.probes[name].positions)
        return Longest(most, "")

    def with_and_without_padding(self) -> list[Case]:
        """Return the plain case, and the padded ones where masks are taken."""
        return self.cases(Case(), *PADDED)

    def case(self, weights: str = PERTURBED, probe: str = "plain", gradients: bool = True) -> Case:
        """Return a case, with the weights that this subject can take."""
        return self.cases(Case(weights, probe, gradients))[0]

    def keep(self, case: Case) -> Tensor:
        """Return the mask of a padded case, (B, n) with True = keep."""
        keep = self.probes[case.probe].keep
        assert keep is not None, f"probe {case.probe} has no mask"
        return keep

    def stated_parameters(self, weights: str = GIVEN) -> dict[str, Tensor]:
        """Return the subject's own parameters by canonical path, as it keeps them."""
        return self.mapping.stated(self.weight_sets[weights])

    def unregistered(self) -> dict[str, str]:
        """Return the attributes with parameters that the framework does not know, and what each should have been."""
        names = [name for source in self.mapping.sources.values() for name in source.names]
        hidden = self.subject.unregistered().items()
        return {path: kind for path, kind in hidden if any(name.startswith(f"{path}.") for name in names)}

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
    def departing_sublayer(self) -> str | None:
        """The equation of the sublayer inside of which the subject departs, by its outputs alone.

        They agree where both sublayers add nothing, and where the other one is added. None if that is not so.
        """
        if not {SILENT, NO_ATTENTION, NO_FFN} <= set(self.weight_sets):
            return None
        try:
            agrees = {weights: self.agrees(Case(weights)) for weights in (SILENT, NO_ATTENTION, NO_FFN)}
        except (Blocked, Unsupported):
            return None
        wrong = [slot for slot, weights in (("multihead", NO_FFN), ("ffn", NO_ATTENTION)) if not agrees[weights]]
        return self.encoder.profile[wrong[0]].id if agrees[SILENT] and len(wrong) == 1 else None

    @cached_property
    def first_wrong(self) -> Case | None:
        """The first case whose output disagrees with one that the specification has; None if there is none."""
        for case in self.cases(*self.looked_at):
            try:
                self.expected(case)
                if not self.agrees(case):
                    return case
            except (Blocked, Unsupported):
                continue
        return None

    def largest_error(self, case: Case) -> float:
        """Return the largest difference of the output, where it agrees."""
        return demand_equal(
            self.output(case), self.expected(case), "", valid=self.valid(case), budget=self.budget(case)
        ).error

    def agrees(self, case: Case) -> bool:
        """Return whether the subject's output equals the specification's."""
        try:
            self.largest_error(case)
        except Disagreement:
            return False
        return True

    def gradient_cases(self) -> list[Case]:
        """Return the cases in which gradients are compared."""
        return [*self.cases(Case()), *self.cases(*PADDED)[:1]]

    def idle_unmapped(self) -> list[str]:
        """List the subject's parameters that have no canonical path and influence nothing, though they should."""
        case = self.case()
        weights, felt, fixed = self.weight_sets[case.weights], self.gradients(case).felt, self.subject.fixed()
        learned = weights.keys() - fixed or weights.keys()  # an encoder that is all frozen has learned it all
        # An array without entries is that of a map which an option leaves out.
        idle = [n for n in self.mapping.unmapped if n in learned and weights[n].numel() and n not in felt]
        chosen = self.encoder.choices()
        empty = {"position"} if chosen.get("position", "none") in ("none", "in-attention") else set()
        # Where an argument tells segments, a table that no token reads is theirs.
        empty |= {"segment"} if chosen.get("segment") == "none" and self.subject.takes_segments() else set()
        empty |= {"norm"} if "none" in (chosen.get("embedding_norm"), chosen.get("final_norm")) else set()
        missed = forgotten(idle, self.mapping, weights, empty)
        inputs = self.probes[case.probe].inputs
        # What a layer has for an option of the encoder its others have too, and a call may not get as far as these.
        excused = {of_any_layer(name) for name in missed if self.subject.influences_anything(name, inputs)}
        return [name for name in missed if of_any_layer(name) not in excused]
