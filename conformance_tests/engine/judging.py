"""The one function behind all doors: load, map, identify, verify, report."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch

from conformance_tests.diagnosis.explanations import explanations
from conformance_tests.diagnosis.locating import located
from conformance_tests.diagnosis.shrinking import smallest_failing_input
from conformance_tests.engine.expected import Expected, ExpectedFailure, apply_expected, expected_failures
from conformance_tests.engine.notes import below_resolution, describe
from conformance_tests.engine.reproduction import again
from conformance_tests.errors import Disagreement, SubjectError, TargetError, Undetermined, one_line
from conformance_tests.harness.deciding import decide, planned
from conformance_tests.harness.run import Run
from conformance_tests.harness.wiring import departs_at
from conformance_tests.identification.opening import entered, opened
from conformance_tests.reports.report import Level, Report, Result, TargetReport
from conformance_tests.subjects.guard import Guard
from conformance_tests.subjects.subject import BEST, Precision, Subject, name_of
from conformance_tests.targets.adapting import adapt
from conformance_tests.targets.resolving import make, resolve
from encoder_spec.equation import requirements
from encoder_spec.profiles import Profile
from encoder_spec.profiles import profile as published

Progress = Callable[[str, int, int], None]
Watch = Callable[[TargetReport, list[Result]], None]


def silent(_what: str, _done: int, _of: int) -> None:
    """Show no progress."""


def unwatched(_report: TargetReport, _undecided: list[Result]) -> None:
    """Watch nothing."""


def check(
    target: Any,
    profile: str | Profile = "auto",
    level: str = "gradient",
    seed: int = 0,
    progress: Progress = silent,
    expected: Expected | None = None,
    dtype: str | None = None,
    device: str = "cpu",
) -> Report:
    """Judge an encoder against the specification.

    Args:
        target: what ``encoder-spec check`` accepts, or an encoder itself: a torch module, a
            function that makes one, or an object with ``weights`` and ``encode(x, mask)``.
            A list of these gives one report on all. It runs in this process, unlike on the
            command line: ``isolation.Workers`` runs targets that have a name in processes of their own.
        profile: ``"auto"`` to identify the variant, or the profile that must hold exactly:
            a name, a ``.toml`` file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: of probes and weights; the same seed gives the same report.
        progress: called with what is being done, and how much of how much.
        expected: the failures that are known: a ``.toml`` file, or reasons by requirement.
        dtype: the precision to judge in: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``, below
            float64 with a budget derived from the specification; the best that the encoder can unless given.
        device: where to judge, as torch names it.

    Returns:
        The report; ``report.verdict`` is the worst verdict of all targets.

    Raises:
        TargetError: if a target's name cannot be used.
        SpecificationError: if there is no such profile, dtype or device, or an expected failure cannot be used.
    """
    precision = Precision.named(dtype, device)
    known = expected_failures(expected)
    declared = named_profile(profile) if isinstance(profile, str) else profile
    found = [
        (named(t), again(t, profile, seed, expected, dtype, device))
        for t in (target if isinstance(target, list) else [target])
    ]
    report = Report(seed)
    for (name, load), repro in found:
        report.targets.append(
            check_one(name, load, declared, Level.named(level), seed, repro, progress, known, precision=precision)
        )
    return report


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make random numbers repeatable, so that a factory makes the same encoder again; then put them back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def named_profile(name: str) -> Profile | None:
    """The profile of this name; None for ``auto``."""
    return None if name == "auto" else published(name)


def named(target: Any) -> tuple[str, Callable[[], Any]]:
    """A name for a target, and the function that loads it."""
    if isinstance(target, str):
        return target, resolve(target)
    return getattr(target, "__name__", type(target).__name__), lambda: target


def check_one(
    name: str,
    load: Callable[[], Any],
    declared: Profile | None,
    level: Level,
    seed: int,
    repro: str,
    progress: Progress,
    expected: Iterable[ExpectedFailure] = (),
    watch: Watch = unwatched,
    decided: Iterable[Result] = (),
    precision: Precision = BEST,
) -> TargetReport:
    """Judge one target; whatever goes wrong with it ends up in its report.

    ``watch`` is shown the report whenever something was decided, and what is not decided
    yet, as blocked. What an earlier run has ``decided`` is taken over.
    """
    begun = time.perf_counter()
    report = TargetReport(name, requirements=list(decided))
    guard = Guard()
    try:
        with (
            guard.kept_random_state(),
            guard.around(adapted(name, load, guard, seed, progress)) as subject,
            opened(subject, seed, declared, precision) as run,
        ):
            report.dtype = name_of(subject.dtype)
            describe(run, declared, report)
            report.notes.extend(below_resolution(report.dtype))
            if precision == BEST and subject.dtype is subject.narrowest_part():
                report.notes.append(f"computes a part in {report.dtype} whatever it is given: judged in {report.dtype}")
            verify(run, level, report, repro, progress, watch)
            report.requirements, notes = apply_expected(report.requirements, expected, name, repro)
            report.notes.extend(notes)
            report.level, report.verdict = judge(report.requirements, level)
            if unknown := subject.unknown():
                report.notes.append(unknown)
                report.verdict = "undetermined" if report.verdict == "conformant" else report.verdict
            progress(f"{name}: explaining", 1, 1)
            explain(run, declared, report, progress)
    except Undetermined as reason:
        report.verdict = "undetermined"
        report.notes.append(str(reason))
    except (SubjectError, Disagreement) as reason:
        report.verdict = "error"
        report.notes.append(str(reason))
    except Exception as fault:
        if fault is not guard.raised or isinstance(fault, TargetError):
            raise
        report.verdict = "error"
        report.notes.append(f"calling the encoder raised {one_line(fault)}")
    report.notes += guard.notes()
    report.seconds = round(time.perf_counter() - begun, 3)
    return report


def adapted(name: str, load: Callable[[], Any], guard: Guard, seed: int, progress: Progress) -> Subject:
    """Load and make the encoder, as a subject; whatever that raises is the subject's fault."""
    try:
        with guard.undisturbed(), seeded(seed):
            progress(f"{name}: importing", 0, 1)
            found = load()
            progress(f"{name}: making", 0, 1)
            subject = adapt(make(found))
    except (TargetError, SubjectError, Undetermined):
        raise
    except Exception as fault:
        raise SubjectError(f"making the encoder raised {one_line(fault)}") from fault
    progress(f"{name}: identifying", 0, 1)
    return subject


