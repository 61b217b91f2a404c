"""One page for each topic of the specification, with a card for each of its equations."""

import importlib
import inspect

from encoder_spec.equation import TOPICS, Equation, equations
from generators.card import card
from generators.html import heading, prose

TITLES = {
    "embedding": "Embedding",
    "position": "Positions",
    "attention": "Attention and masks",
    "multihead": "Several heads",
    "norm": "Normalisation",
    "ffn": "Feed-forward network",
    "residual": "Residual connection",
    "dropout": "Dropout",
    "layer": "Layer",
    "encoder": "Stack",
    "head": "Heads on top",
}


def pages() -> dict[str, str]:
    """The page of every topic, by path."""
    return {f"{topic}.md": page(topic) for topic in TOPICS}


def page(topic: str) -> str:
    """The page of one topic: its module's text, a list of its equations, their cards."""
    own = [e for e in equations().values() if e.topic == topic]
    known = {f for e in equations().values() for f in (e.function, e.oracle)}
    cards = [card(equation, known) for equation in own]
    return "\n".join([heading(1, TITLES[topic], topic + "-page"), "", lead(topic), "", contents(own), "", *cards])


def lead(topic: str) -> str:
    """The module's own docstring as the opening of the page."""
    text = inspect.getdoc(importlib.import_module(f"encoder_spec.{topic}")) or ""
    return "\n".join(f'<p class="lead">{prose(" ".join(part.split()))}</p>' for part in text.split("\n\n"))


def contents(own: list[Equation]) -> str:
    """Links to the cards of a page."""
    items = "".join(
        f'<li><a href="#{e.id}">{prose(e.title)}</a> <span class="choice">{e.slot} = {e.variant}</span></li>'
        for e in own
    )
    return f'<ul class="contents">{items}</ul>'
