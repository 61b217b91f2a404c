"""The numbers and tables of the chapter on cost: every formula derived from the equations, and what it comes to."""

import inspect
from collections.abc import Callable
from functools import cache
from itertools import groupby

import encoder_spec.cost
from encoder_spec.cost import Row, customary, flops, number, parameters, report
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import TORCH_POST_LN, VASWANI_2017, Profile, profile
from generators import mathml
from generators.calculator import PRESETS
from generators.html import equation_link, heading, profile_link, prose, table

BASE = Dimensions()
LENGTH = 512
BIASED, BARE = TORCH_POST_LN, TORCH_POST_LN.replace(projections="linear", output="linear", ffn="linear")
SHOWN = ((VASWANI_2017, "without biases in attention"), (TORCH_POST_LN, "with all biases"))


def conventions() -> str:
    """What is counted, in the words of the module that counts."""
    own = inspect.getdoc(encoder_spec.cost) or ""
    words = next(part for part in own.split("\n\n") if part.startswith("Conventions:"))
    text = " ".join(words.removeprefix("Conventions: ").split())
    return prose(text[0].upper() + text[1:])


@cache
def rows(quantity: str) -> list[Row]:
    """What one quantity comes to in the parts of the base model, with all biases; parts that cost nothing left out."""
    return [row for row in report(BIASED, BASE, LENGTH) if row.quantity == quantity and row.number]


def parameters_by_part() -> str:
    """Formula and number of the parameters of each part of a layer, without and with biases."""
    bare = parameters(BARE)
    shown = [
        (*line(row)[:2], f"{number(bare[row.part], BASE):,}", line(row)[2])
        for row in rows("parameters")
        if row.part in ("attention", "FFN", "norms", "layer")
    ]
    return table(("Part", "Formula, with biases", "Without biases", "With biases"), shown, kind="cost")


def whole_models() -> str:
    """Parameters and operations of encoders that people use."""
    cells = []
    for preset in PRESETS.values():
        chosen, sizes = profile(preset.profile), preset.dimensions
        held = number(parameters(chosen)["whole"], sizes)
        spent = number(flops(chosen)["whole"], sizes, preset.n)
        cells.append((preset.title, profile_link(preset.profile), str(preset.n), f"{held:,}", rounded(spent)))
    return table(("Encoder", "Profile", mathml.render("n"), "Parameters", "FLOPs"), cells, kind="numbers models")


def rounded(large: float) -> str:
    """A large number with two decimals and a power of ten."""
    digits, _, power = f"{large:.2e}".partition("e")
    return mathml.render(rf"{digits} \cdot 10^{{{int(power)}}}")


def of(quantity: str, head: str) -> Callable[[], str]:
    """The table of one quantity of the base model."""
    return lambda: table((head, "Formula", "Number"), [line(row) for row in rows(quantity)], kind="cost")


def share_of_the_square() -> str:
    """The share of the operations of a layer that grows with n², at the length of the tables."""
    cost = customary(flops(BIASED)["layer"])
    square = cost.coeff(encoder_spec.cost.n, 2) * encoder_spec.cost.n**2
    return f"{number(square, BASE, LENGTH) / number(cost, BASE, LENGTH):.0%}"


def bytes_of_the_square() -> str:
    """The memory of the scores and weights of one layer of the base model, in float32, for one sequence."""
    entries = customary(encoder_spec.cost.activations(BIASED)["attention"])
    square = entries.coeff(encoder_spec.cost.n, 2) * encoder_spec.cost.n**2
    return f"{4 * number(square, BASE, LENGTH) / 2**20:.0f} MiB"


def tables() -> str:
    """All costs of two profiles."""
    return "\n".join(section(profile, note) for profile, note in SHOWN)


def sizes() -> str:
    """The sizes at which formulas become numbers."""
    letters = {"n": LENGTH, "B": 1} | {name: BASE.sizes()[name] for name in ("d_model", "h", "d_ff", "N", "V")}
    shown = ", ".join(mathml.render(f"{SYMBOLS[name].latex} = {size}") for name, size in letters.items())
    return f"Numbers are those of the base model, {shown}."


def section(profile: Profile, note: str) -> str:
    """All costs of one profile."""
    parts = [heading(3, f"{profile.name}, {note}", profile.name), ""]
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


VALUES: dict[str, Callable[[], str]] = {
    "cost_conventions": conventions,
    "cost_sizes": sizes,
    "cost_parameters": parameters_by_part,
    "cost_of_whole_models": whole_models,
    "cost_operations": of("FLOPs of a layer", "Spent by"),
    "cost_activations": of("activations", "Kept by"),
    "cost_crossovers": of("crossover at n", "Claim"),
    "cost_share_of_the_square": share_of_the_square,
    "cost_bytes_of_the_square": bytes_of_the_square,
    "cost_tables": tables,
}
"""What the chapter shows, by the name of its marker."""
