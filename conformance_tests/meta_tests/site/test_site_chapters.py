"""The chapters: their markers, and the letters that light up in formula and code."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from conformance_tests.meta_tests.site.browser import Visit
from encoder_spec.equation import TOPICS, equations

ROOT = Path(__file__).parents[3]
if importlib.util.find_spec("pykatex") is None:
    pytest.skip("the site needs pykatex: pip install -e '.[docs]'", allow_module_level=True)

sys.path.insert(0, str(ROOT / "docs"))
from generators import card, chapter, mathml, symbols  # noqa: E402
from generators.chapter import MarkerError, fill  # noqa: E402

CARDS = {"attention.scores": "<b>scores</b>", "attention.mask": "<b>mask</b>"}
PLACED = "[[attention.scores]]\n\nWords.\n\n[[attention.mask]]\n"


def shown(id: str) -> tuple[str, str]:
    """Formula and code of an equation's card, marked."""
    html = card.card(equations()[id], set())
    formula = re.search(r"<math.*?</math>", html, re.DOTALL)
    assert formula
    return formula[0], "".join(re.findall(r"<pre>.*?</pre>", html, re.DOTALL))


# Markers -----------------------------------------------------------------------------------


def test_a_card_stands_where_its_marker_stood() -> None:
    assert fill(PLACED, CARDS, "here") == "<b>scores</b>\n\nWords.\n\n<b>mask</b>\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[attention.scores]]\n", "attention.mask must be placed once, but is placed 0 times"),
        (PLACED + "\n[[attention.mask]]\n", "attention.mask must be placed once, but is placed 2 times"),
        (PLACED + "\n[[ffn.relu]]\n", "is not an equation of this chapter"),
        (PLACED + "See [[attention.score]].", "names nothing"),
        (PLACED + "See [[ATT-0]].", "names nothing"),
        (PLACED + "As many as {{nobody_counts_this}}.", "is computed nowhere"),
    ],
)
def test_a_marker_that_stands_for_nothing_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(MarkerError, match=re.escape(complaint)):
        fill(text, CARDS, "here")


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ffn.relu", "ffn.html#ffn.relu"),
        ("ATT-3", "attention.html#ATT-3"),
        ("bert", "profiles.html#bert"),
        ("scores-not-scaled", "wrong-attention.html#scores-not-scaled"),
        ("ERR-4", "errata.html#ERR-4"),
        ("Ba et al. 2016", "sources.html#ba-et-al-2016"),
        ("slot norm", "equations-and-requirements.html#slot-norm"),
    ],
)
def test_a_name_within_a_line_is_a_link_to_whatever_has_it(name: str, address: str) -> None:
    assert f'<a href="{address}">' in fill(f"See [[{name}]].", {}, "here")
    assert fill(f"See [[{name}|a & b]].", {}, "here") == f'See <a href="{address}">a &amp; b</a>.'


def test_markers_in_code_stay_as_they_are() -> None:
    text = "Write `[[attention.scores]]`, `{{name}}` and `$x$`.\n\n```\n[[ATT-3]]\n```\n"
    assert fill(text, {}, "here") == text


def test_formulas_are_typeset_and_hold_nothing_for_markdown() -> None:
    """KaTeX sets the star of x^* as itself, which two of would be emphasis."""
    text = fill("From $x^*$ to $y^*$.", {}, "here")
    assert text.count("<math") == 2
    assert "*" not in text


@pytest.mark.parametrize("topic", [*TOPICS, "cost"])
def test_numbers_in_a_chapter_are_computed(topic: str) -> None:
    """No digit group such as 2,099,712 and no decimal fraction is typed; 0.044715 is part of a formula's definition.

    wav2vec 2.0 is a name.
    """
    text = (chapter.CHAPTERS / f"{topic}.md").read_text(encoding="utf-8").replace("wav2vec 2.0", "")
    typed = re.findall(r"\b\d{1,3}(?:,\d{3})+\b|\b\d+\.\d+\b", text)
    assert set(typed) <= {"0.044715", "0.044175"}


