"""The search: every id that a report names is its first hit, and things are found under their other names too."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from conformance_tests.deviations import deviations
from conformance_tests.meta_tests.site.browser import Visit
from conformance_tests.meta_tests.site.serving import served
from conformance_tests.meta_tests.site.site import Site, need_site
from encoder_spec.equation import equations, requirements
from encoder_spec.profiles import PROFILES

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")

ASKED = """async (queries) => {
  const { search } = JSON.parse(document.getElementById("__config").textContent);
  const index = await (await fetch("search/search_index.json")).json();
  const worker = new Worker(search);
  const answer = (message) => new Promise((done) => {
    worker.onmessage = ({ data }) => done(data);
    worker.postMessage(message);
  });
  await answer({ type: 0, data: { ...index, options: { suggest: false } } });
  const found = {};
  for (const query of queries) {
    const { data } = await answer({ type: 2, data: query });
    const best = (data.items[0] ?? []).toSorted((one, other) => other.score - one.score)[0];
    found[query] = best ? [best.title.replace(/<[^>]+>/g, ""), best.location] : ["", ""];
  }
  worker.terminate();
  return found;
}"""
"""Puts queries to the script that answers the search box, with the index that it works on."""


@pytest.fixture(scope="module")
def searched(site: Site, browser: Browser) -> Iterator[Page]:
    """A page of the site from a server."""
    with served(site) as address, browser.new_page() as page:
        yield Visit(page).open(f"{address}/index.html").page


def known_ids() -> dict[str, str]:
    """Every id with its address in the site."""
    from generators.chapter import addresses
    from generators.encoders import judged

    named = (*requirements(), *equations(), *deviations(), *PROFILES)
    return {id: addresses()[id][0] for id in named} | {e.id: quote(f"{e.id}.html") for e in judged()}


def test_every_id_is_the_first_hit(searched: Page) -> None:
    ids = known_ids()
    assert len(ids) > 1000
    found = searched.evaluate(ASKED, [*ids])
    assert {id: found[id] for id in ids if found[id][1] != ids[id]} == {}


@pytest.mark.parametrize("id", ["ATT-3", "attention.scores", "scores-not-scaled", "bert", "MASK-1"])
def test_an_id_typed_into_the_box_leads_to_its_place(id: str, searched: Page) -> None:
    """The best hit is what the Enter key opens."""
    searched.goto(searched.url.partition("#")[0].rpartition("/")[0] + "/index.html")
    searched.locator(".md-search__input").click()
    searched.keyboard.type(id)
    results = searched.locator(".md-search-result__item:first-child")
    expect(results.locator("h2", has_text=id).first).to_be_visible()
    searched.keyboard.press("Enter")
    searched.wait_for_url(f"**/{known_ids()[id]}")


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("attention", "attention.html"),
        ("RoPE", "rotation.html"),
        ("rotary", "rotation.html"),
        ("positional encoding", "position.html"),
        ("layer normalization", "norm.html"),
        ("FFN", "ffn.html"),
        ("multihead", "multihead.html"),
        ("what goes wrong", "what-goes-wrong.html"),
        ("conformance matrix", "frameworks.html"),
        ("mutation matrix", "kill-matrix.html"),
    ],
)
def test_a_topic_is_found_under_its_names(query: str, page: str, searched: Page) -> None:
    assert searched.evaluate(ASKED, [query])[query][1].partition("#")[0] == page


def test_words_for_one_thing_find_the_same(searched: Page) -> None:
    from generators.search import SYNONYMS

    found = searched.evaluate(ASKED, [word for group in SYNONYMS for word in group])
    assert [word for word, (title, _) in found.items() if not title] == []
    assert found["warmup"] == found["warm-up"]
    assert [word for word in ("eps", "epsilon", "ε") if "eps" not in found[word][0]] == []


def entry(location: str, title: str, text: str = "text") -> dict[str, Any]:
    return {"location": location, "title": title, "text": text}


def test_an_id_outweighs_those_that_begin_with_it() -> None:
    from generators.search import amended

    found = amended([], [entry(id, id) | {"id": id} for id in ("a", "A-b", "a-b-c", "other")])
    weights = {e["title"]: e["boost"] for e in found}
    assert weights["a"] > weights["A-b"] > weights["a-b-c"] == weights["other"]


def test_a_document_takes_the_place_of_the_section_at_its_address() -> None:
    """A part of a page without text is left out; the page itself stays, because it leads to its parts."""
    from generators.search import amended

    sections = [entry("p.html", "Page", ""), entry("p.html#x", "X"), entry("p.html#y", "Y", ""), entry("p.html#z", "Z")]
    found = amended(sections, [entry("p.html#x", "id of x") | {"id": "x"}])
    assert [e["title"] for e in found] == ["Page", "Z", "id of x"]


def test_other_words_of_a_title_are_tags_and_those_of_a_text_stand_behind_it() -> None:
    from generators.search import with_synonyms

    found = with_synonyms(entry("p", "Rotary positions", "in the warm-up, rotary"))
    assert found["tags"] == ["RoPE"]
    assert found["text"].endswith("<p>Also: warmup</p>")
    assert with_synonyms(entry("p", "Norms", "of warmupped rows")) == entry("p", "Norms", "of warmupped rows")


def test_the_script_for_files_has_the_same_index(site: Site) -> None:
    folder = site.folder / "search"
    script = (folder / "search_index.js").read_text(encoding="utf-8")
    assert json.loads(script.removeprefix("var __index = ")) == json.loads((folder / "search_index.json").read_bytes())
