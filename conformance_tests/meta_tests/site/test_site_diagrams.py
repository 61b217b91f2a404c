"""The diagrams of the site: what they connect is what the formulas say, and every box leads somewhere."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import pytest
from jaxtyping import config

from conformance_tests.meta_tests.site.site import ROOT, need_site
from encoder_spec.equation import equations
from encoder_spec.profiles import PROFILES

need_site()


@pytest.fixture(autouse=True)
def equations_take_boxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Under test the annotations of equations are executed, and a box is no tensor."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def description(figure: str) -> str:
    return ElementTree.fromstring(figure).findtext(".//desc") or ""


def test_post_ln_norms_the_sum_of_each_sublayer_and_its_input() -> None:
    """Vaswani et al. 2017, §3.1: LN(x + Sublayer(x)), twice; the second sum takes the first norm's output."""
    from generators.diagrams import layer

    said = description(layer("post-ln"))
    assert "Multi-head self-attention reads x and the mask." in said
    assert "Layer normalisation 1 reads Residual connection 1." in said
    assert "Feed-forward network reads Layer normalisation 1." in said
    assert "Residual connection 2 reads Layer normalisation 1 and Inverted dropout." in said


def test_pre_ln_norms_what_each_sublayer_reads() -> None:
    """Xiong et al. 2020, table 1: x + Sublayer(LN(x)), twice; the second sum takes the first one."""
    from generators.diagrams import layer

    said = description(layer("pre-ln"))
    assert "Layer normalisation 1 reads x." in said
    assert "Multi-head self-attention reads Layer normalisation 1 and the mask." in said
    assert "Residual connection 1 reads x and Inverted dropout." in said
    assert "Residual connection 2 reads Residual connection 1 and Inverted dropout." in said


def test_positions_are_added_and_read_no_token() -> None:
    from generators.diagrams import stack

    said = description(stack("vit"))
    assert "Learned positions reads the number of positions alone." in said
    assert "Sum reads Class token and Learned positions." in said
    assert "Final norm reads Pre-LN layer." in said


@pytest.mark.parametrize("name", PROFILES)
def test_every_box_leads_to_an_equation_that_the_profile_uses(name: str) -> None:
    """Dropout is drawn as in training, where it does something; what a profile leaves empty has no box."""
    from generators.diagrams import stack

    figure = ElementTree.fromstring(stack(name)).find("svg")
    assert figure is not None
    linked = {link.attrib["href"].partition("#")[2] for link in figure.iter("a")}
    chosen = {e.id for slot, e in PROFILES[name].equations.items() if e.variant != "none" or slot == "dropout"}
    assert linked - {"dropout"} <= chosen
    assert PROFILES[name]["layer"].id in linked
    for id in linked:
        assert f"{equations()[id].topic}.html#{id}" in {link.attrib["href"] for link in figure.iter("a")}
    for link in figure.iter("a"):
        assert link.attrib["aria-label"]
