"""One question about one target in, one report out: load, identify, verify, explain.

Every frontend, and every worker process, asks here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from conformance_tests.deviations import deviations
from conformance_tests.diagnosis.explanations import explanations
from conformance_tests.diagnosis.locating import located
from conformance_tests.diagnosis.shrinking import smallest_failing_input
from conformance_tests.engine.company import Company
from conformance_tests.engine.notes import below_resolution, describe, describe_shapes, elsewhere, right_where_declared
from conformance_tests.engine.reproduction import again
from conformance_tests.errors import Departs, Disagreement, SubjectError, TargetError, Undetermined, one_line
from conformance_tests.harness.deciding import decide, departures, planned
from conformance_tests.harness.question import Question
from conformance_tests.harness.rare_ids import told_apart
from conformance_tests.harness.run import OF_HEAD, Run
from conformance_tests.identification.foreign_parts import listed
from conformance_tests.identification.head import judged_of_head, run_with_head
from conformance_tests.identification.opening import opened, rejudged
from conformance_tests.identification.settling import NOTHING_REPRODUCES
from conformance_tests.reports.expected import Expected, apply_expected
from conformance_tests.reports.report import Level, Report, Result, TargetReport, verdict_of
from conformance_tests.reports.watching import Progress, Showing, Watcher, silent
from conformance_tests.subjects.attributes import attribute
from conformance_tests.subjects.guard import Guard, GuardedSubject
from conformance_tests.subjects.source_lines import with_line
from conformance_tests.subjects.spread import ranks
from conformance_tests.subjects.subject import BEST, Precision, Subject, name_of
from conformance_tests.targets.adapting import adapt
from conformance_tests.targets.resolving import make, resolve
from encoder_spec.equation import earliest, equations, requirements
from encoder_spec.profiles import Profile

IGNORING = Watcher()


@dataclass(frozen=True)
class Target:
    """An encoder to judge: its name in the report, how it is loaded, and what repeats the run."""

    name: str
    load: Callable[[], Any]
    repro: str = ""

    @classmethod
    def of(cls, target: Any, question: Question) -> "Target":
        """Return the target that ``encoder-spec check`` accepts, or an encoder itself.

        Raises:
            TargetError: if its name cannot be used.
        """
        target = str(target) if isinstance(target, Path) else target
        repro = again(target, question)
        if isinstance(target, str):
            return cls(target, resolve(target, by_shapes=question.strongest is Level.STATIC), repro)
        return cls(attribute(target, "__name__", type(target).__name__), lambda: target, repro)


def check(
    target: Any,
    profile: str | Profile = "auto",
    level: str = "gradient",
    seed: int = 0,
    progress: Progress = silent,
    expected: Expected | None = None,
    dtype: str | None = None,
    device: str = "cpu",
    explain: bool = True,
) -> Report:
    """Judge an encoder against the specification.

    Args:
        target: what ``encoder-spec check`` accepts, or an encoder itself: a torch module, a
            function that makes one, or an object with ``weights`` and ``encode(x, mask)``.
            A list of these gives one report on all. It runs in this process, unlike on the
            command line: ``isolation.supervisor.Workers`` runs targets that have a name in separate processes.
        profile: ``"auto"`` to identify the variant, or the profile that must hold exactly:
            a name, a ``.toml`` file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: seed for probes and weights; the same seed gives the same report.
        progress: called with what is being done, and how much of how much.
        expected: the failures that are known: a ``.toml`` file, or reasons by requirement.
        dtype: the precision to judge in: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``, below
            float64 with a budget derived from the specification; by default the best that the encoder can.
        device: where to judge, as torch names it.
        explain: whether a failing encoder is compared with the catalogue of deviations, to name what is wrong.

    Returns:
        The report; ``report.verdict`` is the worst verdict of all targets.

    Raises:
        TargetError: if a target's name cannot be used.
        SpecificationError: if there is no such profile, dtype or device, or an expected failure cannot be used.
    """
    question = Question(profile, level, seed, expected, dtype, device, explain)
    return check_all(target if isinstance(target, list) else [target], question, progress)


def check_all(targets: Iterable[Any], question: Question, progress: Progress = silent) -> Report:
    """Judge several targets in this process, one after the other.

    Raises:
        TargetError: if a target's name cannot be used; nothing has been judged then.
        SpecificationError: if the question cannot be asked.
    """
    # Workers never print, and start without what prints.
    from conformance_tests.reports.printed import PrintedReport

    question.demand_usable()
    known = [Target.of(target, question) for target in targets]
    return PrintedReport(question.seed, [check_one(target, question, Showing(progress)) for target in known])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make random numbers repeatable, so that a factory makes the same encoder again; then put them back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def check_one(
    target: Target, question: Question, watcher: Watcher = IGNORING, decided: Iterable[Result] = ()
) -> TargetReport:
    """Judge one target; whatever goes wrong with it ends up in its report.

    Args:
        target: what is judged.
        question: what is asked of it.
        watcher: sees what is being done and decided.
        decided: results of an earlier run, which are taken over.
    """
    report = TargetReport(target.name, requirements=list(decided))
    company = Company()
    try:
        check_in_company(target, question, watcher, company, report)
    finally:
        company.share(report)
    return report


def check_in_company(
    target: Target, question: Question, watcher: Watcher, company: Company, report: TargetReport
) -> None:
    """Judge one target, together with other processes if it is spread over them; see ``check_one``."""
    begun = perf_counter()
    guard = Guard()
    try:
        judge(target, question, watcher, guard, company, report)
    except Departs as found:
        tell_departures(found, target, question, report)
    except Undetermined as reason:
        report.verdict = "undetermined"
        report.notes.append(str(reason))
    except (SubjectError, Disagreement) as reason:
        report.verdict = "error"
        report.notes.append(str(reason))
    except Exception as fault:
        report.verdict = "error"
        report.notes.append(whose_fault(fault, guard))
    report.notes += guard.notes()
    report.seconds = round(perf_counter() - begun, 3)


def whose_fault(fault: Exception, guard: Guard) -> str:
    """Return a note on an exception that the encoder raised, or that it caused by changing the suite.

    Raises:
        Exception: this one, if it is our own.
    """
    if fault is guard.raised and not isinstance(fault, TargetError):
        return f"calling the encoder raised {with_line(fault)}"
    try:
        guard.demand_own_classes()
    except SubjectError as reason:
        return str(reason)
    raise fault


def judge(
    target: Target, question: Question, watcher: Watcher, guard: Guard, company: Company, report: TargetReport
) -> None:
    """Load, identify, verify and explain one target, and write into its report what comes of it.

    Raises:
        Undetermined, SubjectError, Disagreement: if it cannot be judged.
    """
    # Whoever asks may have switched gradients off.
    with guard.kept_random_state(), torch.inference_mode(mode=False), torch.enable_grad():
        own = loaded(target, question, watcher, guard)
        if not company.meet(own, guard):
            company.follow(report)
            return
        subject = GuardedSubject(own, guard)
        with opened(subject, question, lambda part: watcher.doing(f"{target.name}: identifying, {part}", 0, 1)) as run:
            if question.strongest is Level.STATIC:
                describe_shapes(run, report)
            else:
                if (whole := run_with_head(run)) is not None:
                    run.with_head = whole
                    subject.learn_head(judged_of_head(whole))
                report.dtype = name_of(subject.dtype)
                describe(run, report)
                report.notes.extend([*elsewhere(question.device), *below_resolution(report.dtype)])
                if question.precision == BEST and subject.dtype is run.narrowed:
                    imposed = f"computes a part in {report.dtype} whatever it is given: judged in {report.dtype}"
                    report.notes.append(imposed)
            if not question.variant_alone:
                verify(run, target, guard, watcher, report)
            report.extent = run.extent.as_data()
            known = question.known_failures
            report.requirements, notes = apply_expected(report.requirements, known, target.name, target.repro)
            report.notes.extend(notes)
            report.level, report.verdict = verdict_of(report.requirements, question.strongest)
            if unknown := "; ".join(not_known(run, report)):
                report.notes.append(unknown)
                report.verdict = "undetermined" if report.verdict == "conformant" else report.verdict
            unexplained = replace(report, notes=[*report.notes], explained=False)
            leave_open(run, unexplained)
            watcher.judged(unexplained)
            watcher.doing(f"{target.name}: explaining", 1, 1)
            explain(run, watcher, report)


def not_known(run: Run, report: TargetReport) -> Iterator[str]:
    """Yield what keeps an encoder open, since it is not known; rare ids are tried where it would be conformant."""
    is_called = run.question.strongest > Level.STATIC and not run.question.variant_alone
    rare, known = told_apart(run) if report.verdict == "conformant" and is_called else ("", "")
    report.notes.extend(filter(None, [known]))
    yield from filter(None, (run.subject.unknown(), run.subject.left_open(), rare))


def tell_departures(found: Departs, target: Target, question: Question, report: TargetReport) -> None:
    """Write into the report of an encoder that cannot be evaluated what its computation shows to be wrong.

    At a level that does not look into the encoder, its verdict stays open.
    """
    report.notes.append(str(found))
    if question.strongest < Level.TRACE:
        report.verdict = "undetermined"
        return
    failures = [*report.requirements, *departures(found, target.repro)]
    report.requirements, notes = apply_expected(failures, question.known_failures, target.name, target.repro)
    report.notes.extend(notes)
    report.level, report.verdict = verdict_of(report.requirements, question.strongest)
    report.departs_at = earliest(equation for equation, _ in found.departures)
    report.diagnosis = [said_by_computation(equation, says) for equation, says in found.departures]


def said_by_computation(equation: str, says: str) -> dict[str, Any]:
    """Return the diagnosis of a departure that the computation shows by itself: no search is needed for it."""
    return {
        "deviation": "",
        "slot": equations()[equation].slot,
        "equation": equation,
        "residual": None,
        "says": f"as your encoder's computation shows, {says}",
        "page": f"{equations()[equation].topic}.html#{equation}",
        "together_with": [],
    }


def leave_open(run: Run, report: TargetReport) -> None:
    """Leave the verdict open if outputs are wrong where not all of the computation was read, and nothing explains them.

    Then the encoder computes other equations, and may do so rightly. Where it is seen to turn vectors by angles, no
    deviation counts as an explanation: the catalogue has rotary positions, too.
    """
    unread = list(filter(None, (*run.facts.unread, run.facts.turned)))
    is_explained = bool(run.facts.findings) or (bool(report.diagnosis) and not run.facts.turned)
    is_settled = run.identified or is_explained or run.question.declared or not report.of("fail")
    if report.verdict != "nonconformant" or not unread or is_settled:
        return
    # What a call does to its input, or to other samples, is wrong in any equations, and so are parts that the framework
    # does not know of. But MH-7 is about attention alone. The parameters and the shape of the output follow from the
    # equations.
    failed = [r for r in report.of("fail") if r.id != "ENC-1" and r.equation != "multihead"]
    levels = [Level.named(r.level) for r in failed]
    if Level.BLACK_BOX in levels or (Level.STATIC in levels and run.unregistered()):
        return
    report.verdict, report.requirements, report.departs_at, report.diagnosis = "undetermined", [], None, []
    report.notes.append(f"{NOTHING_REPRODUCES}, and its computation shows that {listed(unread)}")


def loaded(target: Target, question: Question, watcher: Watcher, guard: Guard) -> Subject:
    """Load and make the encoder, as a subject; whatever that raises is the subject's fault."""
    step = "importing"
    try:
        with guard.undisturbed(), seeded(question.seed):
            watcher.doing(f"{target.name}: {step}", 0, 1)
            thing = target.load()
            step = "making"
            watcher.doing(f"{target.name}: {step}", 0, 1)
            subject = adapt(make(thing))
    except (TargetError, SubjectError, Undetermined) as reason:
        ranks.meet(str(reason))
        raise
    except Exception as fault:
        refusal = f"{step} the encoder raised {one_line(fault)}"
        ranks.meet(refusal)
        raise SubjectError(refusal) from fault
    ranks.meet()
    watcher.doing(f"{target.name}: identifying", 0, 1)
    return subject


