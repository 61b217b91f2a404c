"""The picture of rotary positions: its script turns as the equations do, and it can be read and moved by everybody."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from torch import Tensor

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.contrast import violations
from conformance_tests.meta_tests.site.site import ROOT, need_site
from encoder_spec.attention import projections_without_bias
from encoder_spec.rotation import angles, halves, pairs

need_site()

PANELS = (halves, pairs, pairs)
"""The equation of each panel: the last one has permuted columns."""

ORDER = [0, 4, 1, 5, 2, 6, 3, 7]
"""Neighbours in this order are 0 and 4, 1 and 5, …: what halves of eight features turn as one pair."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, generators_on_path: None) -> Path:
    """The picture alone on a page, as its generator draws it, with its style and its script."""
    from generators import rotary

    folder = tmp_path_factory.mktemp("rotary")
    for name in ("javascripts/rotary.js", "stylesheets/site.css"):
        (folder / name).parent.mkdir()
        (folder / name).write_text((ROOT / "docs" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "rotary.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Rotary positions</title>'
        '<link rel="stylesheet" href="stylesheets/site.css"></head><body class="md-typeset" '
        f'data-md-color-scheme="default"><main><h1>Rotary positions</h1>{rotary.picture()}</main></body></html>',
        encoding="utf-8",
    )
    return folder / "rotary.html"


@pytest.fixture(scope="module")
def page(file: Path, browser: Browser) -> Iterator[Page]:
    """The picture in a browser that runs scripts; the font of its formulas is part of the whole site alone."""
    with browser.new_page() as opened:
        visit = Visit(opened).open(file)
        yield opened
        assert [complaint for complaint in visit.complaints if not complaint.endswith("math.woff")] == []


@pytest.fixture
def still(file: Path, browser: Browser) -> Iterator[Page]:
    """The picture in a browser that runs no scripts."""
    with browser.new_context(java_script_enabled=False) as context:
        yield Visit(context.new_page()).open(file).page


def turned(rotation: Any, x: Tensor, m: int, theta: float) -> Tensor:
    """Return the vector ``x`` as the specification turns it at position ``m``."""
    everywhere = x.expand(1, 1, m + 1, len(x))
    return rotation(everywhere, angles=partial(angles, theta=theta, fraction=1.0))[0, 0, m]


def told(page: Page, panel: int) -> dict[str, Tensor]:
    """Return the vectors of a panel, as the script reads them."""
    found = page.evaluate(f"read(document.querySelectorAll('.rotary section')[{panel}])")
    return {name: torch.tensor(found[name], dtype=torch.float64) for name in ("query", "key")}


def products(page: Page) -> list[list[str]]:
    """Return the rows of the products, as they are shown."""
    rows = page.locator(".products tbody tr").all()
    return [[re.sub("−", "-", cell) for cell in row.locator("td").all_inner_texts()] for row in rows]


@pytest.mark.parametrize("panel", [0, 1, 2], ids=["halves", "pairs", "permuted"])
@pytest.mark.parametrize("theta", [100, 10_000, 160_000])
@pytest.mark.parametrize("m", [0, 1, 7, 63, 4099])
def test_the_script_turns_a_vector_as_the_equation_does(page: Page, panel: int, m: int, theta: int) -> None:
    """In float64, and beyond the positions that the picture offers."""
    section = f"read(document.querySelectorAll('.rotary section')[{panel}])"
    for name, x in told(page, panel).items():
        found = page.evaluate(f"(({{ pairs, {name} }}) => turned({name}, {m}, pairs, {theta}))({section})")
        assert found == pytest.approx(turned(PANELS[panel], x, m, theta).tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("m", "n"), [(5, 2), (0, 63), (31, 31)])
def test_the_picture_shows_what_the_equations_compute(page: Page, file: Path, m: int, n: int) -> None:
    """The page's address says where; every row and every product is that of the specification, rounded."""
    page.goto(f"{file.as_uri()}?m={m}&n={n}&theta=1000")
    for place, rotation in enumerate(PANELS):
        vectors = told(page, place)
        query, key = turned(rotation, vectors["query"], m, 1000), turned(rotation, vectors["key"], n, 1000)
        for name, vector in (("query", query), ("key", key)):
            shown = page.locator(f".rotary section >> nth={place} >> [data-turned={name}] td").all_inner_texts()
            assert [float(number.replace("−", "-")) for number in shown] == pytest.approx(vector.tolist(), abs=0.00501)
        assert float(products(page)[0][place]) == pytest.approx(float(query @ key), abs=0.0000501)


def test_a_product_depends_on_the_distance_and_the_convention(page: Page, file: Path) -> None:
    """Both one place further changes nothing, the query alone does; permuted columns make pairs of halves."""
    page.goto(f"{file.as_uri()}?m=12&n=4")
    here, both_further, query_further = products(page)
    assert here == both_further != query_further
    assert here[0] == here[2] != here[1]
    assert query_further[0] == query_further[2] != query_further[1]


def test_permuted_columns_give_pairs_the_scores_of_halves(generators_on_path: None) -> None:
    """Of maps with three heads, each of which is permuted by itself."""
    from generators.rotary import permutation

    assert permutation() == ORDER
    drawn = torch.Generator().manual_seed(5)
    X, W_Q, W_K = (torch.randn(*s, generator=drawn).double() for s in ((2, 7, 13), (13, 24), (13, 24)))
    columns = [8 * head + feature for head in range(3) for feature in ORDER]

    def scores(rotation: Any, W_Q: Tensor, W_K: Tensor) -> Tensor:
        Q, K, _ = projections_without_bias(X, W_Q=W_Q, W_K=W_K, W_V=W_K)
        Q, K = (side.unflatten(-1, (3, 8)).transpose(1, 2) for side in (Q, K))
        turn = partial(rotation, angles=partial(angles, theta=10_000.0, fraction=1.0))
        return turn(Q) @ turn(K).mT

    expected = scores(halves, W_Q, W_K)
    torch.testing.assert_close(scores(pairs, W_Q[:, columns], W_K[:, columns]), expected, rtol=0, atol=1e-12)
    assert (scores(pairs, W_Q, W_K) - expected).abs().max() > 1


def test_the_script_begins_with_what_the_build_has_drawn(page: Page, still: Page, file: Path) -> None:
    page.goto(file.as_uri())
    expect(page.locator(".rotary .still")).to_be_hidden()
    panels = ".rotary .panels"
    assert page.locator(panels).inner_text() == still.locator(panels).inner_text()

    def hands(page: Page) -> list[float]:
        styles = [str(hand.get_attribute("style")) for hand in page.locator(".hand").all()]
        return [float(re.sub(r".*rotate\((.*)rad\).*", r"\1", style)) for style in styles]

    assert len(hands(still)) == 3 * 4 * 2
    assert hands(page) == pytest.approx(hands(still), rel=1e-5)


def test_without_scripts_the_picture_says_where_it_stands(still: Page) -> None:
    expect(still.locator(".rotary form")).to_be_hidden()
    expect(still.locator(".rotary .still")).to_contain_text("m = 5, n = 2 and θ = 10,000")
    assert [len(row) for row in products(still)] == [3, 3, 3]


def test_keys_move_the_positions_and_choose_the_base(page: Page, file: Path) -> None:
    """Tab from field to field, an arrow for one position, End for the last one."""
    page.goto(file.as_uri())
    before = products(page)
    page.locator("[name=m]").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-shown=m]")).to_have_text("6")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-shift='[0, 0]']")).to_have_text("m = 6, n = 3")
    assert products(page)[0] == before[0]
    page.keyboard.press("End")
    expect(page.locator("[data-shown=n]")).to_have_text("63")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    expect(page.locator("[data-speed] >> nth=1")).to_have_text("0.178")


def test_hands_jump_for_those_who_want_no_motion(page: Page) -> None:
    seconds = "getComputedStyle(document.querySelector('.hand')).transitionDuration"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(seconds) == "0.3s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(seconds) == "0s"


def test_axe_finds_no_violation_in_a_picture_that_was_moved(page: Page, file: Path) -> None:
    page.goto(f"{file.as_uri()}?m=63&n=0&theta=100")
    assert violations(page) == ""
