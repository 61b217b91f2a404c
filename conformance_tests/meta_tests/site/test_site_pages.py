"""Every page in a browser: nothing from elsewhere, no complaint, no sideways scrolling, accessible in both themes."""

import functools
import http.server
import threading
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.site import Page, Site, need_site

need_site()

NARROW, WIDE = {"width": 390, "height": 900}, {"width": 1280, "height": 900}

STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[str]:
    """The address of a web server that shows the site."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def pages(site: Site) -> list[str]:
    """Every page that a reader can meet, by its path; of the encoders' own, one for each verdict.

    Those come from one template, and differ in the numbers.
    """
    assert "index.html" in site.pages
    encoders = {verdict(site.pages[path]): path for path in site.pages if path.startswith("encoder-")}
    assert encoders.keys() >= {"conformant", "nonconformant", "undetermined"}
    return [path for path in site.pages if path != "404.html" and not path.startswith("encoder-")] + [
        *encoders.values()
    ]


def verdict(page: Page) -> str:
    """The first verdict that a page shows."""
    return page.html.partition('class="verdict ')[2].partition('"')[0]


def foreign(visit: Visit, home: str) -> list[str]:
    return [address for address in visit.requests if not address.startswith((home, "data:"))]


def test_every_page_works_from_a_file(site: Site, visit: Visit) -> None:
    """What the theme needs, what the page shows and nothing else is loaded, and the console stays empty."""
    for path in pages(site):
        visit.open(site.folder / path)
        assert foreign(visit, site.folder.as_uri()) == [], path
        assert visit.complaints == [], path


def test_every_page_works_from_a_server(site: Site, visit: Visit, server: str) -> None:
    for path in pages(site):
        visit.open(f"{server}/{path}")
        assert foreign(visit, server) == [], path
        assert visit.complaints == [], path


def test_the_policy_refuses_scripts_and_other_hosts(site: Site, visit: Visit, server: str) -> None:
    """A script that is put into the page does not run, and the address of another host is not asked."""
    for home in (site.folder.as_uri(), server):
        page = visit.open(f"{home}/index.html").page
        page.evaluate("s = document.createElement('script'); s.textContent = 'intruded = 1'; document.body.append(s)")
        assert page.evaluate("typeof intruded") == "undefined", home
        page.evaluate(
            "i = document.createElement('img'); i.src = 'https://example.invalid/a.png'; document.body.append(i)"
        )
        page.wait_for_timeout(100)
        assert visit.refused == ["csp"], home
        assert sum("Content Security Policy" in complaint for complaint in visit.complaints) == 2, home


def test_search_finds_an_equation_from_a_file_and_from_a_server(site: Site, visit: Visit, server: str) -> None:
    """A reader looks for a word, and the results lead to the page that explains it."""
    visit.page.set_viewport_size(WIDE)
    for home in (site.folder.as_uri(), server):
        page = visit.open(f"{home}/pictures/scale.html").page
        page.locator(".md-search__input").click()
        page.keyboard.type("softmax")
        links = page.locator(".md-search-result__link")
        links.first.wait_for()
        found = [str(link.get_attribute("href")) for link in links.all()]
        assert any("attention.html" in address for address in found), f"{home}: {found}"
        assert visit.complaints == [], home


def test_no_page_is_wider_than_the_screen(site: Site, visit: Visit) -> None:
    visit.page.set_viewport_size(NARROW)
    for path in pages(site):
        visit.page.goto((site.folder / path).as_uri())
        width = visit.page.evaluate("document.fonts.ready.then(() => document.documentElement.scrollWidth)")
        assert width <= NARROW["width"], path


@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", STANDARD), ("dark", ["color-contrast"])], ids=["light", "dark"]
)
def test_axe_finds_no_violation(site: Site, visit: Visit, scheme: str, rules: list[str]) -> None:
    """axe-core's rules of WCAG 2.0 to 2.2, levels A and AA; on dark pages nothing differs but the colours."""
    page = visit.page
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme=scheme)
    found = []
    for path in pages(site):
        page.goto((site.folder / path).as_uri())
        chosen = page.evaluate("document.body.dataset.mdColorScheme")
        assert chosen == {"light": "default", "dark": "slate"}[scheme], path
        results = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"], "preload": False})
        if results.violations_count:
            found.append(f"{path}: {results.generate_report()}")
    assert found == []
