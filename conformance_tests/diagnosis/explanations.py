"""Diagnosis: which wrong equation reproduces what the subject does?

The same search as identification, over deviations instead of variants: the specification
with a wrong equation in one slot is evaluated on everything that was asked of the subject,
and the one that gives the subject's own numbers is what is wrong with it. Where one does
not suffice, two are tried together. Where nothing matches, nothing is claimed.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from math import inf, isclose, isfinite, isinf, isnan

from torch import Tensor

from conformance_tests.deviations import NOT_DEFINED, Deviation, deviations, with_deviations
from conformance_tests.diagnosis.first_layer import FirstLayer, Seen
from conformance_tests.diagnosis.masking import masks_as_applied
from conformance_tests.diagnosis.observations import (
    UNDECIDED,
    Observation,
    Tried,
    answers_at_random,
    is_defined,
    is_random,
    largest_difference,
    observations,
    with_other_padding,
)
from conformance_tests.errors import SubjectError, Undetermined
from conformance_tests.harness.deciding import decide, planned
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import LARGE, Case, Run
from conformance_tests.harness.weight_sets import GIVEN
from conformance_tests.identification.identify import differences
from conformance_tests.identification.opening import opened, opened_beside
from conformance_tests.reports.report import Level, Result
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import Profile, as_number

Progress = Callable[[int, int], None]


def silent(_done: int, _of: int) -> None:
    """Show no progress."""


FIRST_OF_TWO = 6
"""So many deviations, those that explain most by themselves, are tried together with every other one."""


SAME_AMOUNT = 1e-6
"""How far, relatively, two errors may lie apart that come from the same wrong equation."""


SAME_ORDER = 10.0
"""How many times larger one of two errors may be where a kind of defect has no fixed amount."""


@dataclass(frozen=True)
class Explanation:
    """Deviations with which the specification computes what the subject computes.

    ``residual`` is the largest difference over every output and gradient compared; None where just the same
    requirements fail, though by other amounts.
    """

    deviations: tuple[Deviation, ...]
    residual: float | None

    @property
    def defects(self) -> tuple[Deviation, ...]:
        """Its deviations that are right in no encoder, or where they are declared; all, if each is right in some."""
        return tuple(d for d in self.deviations if not d.is_variant or d.to_be_declared) or self.deviations

    def __str__(self) -> str:
        """Return the explanation as a sentence, which keeps a defect apart from another choice that comes with it."""
        wrong = ", and ".join(lowered(d.definition) for d in self.defects)
        if choices := ", and ".join(lowered(d.definition) for d in self.deviations if d not in self.defects):
            wrong += f"; as is right in other encoders, {choices}"
        if self.residual is None:
            return f"your encoder fails the same requirements as the specification in which {wrong}"
        how = f"agrees to {self.residual:.0e} with" if self.residual else "is exactly"
        return f"your encoder {how} the specification in which {wrong}"


def lowered(sentence: str) -> str:
    """Return a sentence as a part of another one: an acronym or a letter of the paper keeps its case."""
    first, _, rest = sentence.removesuffix(".").partition(" ")
    # No definition begins with the letter A of the weights: it is the article.
    return f"{first.lower() if first == 'A' or (first.istitle() and len(first) > 1) else first} {rest}"


def explanations(run: Run, progress: Progress = silent, slots: Collection[str] = ()) -> list[Explanation]:
    """Find what is wrong with a subject, the closest agreement first; nothing if nothing in the catalogue matches.

    Args:
        run: the subject beside the profile that it departs from.
        progress: called with the number of deviations that have been tried, and of how many.
        slots: where the subject is known to depart: deviations of these slots alone are tried, each by itself.
    """
    known = (d for d in deviations().values() if not slots or d.slot in slots)
    applying = (d for d in known if d.applies(run.encoder.profile) and d.ranks in (0, run.subject.processes))
    candidates = [d for d in applying if is_used(run.encoder, d)]
    departing, agreeing = divided(run, observations(run))
    # A candidate that is wrong is nearly always wrong on the first of them; large probes take their time.
    asked = sorted([*departing, *agreeing], key=lambda observed: observed.case in LARGE)
    first = FirstLayer(run, (departing or asked)[0]) if asked else None
    tried = Tried(run)
    single = list(reproducing(tried, asked, [(d,) for d in candidates], first, progress))
    if asked and not departing:
        alike = [d for explanation in single for d in explanation.deviations]
        return leaking_alike(run, asked, alike) or behaving_alike(run, alike)
    if not single and departing and (not slots or "mask" in slots):
        single = list(reproducing(tried, asked, [(d,) for d in masks_as_applied(run)]))
    if single or slots:
        return ranked(run, single)
    if run.question.declared is not None and (choice := other_choice(run)):
        return [choice]
    if not asked:
        return behaving_alike(run, (d for d in candidates if not is_defined(run, d)))
    if not has_its_shape(run, departing[0]):
        return []  # two wrong equations that change no shape change none together
    if answers_at_random(run):
        return behaving_alike(run, (d for d in candidates if is_random(run, d)), at_random=True)
    # One that departs by itself where the subject does not would have to be undone there by the other of two.
    possible = [d for d in candidates if not tried.breaks((d,), agreeing)]
    likely = most_explaining(run, departing[0], [d for d in possible if changes(d, departing[0], tried, first)], first)
    pairs = [(a, b) for a, b in combinations(possible, 2) if a.slot != b.slot and (a in likely or b in likely)]
    return ranked(run, reproducing(tried, asked, pairs, first, progress))


def is_used(encoder: Encoder, deviation: Deviation) -> bool:
    """Return whether a deviation changes an equation or a constant that an encoder uses: no other explains anything."""
    wrong = with_deviations(encoder, (deviation,))
    return wrong.whole != encoder.whole or wrong.profile["sharing"] != encoder.profile["sharing"]


def divided(run: Run, asked: Iterable[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Return the observations that the specification does not give, and those that it does."""
    departing: list[Observation] = []
    agreeing: list[Observation] = []
    for observed in asked:
        agrees = largest_difference(run, run.encoder, [observed]) is not None
        (agreeing if agrees else departing).append(observed)
    return departing, agreeing


