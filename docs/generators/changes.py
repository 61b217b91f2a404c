"""The changelog as a page: what the next version brings, and what former ones brought."""

import re
from itertools import groupby
from pathlib import Path

from generators.html import heading

ROOT = Path(__file__).parents[2]
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}


def page() -> str:
    """The Markdown of the page."""
    _, _, released = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("release notes start -->\n")
    return "\n".join([heading(1, "Changelog", "changelog"), "", next_version(), "", released])


def next_version() -> str:
    """The fragments of ``changelog.d``, which become the entry of the next version."""
    files = [path for path in (ROOT / "changelog.d").glob("*.*.md") if kind_of(path) in KINDS]
    files.sort(key=lambda path: (list(KINDS).index(kind_of(path)), path.name))
    parts = [heading(2, "Next version", "next-version"), ""] if files else []
    for kind, group in groupby(files, key=kind_of):
        sentences = (" ".join(path.read_text(encoding="utf-8").split()) for path in group)
        parts += [heading(3, KINDS[kind], f"next-{kind}"), "", *(f"- {sentence}" for sentence in sentences), ""]
    return "\n".join(parts)


def kind_of(fragment: Path) -> str:
    """The kind of a fragment: ``added`` for ``+name.added.md``."""
    return re.sub(r"^.*\.(\w+)\.md$", r"\1", fragment.name)
