"""The smallest input at which an encoder's outputs are wrong: one position hides much, two hide little."""

from collections.abc import Iterator

from conformance_tests.compare import Disagreement, Unsupported, demand_equal
from conformance_tests.probes import Probe
from conformance_tests.run import Case, Run


def smallest_failing_input(run: Run) -> list[int] | None:
    """The shape of the smallest input, cut from a probe, whose output disagrees; None if no output does.

    Shorter sequences come first, then larger batches of whole ones.
    """
    case = run.first_wrong
    if case is None:
        return None
    for probe in corners(run.probes[case.probe]):
        if is_wrong(run, case, probe):
            return list(probe.inputs[0].shape)
    return None


def corners(probe: Probe) -> Iterator[Probe]:
    """A probe's first sample in growing length, then more samples of it; images and signals are never shortened."""
    batch, length = probe.inputs[0].shape[:2]
    if probe.by_position:
        yield from (probe.corner(1, n) for n in range(1, length))
    yield from (probe.corner(samples, length) for samples in range(1, batch + 1))


def is_wrong(run: Run, case: Case, probe: Probe) -> bool:
    """Whether the output for a probe disagrees; an input that is refused for being small says nothing."""
    want = run.encoder(run.parameters(case.weights), *probe.inputs, keep=probe.keep)
    try:
        got = run.encode(case, probe)
    except (Disagreement, Unsupported):
        return False
    valid = probe.keep if probe.keep is not None and want.ndim > 2 else None
    try:
        demand_equal(got, want.detach(), "", valid=valid, budget=run.budget(case))
    except Disagreement:
        return True
    return False
