"""The examples of the page for contributors: files of ``docs/examples``, shown with the path that they belong to."""

from html import escape
from pathlib import Path

from generators.html import code

EXAMPLES = Path(__file__).parents[1] / "examples"


def snippet(kind: str, path: str) -> str:
    """What one example adds to the file at ``path``."""
    text = (EXAMPLES / kind / path).read_text(encoding="utf-8").rstrip()
    return f'<figure class="source"><figcaption><code>{escape(path)}</code></figcaption>{code(text)}</figure>'
