"""What is left of an executed notebook page: its text, code and results.

mkdocs-jupyter puts Jupyter's own style sheets and loaders of scripts from other hosts into
each page. The site has its own style, formulas are MathML already, and nothing is loaded
from elsewhere.
"""

import re

from bs4 import BeautifulSoup, Tag

PAGE = re.compile(r"^((?!\w+:)[^#?]*)\.(?:md|py)(?=$|[#?])")
"""The source of another page of the site, which an executed page links to."""


def clean(html: str) -> str:
    """The content of an executed page, marked up like every other page."""
    soup = BeautifulSoup(html, "html.parser")
    for foreign in soup.select("script, style, link, .zeroclipboard-container, .clipboard-copy-txt"):
        foreign.decompose()
    for cell in soup.select("[id^='cell-id=']"):
        del cell["id"]  # drawn at random for each build
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
        fold(soup, block)
    for a in soup.select("a[href]"):
        a["href"] = PAGE.sub(r"\1.html", str(a["href"]))
    return str(soup)


def fold(soup: BeautifulSoup, code: Tag) -> None:
    """Close the code of a cell, so that readers see first what it says and shows."""
    details, summary = soup.new_tag("details", attrs={"class": "fold"}), soup.new_tag("summary")
    summary.string = "How it is computed"
    code.wrap(details)
    details.insert(0, summary)
