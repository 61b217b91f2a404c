"""The one function behind all doors: load, map, identify, verify, report."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from conformance_tests.checks import Check, Level, registry
from conformance_tests.compare import Blocked, Disagreement, Unsupported
from conformance_tests.identify import Experiment, Identification, identify, nearest_profile, structure
from conformance_tests.intermediates import Recorded
from conformance_tests.mapping import ParameterMapping, map_parameters
from conformance_tests.probes import Probes
from conformance_tests.report import Report, Result, TargetReport
from conformance_tests.run import Case, Run
from conformance_tests.subject import AdaptedSubject, ArraySubject, Subject
from conformance_tests.targets import SubjectError, make, one_line, resolve
from conformance_tests.torch_subject import TorchSubject
from conformance_tests.weights import FAINT, GIVEN, PERTURBED, WeightSets
from encoder_spec.assembly import Encoder
from encoder_spec.equation import requirements
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import Profile
from encoder_spec.profiles import profile as published

Progress = Callable[[str, int, int], None]


class Undetermined(Exception):
    """The evidence does not suffice for a verdict; the message says what is missing."""


def silent(_what: str, _done: int, _of: int) -> None:
    """Show no progress."""


def adapt(thing: Any) -> Subject:
    """The subject for an object.

    Raises:
        SubjectError: if it is nothing that the suite can call.
    """
    if isinstance(thing, Subject):
        return thing
    if isinstance(thing, torch.nn.Module):
        return TorchSubject(thing)
    if isinstance(thing, ArraySubject):
        return AdaptedSubject(thing)
    raise SubjectError(
        f"{type(thing).__name__} is no encoder: give a torch.nn.Module, "
        "or an object with `weights` and `encode(x, mask)`"
    )


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
def opened(thing: Any, seed: int, declared: Profile | None = None) -> Iterator[Run]:
    """Make a run for an encoder: map its weights and identify its variant.

    Raises:
        Undetermined: if its parameters are those of no encoder, or include unknown ones that matter.
    """
    subject = adapt(thing)
    with single_thread(), subject.borrowed() if isinstance(subject, TorchSubject) else nullcontext():
        mapping = map_parameters(subject.weights())
        sets = WeightSets(subject, mapping, seed)
        try:
            found = settle(subject, mapping, sets, seed, declared)
            yield Run(subject, found.encoder, mapping, sets, seed, found.agrees)
        finally:
            if GIVEN in sets:
                sets.use(GIVEN)


def settle(
    subject: Subject, mapping: ParameterMapping, sets: WeightSets, seed: int, declared: Profile | None
) -> Identification:
    """The encoder to judge against: the declared profile, or the one that is identified."""
    try:
        start = structure(mapping.canonical(sets.given), subject.hints)
    except SpecificationError as reason:
        names = ", ".join(mapping.unmapped[:6]) + (", …" if len(mapping.unmapped) > 6 else "")
        raise Undetermined(f"{reason}; parameters that no slot has: {names or 'none'}") from None
    if declared is not None:
        return Identification(Encoder(with_input_of(declared, start), start.dimensions), False, 0)
    cases = [case for case in (Case(PERTURBED), Case(FAINT, "faint"), Case(GIVEN)) if case.weights in sets]
    experiments = [experiment(subject, mapping, sets, Probes(start, seed), case) for case in cases]
    found = identify(experiments, start, subject.hints, recording(subject, sets, cases[0], experiments[0]))
    if mapping.unmapped and not found.agrees:
        raise Undetermined(
            "no choice of equations reproduces its outputs, and no slot of the specification has the parameters "
            + ", ".join(mapping.unmapped[:6])
        )
    return found


def recording(subject: Subject, sets: WeightSets, first: Case, experiment: Experiment) -> Recorded | None:
    """The subject's intermediates in an experiment, if it shows them."""
    sets.use(first.weights)
    try:
        return Recorded(subject.record(experiment.inputs, None))
    except Unsupported:
        return None


def with_input_of(declared: Profile, start: Encoder) -> Profile:
    """The declared profile; a subject that starts from given embeddings is judged from there on."""
    return declared.replace(input="given") if start.profile["input"].variant == "given" else declared


def experiment(subject: Subject, mapping: ParameterMapping, sets: WeightSets, probes: Probes, case: Case) -> Experiment:
    """Call the subject once, for identification.

    Raises:
        SubjectError: if it cannot be called, or returns nothing like hidden states.
    """
    probe = probes[case.probe]
    sets.use(case.weights)
    try:
        output = subject.encode(probe.inputs, None).detach()
    except Exception as fault:
        shape = tuple(probe.inputs[0].shape)
        raise SubjectError(
            f"calling the encoder on {shape} {probe.inputs[0].dtype} raised {one_line(fault)}"
        ) from fault
    return Experiment(mapping.canonical(sets[case.weights]), probe.inputs, output)


