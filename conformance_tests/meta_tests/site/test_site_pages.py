"""Every page in a browser: nothing from elsewhere, no complaint, no sideways scrolling, accessible in both themes."""

import functools
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from importlib.resources import files

import pytest

from conformance_tests.meta_tests.site.browser import PROGRAM, Browser, browser
from conformance_tests.meta_tests.site.site import Page, Site, need_site

need_site()
if PROGRAM is None:
    pytest.skip("the pages are opened in Chromium, which is not installed here", allow_module_level=True)

NARROW, WIDE = 390, 1280

STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


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


def foreign(chromium: Browser, home: str) -> list[str]:
    return [address for address in chromium.requests() if not address.startswith((home, "data:"))]


def test_every_page_works_from_a_file(site: Site, chromium: Browser) -> None:
    """What the theme needs, what the page shows and nothing else is loaded, and the console stays empty."""
    for path in pages(site):
        chromium.open((site.folder / path).as_uri())
        assert foreign(chromium, site.folder.as_uri()) == [], path
        assert chromium.complaints() == [], path


def test_every_page_works_from_a_server(site: Site, chromium: Browser, server: str) -> None:
    for path in pages(site):
        chromium.open(f"{server}/{path}")
        assert foreign(chromium, server) == [], path
        assert chromium.complaints() == [], path


def test_the_policy_refuses_scripts_and_other_hosts(site: Site, chromium: Browser, server: str) -> None:
    """A script that is put into the page does not run, and the address of another host is not asked."""
    for home in (site.folder.as_uri(), server):
        chromium.open(f"{home}/index.html")
        chromium.evaluate(
            "s = document.createElement('script'); s.textContent = 'intruded = 1'; document.body.append(s)"
        )
        assert chromium.evaluate("typeof intruded") == "undefined", home
        chromium.evaluate(
            "i = document.createElement('img'); i.src = 'https://example.invalid/a.png'; document.body.append(i)"
        )
        chromium.evaluate("new Promise(done => setTimeout(done, 100))")
        refused = [event.get("blockedReason") for event in chromium.told("Network.loadingFailed")]
        assert refused == ["csp"], home
        assert sum("Content Security Policy" in complaint for complaint in chromium.complaints()) == 2, home


SEARCH = """
new Promise(done => {
  document.querySelector('#__search').click()
  const words = document.querySelector('.md-search__input')
  words.focus()
  words.value = 'softmax'
  words.dispatchEvent(new Event('keyup', { bubbles: true }))
  const look = setInterval(() => {
    const found = [...document.querySelectorAll('.md-search-result__link')].map(link => link.getAttribute('href'))
    if (found.length) { clearInterval(look); done(found) }
  }, 50)
  setTimeout(() => done([]), 60000)
})
"""
"""What a reader does who looks for a word, and where the results lead."""


def test_search_finds_an_equation_from_a_file_and_from_a_server(site: Site, chromium: Browser, server: str) -> None:
    chromium.dress(WIDE)
    for home in (site.folder.as_uri(), server):
        chromium.open(f"{home}/pictures/scale.html")
        found = chromium.evaluate(SEARCH)
        assert any("attention.html" in address for address in found), f"{home}: {found}"
        assert chromium.complaints() == [], home


def test_no_page_is_wider_than_the_screen(site: Site, chromium: Browser) -> None:
    chromium.dress(NARROW)
    for path in pages(site):
        chromium.open((site.folder / path).as_uri())
        assert chromium.evaluate("document.documentElement.scrollWidth") <= NARROW, path


@pytest.mark.skipif(
    importlib.util.find_spec("axe_playwright_python") is None,
    reason="axe is not installed: pip install --no-deps axe-playwright-python",
)
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", STANDARD), ("dark", ["color-contrast"])], ids=["light", "dark"]
)
def test_axe_finds_no_violation(site: Site, chromium: Browser, scheme: str, rules: list[str]) -> None:
    """axe-core's rules of WCAG 2.0 to 2.2, levels A and AA; on dark pages nothing differs but the colours."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    chromium.dress(WIDE, scheme=scheme)
    found = []
    for path in pages(site):
        chromium.open((site.folder / path).as_uri())
        chromium.evaluate(axe + "; 0")
        chosen = chromium.evaluate("document.body.dataset.mdColorScheme")
        assert chosen == {"light": "default", "dark": "slate"}[scheme], path
        found += [f"{path}: {violation}" for violation in violations(chromium, rules)]
    assert found == []


def violations(chromium: Browser, rules: list[str]) -> list[str]:
    """Those of the rules that the open page breaks, each with the first places."""
    places = "v.nodes.slice(0, 3).map(n => `${n.target} ${n.failureSummary}`).join(' | ')"
    listed: list[str] = chromium.evaluate(
        f"axe.run(document, {{ runOnly: {rules}, resultTypes: ['violations'], preload: false }})"
        f".then(found => found.violations.map(v => `${{v.id}} (${{v.nodes.length}}): ${{{places}}}`))"
    )
    return listed
