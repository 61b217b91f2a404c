"""The report as a person reads it in a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Self

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from conformance_tests.reports import arranged, site
from conformance_tests.reports.arranged import SIZES, TELLING, closeness
from conformance_tests.reports.files import forget
from conformance_tests.reports.printable import line, printable_target
from conformance_tests.reports.report import Report, TargetReport
from conformance_tests.reports.watching import Display, Progress

WIDTH = 120
"""Columns where nothing says how many there are."""

VERDICT_STYLE = {
    "conformant": "bold green",
    "nonconformant": "bold red",
    "undetermined": "bold yellow",
    "error": "bold red",
}
OUTCOME_STYLE = {
    "pass": "green",
    "fail": "bold red",
    "xfail": "yellow",
    "xpass": "bold red",
    "unsupported": "yellow",
    "blocked": "dim",
    "error": "bold red",
}
MARK = {"pass": "", "fail": "✗", "xfail": "~", "xpass": "✓", "unsupported": "?", "blocked": "–", "error": "!"}


class Terminal(Console):
    """Standard output, or standard error; a reader that has read enough ends nothing."""

    def on_broken_pipe(self) -> None:
        """See ``Console``, which would end the program."""
        self.quiet = True
        forget(self.file)


def console(*, beside_a_report: bool = False) -> Console:
    """Open standard output, with colours only on a terminal and long messages unbroken elsewhere.

    Args:
        beside_a_report: whether standard output takes a report, so that what people read goes to standard error.
    """
    out = Terminal(highlight=False, stderr=beside_a_report)
    if not out.is_terminal:
        out.width = max(out.width, WIDTH)
    return out


class Screen(Display):
    """Shows a row with a bar for each target that is being judged, and prints reports above the rows.

    Rows are shown on a terminal alone: that of the reports, or standard error if these go elsewhere.

    Args:
        out: takes the reports.
        quiet: whether there are no rows, and one line for each target.
        verbose: whether there is one line for each requirement.
    """

    def __init__(self, out: Console, *, quiet: bool = False, verbose: bool = False) -> None:
        self.out, self.quiet, self.verbose = out, quiet, verbose
        live = out if out.is_terminal else Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        self._bars = Bars(*columns, console=live, transient=True, disable=quiet or not live.is_terminal)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def row(self) -> Iterator[Progress]:
        """See ``Display``; several threads may show a row each."""
        row = self._bars.add_task("", visible=False)
        try:
            yield lambda what, done, of: self._bars.update(
                row, description=escape(line(what)), completed=done, total=of, visible=True
            )
        finally:
            self._bars.remove_task(row)

    def judged(self, report: TargetReport) -> None:
        """See ``Display``."""
        print_target(self.out, report, quiet=self.quiet, verbose=self.verbose)


def print_table(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header."""
    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


def print_report(out: Console, report: Report, *, quiet: bool, verbose: bool) -> None:
    """Print one table for each target, and a closing line over all."""
    for target in report.targets:
        print_target(out, target, quiet=quiet, verbose=verbose)
    print_sum(out, report, quiet=quiet)


def print_target(out: Console, target: TargetReport, *, quiet: bool, verbose: bool) -> None:
    """Print the table of one target."""
    target = printable_target(target)
    out.print(headline(target), soft_wrap=True)
    if quiet:
        if target.verdict in ("error", "undetermined"):
            out.print(Text.assemble(*(f"  {note}\n" for note in target.notes[:1])), end="", soft_wrap=True)
        return
    out.print(details(target))
    if target.requirements:
        out.print(by_requirement(target) if verbose else by_topic(target))
    print_failures(out, target)
    out.print()


def print_sum(out: Console, report: Report, *, quiet: bool) -> None:
    """Print how many targets are conformant."""
    if len(report.targets) > 1 or not quiet:
        conformant = sum(t.verdict == "conformant" for t in report.targets)
        out.print(f"{conformant} of {len(report.targets)} conformant · seed {report.seed}")


