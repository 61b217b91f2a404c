"""What writes the generated pages: plain Python that emits Markdown and HTML fragments.

``pages()`` gives every generated page; ``docs/hooks.py`` hands them to MkDocs and knows
nothing else. Nothing here repeats the specification: formulas, code, tests and tables are
taken from the registries.
"""

from generators import cost, deviations, errata, overview, profiles, sources, topics

__all__ = ["pages"]


def pages() -> dict[str, str]:
    """The Markdown of every generated page, by its path below ``docs``."""
    return {
        **topics.pages(),
        "profiles.md": profiles.page(),
        "cost.md": cost.page(),
        "what-goes-wrong.md": deviations.page(),
        "errata.md": errata.page(),
        "equations-and-requirements.md": overview.page(),
        "sources.md": sources.page(),
    }
