"""Lists of what the specification holds, in a terminal: the commands without a target."""

import inspect
import sys
import textwrap
from collections.abc import Sequence

from rich.syntax import Syntax
from rich.text import Text

from conformance_tests.harness.checks import registry
from conformance_tests.quality import traceability as trace
from conformance_tests.reports.terminal import console, print_table
from encoder_spec import equation as spec
from encoder_spec import profiles as published
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SYMBOLS, SpecificationError


def choose(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the name, if it is known.

    Raises:
        SpecificationError: naming what comes closest, if it is not.
    """
    if name in known:
        return name
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f". Did you mean {', '.join(near)}?" if near else f"; `encoder-spec {kind}` lists them"
    raise SpecificationError(f"there is no {kind.removesuffix('s')} {name!r}{hint}")


def equations(id: str | None) -> None:
    """List the equations, or show one."""
    known = spec.equations()
    if id is None:
        print_table(
            console(),
            ("equation", "slot", "variant", "what it is"),
            [(e.id, e.slot, e.variant, e.title) for e in known.values()],
        )
        return
    e = known[choose("equations", id, list(known))]
    out = console()
    out.print(Text.assemble((e.id, "bold"), f"  {e.title}"))
    out.print(Text(f"slot {e.slot} = {e.variant} · {e.source}", "dim"), soft_wrap=True)
    out.print(Text(textwrap.indent("\n" + e.latex + "\n", "    ")), soft_wrap=True)
    letters = {letter for shape in e.parameters.values() for letter in shape if letter in SYMBOLS}
    for name, shape in e.parameters.items():
        out.print(Text(f"    {name}: ({', '.join(shape)})"))
    for letter in sorted(letters, key=list(SYMBOLS).index):
        out.print(Text(f"    {letter}: {SYMBOLS[letter].meaning}", "dim"))
    out.print(Syntax(source_of(e), "python", theme="ansi_light", background_color="default", word_wrap=True))
    for note in e.notes:
        out.print(Text(note), soft_wrap=True)
    for r in spec.requirements().values():
        if r.equation == e.id:
            out.print(Text.assemble((r.id, "bold"), f"  {r.statement}"), soft_wrap=True)


def source_of(e: spec.Equation) -> str:
    """Return the code of an implementation without its decorators and docstring."""
    import ast

    tree = ast.parse(textwrap.dedent(inspect.getsource(e.function)))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    function.body = function.body[1:]
    return ast.unparse(tree)


def requirements(id: str | None) -> None:
    """List the requirements, or show one."""
    known = spec.requirements()
    out = console()
    if id is None:
        levels = {q: str(c.level) for c in registry().checks.values() for q in c.requirements}
        print_table(
            out,
            ("requirement", "equation", "evidence", "statement"),
            [(r.id, r.equation, levels.get(r.id, "on the specification"), r.statement) for r in known.values()],
        )
        return
    r = known[choose("requirements", id.upper(), list(known))]
    out.print(Text.assemble((r.id, "bold"), f"  {r.statement}"), soft_wrap=True)
    out.print(Text(f"equation {r.equation}{' · proved with SymPy' if r.algebraic else ''}", "dim"))
    for check in registry().checks.values():
        if r.id in check.requirements:
            out.print(Text(f"decided by {check.name} ({check.level})", "dim"))
            code = inspect.getsource(check.function)
            out.print(Syntax(code, "python", theme="ansi_light", background_color="default", word_wrap=True))


def deviations(id: str | None) -> None:
    """List the catalogue of deviations, or show one with its code and what notices it."""
    from conformance_tests.deviations import deviations as catalogue

    known = catalogue()
    out = console()
    if id is None:
        rows = [(d.id, d.slot, " ".join(d.noticed_by), d.definition) for d in known.values()]
        print_table(out, ("deviation", "slot", "noticed by", "what it computes"), rows)
        return
    d = known[choose("deviations", id, list(known))]
    out.print(Text.assemble((d.id, "bold"), f"  {d.definition}"), soft_wrap=True)
    out.print(Text(f"mistaken for {', '.join(d.of)} · noticed by {', '.join(d.noticed_by)}", "dim"), soft_wrap=True)
    for name, wrong in d.replaces.items():
        if isinstance(wrong, spec.Equation):
            code = source_of(wrong)
            out.print(Syntax(code, "python", theme="ansi_light", background_color="default", word_wrap=True))
        else:
            out.print(Text(f"    {name} = {wrong:g}"))
    if d.evidence:
        out.print(Text(f"seen in {', '.join(d.evidence)}", "dim"), soft_wrap=True)


def matrix(id: str | None) -> None:
    """Print what notices each deviation, or one, profile by profile, and how the suite diagnoses it.

    Where nothing is diagnosed, what fails are the requirements that must notice it; the others were not decided.
    """
    from conformance_tests.deviations import deviations as catalogue
    from conformance_tests.quality import kill_matrix, kills

    if id is not None:
        choose("deviations", id, list(catalogue()))
    rows = [row for row in kill_matrix.on_file() if id in (None, row.deviation)]
    explained = {(row.deviation, row.within) for row in rows}
    print_table(
        console(),
        ("deviation", "in profile", "judged as", "verdict", "failing", "departs at", "diagnosis"),
        [
            *(
                (r.deviation, r.within, r.judged_as, r.verdict, " ".join(r.killed_by), r.departs_at or "", first)
                for r in rows
                for first in (r.diagnosis[:1] or ("",))
            ),
            *(
                (deviation, within, within, kills.verdict(failed), " ".join(failed), "", "")
                for deviation, of in kills.on_file().items()
                for within, failed in of.items()
                if id in (None, deviation) and (deviation, within) not in explained
            ),
        ],
    )


def profiles(name: str | None) -> None:
    """List the profiles, or show one with its choice for every slot."""
    if name is None:
        first = published.VASWANI_2017.choices()
        rows = []
        for p in published.PROFILES.values():
            differs = [f"{k}={v}" for k, v in p.choices().items() if v != first[k]]
            rows.append((p.name, p.source, ", ".join(differs) or "the choice that the others are compared with"))
        print_table(console(), ("profile", "source", "differs from vaswani-2017 in"), rows)
        return
    p = published.profile(name)
    out = console()
    out.print(Text.assemble((p.name, "bold"), f"  {p.source}"))
    print_table(out, ("slot or constant", "choice"), [(k, str(v)) for k, v in p.choices().items()])
    if p.sizes:
        out.print(Text("its base model: " + ", ".join(f"{letter}={size}" for letter, size in p.sizes.items()), "dim"))


def count(name: str, settings: Sequence[str]) -> None:
    """Print what an encoder costs, as formulas and numbers."""
    sizes = {"n": 128, "B": 1} | dict(map(setting, settings))
    n, B = sizes.pop("n"), sizes.pop("B")
    profile = published.profile(name)
    dimensions = Dimensions().replace(**(dict(profile.sizes) | sizes))
    from encoder_spec.cost import report

    rows = report(profile, dimensions, n, B)
    shown = ", ".join(f"{letter}={size}" for letter, size in {**dimensions.sizes(), "n": n, "B": B}.items())
    out = console()
    out.print(Text.assemble((profile.name, "bold"), f"  {shown}"), soft_wrap=True)
    print_table(
        out, ("quantity", "part", "formula", "number"), [(r.quantity, r.part, r.text, f"{r.number:,}") for r in rows]
    )


def size_letters() -> list[str]:
    """Return the letters of the sizes that can be set: those of the encoder, and of its input."""
    return [*Dimensions().sizes(), "n", "B"]


def setting(text: str) -> tuple[str, int]:
    """Return the letter and the value of a size as the command line has it: ``d_model=1024``, by letter or by word.

    Raises:
        SpecificationError: if it is not NAME=NUMBER with a known name and a positive number.
    """
    words = {s.word: letter for letter, s in SYMBOLS.items() if s.word}
    letters = size_letters()
    name, _, value = text.partition("=")
    letter = words.get(name, name)
    if letter not in letters or not value.isdigit() or int(value) < 1:
        raise SpecificationError(
            f"--set {text}: write NAME=NUMBER with a positive number and a name among {', '.join(letters)}"
        )
    return letter, int(value)


def traceability() -> None:
    """Print the table, then its holes; exit with 1 if there are any."""
    out = console()
    print_table(
        out,
        ("equation", "oracle", "requirements", "proofs", "checks", "shown by"),
        [
            (
                r.equation.id,
                r.oracle.split(".", 1)[-1],
                " ".join(r.requirements),
                " ".join(r.proofs),
                str(len(r.checks)),
                str(len(r.demonstrations)),
            )
            for r in trace.rows()
        ],
    )
    holes = trace.holes()
    for hole in holes:
        out.print(Text.assemble(("HOLE ", "bold red"), hole), soft_wrap=True)
    out.print(f"{len(trace.rows())} equations, {len(spec.requirements())} requirements, {len(holes)} holes")
    sys.exit(1 if holes else 0)
