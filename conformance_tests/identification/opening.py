"""From an encoder to a run: adapt it, map its weights, identify its variant."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from conformance_tests.errors import Blocked, Refused, SubjectError, Undetermined, Unsupported
from conformance_tests.harness.computed import with_machine_epsilon
from conformance_tests.harness.question import Question
from conformance_tests.harness.run import Case, Run
from conformance_tests.harness.weight_sets import FAINT, GIVEN, WeightSets
from conformance_tests.identification.by_shapes import read_by_shapes
from conformance_tests.identification.settling import Doing, Settled, Settling, untold
from conformance_tests.numerics.memory import give_back, keep_large_arrays_apart
from conformance_tests.numerics.probes import Probes
from conformance_tests.numerics.products import full_products
from conformance_tests.parameters.mapping import canonical_names
from conformance_tests.reports.report import Level
from conformance_tests.subjects.subject import BEST, Precision, Subject
from conformance_tests.targets.adapting import adapt
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule

SEVERAL_THREADS = 2**24
"""From so many weights on a call takes long enough for several threads to share it."""

SPARING = 2**25
"""From so many weights on, 256 MiB in float64, memory that is kept for later exceeds what importing torch takes."""


@contextmanager
def threads_and_memory_for(subject: Subject) -> Iterator[None]:
    """Compute on one thread, unless the encoder is large: probes are small, and threads would wait for each other.

    Beside a very large one, memory is given back as soon as it is free.
    """
    threads, size = torch.get_num_threads(), sum(w.numel() for w in subject.held().values())
    if size < SEVERAL_THREADS:
        torch.set_num_threads(1)
    if size >= SPARING:
        keep_large_arrays_apart()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def opened(thing: Any, question: Question, doing: Doing = untold) -> Iterator[Run]:
    """Make a run for an encoder: map its weights and identify its variant.

    At the level ``static`` it is read by names and shapes alone, and nothing of it runs.
    Otherwise what it computes is found out in the best precision that it has; then it is judged in the one asked for.
    An encoder that computes a part of itself in a lower precision, whatever it is given, is judged in that one,
    if that explains why it disagrees, or why it cannot be called in the best one, or takes no mask there.

    Args:
        thing: the encoder, or the subject that it is.
        question: what is asked of it.
        doing: called with what is being done.

    Raises:
        Undetermined: if its parameters are those of no encoder, or include unknown ones that matter.
        SubjectError: if it cannot be called in any precision.
    """
    subject = adapt(thing)
    if question.declared is not None:
        published = {n: float(value) for n, value in question.declared.choices().items() if n.endswith("eps")}
        kept: dict[str, Any] = {name: subject.as_kept(value) for name, value in published.items()}
        question = replace(question, profile=question.declared.replace(**kept))
    if question.strongest is Level.STATIC:
        yield read_by_shapes(subject, question)
        return
    subject.materialise()
    with subject.borrowed(), threads_and_memory_for(subject), full_products(), ExitStack() as stack:
        if question.precision.dtype is torch.float32:
            # It may run in float32 alone. Half precision is tried later: it is too coarse to tell variants apart.
            subject.hold_to(torch.float32)
            with attempted(subject, question, Precision(torch.float32), question.precision, doing) as asked:
                if asked.run is not None and asked.run.identified:
                    yield asked.run
                    return
            subject.hold_to(None)
        first = stack.enter_context(attempted(subject, question, BEST, question.precision, doing))
        refuses_mask = first.run is not None and bool(subject.unknown())
        narrowed = torch.float32 if refuses_mask or isinstance(first.reason, SubjectError | Refused) else first.narrowed
        if first.run is None:
            narrowed = question.precision.dtype or narrowed
        is_settled = first.run is not None and first.run.identified and not (refuses_mask or first.narrowed_by_mask)
        if narrowed and (question.precision == BEST or first.run is None) and not is_settled:
            narrow, learned = replace(question.precision, dtype=narrowed), subject.how_called()
            if first.run is not None and not refuses_mask:
                with rejudged(first.run, narrow) as same:
                    if same is not None and same.identified:
                        yield same
                        return
            with attempted(subject, question, narrow, narrow, doing) as lower:
                explains = lower.run is not None and (lower.run.identified or is_rounding_alone(lower.run))
                if lower.run and (first.run is None or (explains and not (refuses_mask and subject.unknown()))):
                    lower.run.identified |= bool(explains)  # what differs by rounding alone agrees
                    yield lower.run
                    return
                if first.run is None and lower.is_computed:
                    raise lower.reason or AssertionError
            subject.call_as(learned)
            if first.run is not None and first.run.facts.findings and not refuses_mask:
                # Wrong in either precision, as its computation shows. In this one what it rounds does not stand beside
                # that. Where intermediates have to show it, they are compared in float64 alone.
                with rejudged(first.run, narrow) as same:
                    yield same or first.run
                    return
        if first.run is None:
            raise first.reason or AssertionError
        yield first.run


@contextmanager
def opened_beside(run: Run, module: EncoderModule) -> Iterator[Run]:
    """Make a run for a module of the specification, to be judged as another run judges its subject.

    Nothing is identified: its parameters have canonical names, and it is known what it should compute.
    """
    subject = adapt(module)
    question = Question(run.encoder.profile, seed=run.question.seed)
    with subject.borrowed(), threads_and_memory_for(subject), full_products(), subject.computing_in(BEST):
        mapping = canonical_names(subject.weights())
        subject.learn(Probes(run.encoder, question.seed))
        sets = WeightSets(subject, mapping, question.seed)
        yield Run(subject, run.encoder, mapping, sets, question, sizes=run.sizes)


def is_rounding_alone(run: Run) -> bool:
    """Return whether the specification's own spread in this precision explains all differences of the outputs.

    While a variant is sought, a fixed budget decides: large weights let an encoder differ by more. Nothing is explained
    where the specification cannot be evaluated: for want of a parameter, say.
    """
    try:
        return all(map(run.agrees, run.cases(Case(), Case(FAINT, "faint"), Case(GIVEN))))
    except (Blocked, Unsupported):
        return False


@contextmanager
def rejudged(run: Run, precision: Precision) -> Iterator[Run | None]:
    """Judge a subject against the same encoder in a lower precision; it agrees if rounding explains all differences.

    Without a run if it does not compute in that precision.
    """
    subject, sets = run.subject, run.weight_sets
    if GIVEN in sets:
        sets.use(GIVEN)
    with ExitStack() as stack:
        try:
            stack.enter_context(subject.computing_in(precision))
        except Undetermined:
            yield None
            return
        lower = replace(
            run,
            encoder=with_machine_epsilon(run.encoder, subject.dtype),
            weight_sets=WeightSets(subject, run.mapping, run.question.seed, run.stored),
            comparisons=[],
        )
        lower.identified = is_rounding_alone(lower)
        try:
            yield lower
        finally:
            if GIVEN in lower.weight_sets:
                lower.weight_sets.use(GIVEN)


class Attempt(NamedTuple):
    """A run, or the reason why there is none; and a narrower precision in which the subject computes a part.

    Without a mask, what such a part rounds shows in the outputs. One that is ``narrowed_by_mask`` rounds under a mask
    alone. ``is_computed`` is false where the subject does not compute in that precision at all: then the reason says
    no more.
    """

    run: Run | None
    reason: Undetermined | SubjectError | None
    narrowed: torch.dtype | None
    narrowed_by_mask: bool
    is_computed: bool


@contextmanager
def attempted(
    subject: Subject, question: Question, found_out_in: Precision, judged_in: Precision, doing: Doing
) -> Iterator[Attempt]:
    """Find out the variant of a subject in one precision, and make a run that judges it in another."""
    with ExitStack() as stack:
        settling: Settling | None = None
        run, reason = None, None
        try:
            stack.enter_context(subject.computing_in(found_out_in))
            settling = Settling(subject, question.seed, question.declared, doing)
            stack.callback(settling.put_back)
            run = settled_run(settling, question, stack, None if judged_in == found_out_in else judged_in)
            give_back()
        except (Undetermined, SubjectError) as why:
            reason = why
            stack.close()
        calls = settling.calls if settling else None
        by_mask = calls is not None and calls.is_narrowed_by_mask
        yield Attempt(run, reason, settling.narrowed if settling else None, by_mask, settling is not None)


def settled_run(settling: Settling, question: Question, stack: ExitStack, judged_in: Precision | None) -> Run:
    """Settle how a subject is read and which variant it is; return the run, which the stack ends.

    Args:
        settling: of the subject.
        question: what is asked.
        stack: ends what the run needs while it lasts.
        judged_in: another precision to judge in than that in which the variant is found out.
    """
    subject, settled = settling.subject, settling.settle()
    encoder, mapping, sets = settled.found.encoder, settled.mapping, settled.sets
    if question.declared is None:
        mapping = mapping.restricted(encoder.parameter_shapes())
    settling.put_back()
    if judged_in is not None:
        stack.enter_context(subject.computing_in(judged_in))
        encoder = with_machine_epsilon(encoder, subject.dtype)
        sets = WeightSets(subject, mapping, question.seed, settled.stored)
    stack.callback(lambda: sets.use(GIVEN) if GIVEN in sets else None)

    def run_of(settled: Settled, encoder: Encoder) -> Run:
        found, facts, sizes = settled.found, settled.facts, settled.sizes
        return Run(
            subject, encoder, mapping, sets, question, found.agrees, settled.stored, settling.narrowed, facts, sizes
        )

    run = run_of(settled, encoder)
    if judged_in is None and run.identified and not all(map(run.agrees, run.cases(Case(probe="long")))):
        far = settling.settled_far(settled)
        settling.put_back()
        return run if far is None else run_of(far, far.found.encoder)
    return run
