"""The smallest input at which an encoder's outputs are wrong: one position hides much, two hide little."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain

from conformance_tests.errors import Blocked, Disagreement, Unsupported
from conformance_tests.harness.run import FAST, LARGE, Case, Run
from conformance_tests.numerics.compare import demand_equal
from conformance_tests.numerics.probes import Probe


def smallest_failing_input(run: Run) -> list[int] | None:
    """Return the shape of the smallest input, cut from a probe, whose output disagrees; None if no output does.

    Fewer samples come first, then shorter sequences. Where all whole probes agree, a part of one may not, or what
    is computed without gradients.
    """
    if run.first_wrong in LARGE:
        return smallest_of_large(run, run.first_wrong)
    for case in [run.first_wrong] if run.first_wrong else agreeing_cases(run):
        probe = run.probes[case.probe]
        batch, length = probe.inputs[0].shape[:2]
        shorter = range(1, length) if probe.by_position else ()  # images and signals are never shortened
        one = ((1, n) for n in shorter)
        more = ((samples, length) for samples in range(1, batch + 1))
        wrong = first_wrong(run, case, chain(one, more))
        if wrong and wrong[0] > 1:
            wrong = first_wrong(run, case, ((wrong[0], n) for n in shorter)) or wrong
        if wrong:
            return list(probe.corner(*wrong).inputs[0].shape)
    return None


def smallest_of_large(run: Run, case: Case) -> list[int]:
    """Return the shape of the smallest part of a large probe, by bisection: what begins at some size goes on there."""
    probe = run.probes[case.probe]
    batch, length = probe.inputs[0].shape[:2]
    sizes = [(1, n) for n in range(1, length)] if probe.by_position else []
    sizes += [(samples, length) for samples in range(1, batch)]
    at = bisect_left(sizes, True, key=lambda size: is_wrong(run, case, probe.corner(*size)))
    return list((probe.corner(*sizes[at]) if at < len(sizes) else probe).inputs[0].shape)


def agreeing_cases(run: Run) -> list[Case]:
    """List where a subject that agrees on all whole probes may be wrong; empty if the specification has no value."""
    try:
        run.expected(run.case())
    except Blocked:
        return []
    return run.cases(Case(), *FAST)


def first_wrong(run: Run, case: Case, sizes: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the first of some sizes, samples by length, at which the output of that part of a probe disagrees."""
    return next((size for size in sizes if is_wrong(run, case, run.probes[case.probe].corner(*size))), None)


def is_wrong(run: Run, case: Case, probe: Probe) -> bool:
    """Return whether the output for a probe disagrees; an input that is refused for being small does not count."""
    want = run.encoder(run.parameters(case.weights), *probe.inputs, keep=probe.keep)
    try:
        got = run.encode(case, probe)
    except (Blocked, Disagreement, Unsupported):
        return False
    valid = probe.keep if probe.keep is not None and want.ndim > 2 else None
    try:
        demand_equal(got, want.detach(), "", valid=valid, budget=run.budget(case))
    except Disagreement:
        return True
    return False
