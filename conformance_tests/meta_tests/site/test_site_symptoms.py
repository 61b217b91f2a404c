"""From a failure to its mend: the tree of symptoms, and what the page of a deviation says to do."""

import re

import pytest

from conformance_tests.deviations import deviations
from conformance_tests.meta_tests.site.site import Site, need_site
from conformance_tests.reports.report import Level
from encoder_spec.equation import requirements

need_site()

pytestmark = pytest.mark.usefixtures("generators_on_path")


def test_every_deviation_stands_once_in_the_tree(site: Site) -> None:
    """With a link to its page, where its lines and their mend are."""
    links = [link for link in site.pages["which-bug.html"].links if link.startswith("wrong-")]
    linked = [link for link in links if "#" in link]
    assert sorted(link.partition("#")[2] for link in linked) == sorted(deviations())


def test_a_symptom_leads_over_the_equation_to_its_deviations() -> None:
    """A missing √d_k shows in a comparison alone; a row of zeros in the output of a mask without one."""
    from generators.symptoms import tree

    found = tree()
    assert "scores-not-scaled" in found[Level.AGREEMENT]["attention.scores"]["attention.scores"]
    assert {seen for level in (Level.STATIC, Level.BLACK_BOX, Level.GRADIENT) for seen in found[level]} <= set(
        requirements()
    )
    assert all(of for symptoms in found.values() for of in symptoms.values())


def test_a_page_of_a_deviation_marks_the_lines_that_cause_and_mend_it(site: Site) -> None:
    """Scores are divided by √d_model in the one, and in the other by the root of the width of a head."""
    html = site.pages["wrong-attention.html"].html
    card = html.partition('id="scores-scaled-by-d-model"')[2].partition('<div class="deviation"')[0]
    wrong, right = (re.sub("<[^>]+>", "", part) for part in re.findall(r'<span class="hll">(.*?\n)', card, re.DOTALL))
    assert "d_model" in wrong
    assert "math.sqrt(Q.shape[-1])" in right
    assert "<b>Mend:</b> write the marked lines of" in card


def test_lines_that_differ_are_those_of_the_body() -> None:
    from generators.deviations import differing

    assert differing("def f(x):\n    y = 2 * x\n    return y", "def g(x):\n    y = x\n    return y") == [2]


def test_what_is_right_in_a_profile_can_be_declared() -> None:
    """BERT has ε = 1e-12; nobody publishes scores without their root but by design, as T5 does."""
    from generators.deviations import mend

    assert 'declare a profile that has it: <a href="profiles.html#bert">' in mend(deviations()["norm-eps-1e-12"])
    assert "declare" not in mend(deviations()["scores-scaled-by-d-model"])


def test_a_requirement_names_what_usually_breaks_it(site: Site) -> None:
    html = site.pages["attention.html"].html
    item = html.partition('id="ATT-3"')[2].partition("</li>\n<li class")[0]
    assert "If it fails: what usually causes it" in item
    assert any(f"#{d.id}" in item for d in deviations().values() if "ATT-3" in d.noticed_by)
