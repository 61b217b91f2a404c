"""From an encoder to a run: adapt it, map its weights, identify its variant."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

from conformance_tests.errors import Undetermined
from conformance_tests.harness.run import Run
from conformance_tests.harness.weight_sets import GIVEN, WeightSets
from conformance_tests.identification.settling import Settling
from conformance_tests.subjects.subject import BEST, Precision, Subject
from conformance_tests.targets.adapting import adapt
from encoder_spec.profiles import Profile


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute on one thread: probes are small, and the order of sums is then always the same."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def opened(thing: Any, seed: int, declared: Profile | None = None, precision: Precision = BEST) -> Iterator[Run]:
    """Make a run for an encoder: map its weights and identify its variant.

    What it computes is found out in the best precision that it has; then it is judged in the one asked for.
    An encoder that computes a part of itself in a lower precision, whatever it is given, is judged in that one,
    if that explains why it disagrees.

    Raises:
        Undetermined: if its parameters are those of no encoder, or include unknown ones that matter.
    """
    subject = adapt(thing)
    if declared is not None:
        published = {name: float(value) for name, value in declared.choices().items() if name.endswith("eps")}
        kept: dict[str, Any] = {name: subject.as_kept(value) for name, value in published.items()}
        declared = declared.replace(**kept)
    with single_thread(), subject.borrowed(), ExitStack() as stack:
        run, reason = entered(stack, settled_run(subject, seed, declared, BEST, precision))
        part = subject.narrowest_part()
        if part and precision == BEST and not (run and run.identified):
            narrow = Precision(part)
            lower, _ = entered(inner := ExitStack(), settled_run(subject, seed, declared, narrow, narrow))
            with inner:
                if lower and lower.identified:
                    yield lower
                    return
        if run is None:
            raise reason or AssertionError
        yield run


def entered(stack: ExitStack, making: AbstractContextManager[Run]) -> tuple[Run, None] | tuple[None, Undetermined]:
    """A run that the stack ends, or the reason why there is none."""
    try:
        return stack.enter_context(making), None
    except Undetermined as reason:
        return None, reason


@contextmanager
def settled_run(
    subject: Subject, seed: int, declared: Profile | None, found_out_in: Precision, judged_in: Precision
) -> Iterator[Run]:
    """A run of a subject whose variant is found out in one precision, and which is judged in another."""
    with subject.computing_in(found_out_in):
        settling = Settling(subject, seed, declared)
        try:
            settled = settling.settle()
            encoder, mapping = settled.found.encoder, settled.mapping
            if declared is None:
                mapping = mapping.restricted(encoder.parameter_shapes())
            settling.put_back()
            with subject.computing_in(judged_in):
                same = judged_in == found_out_in
                sets = settled.sets if same else WeightSets(subject, mapping, seed, settled.stored)
                try:
                    yield Run(subject, encoder, mapping, sets, seed, settled.found.agrees, settled.stored)
                finally:
                    if GIVEN in sets:
                        sets.use(GIVEN)
        finally:
            settling.put_back()
