"""The page of costs: every formula derived from the equations, with its number at the base model."""

import inspect
from itertools import groupby

import encoder_spec.cost
from encoder_spec.cost import Row, report
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import TORCH_POST_LN, VASWANI_2017, Profile
from generators import mathml
from generators.html import equation_link, heading, prose, table

BASE = Dimensions()
LENGTH = 512
SHOWN = ((VASWANI_2017, "without biases in attention"), (TORCH_POST_LN, "with all biases"))

LEAD = (
    "What an encoder costs, derived and not typed in: parameters from the declared shapes, operations and memory from "
    "the implementations themselves, run on symbolic sizes."
)


def page() -> str:
    """The Markdown of the page."""
    own = inspect.getdoc(encoder_spec.cost) or ""
    conventions = next(part for part in own.split("\n\n") if part.startswith("Conventions:"))
    text = f'<p class="lead">{LEAD}</p>\n<p>{prose(" ".join(conventions.split()))} {sizes()}</p>'
    return "\n".join([heading(1, "Cost", "cost"), "", text, "", *(section(profile, note) for profile, note in SHOWN)])


def sizes() -> str:
    """The sizes at which formulas become numbers."""
    letters = {"n": LENGTH, "B": 1} | {name: BASE.sizes()[name] for name in ("d_model", "h", "d_ff", "N", "V")}
    shown = ", ".join(mathml.render(f"{SYMBOLS[name].latex} = {size}") for name, size in letters.items())
    return f"Numbers are those of the base model, {shown}."


def section(profile: Profile, note: str) -> str:
    """All costs of one profile."""
    parts = [heading(2, f"{profile.name}, {note}", profile.name), ""]
    for quantity, rows in groupby(report(profile, BASE, LENGTH), key=lambda row: row.quantity):
        cells = [line(row) for row in rows]
        parts += [table((quantity[0].upper() + quantity[1:], "Formula", "Number"), cells, kind="cost"), ""]
    return "\n".join(parts)


def line(row: Row) -> tuple[str, str, str]:
    """One cost: of what, formula, number."""
    by_equation = row.quantity == "FLOPs of a layer"  # elsewhere "attention" is the whole sublayer
    part = equation_link(row.part) if by_equation else prose(row.part)
    number = f"{row.number:,}" if isinstance(row.number, int) else f"{row.number:,.6g}"
    return part, mathml.render(row.latex), number
