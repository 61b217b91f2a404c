"""A chapter: hand-written prose, with what its markers stand for put in.

A chapter is ``docs/chapters/<name>.md``. In it

* ``[[attention.scores]]`` alone on a line is the card of that equation;
* ``[[attention.scores]]`` or ``[[attention.scores|the scores]]`` within a line is a link, to
  whatever has that name: an equation, a requirement, a deviation, a profile, an erratum, a source;
* ``{{name}}`` is what the function of that name in ``computed`` returns;
* ``$…$`` and ``$$…$$`` are formulas.

A name that nothing has, and an equation of the topic that has no place or two, fail the build.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

from conformance_tests.deviations import deviations
from encoder_spec.equation import equations, requirements, slots
from encoder_spec.errata import errata
from encoder_spec.profiles import PROFILES
from encoder_spec.sources import SOURCES
from generators import computed, mathml
from generators.html import deviation_link, equation_link, link, profile_link, requirement_link, slug

DOCS = Path(__file__).parents[1]
CHAPTERS = DOCS / "chapters"
MARKER = re.compile(
    r"(?P<code>```.*?```|`[^`\n]+`)"
    r"|^\[\[(?P<card>[\w.]+)\]\]$"
    r"|\[\[(?P<name>[^\[\]|]+)(?:\|(?P<words>[^\[\]]+))?\]\]"
    r"|\{\{(?P<computed>\w+)\}\}"
    r"|\$\$(?P<display>.+?)\$\$"
    r"|\$(?P<inline>[^$\n]+)\$",
    re.DOTALL | re.MULTILINE,
)


class MarkerError(LookupError):
    """A marker that stands for nothing, or a card that is missing or placed twice."""


def chapter(name: str, cards: Mapping[str, str] | None = None) -> str:
    """The Markdown of a chapter; ``cards`` are those of its equations, each of which it has to place once.

    Raises:
        MarkerError: if it does not, or if a marker names nothing.
    """
    return fill((CHAPTERS / f"{name}.md").read_text(encoding="utf-8"), cards or {}, name)


def fill(text: str, cards: Mapping[str, str], name: str) -> str:
    """The text of the chapter ``name`` with every marker replaced by what it stands for."""
    placed = Counter(match["card"] for match in MARKER.finditer(text) if match["card"])
    for id in cards:
        if placed[id] != 1:
            raise MarkerError(f"chapter {name}: the card of {id} must be placed once, but is placed {placed[id]} times")
    for id in placed:
        if id not in cards:
            raise MarkerError(
                f"chapter {name}: [[{id}]] stands alone on a line, but is not an equation of this chapter"
            )

    def put_in(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        if match["card"]:
            return cards[match["card"]]
        if match["name"]:
            return mention(match["name"], match["words"] or "", name)
        if match["computed"]:
            return value(match["computed"], name)
        return formula(match["display"] or match["inline"], display=bool(match["display"]))

    return MARKER.sub(put_in, text)


def mention(target: str, words: str, chapter: str) -> str:
    """A link to whatever has the name ``target``.

    Raises:
        MarkerError: if nothing has it.
    """
    if target not in addresses():
        raise MarkerError(f"chapter {chapter}: [[{target}]] names nothing")
    href, text = addresses()[target]
    return link(href, escape(words, quote=False) or text)


@cache
def addresses() -> dict[str, tuple[str, str]]:
    """What can be named: its address, and its name as HTML. Of equal names the first counts."""
    known: dict[str, tuple[str, str]] = {}
    for of_kind in (
        {id: parted(equation_link(id)) for id in equations()},
        {id: parted(requirement_link(id)) for id in requirements()},
        {name: parted(profile_link(name)) for name in PROFILES},
        {id: parted(deviation_link(id)) for id in deviations()},
        {e.id: (f"errata.html#{e.id}", e.id) for e in errata()},
        {key: (f"sources.html#{slug(key)}", key) for key in SOURCES},
        {f"slot {slot}": (f"equations-and-requirements.html#slot-{slot}", f"<code>{slot}</code>") for slot in slots()},
    ):
        known = of_kind | known
    return known


def parted(anchor: str) -> tuple[str, str]:
    """Address and text of a link."""
    found = re.fullmatch(r'<a href="([^"]+)">(.*)</a>', anchor)
    assert found, anchor
    return found[1], found[2]


def value(name: str, chapter: str) -> str:
    """What the function ``name`` of ``computed`` returns.

    Raises:
        MarkerError: if there is none.
    """
    if name not in computed.VALUES:
        raise MarkerError(f"chapter {chapter}: {{{{{name}}}}} is computed nowhere")
    return computed.VALUES[name]()


def formula(latex: str, *, display: bool) -> str:
    """A formula in a sentence, or on a line of its own; nothing in it is left for Markdown to read."""
    math = mathml.render(latex.strip(), display=display)
    for sign in "*_\\`":
        math = math.replace(sign, f"&#{ord(sign)};")
    return f'<div class="formula" tabindex="0">{math}</div>' if display else f'<span class="math">{math}</span>'
