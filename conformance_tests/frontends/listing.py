"""Lists of what the specification holds, in a terminal: the commands without a target.

What they show comes from ``catalogue``, as a rule without torch.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from fractions import Fraction

from rich.console import Console
from rich.text import Text

from conformance_tests.frontends import catalogue
from conformance_tests.reports.terminal import console, print_table
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
    known = {e.id: e for e in catalogue.listed(catalogue.Equation)}
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
    print_code(out, implementation(e.code))
    for note in e.notes:
        out.print(Text(note), soft_wrap=True)
    for r in catalogue.listed(catalogue.Requirement):
        if r.equation == e.id:
            out.print(Text.assemble((r.id, "bold"), f"  {r.statement}"), soft_wrap=True)


def source(place: str) -> str:
    """Return the code of the function at a place such as ``encoder_spec/attention.py::scores``."""
    file, _, name = place.partition("::")
    text = (catalogue.ROOT / file).read_text(encoding="utf-8")
    function: ast.AST = ast.parse(text)
    for part in name.split("."):
        inside = (f for f in ast.walk(function) if isinstance(f, ast.FunctionDef) and f is not function)
        function = next(f for f in inside if f.name == part)
    assert isinstance(function, ast.FunctionDef)
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return textwrap.dedent("".join(text.splitlines(keepends=True)[first - 1 : function.end_lineno]))


def implementation(place: str) -> str:
    """Return the code of the function at a place without its decorators and docstring."""
    tree = ast.parse(source(place))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    function.body = function.body[ast.get_docstring(function) is not None :]
    return ast.unparse(tree)


def print_code(out: Console, code: str) -> None:
    """Print code with its syntax in colours."""
    from rich.syntax import Syntax

    out.print(Syntax(code, "python", theme="ansi_light", background_color="default", word_wrap=True))


def requirements(id: str | None) -> None:
    """List the requirements, or show one."""
    known = {r.id: r for r in catalogue.listed(catalogue.Requirement)}
    checks = catalogue.listed(catalogue.Check)
    out = console()
    if id is None:
        levels = {q: c.level for c in checks for q in c.requirements}
        print_table(
            out,
            ("requirement", "equation", "evidence", "statement"),
            [(r.id, r.equation, levels.get(r.id, "on the specification"), r.statement) for r in known.values()],
        )
        return
    r = known[choose("requirements", id.upper(), list(known))]
    out.print(Text.assemble((r.id, "bold"), f"  {r.statement}"), soft_wrap=True)
    out.print(Text(f"equation {r.equation}{' · proved with SymPy' if r.algebraic else ''}", "dim"))
    for check in checks:
        if r.id in check.requirements:
            out.print(Text(f"decided by {check.name} ({check.level})", "dim"))
            print_code(out, source(check.code))


def deviations(id: str | None) -> None:
    """List the catalogue of deviations, or show one with its code and what notices it."""
    known = {d.id: d for d in catalogue.listed(catalogue.Deviation)}
    out = console()
    if id is None:
        rows = [(d.id, d.slot, " ".join(d.noticed_by), d.definition) for d in known.values()]
        print_table(out, ("deviation", "slot", "noticed by", "what it computes"), rows)
        return
    d = known[choose("deviations", id, list(known))]
    out.print(Text.assemble((d.id, "bold"), f"  {d.definition}"), soft_wrap=True)
    out.print(Text(f"mistaken for {', '.join(d.of)} · noticed by {', '.join(d.noticed_by)}", "dim"), soft_wrap=True)
    for name, wrong in d.replaces.items():
        if isinstance(wrong, str):
            print_code(out, implementation(wrong))
        else:
            out.print(Text(f"    {name} = {wrong:g}"))
    if d.evidence:
        out.print(Text(f"seen in {', '.join(d.evidence)}", "dim"), soft_wrap=True)


def matrix(id: str | None) -> None:
    """Print what notices each deviation, or one, profile by profile, and how the suite diagnoses it.

    Where nothing is diagnosed, what fails are the requirements that must notice it; the others were not decided.
    """
    from conformance_tests.quality import kill_matrix, kills

    if id is not None:
        choose("deviations", id, [d.id for d in catalogue.listed(catalogue.Deviation)])
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
        known = catalogue.listed(catalogue.Profile)
        first = known[0]
        rows = []
        for p in known:
            differs = [f"{k}={v}" for k, v in p.choices.items() if v != first.choices.get(k)]
            rows.append((p.name, p.source, ", ".join(differs) or "the choice that the others are compared with"))
        print_table(console(), ("profile", "source", f"differs from {first.name} in"), rows)
        return
    p = profile(name)
    out = console()
    out.print(Text.assemble((p.name, "bold"), f"  {p.source}"))
    print_table(out, ("slot or constant", "choice"), [(k, str(v)) for k, v in p.choices.items()])
    if p.sizes:
        out.print(Text("its base model: " + ", ".join(f"{letter}={size}" for letter, size in p.sizes.items()), "dim"))


def profile(name: str) -> catalogue.Profile:
    """Return the published profile of this name, or the one that a ``.toml`` file describes.

    Raises:
        SpecificationError: if there is no such profile, or the file does not describe one.
    """
    if name.endswith(".toml"):
        return catalogue.described(catalogue.choice(name))
    known = {p.name: p for p in catalogue.listed(catalogue.Profile)}
    return known[choose("profiles", name, list(known))]


def count(name: str, settings: Sequence[str]) -> None:
    """Print what an encoder costs, as formulas and numbers."""
    sizes = {"n": 128, "B": 1} | dict(map(setting, settings))
    n, B = sizes.pop("n"), sizes.pop("B")
    counted = profile(name)
    dimensions = Dimensions().replace(**(dict(counted.sizes) | sizes))
    sizes = {**dimensions.sizes(), "n": n, "B": B}
    out = console()
    shown = ", ".join(f"{letter}={size}" for letter, size in sizes.items())
    out.print(Text.assemble((counted.name, "bold"), f"  {shown}"), soft_wrap=True)
    usual = dimensions.h * dimensions.d_k == dimensions.h * dimensions.d_v == dimensions.d_model
    formulas = [(c.quantity, c.part, c.customary if usual else c.formula) for c in catalogue.costs(name)]
    rows = [(quantity, part, formula, f"{value(formula, sizes):,}") for quantity, part, formula in formulas]
    print_table(out, ("quantity", "part", "formula", "number"), rows)


def value(formula: str, sizes: Mapping[str, int]) -> int | float:
    """Return the value of a formula as people read it, such as ``4·d_model² + n/2``, for these sizes by letter."""
    digits = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    powers = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: f"**{power[0].translate(digits)}", formula)
    exact = re.sub(r"\b\d+\b", r"Fraction(\g<0>)", powers.replace("·", "*"))
    letters = {letter: Fraction(size) for letter, size in sizes.items()}
    number = Fraction(eval(exact, {"__builtins__": {}, "Fraction": Fraction}, letters))
    return int(number) if number.denominator == 1 else float(number)


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
    from conformance_tests.quality import traceability as trace
    from encoder_spec.equation import requirements

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
    out.print(f"{len(trace.rows())} equations, {len(requirements())} requirements, {len(holes)} holes")
    sys.exit(1 if holes else 0)
