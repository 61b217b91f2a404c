"""The built site: made once for all test files that look at it, whichever process they run in."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
NEEDED = (
    "mkdocs",
    "material",
    "filelock",
    "grimp",
    "mkdocs_jupyter",
    "pykatex",
    "fontTools",
    "ziamath",
    "bs4",
    "mkdocstrings",
)
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


def need_site() -> None:
    """Skip the file that calls this where the site cannot be built."""
    if MISSING:
        pytest.skip(f"the site needs {', '.join(MISSING)}: pip install -e '.[docs]'", allow_module_level=True)


class Page(HTMLParser):
    """The addresses of a page: where it can be entered, where it leads, what it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.html = html
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of one element."""
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.anchors.append(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag != "a":
            self.loaded += [values[name] for name in ("src", "href", "srcset", "data", "poster") if name in values]


class Site(NamedTuple):
    """A built site: its folder and its pages by their path in it."""

    folder: Path
    pages: dict[str, Page]


def built() -> Site:
    """The site as the present sources make it: the one that ``make docs`` built of them, or else built as it does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "docs"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "generators.built"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    folder = Path(done.stdout.strip())
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.html"))}
    return Site(folder, {name: Page(path.read_text(encoding="utf-8")) for name, path in found.items()})


@pytest.fixture(scope="module")
def generators_on_path() -> Iterator[None]:
    """The site's generators can be imported, as they can while it is built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield


@pytest.fixture(scope="session")
def site() -> Site:
    """The built site, which the workers of a parallel run share."""
    return built()