def explain(run: Run, declared: Profile | None, report: TargetReport, progress: Progress) -> None:
    """Write into the report of a subject that failed where it departs, and which deviation it has."""
    if not report.of("fail"):
        return
    by_value = departs_at(run)
    smallest = smallest_failing_input(run)
    report.requirements = [replace(r, smallest=smallest) if r.outcome == "fail" else r for r in report.requirements]
    with torch.random.fork_rng(devices=[]), coarsest(run, declared) as seen:  # some deviations draw random numbers
        found = explanations(seen, declared, lambda done, of: progress(f"{report.target}: explaining", done, of))
    report.departs_at = located(by_value, found, report.of("fail"), run.encoder)
    report.diagnosis = [
        {
            "deviation": wrong.id,
            "slot": wrong.slot,
            "equation": run.encoder.profile[wrong.slot].id,
            "residual": explanation.residual,
            "says": str(explanation),
            "together_with": [d.id for d in explanation.deviations if d is not wrong],
        }
        for explanation in found
        for wrong in explanation.deviations
    ]


@contextmanager
def coarsest(run: Run, declared: Profile | None) -> Iterator[Run]:
    """The run in the precision to which the subject rounds a part of itself: there its rounding explains nothing."""
    part = run.subject.narrowest_part()
    with ExitStack() as stack:
        lower = None
        if part not in (None, run.subject.dtype):
            lower, _ = entered(stack, opened(run.subject, run.seed, declared, Precision(part)))
        yield lower or run


def requirements_of(target: Any, profile: str | Profile = "auto", level: str = "gradient", seed: int = 0) -> list[str]:
    """The requirements that ``check`` with the same arguments decides; nothing is verified yet.

    Raises:
        TargetError: if the target's name cannot be used.
        SpecificationError: if there is no such profile.
        SubjectError: if it is no encoder, or cannot be called.
        Undetermined: if it cannot be found out which equations it uses.
    """
    declared = named_profile(profile) if isinstance(profile, str) else profile
    _, load = named(target)
    with seeded(seed):
        thing = make(load())
    with opened(thing, seed, declared) as run:
        return [id for _, id in planned(run, Level.named(level))]


def verify(run: Run, level: Level, report: TargetReport, repro: str, progress: Progress, watch: Watch) -> None:
    """Decide every requirement that applies and is not decided yet."""
    pairs = planned(run, level)
    decided = {(r.test, r.id) for r in report.requirements}
    left = [(check, id) for check, id in pairs if (check.name, id) not in decided]
    undecided = [Result(id, requirements()[id].equation, c.name, str(c.level), "blocked") for c, id in left]
    for done, (check, id) in enumerate(left):
        watch(report, undecided[done:])
        progress(f"{report.target}: {id}", len(pairs) - len(left) + done, len(pairs))
        report.requirements.append(decide(run, check, id, repro))
    watch(report, [])


def judge(results: Iterable[Result], asked: Level) -> tuple[str, str]:
    """The level reached and the verdict."""
    results = list(results)
    reached = max((Level.named(r.level) for r in results if r.outcome == "pass"), default=Level.STATIC)
    if any(r.counts_against for r in results):
        return str(reached), "nonconformant"
    if any(r.outcome == "error" for r in results):
        return str(reached), "error"
    enough = reached >= min(Level.AGREEMENT, asked)
    return str(reached), "conformant" if enough else "undetermined"
