"""The HTML of a page: escaped text, highlighted code, links, folding blocks."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from conformance_tests.deviations import deviations
from encoder_spec.equation import equations, requirements
from encoder_spec.profiles import PROFILES
from encoder_spec.sources import SOURCES

CITATION = re.compile(rf"\b(?:{'|'.join(map(re.escape, SOURCES))})(?!\w)")
WORD = r"(?P<base>\b(?:head|[^\W\d_]))(?:_(?P<sub>[A-Za-z0-9]+))?(?:\^(?P<sup>\{[^}]*\}|[A-Z0-9]+))?"
TOKEN = re.compile(rf"``(?P<code>[^`]+)``|(?P<id>\b[A-Z]+-\d+\b)|(?P<number>\d+)\^\{{(?P<power>[^}}]*)\}}|{WORD}")


def code(source: str, *marked: int) -> str:
    """A block of highlighted Python, with some of its lines marked.

    The theme lets the keyboard scroll a block only where there is a mouse: the lines have a box of their own.
    """
    html = str(
        highlight(source, PythonLexer(), HtmlFormatter(cssclass="highlight", wrapcode=True, hl_lines=marked))
    ).strip()
    return html.replace("<code>", '<code><span class="lines" tabindex="0">', 1).replace("</code>", "</span></code>")


def link(target: str, text: str) -> str:
    """A link to another page or anchor; ``text`` is HTML."""
    return f'<a href="{escape(target)}">{text}</a>'


def equation_link(id: str) -> str:
    """A link to an equation's card, by its id."""
    return link(equation_address(id), f"<code>{id}</code>")


def equation_address(id: str) -> str:
    """Where the card of an equation stands."""
    return f"{equations()[id].topic}.html#{id}"


def requirement_link(id: str) -> str:
    """A link to a requirement, by its id."""
    return link(requirement_address(id), id)


def requirement_address(id: str) -> str:
    """Where a requirement stands: on the card of its equation."""
    return f"{equations()[requirements()[id].equation].topic}.html#{id}"


def deviation_link(id: str, text: str = "") -> str:
    """A link to a deviation, by its id."""
    return link(deviations()[id].page, text or f"<code>{id}</code>")


def profile_link(name: str) -> str:
    """A link to a published profile; the name alone of any other."""
    shown = f"<code>{escape(name)}</code>"
    return link(f"profiles.html#{name}", shown) if name in PROFILES else shown


def anchor(id: str, content: str) -> str:
    """What ``id`` stands on, linked with itself so that readers can copy the address."""
    return f'<a class="anchor" id="{id}" href="#{id}">{content}</a>'


@cache
def prose(text: str) -> str:
    """Text of the specification as HTML: subscripts set low, code as code, known ids as links."""

    def typeset(match: re.Match[str]) -> str:
        if literal := match["code"]:
            return equation_link(literal) if literal in equations() else f"<code>{escape(literal)}</code>"
        if id := match["id"]:
            return requirement_link(id) if id in requirements() else id
        if match["number"]:
            return f"{match['number']}<sup>{prose(match['power'])}</sup>"
        if not match["sub"] and not match["sup"]:
            return match[0]
        low = f"<sub>{match['sub']}</sub>" if match["sub"] else ""
        high = f"<sup>{match['sup'].strip('{}')}</sup>" if match["sup"] else ""
        return f"{match['base']}{low}{high}"

    parts, end = [], 0
    for match in TOKEN.finditer(text):
        parts += [escape(text[end : match.start()], quote=False), typeset(match)]
        end = match.end()
    return "".join([*parts, escape(text[end:], quote=False)])


def slug(key: str) -> str:
    """The anchor of a source: ``Ba et al. 2016`` stands at ``ba-et-al-2016``."""
    return "-".join(re.findall(r"\w+", key.lower()))


def cite(text: str) -> str:
    """Prose whose citations are links to the list of sources."""
    found = CITATION.finditer(text)
    parts, end = [], 0
    for match in found:
        parts += [prose(text[end : match.start()]), link(f"sources.html#{slug(match[0])}", match[0])]
        end = match.end()
    return "".join([*parts, prose(text[end:])])


def paragraphs(texts: Iterable[str]) -> str:
    """Paragraphs of prose."""
    return "\n".join(f"<p>{prose(text)}</p>" for text in texts)


def folded(summary: str, content: str, kind: str = "") -> str:
    """A block that opens on demand; both arguments are HTML."""
    return f'<details class="fold {kind}"><summary>{summary}</summary>\n{content}\n</details>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that scrolls inside its own box; all cells are HTML, the first of each row is its heading."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    labelled = f"<thead><tr>{head}</tr></thead>" if header else ""
    whole = f'<table class="plain {kind}">{labelled}<tbody>\n{body}\n</tbody></table>'
    return f'<div class="scroll" tabindex="0">{whole}</div>'


def heading(level: int, text: str, id: str) -> str:
    """A Markdown heading with a permanent anchor."""
    safe = re.sub(r"([\\`*_#<>\[\]|])", r"\\\1", text)
    return f"{'#' * level} {safe} {{ #{id} }}"
