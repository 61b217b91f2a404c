"""What is left of an executed notebook page: its text, code and results.

mkdocs-jupyter puts Jupyter's own style sheets and loaders of scripts from other hosts into
each page. The site has its own style, formulas are MathML already, and nothing is loaded
from elsewhere.
"""

import hashlib
import re
import sys
from importlib.metadata import version
from pathlib import Path

from bs4 import BeautifulSoup

import conformance_tests
import encoder_spec

SOURCES = (Path(encoder_spec.__file__).parent, Path(conformance_tests.__file__).parent, Path(__file__).parent)
"""What executed pages import, beside packages with a version."""

SOURCE_OF_PAGE = re.compile(r"\.(?:md|py)(?=#|$)")


def fingerprint() -> str:
    """What the results of executed pages depend on, beside their own text: sources and versions."""
    digest = hashlib.sha256(sys.version.encode())
    for package in ("numpy", "torch", "sympy", "matplotlib", "mkdocs-jupyter"):
        digest.update(f"{package} {version(package)}".encode())
    for folder in SOURCES:
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def clean(html: str) -> str:
    """The content of an executed page, marked up like every other page."""
    soup = BeautifulSoup(html, "html.parser")
    for foreign in soup.select("script, style, link, .zeroclipboard-container, .clipboard-copy-txt"):
        foreign.decompose()
    for cell in soup.select("[id^='cell-id=']"):
        del cell["id"]  # drawn at random for each build
    for link in soup.select("a[href]"):
        if "://" not in link["href"]:
            link["href"] = SOURCE_OF_PAGE.sub(".html", link["href"])  # MkDocs does so on other pages alone
    for permalink in soup.select(".anchor-link"):
        permalink["class"] = "headerlink"
        permalink["title"] = "Permanent link"
    for block in soup.select(".highlight-ipynb"):
        block["class"] = "highlight"
        for pre in block.find_all("pre"):
            pre.attrs = {}
            code = soup.new_tag("code")
            code.extend(list(pre.contents))
            pre.append(code)
    return str(soup)
