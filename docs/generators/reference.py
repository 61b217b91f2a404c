"""The reference of what can be imported: which names, in which order; mkdocstrings reads their docstrings.

The equations have no entry of their own here. Their docstrings are their cards, to which the page links.
"""

import re
from collections.abc import Iterable
from html import unescape
from importlib import import_module
from typing import Any

from encoder_spec.equation import TOPICS, equations, requirements
from generators import docstrings
from generators.html import equation_link, heading, link, requirement_link
from generators.problems import GapError
from generators.topics import TITLES

LEAD = (
    "Everything that may be imported and stays: two packages, of which the first judges encoders and the second "
    "says what an encoder is. Words such as <em>subject</em>, <em>slot</em> and <em>profile</em> mean what "
    '<a href="map.html">the map</a> and <a href="test-your-encoder.html">Test your encoder</a> say.'
)

SECTIONS = {
    "Judge an encoder": (
        "conformance_tests.check",
        "conformance_tests.encoder_conformance",
        "conformance_tests.described",
    ),
    "Read a report": (
        "conformance_tests.Report",
        "conformance_tests.TargetReport",
        "conformance_tests.Result",
    ),
    "Make anything a subject": (
        "conformance_tests.ArraySubject",
        "conformance_tests.Subject",
        "conformance_tests.Undetermined",
    ),
    "Choose equations": (
        "encoder_spec.profiles.profile",
        "encoder_spec.profiles.Profile",
        "encoder_spec.dimensions.Dimensions",
    ),
    "Run them": (
        "encoder_spec.assembly.Encoder",
        "encoder_spec.module.EncoderModule",
    ),
    "Look them up": (
        "encoder_spec.equation.equations",
        "encoder_spec.equation.requirements",
        "encoder_spec.equation.slots",
        "encoder_spec.equation.variants",
        "encoder_spec.equation.Equation",
        "encoder_spec.equation.Requirement",
        "encoder_spec.notation.SpecificationError",
    ),
    "Count": (
        "encoder_spec.cost.parameters",
        "encoder_spec.cost.flops",
        "encoder_spec.cost.activations",
        "encoder_spec.cost.crossovers",
        "encoder_spec.cost.report",
        "encoder_spec.cost.Row",
    ),
}

NAMED = re.compile(r"(?<!<b>)<code>([\w.-]+)</code>")
"""A name in a docstring, but for the name of an argument."""


def page() -> str:
    """The Markdown of the page."""
    names = [name for section in SECTIONS.values() for name in section]
    entries = docstrings.render(names, {defined_at(described(name)): name for name in names})
    known = places(entries)
    parts = [heading(1, "Reference", "reference"), "", f'<p class="lead">{LEAD}</p>', ""]
    for title, section in SECTIONS.items():
        parts += [heading(2, title, "-".join(title.lower().split())), ""]
        for name in section:
            module, _, own = name.rpartition(".")
            parts += [heading(3, own, name), "", f"<p><code>from {module} import {own}</code></p>", ""]
            parts += [linked(entries[name], known), ""]
    parts += [heading(2, "The equations", "equations"), "", f"<p>{FUNCTIONS}</p>", table_of_functions(), ""]
    return "\n".join(parts)


def places(entries: Iterable[str]) -> dict[str, str]:
    """Where a name of a docstring leads: to an entry of this page, an equation, a requirement."""
    own = {name.rpartition(".")[2]: f"#{name}" for name in entries}
    cards = {id: address(equation_link(id)) for id in equations() if "." in id}  # ``encoder`` is an argument as well
    return own | cards | {id: address(requirement_link(id)) for id in requirements()}


def address(anchor: str) -> str:
    """Where a link leads."""
    return anchor.split('"')[1]


FUNCTIONS = (
    "Each is a plain function of <code>encoder_spec.&lt;topic&gt;</code>, with an oracle of the same name in "
    "<code>encoder_spec.oracle.&lt;topic&gt;</code>. What flows through the encoder is positional, parameters and "
    "whatever fills another slot are named."
)


def table_of_functions() -> str:
    """Every equation's function, by module, with its card."""
    parts = []
    for topic in TOPICS:
        own = [e for e in equations().values() if e.topic == topic]
        items = "".join(f"<li><code>{e.function.__name__}</code> {equation_link(e.id)}</li>" for e in own)
        module = link(f"{topic}.html", f"<code>encoder_spec.{topic}</code>")
        parts.append(f'<p class="caption">{module} {TITLES[topic]}</p><ul class="contents">{items}</ul>')
    return "".join(parts)


def defined_at(found: Any) -> str:
    """The name of something where it is defined."""
    return f"{found.__module__}.{found.__qualname__}"


def described(name: str) -> Any:
    """What has a name.

    Raises:
        GapError: if nothing has it, or if nobody described it.
    """
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute, None)
    if found is None:
        raise GapError(f"reference: there is no {name}")
    own = getattr(found, "__doc__", "") or ""
    if not own.strip() or own.startswith(f"{attribute}("):  # what a dataclass says of itself
        raise GapError(f"reference: {name} has no docstring")
    return found


def linked(html: str, known: dict[str, str]) -> str:
    """The page with every name in its docstrings that has a place elsewhere led there."""

    def lead(match: re.Match[str]) -> str:
        name = unescape(match[1])
        return link(known[name], match[0]) if name in known else match[0]

    outside = re.split(r"(<a\b.*?</a>|<pre\b.*?</pre>)", html, flags=re.DOTALL)
    return "".join(part if place % 2 else NAMED.sub(lead, part) for place, part in enumerate(outside))
