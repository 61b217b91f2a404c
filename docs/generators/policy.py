"""The content security policy of a page: everything comes from the site itself, and no other script runs.

The theme has a few scripts inside of its pages. Each is allowed by its hash, so that a script
that comes in by any other way is refused, by its author's browser already.
"""

import base64
import hashlib
import re

SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<source>.*?)</script>", re.DOTALL)
DATA = re.compile(r"""type=["']?application/json""")
HEAD = re.compile(r"<head[^>]*>")


def protect(html: str) -> str:
    """The page with its policy, which stands before everything that it governs."""
    tag = f'<meta http-equiv="Content-Security-Policy" content="{policy(html)}">'
    return HEAD.sub(lambda head: head[0] + tag, html, count=1)


def policy(html: str) -> str:
    """The policy of a page.

    Styles may stand inside of a page: formulas and matrices set widths and shares by attribute.
    """
    allowed = " ".join(dict.fromkeys(f"'sha256-{digest(source)}'" for source in inline(html)))
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' {allowed}".strip(),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def inline(html: str) -> list[str]:
    """The scripts inside of a page; data in a script's clothes never runs."""
    found = SCRIPT.finditer(html)
    return [s["source"] for s in found if "src=" not in s["attributes"] and not DATA.search(s["attributes"])]


def digest(source: str) -> str:
    """The hash by which a policy knows a script."""
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