@pytest.mark.parametrize("document", ["docs/chapters/contribute.md", "CONTRIBUTING.md", "README.md"])
def test_every_file_and_folder_that_is_named_exists(document: str) -> None:
    """A path stands between backticks; <topic> stands for each topic that has the file, norm among them."""
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:encoder_spec|conformance_tests|docs|benchmarks)/[^`\s]*)`", text))
    assert [path for path in named if not (ROOT / path.replace("<topic>", "norm")).exists()] == []
    assert len(named) > 10 or document != "docs/chapters/contribute.md"


# Letters and identifiers -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "letters"),
    [
        ("norm.layer_norm", {"gamma", "x", "mu", "var", "eps", "beta"}),
        ("ffn", {"ffn", "x", "activation", "W_1", "b_1", "W_2", "b_2"}),
        ("attention.weights", {"A", "S", "j", "k", "exp"}),
        ("embedding.lookup", {"X", "E", "tokens"}),
        ("layer.post_ln", {"x", "norm_1", "norm_2", "dropout", "multihead", "ffn"}),
        ("position.sinusoidal", {"PE", "pos", "i", "sin", "cos", "d"}),
    ],
)
def test_letters_of_a_formula_belong_to_the_identifiers_of_its_code(id: str, letters: set[str]) -> None:
    """γ is gamma, σ² the variance, σ an activation, W with a subscript 1 is W_1, MHA the slot, P E one name."""
    formula, code = shown(id)
    assert letters <= symbols.marks(formula)
    assert symbols.marks(formula) == symbols.marks(code)


@pytest.mark.parametrize("id", equations())
def test_every_marked_letter_can_be_reached_by_the_keyboard_on_either_side(id: str) -> None:
    """Once on each side: a key press per occurrence would be a long way through a card."""
    for side in shown(id):
        stops = re.findall(r'data-symbol="([^"]+)" tabindex="0"', side)
        assert sorted(stops) == sorted(symbols.marks(side))


def test_marking_changes_nothing_that_is_shown() -> None:
    plain = mathml.render(equations()["norm.layer_norm"].latex, display=True)
    marked = symbols.mark_formula(plain, {"gamma", "x", "mu", "eps"})
    assert re.sub(r"<[^>]*>", "", marked) == re.sub(r"<[^>]*>", "", plain)
    assert 'data-symbol="gamma"' in marked


def test_letter_and_identifier_light_each_other_up_by_keyboard_and_pointer(visit: Visit, tmp_path: Path) -> None:
    """Formula, table and code of one card light up together; the ε of a second card stays dark."""
    first, second = (card.card(equations()[id], set()) for id in ("norm.layer_norm", "norm.rms"))
    script = (ROOT / "docs" / "javascripts" / "symbols.js").read_text(encoding="utf-8")
    file = tmp_path / "page.html"
    html = f"<!doctype html><meta charset=utf-8><p tabindex=0>Elsewhere</p>{first}{second}<script>{script}</script>"
    file.write_text(html, encoding="utf-8")
    page = visit.open(file).page

    def lit() -> list[str]:
        found: list[str] = page.eval_on_selector_all(".lit", "all => all.map(e => `${e.localName}:${e.textContent}`)")
        return found

    letter, identifier = (page.locator(f"{side} [data-symbol=eps]").first for side in ("math", "pre"))
    letter.focus()
    focused = lit()
    assert focused[:3] == ["mi:ϵ", "code:eps", "span:eps"]
    assert len(focused) == first.count('data-symbol="eps"') < html.count('data-symbol="eps"')
    page.locator("p").first.focus()
    assert lit() == []
    identifier.hover()
    assert lit() == focused
    page.mouse.move(0, 0)
    assert lit() == []
