"""The report as a person reads it in a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from conformance_tests.checks import Level
from conformance_tests.report import Report, Result, TargetReport

VERDICT_STYLE = {
    "conformant": "bold green",
    "nonconformant": "bold red",
    "undetermined": "bold yellow",
    "error": "bold red",
}
OUTCOME_STYLE = {"pass": "green", "fail": "bold red", "unsupported": "yellow", "blocked": "dim", "error": "bold red"}
MARK = {"pass": "", "fail": "✗", "unsupported": "?", "blocked": "–", "error": "!"}
WORST = ("fail", "error", "blocked", "unsupported", "pass")


def console() -> Console:
    """Standard output; colours only on a terminal, and long messages unbroken elsewhere."""
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, 120)
    return out


@contextmanager
def progress(enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error while the checks run; nothing where that is no terminal."""
    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=err, transient=True, disable=not (enabled and err.is_terminal)) as bar:
        task = bar.add_task("", total=1)
        yield lambda what, done, of: bar.update(task, description=escape(what), completed=done, total=of)


def print_table(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header."""
    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def print_report(out: Console, report: Report, *, quiet: bool, verbose: bool) -> None:
    """Print one table for each target, and a closing line over all."""
    for target in report.targets:
        out.print(headline(target), soft_wrap=True)
        if quiet:
            continue
        out.print(details(target))
        if target.requirements:
            out.print(by_requirement(target) if verbose else by_topic(target))
        print_failures(out, target)
        out.print()
    if len(report.targets) > 1 or not quiet:
        conformant = sum(t.verdict == "conformant" for t in report.targets)
        out.print(f"{conformant} of {len(report.targets)} conformant · seed {report.seed}")


def headline(target: TargetReport) -> Text:
    """Name, verdict, evidence, counts and time."""
    parts = [f"evidence: {target.level}"] if target.requirements else []
    parts += [f"{number} {outcome}" for outcome, number in target.counts().items()]
    line = Text.assemble((target.target, "bold"), "  ", (target.verdict, VERDICT_STYLE[target.verdict]))
    return line.append(f"  {' · '.join([*parts, f'{target.seconds:.1f} s'])}", "dim")


TELLING = (
    "layer",
    "norm",
    "eps",
    "norm_final.eps",
    "activation",
    "final_norm",
    "projections",
    "scores",
    "position",
    "sharing",
)
SIZES = ("num_layers", "num_heads", "d_model", "d_ff")


def details(target: TargetReport) -> Table:
    """The profile, the choices that tell encoders apart, the sizes, and the notes."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(style="dim", min_width=9)
    grid.add_column()
    if target.profile:
        choices = target.profile["choices"]

        def told(names: Sequence[str]) -> str:
            return escape(" · ".join(f"{name} {choices[name]}" for name in names if name in choices))

        grid.add_row("profile", escape(str(target.profile["name"])))
        grid.add_row("variant", told(TELLING))
        grid.add_row("sizes", told(SIZES))
    for note in target.notes:
        grid.add_row("note", escape(note))
    return grid


def print_variant(out: Console, target: TargetReport) -> None:
    """Print what `identify` found."""
    out.print(Text(target.target, "bold"))
    out.print(details(target))


def closeness(results: Iterable[Result]) -> str:
    """The largest error among results that compared numbers, beside what was allowed."""
    measured = [(r.error, r.budget) for r in results if r.error is not None and r.budget]
    if not measured:
        return ""
    error, budget = max(measured, key=lambda pair: pair[0] / pair[1])
    return f"{error:.1e} {'≤' if error <= budget else '>'} {budget:.0e}"


def by_topic(target: TargetReport) -> Table:
    """One row for each topic: how its requirements ended and how closely numbers agree."""
    table = Table("equations", "requirements", "evidence", "largest error", box=box.SIMPLE_HEAD, pad_edge=False)
    ordered = sorted(target.requirements, key=lambda r: order_of(r.equation))
    for topic, group in groupby(ordered, key=lambda r: r.equation.split(".")[0]):
        results = list(group)
        worst = min((r.outcome for r in results), key=WORST.index)
        ids = Text(" ").join(
            Text(MARK[r.outcome] + r.id, OUTCOME_STYLE[r.outcome]) for r in sorted(results, key=id_key)
        )
        level = max((Level.named(r.level) for r in results if r.outcome == "pass"), default=None)
        table.add_row(Text(topic, OUTCOME_STYLE[worst]), ids, str(level or "none"), closeness(results))
    return table


def by_requirement(target: TargetReport) -> Table:
    """One row for each requirement, with its statement."""
    from encoder_spec.equation import requirements

    table = Table("requirement", "outcome", "evidence", "error", "statement", box=box.SIMPLE_HEAD, pad_edge=False)
    for r in sorted(target.requirements, key=lambda r: (order_of(r.equation), id_key(r))):
        statement = requirements()[r.id].statement
        table.add_row(r.id, Text(r.outcome, OUTCOME_STYLE[r.outcome]), r.level, closeness([r]), escape(statement))
    return table


def print_failures(out: Console, target: TargetReport) -> None:
    """Say what is wrong, first where the encoder departs; then what could not be decided."""
    used = [f"{mark} {outcome}" for outcome, mark in MARK.items() if mark and target.of(outcome)]
    if used:
        out.print(Text("   ".join(used), "dim"))
    if target.departs_at:
        out.print(f"Departs from the specification at [bold]{escape(target.departs_at)}[/bold]")
    for result in sorted(target.of("fail"), key=lambda r: r.equation != target.departs_at):
        out.print(Text.assemble(("FAIL ", "bold red"), (result.id, "bold"), f"  {result.message}"), soft_wrap=True)
    reasons: dict[str, list[str]] = {}
    for result in [*target.of("blocked"), *target.of("unsupported")]:
        reasons.setdefault(f"{result.outcome}: {result.message}", []).append(result.id)
    for reason, ids in reasons.items():
        out.print(Text(f"{', '.join(ids)} {reason}", "dim"), soft_wrap=True)
    if target.of("fail"):
        out.print(Text(f"Again: {target.of('fail')[0].repro}", "dim"), soft_wrap=True)


def id_key(result: Result) -> tuple[str, int]:
    """Ids in the order of their numbers."""
    prefix, _, number = result.id.partition("-")
    return prefix, int(number)


def order_of(equation: str) -> int:
    """The place of an equation's topic in the specification."""
    from encoder_spec.equation import TOPICS

    return TOPICS.index(equation.split(".")[0])