def other_choice(run: Run) -> Explanation | None:
    """Return the legitimate choice of equations that a subject makes instead of the declared one, if it makes one.

    Each equation that differs is a deviation here: right elsewhere, but not in this profile.
    """
    wanted = run.encoder.profile
    run.weight_sets.use(GIVEN)
    with suppress(Undetermined, SubjectError, *UNDECIDED), opened(run.subject, undeclared(run.question)) as free:
        if free.identified:
            differing = differences(free.encoder, wanted)
            wrong = tuple(
                chosen_instead(wanted, free.encoder.profile, place, *pair) for place, pair in differing.items()
            )
            return Explanation(wrong, free.largest_error(Case(GIVEN))) if wrong else None
    return None


def undeclared(question: Question) -> Question:
    """Return the question without a declared profile: with any legitimate choice allowed, in the best precision."""
    return Question(seed=question.seed)


def chosen_instead(wanted: Profile, chosen: Profile, place: str, mine: str | float, theirs: str | float) -> Deviation:
    """Return a choice that differs from the declared one as a deviation."""
    is_one = place in chosen.equations and place not in chosen.in_turn
    filled = {place: chosen.equations[place] if is_one else as_number(mine)}
    slot = place if place in wanted.equations else "norm"
    text = f"{place.replace('_', ' ')} is {mine} (the profile has {theirs})"
    return Deviation(f"{place}={mine}", text, (wanted[slot].id,), (), filled)


def has_its_shape(run: Run, observed: Observation) -> bool:
    """Return whether an output has the shape that the specification gives it, as far as that can be evaluated."""
    try:
        return observed.got[0].shape == run.expected(observed.case).shape
    except UNDECIDED:
        return True


def ranked(run: Run, matching: Iterable[Explanation]) -> list[Explanation]:
    """Sort explanations: those first that leave the fewest parameters without a use; of these the closest."""
    parameters = run.parameters(GIVEN).keys()

    def idle(explanation: Explanation) -> int:
        return len(parameters - with_deviations(run.encoder, explanation.deviations).parameter_shapes().keys())

    return sorted(matching, key=lambda e: (idle(e), e.residual or 0.0))


def changes(wrong: Deviation, observation: Observation, tried: Tried, first: FirstLayer | None) -> bool:
    """Return whether a deviation changes what the specification gives, in the first layer where that is looked at."""
    if first is not None and first.recorded is not None:
        return first.seen((wrong,)) is not Seen.AS_SPECIFIED
    return not tried.answer((wrong,), observation).is_specified


def reproducing(
    tried: Tried,
    asked: Sequence[Observation],
    candidates: Sequence[tuple[Deviation, ...]],
    first: FirstLayer | None = None,
    progress: Progress = silent,
) -> Iterator[Explanation]:
    """Yield the candidates with which the specification gives every observation; of some the first layer says no."""
    for done, wrong in enumerate(candidates if asked else ()):
        progress(done, len(candidates))
        if first is not None and not first.may_show(wrong):
            continue
        residual = tried.residual(wrong, asked)
        if residual is not None:
            yield Explanation(wrong, residual)


