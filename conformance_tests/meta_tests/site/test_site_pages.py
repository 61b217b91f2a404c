"""Every page in a browser: nothing from elsewhere, no complaint, no sideways scrolling, accessible in both themes."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.contrast import CONTRAST, chosen, contrast, reported, violations
from conformance_tests.meta_tests.site.serving import served
from conformance_tests.meta_tests.site.site import Page, Site, need_site

need_site()

NARROW, WIDE = {"width": 390, "height": 900}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[str]:
    """The address of a web server that shows the site."""
    with served(site) as address:
        yield address


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


class Seen(NamedTuple):
    """Observations of one page in a browser.

    Attributes:
        foreign: the addresses that it asks for elsewhere.
        complaints: what the console says.
        violations: the report of axe; empty if it finds none.
        width: how many pixels wide the page is on a narrow screen; 0 if that was not asked.
    """

    foreign: list[str]
    complaints: list[str]
    violations: str
    width: int = 0


@pytest.fixture(scope="module")
def in_the_light(site: Site, browser: Browser) -> dict[str, Seen]:
    """Every page from a file in the light theme, each opened once for all that is asked about it."""
    found = {}
    with browser.new_page() as page:
        visit, home = Visit(page), site.folder.as_uri()
        for path in pages(site):
            show(visit, f"{home}/{path}", "light")
            addresses, complaints, report = foreign(visit, home), [*visit.complaints], violations(page)
            page.set_viewport_size(NARROW)
            width = page.evaluate("document.fonts.ready.then(() => document.documentElement.scrollWidth)")
            found[path] = Seen(addresses, complaints, report, width)
    return found


@pytest.fixture(scope="module")
def in_the_dark(site: Site, browser: Browser, server: str) -> dict[str, Seen]:
    """Every page from a server in the dark theme, where nothing differs but the colours: axe judges contrast alone."""
    found = {}
    with browser.new_page() as page:
        visit = Visit(page)
        for path in pages(site):
            show(visit, f"{server}/{path}", "dark")
            found[path] = Seen(foreign(visit, server), [*visit.complaints], contrast(page))
    return found


def show(visit: Visit, address: str, theme: str) -> None:
    """Open a page on a wide screen in a theme, that of the reader's system."""
    visit.page.set_viewport_size(WIDE)
    visit.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    visit.open(address)
    scheme = visit.page.evaluate("document.body.dataset.mdColorScheme")
    assert scheme == {"light": "default", "dark": "slate"}[theme], address


@pytest.fixture(scope="module")
def seen(in_the_light: dict[str, Seen], in_the_dark: dict[str, Seen]) -> dict[str, Seen]:
    """Every page, from a file in the light theme and from a server in the dark one."""
    return in_the_light | {f"{path}, dark": page for path, page in in_the_dark.items()}


def test_every_page_works_from_a_file_and_from_a_server(seen: dict[str, Seen]) -> None:
    """What the theme needs, what the page shows and nothing else is loaded, and the console stays empty."""
    assert {path: page.foreign for path, page in seen.items() if page.foreign} == {}
    assert {path: page.complaints for path, page in seen.items() if page.complaints} == {}


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


def test_no_page_is_wider_than_the_screen(in_the_light: dict[str, Seen]) -> None:
    assert {path: page.width for path, page in in_the_light.items() if page.width > NARROW["width"]} == {}


def test_axe_finds_no_violation(seen: dict[str, Seen]) -> None:
    """axe-core's rules of WCAG 2.0 to 2.2, levels A and AA; in the dark those of contrast."""
    assert {path: page.violations for path, page in seen.items() if page.violations} == {}


FAULTS = {
    "a colour": "text.style.color = '#bbb'",
    "a colour in the middle of a text": "text.innerHTML = '<b style=\"color: #bbb\">' + text.innerHTML + '</b>'",
    "a background": "text.style.background = '#444'",
    "a background further out": "text.parentElement.style.background = '#444'",
    "transparency": "text.style.opacity = 0.3",
    "a box behind, elsewhere in the document": """
        const {x, y, width, height} = text.getBoundingClientRect(), box = document.createElement('div');
        const at = {left: `${x + scrollX}px`, top: `${y + scrollY}px`, width: `${width}px`, height: `${height}px`};
        Object.assign(box.style, {position: 'absolute', background: '#444', zIndex: 1, ...at});
        document.body.append(box);
        for (let e = text; e !== document.body; e = e.parentElement) e.style.zIndex = 2, e.style.position = 'relative';
    """,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_contrast_of_one_text_of_each_kind_is_that_of_all(fault: str, site: Site, visit: Visit) -> None:
    """A single paragraph is changed, far down in a page, and nothing else looks like it any more."""
    page = visit.open(site.folder / "test-your-encoder.html").page
    page.set_viewport_size(WIDE)
    assert contrast(page) == ""
    texts, kinds = chosen(page)
    assert 10 < kinds < texts / 4
    page.evaluate(f"() => {{ const text = [...document.querySelectorAll('.md-content p')].at(-2); {FAULTS[fault]} }}")
    assert CONTRAST in contrast(page)
    assert CONTRAST in reported(page, {"runOnly": [CONTRAST]})
