"""Whether every link of the built site arrives, whoever wrote it, and every image says what it shows."""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

LINK = re.compile(r"""<a\s[^>]*?href="([^"]*)\"""")
ANCHOR = re.compile(r"""\sid="([^"]+)\"""")
IMAGE = re.compile(r"<img\b[^>]*>")
WORDS = re.compile(r"""\salt="\s*[^"\s]""")

EVERYWHERE = "404.html"
"""The page that stands in for any other, and so links from the root of a server."""

TOP = "__top"
"""Where a page of MkDocs begins, for its own script."""

MOST_SHOWN = 8
"""So many faults are named when the build stops."""


def faults(site: Path) -> Iterator[str]:
    """Links that lead nowhere and images without words, of all pages in a folder."""
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {name: set(ANCHOR.findall(html)) for name, html in pages.items()}
    for name, html in pages.items():
        if name != EVERYWHERE:
            broken = (link for link in set(LINK.findall(html)) if not arrives(unescape(link), name, site, anchors))
            yield from (f"{name} links to {link}, where nothing stands" for link in sorted(broken))
        silent = (image for image in IMAGE.findall(html) if not WORDS.search(image))
        yield from (f"{name} shows an image without alternative text: {image[:80]}" for image in silent)


def arrives(link: str, name: str, site: Path, anchors: Mapping[str, set[str]]) -> bool:
    """Whether a link of a page leads out of the site, or to something in it."""
    target = urlsplit(link)
    if target.scheme or target.netloc:
        return True
    arrived = normpath(join(dirname(name), unquote(target.path))) if target.path else name
    arrived = "index.html" if arrived == "." else arrived
    if arrived not in anchors and not (site / arrived).is_file():
        return False
    return target.fragment in ("", TOP) or unquote(target.fragment) in anchors.get(arrived, set())


def told(found: list[str]) -> str:
    """The faults, the first of them by name."""
    more = len(found) - MOST_SHOWN
    return "\n".join([*found[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])])
