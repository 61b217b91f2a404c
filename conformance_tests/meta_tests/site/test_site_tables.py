"""The tables of the site that can be filtered: what they say, and that the filters keep what is asked for."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.site import ROOT, need_site
from conformance_tests.quality.kill_matrix import AUTO, Row, on_file

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Page]:
    """The page of the kill matrix, as its generator writes it, with its script."""
    from generators import kills

    folder = tmp_path_factory.mktemp("matrix")
    (folder / "javascripts").mkdir()
    own = (ROOT / "docs" / "javascripts" / "filter.js").read_text(encoding="utf-8")
    (folder / "javascripts" / "filter.js").write_text(own, encoding="utf-8")
    html = f"<!doctype html><meta charset='utf-8'><title>Matrix</title>{kills.page()}"
    (folder / "matrix.html").write_text(html, encoding="utf-8")
    with browser.new_page() as page:
        yield Visit(page).open((folder / "matrix.html").as_uri() + "?slot=scores").page


def shown(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('tbody > tr:not([hidden])').length"))


def choose(page: Page, **values: str) -> None:
    page.evaluate("document.forms[0].reset()")
    for field, value in values.items():
        page.evaluate(
            f"field = document.forms[0].elements.{field}; field.value = '{value}';"
            "field.dispatchEvent(new Event('input', { bubbles: true }))"
        )


def declared() -> list[Row]:
    return [row for row in on_file() if row.judged_as != AUTO]


def test_the_address_of_a_page_can_choose(matrix: Page) -> None:
    from conformance_tests.deviations import deviations

    matrix.goto(matrix.url.partition("?")[0] + "?slot=scores")
    assert shown(matrix) == sum(deviations()[row.deviation].slot == "scores" for row in declared()) > 0


def test_a_requirement_keeps_the_deviations_that_it_notices(matrix: Page) -> None:
    choose(matrix, requirement="MASK-2")
    assert shown(matrix) == sum("MASK-2" in row.killed_by for row in declared()) > 0


def test_filters_and_words_must_all_agree(matrix: Page) -> None:
    """In a search every word counts, in any order and in upper or lower case."""
    choose(matrix, slot="scores", words="scaled no-such-word")
    assert shown(matrix) == 0
    choose(matrix, slot="scores", words="SCALED scores")
    assert 0 < shown(matrix) < len(declared())


def test_showing_all_shows_every_row(matrix: Page) -> None:
    choose(matrix, silent="no")
    assert 0 < shown(matrix) < len(declared())
    matrix.locator("button[type=reset]").click()
    # A form is reset behind the event that says so: wait for what is written then.
    expect(matrix.locator("output")).to_have_text(f"{len(declared())} of {len(declared())} rows")
    assert shown(matrix) == len(declared())


def test_what_is_chosen_stands_in_the_address(matrix: Page) -> None:
    """It can be handed on; showing all takes it away."""
    choose(matrix, slot="scores", words="scaled by")
    assert matrix.url.partition("?")[2] == "words=scaled+by&slot=scores"
    kept = shown(matrix)
    matrix.reload()
    assert shown(matrix) == kept > 0
    matrix.locator("button[type=reset]").click()
    matrix.wait_for_url(lambda url: "?" not in url)


@pytest.mark.parametrize(
    ("noticed_by", "shows"),
    [
        (("ENC-2", "ENC-17"), "shapes and parameters"),
        (("ENC-2", "MASK-2"), "outputs alone"),
        (("ATT-2", "ENC-2"), "comparison of outputs: silent"),
        (("ENC-8",), "gradients: silent"),
        ((), "nothing"),
    ],
)
def test_a_deviation_shows_at_the_weakest_level_of_what_notices_it(noticed_by: tuple[str, ...], shows: str) -> None:
    """ENC-17 needs shapes alone, MASK-2 outputs alone, ENC-2 the specification's outputs, ENC-8 gradients."""
    from generators.kills import entry

    row = Row("scores-not-scaled", "bert", "bert", "nonconformant", noticed_by, None, ())
    found = entry(row, [row])
    assert found.values["shows"] == [shows]
    assert found.values["silent"] == ["yes" if "silent" in shows else "no"]


