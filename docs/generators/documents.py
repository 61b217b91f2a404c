"""What the search knows by its id: requirements, equations, deviations, profiles, and the encoders of the matrix."""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any
from urllib.parse import quote

from conformance_tests.deviations import deviations
from encoder_spec.equation import equations, requirements
from encoder_spec.profiles import PROFILES
from generators import encoders, evidence
from generators.html import equation_address, requirement_address

OF_AN_EQUATION, OF_AN_ENCODER = 2, 0.02
"""Weights of what other things are called after: a profile bert goes before the encoders that compute it."""


def script() -> str:
    """The documents as JSON."""
    return json.dumps([*of_requirements(), *of_equations(), *of_deviations(), *of_profiles(), *of_encoders()])


def document(id: str, title: str, address: str, texts: Iterable[str], **more: Any) -> dict[str, Any]:
    """One document; ids are split into their words too, which nobody types with the points and hyphens."""
    words = id.replace(".", " ").replace("-", " ").replace("_", " ")
    text = "".join(f"<p>{escape(part.replace('``', ''), quote=False)}</p>" for part in (*texts, words) if part)
    return {"id": id, "title": escape(title, quote=False), "location": address, "text": text} | more


def of_requirements() -> Iterator[dict[str, Any]]:
    """What must hold, and of which equation."""
    for id, r in requirements().items():
        yield document(id, id, requirement_address(id), (r.statement, f"Requirement of {r.equation}"))


def of_equations() -> Iterator[dict[str, Any]]:
    """The text of each equation, and its requirements."""
    for id, e in equations().items():
        stated = (r.statement for r in evidence.of(e))
        about = (f"Equation of the slot {e.slot}, variant {e.variant}", e.source, *e.notes, *stated)
        yield document(id, f"{id}: {e.title}", equation_address(id), about, boost=OF_AN_EQUATION)


def of_deviations() -> Iterator[dict[str, Any]]:
    """What each deviation computes, and what it is mistaken for."""
    for id, d in deviations().items():
        taken = f"Deviation in the slot {d.slot}, mistaken for {', '.join(d.of)}"
        yield document(id, id, d.page, (d.definition, taken, ", ".join(d.noticed_by)))


def of_profiles() -> Iterator[dict[str, Any]]:
    """Where each profile was published."""
    for name, p in PROFILES.items():
        yield document(name, name, f"profiles.html#{name}", (f"Profile: {p.source}",))


def of_encoders() -> Iterator[dict[str, Any]]:
    """What each encoder of the matrix is, and what was found out about it."""
    for e in encoders.judged():
        about = (e.id, f"{e.group}: {e.verdict}", f"Profile: {e.profile}", ", ".join(e.failed), *e.notes)
        yield document(e.id, f"{e.subject} ({e.group})", quote(f"{e.id}.html"), about, boost=OF_AN_ENCODER)
