"""The site: it builds strictly, everything citable has an address, and nothing comes from elsewhere."""

import gzip
import re
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

import pytest

from conformance_tests.meta_tests.site.site import Site, need_site
from encoder_spec.equation import TOPICS, Equation, equations, requirements
from encoder_spec.profiles import PROFILES

need_site()


def test_every_topic_has_its_page(site: Site) -> None:
    assert {f"{topic}.html" for topic in TOPICS} <= set(site.pages)


def test_every_equation_has_an_address_and_its_formula(site: Site) -> None:
    for id, equation in equations().items():
        page = site.pages[f"{equation.topic}.html"]
        assert page.anchors.count(id) == 1, f"{id} is no address on its page"
        card = re.split("<h[23]", page.html.partition(f'id="{id}"')[2])[0]
        assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in card, f"{id} shows no formula"
        assert f">{equation.function.__name__}</span>" in card, f"{id} shows no code"


def test_every_requirement_has_an_address_and_its_evidence(site: Site) -> None:
    for id, requirement in requirements().items():
        page = site.pages[f"{equations()[requirement.equation].topic}.html"]
        assert page.anchors.count(id) == 1, f"{id} is no address on its page"
        assert "<details" in page.html.partition(f'id="{id}"')[2].partition("</li>")[0], f"{id} shows no test"


def test_every_profile_has_an_address(site: Site) -> None:
    assert set(PROFILES) <= set(site.pages["profiles.html"].anchors)


def test_no_address_of_a_page_is_given_twice(site: Site) -> None:
    for name, page in site.pages.items():
        assert len(set(page.anchors)) == len(page.anchors), f"{name} repeats an id"


def test_every_link_within_the_site_arrives(site: Site) -> None:
    for name, page in site.pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or name == "404.html":
                continue
            arrived = normpath(join(dirname(name), target.path)) if target.path else name
            if arrived == ".":
                arrived = "index.html"
            assert (site.folder / arrived).is_file(), f"{name} links to {link}, which does not exist"
            if target.fragment and target.fragment != "__top":
                anchors = site.pages[arrived].anchors
                assert unquote(target.fragment) in anchors, f"{name} links to {link}, where nothing stands"


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    for name, page in site.pages.items():
        assert page.loaded, f"{name} loads nothing, not even a style"
        elsewhere = [address for address in page.loaded if re.match(r"(?:https?:)?//", address)]
        assert not elsewhere, f"{name} loads {elsewhere}"
    for sheet in site.folder.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import\s)\s*[\"']?((?:https?:)?//[^\"')]*)", sheet.read_text(encoding="utf-8"))
        assert not loaded, f"{sheet.name} loads {loaded}"


def test_a_chapter_is_prose_around_its_cards(site: Site) -> None:
    """Headings of its own beside those of the cards, and the script that lights up letters."""
    for topic in TOPICS:
        html = site.pages[f"{topic}.html"].html
        assert len(re.findall("<h2", html)) >= 3, f"{topic} tells nothing"
        assert html.count('<div class="equation">') == sum(e.topic == topic for e in equations().values())
        assert '<script src="javascripts/symbols.js">' in html


def test_every_page_with_all_that_it_loads_stays_below_300_kilobytes(site: Site) -> None:
    """Compressed, as servers send it; the index of the search is loaded when somebody searches, or after the page."""

    @cache
    def compressed(path: Path) -> int:
        return len(gzip.compress(path.read_bytes()))

    fonts = sum(map(compressed, site.folder.glob("fonts/*")))
    for name, page in site.pages.items():
        if name == "404.html":
            continue
        # An image that stands in the page itself is weighed with it.
        loaded = (urlsplit(address) for address in page.loaded if address)
        addresses = {normpath(join(dirname(name), a.path)) for a in loaded if a.scheme != "data"}
        files = [site.folder / address for address in addresses if (site.folder / address).is_file()]
        assert len(files) >= 4, f"{name} loads {addresses}"
        weight = compressed(site.folder / name) + sum(map(compressed, files)) + fonts
        assert weight < 300_000, f"{name} and what it loads have {weight:,} bytes"


