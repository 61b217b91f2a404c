"""The built site: made once for all test files that look at it, whichever process they run in."""

import fcntl
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
NEEDED = ("mkdocs", "material", "mkdocs_jupyter", "pykatex", "fontTools", "ziamath", "bs4", "mkdocstrings")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


def need_site() -> None:
    """Skip the file that calls this where the site cannot be built."""
    if MISSING:
        pytest.skip(f"the site needs {', '.join(MISSING)}: pip install 'encoder-spec[docs]'", allow_module_level=True)


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


def built(folder: Path) -> Site:
    """The site in ``folder``, built strictly as ``make docs`` does unless another process has built it there."""
    with folder.with_suffix(".outcome").open("a+") as outcome:
        fcntl.flock(outcome, fcntl.LOCK_EX)
        if outcome.seek(0, os.SEEK_END) == 0:
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
            outcome.write(f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        outcome.seek(0)
        status, _, said = outcome.read().partition("\n")
    assert status == "0", said
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.html"))}
    return Site(folder, {name: Page(path.read_text(encoding="utf-8")) for name, path in found.items()})


@pytest.fixture(scope="module")
def generators_on_path() -> Iterator[None]:
    """The site's generators can be imported, as they can while it is built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The built site; the workers of a parallel run share the folder above their own."""
    base = tmp_path_factory.getbasetemp()
    return built((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site")
