"""The command line: ``encoder-spec``.

Nothing heavy is imported before it is needed, so that help and usage errors are instant.
"""

import errno
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from conformance_tests.errors import TargetError
from conformance_tests.reports import FORMATS
from conformance_tests.subjects.spread.launched import processes_launched, rank_launched
from encoder_spec import __version__
from encoder_spec.notation import SpecificationError

LEVELS = ("static", "black-box", "agreement", "trace", "gradient")
CONFORMANT, NOT_CONFORMANT, UNUSABLE, SUITE_FAILED = 0, 1, 2, 3


class Unusable(click.ClickException):
    """A command or a name that cannot be used: one line, and status 2."""

    exit_code = UNUSABLE


def settle_process() -> None:
    """Let a termination end a run as Ctrl-C does; write ? for what the encoding of a terminal has no letter for."""
    with suppress(ValueError):  # in another thread than the main one
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


class Group(click.Group):
    """Commands whose every failure ends in one line and the documented exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a fault of the suite itself shows its traceback and exits with 3."""
        settle_process()
        try:
            return super().invoke(ctx)
        except click.UsageError as problem:
            command = problem.ctx.command_path if problem.ctx else "encoder-spec"
            raise Unusable(f"{problem.format_message()} (see {command} --help)") from None
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(SUITE_FAILED)
        except BrokenPipeError:
            from conformance_tests.reports.files import forget

            forget(sys.stdout)
            ctx.exit(CONFORMANT)
        except (TargetError, SpecificationError) as problem:
            raise Unusable("\nError: ".join(str(problem).split("\n"))) from None
        except Exception as fault:
            if isinstance(fault, OSError) and fault.errno == errno.ENOSPC:
                raise Unusable(f"nothing more can be written: {fault.strerror}") from None
            import traceback

            traceback.print_exc()
            click.echo("encoder-spec itself failed: please report the lines above", err=True)
            ctx.exit(SUITE_FAILED)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="encoder-spec")
