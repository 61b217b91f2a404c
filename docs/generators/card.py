"""The card of an equation: everything there is about it, in one place."""

from collections.abc import Callable
from functools import cache
from html import escape
from typing import Any

from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import STACKS, Equation, slots, variants
from encoder_spec.notation import SYMBOLS
from encoder_spec.profiles import PROFILES
from encoder_spec.sources import cited
from generators import evidence, listing, mathml, shapes, symbols
from generators.html import cite, code, equation_link, heading, link, paragraphs, profile_link, prose, table


def card(equation: Equation, known: set[Callable[..., Any]]) -> str:
    """The Markdown of an equation's card; ``known`` are the functions that have a card of their own."""
    code = sources(equation, known)
    formula = symbols.mark_formula(mathml.render(equation.latex, display=True), symbols.names(code))
    return "\n".join(
        [
            heading(3, equation.title, equation.id),
            "",
            '<div class="equation">',
            f'<div class="formula" tabindex="0">{formula}</div>',
            legend(equation),
            '<div class="columns facts">',
            f"<div>{head(equation)}{notes(equation)}</div>",
            f"<div>{signature(equation)}</div>",
            "</div>",
            f'<div class="columns">{symbols.mark_code(code, symbols.marks(formula))}</div>',
            '<p class="caption">Requirements</p>',
            '<ul class="requirements">',
            *map(evidence.item, evidence.of(equation)),
            "</ul>",
            "</div>",
            "",
        ]
    )


@cache
def used_in(profile: str) -> list[Equation]:
    """The equations that an encoder of a published profile uses: another slot may leave one without a use."""
    return Encoder(PROFILES[profile], Dimensions(N=1)).equations()


def head(equation: Equation) -> str:
    """Id, slot and variant, source, and the profiles that choose the equation."""
    slot = link(f"equations-and-requirements.html#slot-{equation.slot}", f"<code>{equation.slot}</code>")
    chosen_by = [profile_link(name) for name in PROFILES if equation in used_in(name)]
    rows = [
        ("Id", f"<code>{equation.id}</code>"),
        ("Fills", f"slot {slot} as <code>{equation.variant}</code>"),
        ("Source", cite(equation.source.removesuffix("."))),
        ("Read it at", ", ".join(link(s.url, escape(address_of(s.url))) for s in cited(equation.source) if s.url)),
        ("Chosen by", ", ".join(chosen_by)),
    ]
    return table((), [row for row in rows if row[1]], kind="head")


def address_of(url: str) -> str:
    """An address as people write it."""
    return url.partition("://")[2].removesuffix("/")


def notes(equation: Equation) -> str:
    """Side conditions, and what the source leaves open."""
    said = [note for note in equation.notes if not note.startswith("Undefined:")]
    left_open = [note.removeprefix("Undefined:").strip() for note in equation.notes if note.startswith("Undefined:")]
    text = paragraphs(said)
    for note in left_open:
        if note != "nothing.":
            text += f'<p class="undefined"><b>Undefined:</b> {prose(note)}</p>'
    return text


def legend(equation: Equation) -> str:
    """What the letters of the shapes mean."""
    items = "".join(
        f"<li>{mathml.render(SYMBOLS[letter].latex)} {prose(SYMBOLS[letter].meaning)}</li>"
        for letter in shapes.letters(equation)
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def signature(equation: Equation) -> str:
    """What the equation reads, learns, is given and returns."""
    rows = [(symbols.named(name), "reads", shape(hint)) for name, hint in equation.flowing.items()]
    rows += [(symbols.named(name), "learns", shapes.typeset(axes)) for name, axes in equation.parameters.items()]
    rows += [(symbols.named(name), "is given", shape(hint)) for name, hint in equation.of_call.items()]
    rows += [
        (symbols.named(name), "is given", prose(SYMBOLS[name].meaning) if name in SYMBOLS else "a number")
        for name in equation.constants
    ]
    rows += [(symbols.named(name), "calls", fillers(name)) for name in equation.slots]
    rows.append(("result", "returns", shape(equation.returns)))
    return table(("Name", "", "Shape, meaning or equations"), rows)


def shape(hint: Any) -> str:
    """The shapes that an annotation describes, or its name where it has none."""
    typeset = [shapes.typeset(axes) for axes in shapes.shapes(hint)]
    return ", ".join(typeset) or {int: "a number", str: "a name"}.get(hint, "an array")


def fillers(argument: str) -> str:
    """The equations that may stand behind an argument."""
    slot = STACKS.get(argument, argument)
    if slot not in slots():
        slot = argument.partition("_")[0]
    return ", ".join(equation_link(e.id) for e in variants(slot).values())


def sources(equation: Equation, known: set[Callable[..., Any]]) -> str:
    """Implementation and oracle, side by side."""
    blocks = (
        ("Implementation", "torch", listing.implementation(equation.function, known)),
        ("Oracle", "NumPy, float64", listing.annotated(equation.oracle, known)),
    )
    return "".join(
        f'<figure class="source"><figcaption><span class="caption">{title}</span> {language}</figcaption>'
        f"{code(text)}</figure>"
        for title, language, text in blocks
    )
