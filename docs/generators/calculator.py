"""The page of sizes: every step of an encoder with its shape, parameters and FLOPs, for chosen sizes.

The page shows four published encoders as tables. Where scripts run, a form takes their place:
it evaluates the same expressions, which ``functions`` writes as a script.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import sympy
from sympy import Expr

from encoder_spec.cost import activations, crossovers, flops, number, parameters, symbol
from encoder_spec.dimensions import Dimensions
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import PROFILES, Profile, profile
from encoder_spec.steps import Step, steps
from generators import mathml
from generators.html import equation_link, heading, profile_link, table

LEAD = (
    "What each equation of an encoder computes: the shape of its result, the parameters that it reads, and the FLOPs "
    "that it spends. Indented steps belong to the step above them and are counted in it; slots in which nothing "
    "happens are left out. Steps of a layer are those of one layer, n is the length that the layers see, and "
    'FLOPs and activations are counted as on the page of <a href="cost.html">costs</a>.'
)

BYTES = 4
COLUMNS = ("Step", "Result", "In numbers", "Parameters", "FLOPs")


@dataclass(frozen=True)
class Preset:
    """A published encoder: its profile and its sizes."""

    title: str
    profile: str
    dimensions: Dimensions
    n: int

    @property
    def sizes(self) -> dict[str, int]:
        """Every size by its letter."""
        return {"B": 1, "n": self.n} | self.dimensions.sizes()


PRESETS = {
    "base": Preset("Base model", "vaswani-2017", Dimensions(), 512),
    "large": Preset("Large model", "vaswani-2017", Dimensions(d_model=1024, h=16, d_ff=4096), 512),
    "bert": Preset("BERT, base", "bert", Dimensions().replace(**PROFILES["bert"].sizes), 512),
    "vit": Preset("ViT-B/16", "vit", Dimensions().replace(**PROFILES["vit"].sizes), 197),
}

TOTALS = {
    "parameters": ("Parameters", "entries of all arrays"),
    "flops": ("FLOPs", "of one forward pass over the batch"),
    "weights": ("Memory of the parameters", "at the chosen precision"),
    "activations": ("Memory of the activations", "every intermediate of all layers; a backward pass needs them"),
    "crossover": ("Scores overtake the FFN", "above this n, the n² part of attention costs more than the FFN"),
}


@dataclass(frozen=True)
class Account:
    """What is to be evaluated for one profile."""

    steps: list[Step]
    totals: dict[str, Expr]

    def expressions(self) -> Iterator[Expr]:
        """Everything that depends on sizes."""
        yield from self.totals.values()
        for step in self.steps:
            yield from (step.parameters, step.flops, *(axis for shape in step.shapes for axis in shape))

    @property
    def letters(self) -> list[str]:
        """The letters on which anything depends, in the order of ``SYMBOLS``."""
        used = {str(letter) for e in self.expressions() for letter in e.free_symbols}
        return [letter for letter in SYMBOLS if letter in used]


def account(chosen: Profile) -> Account:
    """The steps that do something, and the totals; the encoder's own row has the costs of all layers."""
    totals = {
        "parameters": parameters(chosen)["whole"],
        "flops": flops(chosen)["whole"],
        "activations": activations(chosen)["all layers"],
        "crossover": crossovers(chosen)["n² part of attention < FFN"],
    }
    whole, *parts = steps(chosen)
    whole.parameters, whole.flops = totals["parameters"], totals["flops"]
    return Account([whole, *(step for step in parts if step.equation.variant != "none")], totals)


# The page ----------------------------------------------------------------------------------


def page() -> str:
    """The Markdown of the page."""
    return "\n".join(
        [
            "---\nhide: [toc]\n---",
            heading(1, "Calculator", "sizes"),
            "",
            f'<p class="lead">{LEAD}</p>',
            "",
            form(),
            "",
            '<div id="presets">',
            *(section(name, preset) for name, preset in PRESETS.items()),
            "</div>",
            '<script src="javascripts/encoders.js" defer></script>',
            '<script src="javascripts/calculator.js" defer></script>',
        ]
    )