def leaking_alike(run: Run, asked: Sequence[Observation], candidates: Sequence[Deviation]) -> list[Explanation]:
    """Return the candidates, and masks as the subject applies them, that let through what it does of padding.

    Args:
        run: the subject beside the profile.
        asked: what the specification gives, and an explanation has to give too.
        candidates: deviations that do.
    """
    leaking, sealed = divided(run, with_other_padding(run))
    if not leaking:
        return []
    masks = [(d,) for d in [*candidates, *masks_as_applied(run)]]
    return ranked(run, reproducing(Tried(run), [*leaking, *sealed, *asked], masks))


def most_explaining(
    run: Run, wrong: Observation, candidates: Sequence[Deviation], first: FirstLayer | None = None
) -> list[Deviation]:
    """Return the deviations that explain more alone than the specification does: two together may explain all.

    More of its intermediates stand among the subject's, and fewer are missing there: one that leaves steps out has
    fewer of both. Of a subject that shows none, the outputs are nearer.
    """
    if wrong.gradients:
        return []
    case, output, first = wrong.case, wrong.got[0], first or FirstLayer(run, wrong)
    try:
        recorded = run.recorded(case)
    except UNDECIDED:
        recorded = None

    def explained(encoder: Encoder) -> tuple[float, float]:
        """Return two numbers, both of which are larger the more is explained."""
        try:
            trace = first.trace(encoder)
        except NOT_DEFINED:
            return -inf, -inf
        if recorded is None:
            near = -float((trace[-1].value - output).abs().nan_to_num(inf).median())
            return near, near
        values = [i.value.detach() for i in trace if isinstance(i.value, Tensor)]
        present = sum(map(recorded.has, values))
        return present, present - len(values)

    least = explained(run.encoder)
    counts = {d: explained(with_deviations(run.encoder, (d,))) for d in candidates}
    better = [d for d in candidates if all(more > less for more, less in zip(counts[d], least, strict=True))]
    return sorted(better, key=counts.__getitem__, reverse=True)[:FIRST_OF_TWO]


def behaving_alike(run: Run, candidates: Iterable[Deviation], *, at_random: bool = False) -> list[Explanation]:
    """Return the deviations that fail the same requirements as the subject, and by as much if some do.

    What an encoder does beside its numbers, such as writing into its input, shows in the checks alone. Where it answers
    ``at_random``, errors may be of any amount.
    """
    failed, given = failing(run), run.parameters(GIVEN)
    alike: list[Explanation] = []
    noticed = (d for d in candidates if not failed.keys().isdisjoint(d.noticed_by))
    # The specification itself comes first: in a process that its subject has spoiled it may fail just the same.
    for wrong in [(), *((d,) for d in noticed)]:
        module = EncoderModule(with_deviations(run.encoder, wrong), dtype=run.subject.kept_in())
        needed = module.encoder.parameter_shapes().keys()
        if not needed <= given.keys():
            continue
        module.load({path: given[path] for path in needed})
        with suppress(Undetermined, SubjectError), opened_beside(run, module) as other:
            # Where a parameter is missing the outputs may be right; which one it is tells the deviations apart.
            if other.stated_parameters().keys() != run.stated_parameters().keys():
                continue
            other.weight_sets.adopt(run.weight_sets, run.parameters)
            amounts = amounts_alike(other, failed, at_random=at_random)
            if amounts is not None and not wrong:
                return []
            if amounts is not None:
                alike.append(Explanation(wrong, 0.0 if amounts else None))
    return [e for e in alike if e.residual is not None] or alike


def failing(run: Run) -> dict[str, Result]:
    """Return the requirements that a run fails, and how."""
    decided = (decide(run, check, id) for check, id in planned(run, Level.GRADIENT))
    return {result.id: result for result in decided if result.outcome == "fail"}


def in_words(result: Result) -> str:
    """Return what a message says, and on which probe, without its numbers."""
    return re.sub(r"\d+", "", result.message)


def is_another_amount(one: float, other: float) -> bool:
    """Return whether two errors are of different orders, or one is a number and the other is not."""
    if not isfinite(one) or not isfinite(other):
        return isnan(one) != isnan(other) or isinf(one) != isinf(other)
    return max(one, other) > SAME_ORDER * min(one, other) > 0


def amounts_alike(run: Run, failed: Mapping[str, Result], *, at_random: bool = False) -> bool | None:
    """Return whether a run fails these requirements by equal amounts.

    None if it fails others, or not all of them, or, unless it is all ``at_random``, some by an amount of another order.
    """
    alike = True
    # The first one that differs ends the search.
    for check, id in sorted(planned(run, Level.GRADIENT), key=lambda item: item[1] not in failed):
        result = decide(run, check, id)
        if (result.outcome == "fail") != (id in failed):
            return None
        if id in failed:
            amounts = result.error or 0.0, failed[id].error or 0.0
            if not any(amounts) and in_words(result) != in_words(failed[id]):
                return None
            if not at_random and is_another_amount(*amounts):
                return None
            alike &= isclose(*amounts, rel_tol=SAME_AMOUNT)
    return alike
