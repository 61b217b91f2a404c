"""One page for each topic of the specification: its chapter, with a card for each of its equations."""

from encoder_spec.equation import TOPICS, Equation, equations
from generators.card import card
from generators.chapter import DOCS, chapter, fill
from generators.html import heading, prose

TITLES = {
    "embedding": "Embedding",
    "position": "Positional encoding",
    "rotation": "Rotary positions",
    "attention": "Attention and masks",
    "multihead": "Multi-head attention",
    "norm": "Normalisation",
    "ffn": "Feed-forward network",
    "residual": "Residual connection",
    "dropout": "Dropout",
    "layer": "Layer",
    "encoder": "Encoder stack",
    "head": "Heads on top",
}


OTHERS = {
    "notation": "Notation and shapes",
    "map": "The map: one equation per slot",
    "cost": "Cost",
    "internals": "Internals",
    "contribute": "Contribute",
}
"""Chapters without a topic."""

WITH_MARKERS = ("index.md", "test-your-encoder.md")
"""Pages that are written by hand but for their markers."""


def pages() -> dict[str, str]:
    """The page of every chapter, by path."""
    others = {f"{name}.md": f"{heading(1, title, name + '-page')}\n\n{chapter(name)}" for name, title in OTHERS.items()}
    others |= {name: fill((DOCS / name).read_text(encoding="utf-8"), {}, name) for name in WITH_MARKERS}
    return others | {f"{topic}.md": page(topic) for topic in TOPICS}


HINT = (
    '<p class="hint">Point at a letter of a formula, or go to it with the Tab key: '
    "its identifier lights up in the code.</p>"
)


def page(topic: str) -> str:
    """The page of one topic: its chapter, with the cards in their places and a list of them after the opening."""
    own = [e for e in equations().values() if e.topic == topic]
    known = {f for e in equations().values() for f in (e.function, e.oracle)}
    text = chapter(topic, {equation.id: card(equation, known) for equation in own})
    opening, _, rest = text.partition("\n## ")
    return "\n".join([heading(1, TITLES[topic], topic + "-page"), "", opening, contents(own), HINT, "", f"## {rest}"])


def contents(own: list[Equation]) -> str:
    """Links to the cards of a page."""
    items = "".join(
        f'<li><a href="#{e.id}">{prose(e.title)}</a> <span class="choice">{e.slot} = {e.variant}</span></li>'
        for e in own
    )
    return f'<ul class="contents">{items}</ul>'
