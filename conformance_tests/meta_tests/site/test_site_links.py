"""A link that leads nowhere and an image without words stop the build, whatever made the page."""

import os
from html import unescape
from pathlib import Path

import pytest

from conformance_tests.meta_tests.site.site import Site, need_site

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")

SOUND = '<h2 id="a b">A</h2><a class="x" href="other.html#there">to</a><a href="#a%20b">up</a><img src="p.png" alt="p">'


def write(folder: Path, page: str) -> None:
    """A site of two pages, one of them in a folder of its own."""
    (folder / "deep").mkdir(parents=True)
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "other.html").write_text('<p id="there"><a href="deep/page.html">down</a></p>', encoding="utf-8")
    (folder / "deep" / "page.html").write_text('<a href="..">home</a><a href="../other.html#there">', encoding="utf-8")


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        ("", None),
        ('<a href="https://example.org/nowhere#x">', None),
        ('<a href="missing.html">', "index.html links to missing.html, where nothing stands"),
        ('<a href="other.html#here">', "index.html links to other.html#here, where nothing stands"),
        ('<a href="#elsewhere">', "index.html links to #elsewhere, where nothing stands"),
        ('<img src="p.png">', 'index.html shows an image without alternative text: <img src="p.png">'),
        ('<img alt=" " src="p.png">', 'index.html shows an image without alternative text: <img alt=" " src="p.png">'),
    ],
)
def test_what_leads_nowhere_or_says_nothing_is_a_fault(added: str, fault: str | None, tmp_path: Path) -> None:
    from generators.links import faults

    write(tmp_path / "site", SOUND + added)
    assert list(faults(tmp_path / "site")) == ([fault] if fault else [])


def test_the_build_stops_at_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MkDocs prints what the hook raises, and exits with 1."""
    for changed in ("PYTHONPATH", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):  # the hooks are made for a process
        monkeypatch.setenv(changed, os.environ.get(changed, ""))
    import hooks
    from generators import mathfont, search
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.exceptions import PluginError

    monkeypatch.setattr(mathfont, "write", lambda _: None)
    monkeypatch.setattr(search, "write", lambda *_: None)
    write(tmp_path / "site", SOUND + '<a href="missing.html">' + '<img src="p.png">' * 9)
    config = MkDocsConfig()
    config.site_dir = str(tmp_path / "site")
    with pytest.raises(PluginError, match=r"links to missing.html(?s:.*)and 2 more$"):
        hooks.on_post_build(config)


def test_no_link_of_the_site_is_overlooked(site: Site) -> None:
    """A parser of HTML finds the same ones."""
    from generators.links import ANCHOR, LINK

    for name, page in site.pages.items():
        assert {unescape(link) for link in LINK.findall(page.html)} == set(page.links), name
        assert set(page.anchors) <= set(map(unescape, ANCHOR.findall(page.html))), name
