"""Highlighted code and long tables, put aside while a page becomes HTML.

Most elements of a page are the words of highlighted code, or the cells of a table of results. Markdown, the check
of the anchors and the index of the search would each read all of them, to change and to find nothing.
"""

import re

BLOCK = re.compile(
    r'<div class="highlight">.*?</div>|<table class="plain (?:filtered|results|choices)\b.*?</table>', re.DOTALL
)
PLACE = re.compile(r'<div data-block="(\d+)"></div>')


def put_aside(text: str) -> tuple[str, list[str]]:
    """The text with a place for each block of code and each table of results, and the blocks."""
    blocks: list[str] = []

    def take(block: re.Match[str]) -> str:
        blocks.append(block[0])
        return f'<div data-block="{len(blocks) - 1}"></div>'

    return BLOCK.sub(take, text), blocks


def put_back(html: str, blocks: list[str]) -> str:
    """The page with every block in its place.

    Raises:
        LookupError: if a block has none any more.
    """
    places = [int(place) for place in PLACE.findall(html)]
    if places != list(range(len(blocks))):
        raise LookupError(f"{len(blocks)} blocks were put aside, but the page has the places {places}")
    return PLACE.sub(lambda place: blocks[int(place[1])], html)