def form() -> str:
    """The fields of the calculator, and where it writes; hidden until a script runs."""
    presets = "".join(f'<option value="{name}">{preset.title}</option>' for name, preset in PRESETS.items())
    profiles = "".join(f"<option>{name}</option>" for name in PROFILES)
    letters = [name for name, symbol in SYMBOLS.items() if not symbol.factors and name in PRESETS["base"].sizes]
    numbers = "".join(
        f'<label data-letter="{name}" title="{escape(SYMBOLS[name].meaning)}">'
        f"<span>{mathml.render(SYMBOLS[name].latex)} <small>{escape(SYMBOLS[name].meaning)}</small></span>"
        f'<input type="number" name="{name}" min="1" step="1" required></label>'
        for name in letters
    )
    head = "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
    return (
        '<form id="calculator" class="calculator" hidden>'
        f'<div class="fields"><label><span>Preset</span><select name="preset">{presets}'
        f'<option value="">own sizes</option></select></label>'
        f'<label><span>Profile</span><select name="profile">{profiles}</select></label>'
        '<label><span>Precision</span><select name="bytes"><option value="8">float64</option>'
        '<option value="4" selected>float32</option><option value="2">float16, bfloat16</option></select></label></div>'
        f'<div class="fields numbers">{numbers}</div>'
        '<p class="undefined" id="refusal" role="alert" hidden></p>'
        f'<div aria-live="polite">{totals_table({})}</div>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Steps of the encoder">'
        f'<table class="plain steps"><thead><tr>{head}</tr></thead><tbody id="steps"></tbody></table></div></form>'
    )


def totals_table(values: dict[str, str]) -> str:
    """The totals; those without a value are filled by the script."""
    rows = [
        (title, f'<output data-total="{key}">{values.get(key, "")}</output>', f'<span class="quiet">{note}</span>')
        for key, (title, note) in TOTALS.items()
    ]
    return table((), rows, kind="totals")


def section(name: str, preset: Preset) -> str:
    """One published encoder, with its numbers."""
    found = account(profile(preset.profile))
    values = {key: number(e, preset.dimensions, preset.n) for key, e in found.totals.items()}
    memory = {"weights": values["parameters"], "activations": values["activations"]}
    texts = {key: f"{values[key]:,}" for key in ("parameters", "flops")}
    texts |= {key: size_in_memory(entries * BYTES) for key, entries in memory.items()}
    texts["crossover"] = f"n = {values['crossover']:,.6g}"
    sizes = ", ".join(mathml.render(f"{SYMBOLS[x].latex} = {preset.sizes[x]}") for x in found.letters)
    rows = [cells(step) | numbers(step, preset) for step in found.steps]
    body = "\n".join(row(**r) for r in rows)
    head = "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
    return "\n".join(
        [
            "",
            heading(2, preset.title, f"preset-{name}"),
            "",
            f"<p>{profile_link(preset.profile)} with {sizes}, in float32.</p>",
            totals_table(texts),
            f'<div class="scroll" tabindex="0" role="region" aria-label="Steps of {escape(preset.title)}">'
            f'<table class="plain steps"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>',
            "",
        ]
    )


def cells(step: Step) -> dict[str, str]:
    """The cells of a row that do not depend on sizes."""
    times = mathml.render(r"\times N") if step.equation.slot == "layer" else ""
    shapes = ", ".join(mathml.render(r" \times ".join(map(typeset, shape))) for shape in step.shapes)
    return {"depth": str(step.depth), "name": f"{equation_link(step.equation.id)} {times}".strip(), "shape": shapes}


def numbers(step: Step, preset: Preset) -> dict[str, str]:
    """The cells of a row that do."""

    def value(cost: Expr) -> str:
        return f"{number(cost, preset.dimensions, preset.n):,}"

    shapes = ", ".join(" × ".join(map(value, shape)) for shape in step.shapes)
    return {
        "sizes": shapes,
        "parameters": value(step.parameters) if step.parameters else "",
        "flops": value(step.flops) if step.flops else "",
    }


def row(depth: str, name: str, shape: str, sizes: str, parameters: str, flops: str) -> str:
    """One step as a row."""
    return (
        f'<tr><th scope="row" class="depth-{depth}">{name}</th><td>{shape}</td><td>{sizes}</td>'
        f"<td>{parameters}</td><td>{flops}</td></tr>"
    )


def typeset(axis: Expr) -> str:
    """The LaTeX of an axis, with products in the customary order."""
    for letter, known in SYMBOLS.items():
        if known.factors and axis == symbol(letter):
            return known.latex
    names = {symbol(str(letter)): SYMBOLS[str(letter)].latex for letter in axis.free_symbols}
    latex = str(sympy.latex(axis, symbol_names=names))
    return f"({latex})" if axis.is_Add else latex


def size_in_memory(size: float) -> str:
    """A number of bytes, in the unit that suits it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.4g} {unit}"
        size /= 1024
    return f"{size:,.4g} TiB"