def test_every_judged_encoder_has_a_row_and_a_page() -> None:
    from generators import encoders

    matrix, pages = encoders.matrix(), encoders.pages()
    found = encoders.judged()
    assert len({e.id for e in found}) == len(found) == len(pages) - 1 > 100
    for e in found:
        assert f'href="{e.id}.html"' in matrix, e.id
        assert e.verdict in pages[f"{e.id}.md"], e.id
        assert e.versions in pages[f"{e.id}.md"], e.id
        assert e.judged in pages[f"{e.id}.md"], e.id


def test_the_page_of_an_encoder_names_its_variants_and_what_failed() -> None:
    """The text encoder of CLIP is causal: MASK-1 fails."""
    from generators import encoders

    by_name = {e.subject: e for e in encoders.judged()}
    bert = encoders.one(by_name["BERT"])
    assert 'href="profiles.html#bert"' in bert
    assert 'href="layer.html#layer.post_ln"' in bert
    assert 'href="ffn.html#ffn.gelu"' in bert
    assert '<a href="attention.html#ATT-3">ATT-3</a>' in bert
    clip = encoders.one(by_name["CLIP, text"])
    assert 'href="attention.html#MASK-1"' in clip
    assert '<span class="outcome fail">fail</span>' in clip
    assert '<span class="outcome fail">fail</span>' not in bert


def test_a_requirement_shows_what_came_of_its_checks_last() -> None:
    """MASK-1 is not met by a causal encoder; what no check decides for an encoder has no result."""
    from generators import encoders, results

    latest = results.latest("MASK-1")
    assert 'not met by <a href="encoder-transformers-clip-text.html">' in latest
    met = [e for e in encoders.judged() if e.requirements.get("MASK-1", {}).get("outcome") == "pass"]
    assert f'met by <a href="frameworks.html">{len(met)} encoders</a>' in latest
    noticed = {r.deviation for r in declared() if "MASK-1" in r.killed_by}
    assert (
        f'notices <a href="kill-matrix.html?requirement=MASK-1">{results.number(len(noticed), "deviation")}</a>'
        in latest
    )
    assert results.latest("ATT-8") == ""


def test_a_row_says_why_it_is_not_conformant() -> None:
    from generators import encoders

    for e in encoders.judged():
        said = encoders.entry(e).cells[1]
        assert ('class="reason">' in said) == (e.verdict != "conformant"), e.subject
    clip = next(e for e in encoders.judged() if e.subject == "CLIP, text")
    assert "attention is causal, or absent</small>" in encoders.reason(clip)


def test_an_unpublished_choice_is_the_nearest_profile_and_its_difference() -> None:
    from generators import encoders

    found = {e.subject: encoders.profile_of(e) for e in encoders.judged()}
    assert not [subject for subject, said in found.items() if said == "unpublished"]
    assert found["BERT with tanh-GELU"].endswith("<code>bert</code></a>, but activation = gelu-tanh")


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("eps 1e-12 (there 1e-05)", "ε = 1e-12"),
        (
            "reach local, global (there local, local), eps 2 (there 3), norm a (there b)",
            "reach = local, global, ε = 2 and 1 more",
        ),
    ],
)
def test_differences_are_told_in_short(note: str, said: str) -> None:
    from generators import encoders

    row = {"notes": [f"no published profile; the nearest is roberta, which differs in {note}"]}
    assert encoders.nearest(encoders.Judged("", row)).endswith(f"<code>roberta</code></a>, but {said}")


@pytest.mark.parametrize(
    ("x", "text"), [(0.0, "0"), (1.5e-12, "1.5 · 10<sup>−12</sup>"), (2.0, "2.0 · 10<sup>0</sup>")]
)
def test_numbers_are_short(x: float, text: str) -> None:
    from generators import encoders

    assert encoders.power_of_ten(x) == text
