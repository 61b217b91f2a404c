"""The first screen: a real report of an encoder with one mistake, and an install line that works."""

import re
from datetime import date

import pytest
from bs4 import BeautifulSoup

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.site import ROOT, Site, need_site
from encoder_spec import __version__

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_first_screen_shows_what_a_report_says(width: int, height: int, site: Site, visit: Visit) -> None:
    """On a narrow screen its code and its verdict at least, on a wide one the whole of it and how to install."""
    visit.page.set_viewport_size({"width": width, "height": height})
    page = visit.open(site.folder / "index.html").page
    shown = [".state a[href='changelog.html']", ".first .hll", ".first .verdict"]
    shown += [".first pre.report a[href='attention.html#ATT-3']", ".first + .highlight code"] if width > 1000 else []
    for what in shown:
        box = page.locator(what).first.bounding_box()
        assert box is not None, what
        assert 0 < box["y"] < box["y"] + box["height"] < height, what


def test_the_report_is_of_the_example_and_marks_its_line(site: Site) -> None:
    """The scores are divided by √d_model = √30, where the width of one head, 6, belongs under the root."""
    html = site.pages["index.html"].html
    (marked,) = BeautifulSoup(html, "html.parser").select(".first .hll")
    assert marked.get_text().strip() == "scores = q @ k.mT / self.d_model**0.5"
    report = html.partition('<pre class="report"')[2].partition("</pre>")[0]
    assert 'class="verdict nonconformant"' in report
    assert "where 1/√6 = 0.408248 belongs (my_encoder.py:" in report
    assert '<a href="attention.html#attention.scores"' in report


def test_the_page_says_which_version_of_which_day_it_is(site: Site) -> None:
    said = site.pages["index.html"].html.partition('<p class="state">')[2].partition("</p>")[0]
    assert f"Version {__version__} · " in said
    assert date.fromisoformat(said.split(" · ")[1])


def test_the_install_line_names_the_repository_once_it_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from generators import front

    monkeypatch.setattr(front, "repository", lambda: "")
    assert "pip install ." in front.install()
    assert ">Repository</a>" not in front.state()
    monkeypatch.setattr(front, "repository", lambda: "https://example.org/encoder-spec")
    assert "pip install git+https://example.org/encoder-spec" in front.install()
    assert '<a href="https://example.org/encoder-spec">Repository</a>' in front.state()


def test_the_changelog_has_every_fragment(site: Site) -> None:
    page = re.sub("<[^>]+>", "", site.pages["changelog.html"].html)
    fragments = [path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"]
    assert fragments
    assert page.index("Next version") < page.index(f"{__version__} (")
    assert site.pages["changelog.html"].html.count("<li>") > len(fragments)


def test_no_marker_is_left_on_a_page(site: Site) -> None:
    """The page for contributors shows markers, as code."""
    left = [name for name, page in site.pages.items() if re.search(r"(?<!>)\[\[[A-Z]+-\d+\]\]|\{\{\w+\}\}", page.html)]
    assert [name for name in left if name not in ("contribute.html", "reference.html")] == []