def check(
    target: Any,
    profile: str | Profile = "auto",
    level: str = "gradient",
    seed: int = 0,
    progress: Progress = silent,
) -> Report:
    """Judge an encoder against the specification.

    Args:
        target: what ``encoder-spec check`` accepts, or an encoder itself: a torch module, a
            function that makes one, or an object with ``weights`` and ``encode(x, mask)``.
            A list of these gives one report on all.
        profile: ``"auto"`` to identify the variant, or the profile that must hold exactly:
            a name, a ``.toml`` file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: of probes and weights; the same seed gives the same report.
        progress: called with what is being done, and how much of how much.

    Returns:
        The report; ``report.verdict`` is the worst verdict of all targets.

    Raises:
        TargetError: if a target's name cannot be used.
        SpecificationError: if there is no such profile.
    """
    declared = named_profile(profile) if isinstance(profile, str) else profile
    targets = [named(t) for t in (target if isinstance(target, list) else [target])]
    report = Report(seed)
    for name, load in targets:
        report.targets.append(check_one(name, load, declared, Level.named(level), seed, progress))
    return report


def named_profile(name: str) -> Profile | None:
    """The profile of this name; None for ``auto``."""
    return None if name == "auto" else published(name)


def named(target: Any) -> tuple[str, Callable[[], Any]]:
    """A name for a target, and the function that loads it."""
    if isinstance(target, str):
        return target, resolve(target)
    return getattr(target, "__name__", type(target).__name__), lambda: target


def check_one(
    name: str, load: Callable[[], Any], declared: Profile | None, level: Level, seed: int, progress: Progress
) -> TargetReport:
    """Judge one target; whatever goes wrong with it ends up in its report."""
    begun = time.perf_counter()
    report = TargetReport(name)
    progress(name, 0, 1)
    try:
        with opened(make(load()), seed, declared) as run:
            describe(run, declared, report)
            verify(run, level, report, progress)
            report.level, report.verdict = judge(report.requirements, level)
            departed = run.departure if report.verdict == "nonconformant" else None
            report.departs_at = departed.spec.equation.id if departed else None
    except Undetermined as reason:
        report.verdict = "undetermined"
        report.notes.append(str(reason))
    except (SubjectError, Disagreement) as reason:
        report.verdict = "error"
        report.notes.append(str(reason))
    report.seconds = round(time.perf_counter() - begun, 3)
    return report


def describe(run: Run, declared: Profile | None, report: TargetReport) -> None:
    """Write the variant into the report, with the nearest published profile where it is none."""
    chosen = run.encoder.choices()
    if declared is not None:
        report.profile = {"name": declared.name, "choices": chosen}
        if declared["input"] is not run.encoder.profile["input"]:
            report.notes.append("starts from given embeddings: the profile's input equations are not judged")
        return
    nearest, differences = nearest_profile(run.encoder)
    report.profile = {"name": nearest.name if not differences else "unpublished", "choices": chosen}
    report.profile["identified"] = run.identified
    if not run.identified:
        report.notes.append(
            "its outputs agree with no choice of equations; judged against what it states or comes closest to"
        )
    if differences:
        differ = ", ".join(f"{slot} {mine} (there {theirs})" for slot, (mine, theirs) in differences.items())
        report.notes.append(f"no published profile; the nearest is {nearest.name}, which differs in {differ}")


def applicable_requirements(run: Run, check: Check) -> list[str]:
    """The requirements of a check whose equation the run's encoder uses."""
    used = {e.id for e in run.encoder.equations()}
    return [id for id in check.requirements if requirements()[id].equation in used]


def verify(run: Run, level: Level, report: TargetReport, progress: Progress) -> None:
    """Decide every requirement that applies."""
    checks = sorted((c for c in registry().checks.values() if c.level <= level), key=lambda c: c.level)
    pairs = [(check, id) for check in checks for id in applicable_requirements(run, check)]
    for done, (check, id) in enumerate(pairs):
        progress(f"{report.target}: {id}", done, len(pairs))
        report.requirements.append(decide(run, check, id, report.target))


def decide(run: Run, check: Check, id: str, target: str = "") -> Result:
    """Run one check and say how it ended."""
    outcome, message = "pass", ""
    error = budget = None
    with run.measured() as comparisons:
        try:
            check.function(run)
        except Disagreement as found:
            outcome, message, error, budget = "fail", str(found), found.error, found.budget
        except AssertionError as found:
            outcome, message = "fail", str(found)
        except Unsupported as reason:
            outcome, message = "unsupported", str(reason)
        except Blocked as reason:
            outcome, message = "blocked", str(reason)
    if outcome == "pass" and comparisons:
        worst = max(comparisons, key=lambda c: c.error / c.budget)
        error, budget = worst.error, worst.budget
    repro = f"encoder-spec check {target} --seed {run.seed}" if outcome == "fail" else ""
    stated = requirements()[id]
    return Result(id, stated.equation, check.name, str(check.level), outcome, message, error, budget, repro)


def judge(results: Iterable[Result], asked: Level) -> tuple[str, str]:
    """The level reached and the verdict."""
    results = list(results)
    reached = max((Level.named(r.level) for r in results if r.outcome == "pass"), default=Level.STATIC)
    if any(r.outcome == "fail" for r in results):
        return str(reached), "nonconformant"
    enough = reached >= min(Level.AGREEMENT, asked)
    return str(reached), "conformant" if enough else "undetermined"