def text_of(report: Report) -> str:
    """Return what is printed of a report, without colours."""
    out = Console(highlight=False, file=StringIO(), width=WIDTH)
    print_report(out, report, quiet=False, verbose=False)
    return out.file.getvalue().rstrip("\n")  # type: ignore[attr-defined, no-any-return]


def headline(target: TargetReport) -> Text:
    """Return one line with name, verdict, evidence, counts and time."""
    parts = [f"evidence: {target.level}"] if target.requirements else []
    parts += [target.dtype] if target.dtype != "float64" else []
    parts += [f"{number} {outcome}" for outcome, number in target.counts().items()]
    text = Text.assemble((target.target, "bold"), "  ", (target.verdict, VERDICT_STYLE[target.verdict]))
    return text.append(f"  {' · '.join([*parts, f'{target.seconds:.1f} s'])}", "dim")


def details(target: TargetReport) -> Table:
    """Return a table of the profile, the choices that distinguish encoders, sizes, conventions and notes."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(style="dim", min_width=9)
    grid.add_column()
    if target.profile:
        grid.add_row("profile", escape(str(target.profile["name"])))
        grid.add_row("variant", escape(arranged.chosen(target, TELLING)))
        grid.add_row("sizes", escape(arranged.chosen(target, SIZES)))
        if found := arranged.conventions(target):
            grid.add_row("found", escape(found))
    for note in target.notes:
        grid.add_row("note", escape(note))
    for place in dict.fromkeys(map(site.of_note, target.notes)):
        grid.add_row("", f"[dim]Explained: {escape(str(place))}[/dim]")
    return grid


def print_variant(out: Console, target: TargetReport) -> None:
    """Print what `identify` found."""
    target = printable_target(target)
    out.print(Text(target.target, "bold"))
    out.print(details(target))
    out.print()


def by_topic(target: TargetReport) -> Table:
    """Return a table with a row for each topic: the results of its requirements and how closely numbers agree."""
    table = Table("equations", "requirements", "evidence", "largest error", box=box.SIMPLE_HEAD, pad_edge=False)
    for topic in arranged.by_topic(target):
        ids = Text(" ").join(Text(MARK[r.outcome] + r.id, OUTCOME_STYLE[r.outcome]) for r in topic.results)
        name = Text(topic.name, OUTCOME_STYLE[topic.worst])
        table.add_row(name, ids, "none" if topic.level is None else str(topic.level), closeness(topic.results))
    return table


def by_requirement(target: TargetReport) -> Table:
    """Return a table with a row for each requirement, with its statement."""
    from encoder_spec.equation import requirements

    table = Table("requirement", "outcome", "evidence", "error", "statement", box=box.SIMPLE_HEAD, pad_edge=False)
    for r in (r for topic in arranged.by_topic(target) for r in topic.results):
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
    if target.smallest:
        out.print(f"The smallest input with a wrong output: {tuple(target.smallest)}")
    for said in arranged.diagnoses(target):
        out.print(Text(said.sentence, "bold"), soft_wrap=True)
        if said.place:
            out.print(Text(f"     Explained: {said.place}", "dim"), soft_wrap=True)
    failures = arranged.failures(target)
    for result in failures:
        word = result.outcome.upper()
        out.print(Text.assemble((f"{word} ", "bold red"), (result.id, "bold"), f"  {result.message}"), soft_wrap=True)
        out.print(Text(f"     Explained: {site.of_requirement(result)}", "dim"), soft_wrap=True)
    for result in target.of("xfail"):
        why = f"fails, as expected ({result.reason}): {result.message}"
        out.print(Text(f"{result.id} {why}", "dim"), soft_wrap=True)
    for (outcome, reason), ids in arranged.undecided(target).items():
        out.print(Text(f"{', '.join(ids)} {outcome}: {reason}", "dim"), soft_wrap=True)
    if looked := arranged.extent(target):
        out.print(Text(f"Looked at: {looked}", "dim"), soft_wrap=True)
    if failures:
        out.print(Text(f"Again: {failures[0].repro}", "dim"), soft_wrap=True)
