"""The calculator of the site: what its script computes is what Python computes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.site import ROOT, need_site
from encoder_spec.cost import activations, crossovers, flops, number, parameters, symbol
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import PROFILES, profile
from encoder_spec.steps import steps

need_site()

# Primes, so that no two letters can stand for each other; d_k and d_v are not d_model/h.
ODD = Dimensions(
    d_model=41, h=3, d_ff=67, N=5, d_k=7, d_v=11, d_e=13, V=997, max_len=53, segments=2, channels=3, patch=17
)
LARGE = Dimensions(d_model=12288, h=96, d_ff=49152, N=96, V=50257, max_len=2048)
CASES = [(ODD, 19, 23), (LARGE, 2048, 1)]


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory, generators_on_path: None, browser: Browser) -> Iterator[Visit]:
    """The page of sizes, as its generator writes it, with its scripts."""
    from generators import calculator, functions

    folder = tmp_path_factory.mktemp("tracker")
    (folder / "javascripts").mkdir()
    (folder / "javascripts" / "encoders.js").write_text(functions.script(), encoding="utf-8")
    own = (ROOT / "docs" / "javascripts" / "calculator.js").read_text(encoding="utf-8")
    (folder / "javascripts" / "calculator.js").write_text(own, encoding="utf-8")
    page = f"<!doctype html><meta charset='utf-8'><title>Sizes</title>{calculator.page()}"
    (folder / "sizes.html").write_text(page, encoding="utf-8")
    with browser.new_page() as opened:
        yield Visit(opened).open(folder / "sizes.html")


@pytest.fixture
def tracker(visit: Visit) -> Page:
    return visit.page


def evaluated(page: Page, name: str, sizes: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"evaluate({json.dumps(name)}, {json.dumps(sizes)})")
    return found


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("dimensions", "n", "B"), CASES, ids=["odd", "large"])
def test_the_script_computes_the_totals_that_python_computes(
    tracker: Page, name: str, dimensions: Dimensions, n: int, B: int
) -> None:
    """Integers are exact up to 2⁵³; beyond, and for a quotient, they agree as float64 do."""
    chosen = profile(name)
    expected = {
        "parameters": parameters(chosen)["whole"],
        "flops": flops(chosen)["whole"],
        "activations": activations(chosen)["all layers"],
        "crossover": crossovers(chosen)["n² part of attention < FFN"],
    }
    found = evaluated(tracker, name, {"B": B, "n": n} | dimensions.sizes())["totals"]
    assert found.keys() == expected.keys()
    for total, expression in expected.items():
        value = number(expression, dimensions, n, B)
        exact = isinstance(value, int) and value < 2**53
        assert found[total] == (value if exact else pytest.approx(value, rel=1e-15)), total


@pytest.mark.parametrize("name", PROFILES)
def test_the_script_computes_the_steps_that_python_computes(tracker: Page, name: str) -> None:
    """The row of the encoder itself, the first one, is that of all layers: the totals."""
    _, *shown = (step for step in steps(profile(name)) if step.equation.variant != "none" or step.depth == 0)
    expected = [
        {
            "shapes": [[number(axis, ODD, 19, 23) for axis in shape] for shape in step.shapes],
            "parameters": number(step.parameters, ODD, 19, 23),
            "flops": number(step.flops, ODD, 19, 23),
        }
        for step in shown
    ]
    assert evaluated(tracker, name, {"B": 23, "n": 19} | ODD.sizes())["steps"][1:] == expected


def change(page: Page, field: str, value: object) -> None:
    page.evaluate(
        f"field = document.forms.calculator.elements[{json.dumps(field)}]; field.value = {json.dumps(str(value))};"
        "field.dispatchEvent(new Event('input', { bubbles: true }))"
    )


def said(page: Page, total: str) -> str:
    return str(page.evaluate(f"document.querySelector('form [data-total={total}]').textContent"))


def test_the_form_follows_what_is_chosen(tracker: Page) -> None:
    """BERT-base has 108,891,648 parameters beside its pooler; a layer more has 7,087,872 more.

    768·768·4 + 768·4 = 2,362,368; 2·768·3072 + 3072 + 768 = 4,722,432; four norms' vectors 3,072; in all 7,087,872.
    """
    change(tracker, "preset", "bert")
    assert said(tracker, "parameters") == "108,891,648"
    assert said(tracker, "weights") == "415.4 MiB"
    change(tracker, "N", 13)
    assert said(tracker, "parameters") == "115,979,520"
    assert tracker.evaluate("document.forms.calculator.elements.preset.value") == ""


def test_sizes_that_describe_no_encoder_are_refused(tracker: Page) -> None:
    change(tracker, "preset", "base")
    shown = said(tracker, "parameters")
    change(tracker, "h", 7)
    assert "7 heads do not divide d_model = 512" in tracker.evaluate("document.getElementById('refusal').textContent")
    assert said(tracker, "parameters") == shown
    change(tracker, "h", 16)
    assert tracker.evaluate("document.getElementById('refusal').hidden")
    assert tracker.evaluate("document.forms.calculator.elements.d_k.value") == "32"


def test_the_page_shows_the_published_encoders_without_scripts(visit: Visit) -> None:
    """All four presets stand on the page as tables, with the parameters that their papers and releases give."""
    presets = visit.page.evaluate("document.getElementById('presets').textContent")
    for parameters_of_all in ("108,891,648", "85,798,656"):
        assert parameters_of_all in presets
    assert visit.complaints == []


@pytest.mark.usefixtures("generators_on_path")
def test_axes_are_written_as_in_the_papers() -> None:
    """A sum stands in parentheses among factors; all heads side by side are h·d_k, in this order."""
    from generators.calculator import typeset

    assert typeset(symbol("n") - 1) == "(n - 1)"
    assert typeset(symbol("hd_k")) == "h d_k"
    assert typeset(symbol("d_model")) == r"d_\text{model}"