def verify(run: Run, target: Target, guard: Guard, watcher: Watcher, report: TargetReport) -> None:
    """Decide every requirement that applies and is not decided yet.

    Raises:
        SubjectError: if the subject has changed the classes that decide.
    """
    pairs = planned(run, run.question.strongest)
    decided = {(r.test, r.id) for r in report.requirements}
    left = [(check, id) for check, id in pairs if (check.name, id) not in decided]
    undecided = [Result(id, requirements()[id].equation, c.name, str(c.level), "blocked") for c, id in left]
    for done, (check, id) in enumerate(left):
        watcher.decided(report, undecided[done:])
        watcher.doing(f"{target.name}: {id}", len(pairs) - len(left) + done, len(pairs))
        result = decide(run, check, id, target.repro)
        guard.demand_own_classes()
        report.requirements.append(result)
    watcher.decided(report, [])


def explain(run: Run, watcher: Watcher, report: TargetReport) -> None:
    """Write into the report of a subject that failed where it departs, and which deviation it has."""
    failed = [result.equation for result in report.of("fail")]
    if not failed:
        return
    slots: Collection[str] = ()
    if run.with_head is not None and run.equations.isdisjoint(failed):
        run, slots = run.with_head, OF_HEAD
    if run.question.strongest is Level.STATIC:
        locate(run, report)
        return
    by_value, matching = run.departs_at, []
    smallest = smallest_failing_input(run)
    report.requirements = [replace(r, smallest=smallest) if r.outcome == "fail" else r for r in report.requirements]
    shown = run.facts.findings
    report.explained = run.question.explain or bool(shown)
    # Where all outputs are right, what the computation shows is all that there is to say.
    if run.question.explain and not (shown and run.first_wrong is None):
        # Some deviations draw random numbers.
        with torch.random.fork_rng(devices=[]), coarsest(run) as coarse:
            matching = explanations(
                coarse,
                lambda done, of: watcher.doing(f"{report.target}: explaining", done, of),
                {finding.slot for finding in shown} - {"stack"} or slots,
            )
    # Of an encoder whose outputs are all right there is nothing to reproduce: what fails says what is wrong.
    report.explained = report.explained and bool(shown or matching or run.first_wrong is not None)
    if shown:
        report.departs_at = by_value
    else:
        sublayer = run.departing_sublayer if by_value is None else None
        report.departs_at = located(by_value, matching, report.of("fail"), run.encoder, sublayer)
    report.diagnosis = [said_by_computation(run.encoder.profile[f.slot].id, f.says) for f in shown]
    report.diagnosis += [
        {
            "deviation": wrong.id,
            "slot": wrong.slot,
            "equation": run.encoder.profile[wrong.slot].id,
            "residual": explanation.residual,
            "says": str(explanation),
            "page": deviations()[wrong.id].page if wrong.id in deviations() else "",
            "together_with": [d.id for d in explanation.deviations if d is not wrong],
        }
        for explanation in matching
        for wrong in explanation.deviations
    ]
    if run.question.declared is None:
        found = (e for explanation in matching for d in explanation.deviations for e in d.to_be_declared)
        meant = (right_where_declared(e.slot, e.variant) for e in found)
        report.notes = list(dict.fromkeys([*report.notes, *meant]))
    leave_open(run, report)


def locate(run: Run, report: TargetReport) -> None:
    """Write into the report of a subject that was never called at which equation to look: nothing more can be known."""
    report.explained = False
    report.departs_at = located(None, [], report.of("fail"), run.encoder)


@contextmanager
def coarsest(run: Run) -> Iterator[Run]:
    """Yield the run in the precision to which the subject rounds a part of itself: there rounding explains nothing."""
    if run.narrowed is None or run.narrowed is run.subject.dtype:
        yield run
        return
    with rejudged(run, Precision(run.narrowed)) as coarse:
        yield coarse or run