def main() -> None:
    """Check whether an encoder computes the published equations of the Transformer encoder.

    TARGET is package.module:attribute, path/to/file.py:attribute, a file with one
    encoder in it, an ONNX file, the folder of a model, or a built-in encoder (see
    `encoder-spec encoders`). The attribute is an encoder or a function without
    required arguments that makes one.
    """


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completing(known: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """Return what a shell offers in the place of a word that was begun: names that are known, and perhaps files.

    Args:
        known: gives the names; it is asked when somebody presses Tab.
        files: whether files are offered too.
    """

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        offered = [CompletionItem(name) for name in known() if name.startswith(begun)]
        return [*offered, *([CompletionItem(begun, type="file")] if files else [])]

    return complete


def known_targets() -> Iterable[str]:
    """Return the built-in targets."""
    from conformance_tests.targets.builtin import BUILTIN

    return BUILTIN


def known_profiles() -> Iterable[str]:
    """Return the published profiles."""
    from conformance_tests.frontends import catalogue

    return [profile.name for profile in catalogue.listed(catalogue.Profile)]


def known_choices() -> Iterable[str]:
    """Return what a profile may be that must hold."""
    return ("auto", *known_profiles())


def known_equations() -> Iterable[str]:
    """Return the ids of the equations."""
    from conformance_tests.frontends import catalogue

    return [equation.id for equation in catalogue.listed(catalogue.Equation)]


def known_requirements() -> Iterable[str]:
    """Return the ids of the requirements."""
    from conformance_tests.frontends import catalogue

    return [requirement.id for requirement in catalogue.listed(catalogue.Requirement)]


def known_deviations() -> Iterable[str]:
    """Return the ids of the deviations."""
    from conformance_tests.frontends import catalogue

    return [deviation.id for deviation in catalogue.listed(catalogue.Deviation)]


def known_sizes() -> Iterable[str]:
    """Return the sizes that can be set, as they are begun."""
    from conformance_tests.frontends.listing import size_letters

    return [f"{letter}=" for letter in size_letters()]


class Amount(click.FloatRange):
    """A positive number; infinity and NaN are none."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See ``click.FloatRange``."""
        number: float = super().convert(value, param, ctx)
        return number if isfinite(number) else self.fail(f"{number} is not an amount.", param, ctx)


class Jobs(click.IntRange):
    """A number of targets; ``auto`` is the number of cores that this process may use."""

    name = "number of targets"

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See ``click.IntRange``."""
        if value == "auto":
            from conformance_tests.isolation.process import usable_cores

            return usable_cores()
        number: int = super().convert(value, param, ctx)
        return number


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `check` and `identify` share."""

    @click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(0, 2**31), help="Seed for probes and weights."
    )
    @click.option(
        "--timeout",
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        type=Amount(),
        help="Time limit for each step: import, making, identification, and each check.",
    )
    @click.option(
        "--memory",
        metavar="GIB",
        type=Amount(),
        help="Memory that a target may allocate, on Linux; by default its share in three quarters of what is free.",
    )
    @click.option(
        "-j",
        "--jobs",
        default=1,
        show_default=True,
        metavar="NUMBER|auto",
        type=Jobs(),
        help="Number of targets to judge at the same time; auto is the number of cores.",
    )
    @click.option(
        "--in-process",
        is_flag=True,
        help="Run targets in this process, where a debugger finds them: no limits, and what they print is shown. "
        "Under torchrun, targets always run so: it starts the processes over which an encoder is spread.",
    )
    @wraps(command)
    def with_options(
        *args: Any, timeout: float, memory: float | None, jobs: int, in_process: bool, **options: Any
    ) -> Any:
        from conformance_tests.isolation.supervisor import Limits

        if in_process and jobs > 1:
            raise click.UsageError("--in-process judges one target after the other: leave out --jobs.")
        return command(*args, limits=None if in_process else Limits(timeout, memory, jobs), **options)

    return with_options


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add one option for each format in which a report can be written."""
    for form, what in reversed(FORMATS.items()):
        path = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
        says = f"Write the report as {what}; to standard output for -."
        command = click.option(f"--{form}", type=path, metavar="FILE", help=says)(command)
    return command


@main.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completing(known_targets, files=True))
@click.option(
    "--profile",
    default="auto",
    show_default=True,
    metavar="auto|NAME|FILE.toml",
    shell_complete=completing(known_choices, files=True),
    help="Profile that must hold exactly; auto accepts any variant.",
)
@click.option(
    "--level",
    default="gradient",
    show_default=True,
    type=click.Choice(LEVELS),
    help="Strongest evidence to look for; static runs nothing, and reads names and shapes alone.",
)
@click.option(
    "--expected",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="Failures that are known, each with its reason.",
)
@click.option(
    "--dtype",
    type=click.Choice(("float64", "float32", "bfloat16", "float16")),
    help="Precision to judge in; by default float64, if the encoder can run in it.",
)
@click.option("--device", default="cpu", show_default=True, help="Device to judge on, as torch names it.")
@report_options
@click.option("-q", "--quiet", is_flag=True, help="Print only one line for each target.")
@click.option("-v", "--verbose", is_flag=True, help="Print one line for each requirement.")
@run_options
@click.pass_context
def check(
    ctx: click.Context, /, targets: tuple[str, ...], quiet: bool, verbose: bool, limits: Any, **options: Any
) -> None:
    """Judge encoders; with no TARGET, every built-in one that can run here.

    Exit status: 0 every target is conformant, 1 some target is not or is undetermined,
    2 the command or a target's name could not be used, 3 the suite itself failed.
    """
    from conformance_tests.reports.files import STANDARD_OUTPUT, demand_writable, write

    files = {form: options.pop(form) for form in FORMATS}
    # Of processes that a launcher started together, the first one alone writes.
    wanted = {form: file for form, file in files.items() if file is not None and rank_launched() == 0}
    demand_writable(*wanted.values())
    from conformance_tests.harness.question import Question
    from conformance_tests.isolation.supervisor import judge_of
    from conformance_tests.targets.builtin import runnable

    names = list(dict.fromkeys(targets or runnable()))
    with judge_of(names, limits) as judge:
        from conformance_tests.reports import terminal, written
        from conformance_tests.reports.watching import Display

        console = terminal.console(beside_a_report=STANDARD_OUTPUT in wanted.values())
        with terminal.Screen(console, quiet=quiet, verbose=verbose) as screen:
            judgement = judge.judge(names, Question(**options), screen if rank_launched() == 0 else Display())
    report = judgement.report
    with shown_by_rank_0(report) as is_shown_here:
        if is_shown_here:
            terminal.print_sum(console, report, quiet=quiet)
            for form, file in wanted.items():
                write(file, written(report, form))
    if judgement.fault is not None:
        raise judgement.fault
    ctx.exit(CONFORMANT if report.verdict == "conformant" else NOT_CONFORMANT)


@contextmanager
def shown_by_rank_0(report: Any) -> Iterator[bool]:
    """Yield whether this process shows a report: of several that a launcher started, the first one does.

    The others end after it. One that is in no process group, or left it, says in one line what it met.
    """
    if processes_launched() == 1:
        yield True
        return
    from conformance_tests.subjects.spread.ranks import is_spread, wait_for_rank_0

    rank = rank_launched()
    for target in report.targets if rank and not is_spread() else ():
        click.echo(f"rank {rank}: {target.target}: {'; '.join([target.verdict, *target.notes])}", err=True)
    yield rank == 0
    wait_for_rank_0()


@main.command()
@click.argument(
    "targets", nargs=-1, required=True, metavar="TARGET...", shell_complete=completing(known_targets, files=True)
)
@run_options
@click.pass_context
def identify(ctx: click.Context, targets: tuple[str, ...], limits: Any, seed: int) -> None:
    """Print the variant that each TARGET computes."""
    from conformance_tests.harness.question import Question
    from conformance_tests.isolation.supervisor import judge_of

    with judge_of(targets, limits) as judge:
        from conformance_tests.reports import terminal

        console = terminal.console()
        judgement = judge.judge(list(dict.fromkeys(targets)), Question(variant_alone=True, seed=seed))
    with shown_by_rank_0(judgement.report) as is_shown_here:
        for target in judgement.report.targets if is_shown_here else ():
            terminal.print_variant(console, target)
    if judgement.fault is not None:
        raise judgement.fault
    identified = all(t.profile.get("identified") for t in judgement.report.targets)
    ctx.exit(CONFORMANT if identified else NOT_CONFORMANT)


@main.command()
def encoders() -> None:
    """List the built-in targets, and which can run here."""
    from conformance_tests.reports import terminal
    from conformance_tests.targets.builtin import BUILTIN

    rows = [
        (name, f"no: needs {', '.join(builtin.missing())}" if builtin.missing() else "yes", builtin.description)
        for name, builtin in BUILTIN.items()
    ]
    terminal.print_table(terminal.console(), ("target", "runs here", "what it is"), rows)


@main.command()
@click.argument("id", required=False, shell_complete=completing(known_equations))
def equations(id: str | None) -> None:
    """List the equations, or show one with formula, code and source."""
    from conformance_tests.frontends import listing

    listing.equations(id)


@main.command()
@click.argument("id", required=False, shell_complete=completing(known_requirements))
def requirements(id: str | None) -> None:
    """List the requirements, or show one with its equation and tests."""
    from conformance_tests.frontends import listing

    listing.requirements(id)


@main.command()
@click.argument("id", required=False, shell_complete=completing(known_deviations))
@click.option(
    "--matrix", is_flag=True, help="Print what notices each deviation, or this one, in each profile it applies to."
)
def deviations(id: str | None, matrix: bool) -> None:
    """List the known defects, or show one with code, evidence and what notices it."""
    from conformance_tests.frontends import listing

    if matrix:
        listing.matrix(id)
    else:
        listing.deviations(id)


@main.command()
@click.argument("name", required=False, shell_complete=completing(known_profiles))
def profiles(name: str | None) -> None:
    """List the profiles, or show one with its choice for every slot."""
    from conformance_tests.frontends import listing

    listing.profiles(name)


@main.command()
@click.option(
    "--profile",
    default="vaswani-2017",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Profile to count.",
    shell_complete=completing(known_profiles, files=True),
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Size to count with, such as d_model=1024, h=16, N=12, n=128 or B=8; repeatable.",
    shell_complete=completing(known_sizes),
)
def count(profile: str, settings: tuple[str, ...]) -> None:
    """Count parameters, FLOPs and activations: formula and number."""
    from conformance_tests.frontends import listing

    listing.count(profile, settings)


@main.command()
def traceability() -> None:
    """Show for each equation its oracle, proofs, requirements and tests; exit with 1 at any hole."""
    from conformance_tests.frontends import listing

    listing.traceability()


@main.group()
def new() -> None:
    """Write a scaffold for a contribution to the repository."""


@new.command("equation")
@click.argument("id")
@click.option("--slot", required=True, help="The slot that the equation can fill, such as activation.")
def new_equation(id: str, slot: str) -> None:
    """Write the halves of an equation, such as ffn.relu_squared: code, oracle, requirement and tests."""
    from conformance_tests.frontends import scaffold

    click.echo("\n".join(scaffold.new_equation(id, slot)))


@new.command("deviation")
@click.argument("id")
@click.option("--of", required=True, multiple=True, metavar="EQUATION", help="An equation it replaces; repeatable.")
@click.option(
    "--noticed-by", required=True, multiple=True, metavar="REQUIREMENT", help="A requirement it breaks; repeatable."
)
def new_deviation(id: str, of: tuple[str, ...], noticed_by: tuple[str, ...]) -> None:
    """Write a wrong equation, such as activation-capped-at-1, into the catalogue of deviations."""
    from conformance_tests.frontends import scaffold

    click.echo("\n".join(scaffold.new_deviation(id, of, noticed_by)))


@new.command("profile")
@click.argument("name")
@click.option(
    "--base", default="vaswani-2017", show_default=True, metavar="PROFILE", help="The profile from which it differs."
)
@click.option(
    "--set",
    "choices",
    multiple=True,
    metavar="SLOT=VARIANT",
    help="A choice that differs, such as activation=gelu or eps=1e-12; repeatable.",
)
def new_profile(name: str, base: str, choices: tuple[str, ...]) -> None:
    """Write a published choice of equations, such as primer, into the profiles."""
    from conformance_tests.frontends import scaffold

    for choice in choices:
        if "=" not in choice:
            raise click.BadParameter(f"{choice!r} is not written SLOT=VARIANT", param_hint="--set")
    given = dict(choice.split("=", 1) for choice in choices)
    click.echo("\n".join(scaffold.new_profile(name, base, given)))