def test_executed_pages_show_their_results_and_no_scripts_of_their_own(site: Site) -> None:
    html = site.pages["worked_example.html"].html
    article = html.partition("<article")[2].partition("</article>")[0]
    assert article.count('class="matrix"') >= 15
    assert "<script" not in article
    assert "<style" not in article
    assert "Traceback" not in article


def test_the_font_of_the_formulas_is_part_of_the_site(site: Site) -> None:
    fonts = list(site.folder.glob("fonts/*.woff"))
    assert len(fonts) == 1
    assert fonts[0].read_bytes().startswith(b"wOFF")
    assert f"../fonts/{fonts[0].name}" in (site.folder / "stylesheets" / "site.css").read_text(encoding="utf-8")


def test_a_card_has_the_address_of_its_source_and_no_row_that_says_nothing(site: Site) -> None:
    for topic in TOPICS:
        html = site.pages[f"{topic}.html"].html
        assert "Undefined:</b> nothing.</p>" not in html, topic
        assert "no published profile" not in html, topic
    card = site.pages["attention.html"].html.partition('id="attention.scores"')[2].partition("<h3")[0]
    assert re.search(r'Read it at</th><td><a href="https://[^"]+">', card)


def test_generators_and_hooks_are_no_part_of_the_site(site: Site) -> None:
    assert not list(site.folder.rglob("*.py"))


@pytest.mark.usefixtures("generators_on_path")
@pytest.mark.parametrize("latex", [r"\frac{a}", r"\nosuchletter x", "a & b", "x_", r"\left( x"])
def test_a_wrong_formula_is_refused(latex: str) -> None:
    from generators.mathml import render
    from generators.problems import FormulaError

    with pytest.raises(FormulaError, match="in the formula"):
        render(latex)


@pytest.mark.usefixtures("generators_on_path")
def test_formulas_are_mathml_core() -> None:
    r"""By Unicode, ℝ is U+211D, 𝒰 is U+1D4B0, 𝐱 is U+1D431; a word is one identifier, a single letter stays upright."""
    from generators.mathml import render

    math = render(r"\mathbb{R} \; \mathcal{U} \; \mathbf{x} \; \mathrm{LN} \; \mathrm{d}")
    assert "<mi>\u211d</mi>" in math
    assert "<mi>\U0001d4b0</mi>" in math
    assert "\U0001d431" in math
    assert "<mi>LN</mi>" in math
    assert '<mi mathvariant="normal">d</mi>' in math
    spaced, closed = render(r"\exp S"), render(r"\exp(S)")
    assert '<mo rspace="0.1667em">\u2061</mo>' in spaced, "exp S reads as expS"
    assert "<mo>\u2061</mo>" in closed
    aligned = render(r"\begin{aligned} x &= 1 \\ y &= 2 \end{aligned}", display=True)
    assert "columnalign" not in aligned
    assert re.findall(r"text-align: (\w+)", aligned) == ["right", "left"] * 2


@pytest.mark.usefixtures("generators_on_path")
def test_code_is_shown_without_decorators_and_docstring() -> None:
    from generators.listing import implementation

    from encoder_spec.position import sinusoidal

    shown = implementation(sinusoidal)
    assert shown.startswith("def _angles(X: Tensor) -> Tensor:\n"), "the helper is missing"
    assert '\n\n\ndef sinusoidal(X: Float[Tensor, "B n d_model"])' in shown
    assert shown.endswith("return PE[:, : X.shape[-1]].to(X.dtype)")
    assert "@" not in shown
    assert '"""' not in shown


@pytest.mark.usefixtures("generators_on_path")
def test_an_equation_without_oracle_is_refused() -> None:
    from generators.card import sources

    def nobody_evaluates_this(X: object) -> object:
        return X

    lonely = Equation("attention.lonely", "scores", "lonely", nobody_evaluates_this)
    with pytest.raises(LookupError, match="has no oracle"):
        sources(lonely, set())


@pytest.mark.usefixtures("generators_on_path")
def test_a_requirement_without_test_is_refused() -> None:
    from generators.evidence import tests
    from generators.problems import GapError

    with pytest.raises(GapError, match="ATT-0 has no test"):
        tests("ATT-0")
