"""Everything that is generated: ``pages()`` gives every page, ``scripts()`` the data of those that scripts enliven."""

from generators import (
    benchmarks,
    calculator,
    changes,
    deviations,
    diagrams,
    documents,
    encoders,
    errata,
    functions,
    kills,
    overview,
    precision,
    profiles,
    reference,
    search,
    sources,
    symptoms,
    topics,
)


def pages() -> dict[str, str]:
    """The Markdown of every generated page, by its path below ``docs``."""
    return {
        **topics.pages(),
        "diagrams.md": diagrams.page(),
        "profiles.md": profiles.page(),
        "sizes.md": calculator.page(),
        "which-bug.md": symptoms.page(),
        **deviations.pages(),
        "kill-matrix.md": kills.page(),
        **encoders.pages(),
        "precision.md": precision.page(),
        "benchmarks.md": benchmarks.page(),
        "errata.md": errata.page(),
        "equations-and-requirements.md": overview.page(),
        "sources.md": sources.page(),
        "reference.md": reference.page(),
        "changelog.md": changes.page(),
    }


def scripts() -> dict[str, str]:
    """What the scripts of the site work on, by path below ``docs``: no page fetches anything."""
    return {"javascripts/encoders.js": functions.script(), search.DOCUMENTS: documents.script()}
