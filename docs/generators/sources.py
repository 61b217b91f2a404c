"""The list of sources, with the equations that cite each."""

from encoder_spec.equation import equations
from encoder_spec.sources import SOURCES, Source, cited
from generators.html import equation_link, heading, link, slug

LEAD = (
    "Every equation names where it was published. S0 to S4 are five introductions to the encoder, written in "
    'Chinese; where they err, <a href="errata.html">the errata</a> say so.'
)


def page() -> str:
    """The Markdown of the page."""
    items = "\n".join(map(item, SOURCES.values()))
    return "\n".join(
        [
            heading(1, "Sources", "sources"),
            "",
            f'<p class="lead">{LEAD}</p>',
            "",
            f'<dl class="sources">\n{items}\n</dl>',
            "",
        ]
    )


def item(source: Source) -> str:
    """One source."""
    title = link(source.url, source.title) if source.url else source.title
    gloss = f" ({source.gloss})" if source.gloss else ""
    year = f", {source.year}" if source.year else ""
    users = ", ".join(equation_link(e.id) for e in equations().values() if source in cited(e.source))
    used = f"<br>{users}" if users else ""
    text = f"{source.authors}{year}: <cite>{title}</cite>{gloss}{used}"
    return f'<dt id="{slug(source.key)}">{source.key}</dt><dd>{text}</dd>'
