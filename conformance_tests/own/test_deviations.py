"""The suite can fail: every deviation of the catalogue is noticed, by a requirement of its own equation."""

import os
import re

import pytest

from conformance_tests.deviations import deviation, deviations
from conformance_tests.kill_matrix import AUTO, Row, cases, computed
from encoder_spec.equation import TOPICS, equations, requirements

THREAD = re.compile(r"^[\w.-]+/[\w.-]+#\d+$")


def test_catalogue_is_large_and_covers_every_topic() -> None:
    """The build must show at least 120; each topic but dropout's noise has some."""
    assert len(deviations()) >= 120
    topics = {equations()[d.of[0]].topic for d in deviations().values()}
    assert topics >= set(TOPICS) - {"head"}


@pytest.mark.parametrize("id", deviations())
def test_deviation_is_described_and_names_what_exists(id: str) -> None:
    """One line that ends in a full stop; equations of one slot; requirements that a check decides; threads."""
    d = deviations()[id]
    assert re.fullmatch(r"[^\n]{12,110}\.", d.definition), d.definition
    assert {equations()[of].slot for of in d.of} == {d.slot}
    assert d.noticed_by
    assert set(d.noticed_by) <= set(requirements())
    assert [e for e in d.evidence if not (THREAD.match(e) or e == "commonly seen")] == []


def test_deviation_cannot_be_defined_twice() -> None:
    """A second one of the same name would take the place of the first in the matrix."""
    with pytest.raises(ValueError, match="scores-not-scaled is defined twice"):
        deviation("scores-not-scaled", "attention.scores", "ATT-3")(lambda Q, K: Q @ K.mT)


@pytest.fixture(scope="module")
def judged() -> list[Row]:
    """Every sixth deviation, run as a subject within a profile that it gets wrong; `make matrix` runs all of them."""
    wanted = [case for case in cases() if case[2] != AUTO][::6]
    return computed(wanted, os.cpu_count() or 1, lambda _done, _of: None)


def test_deviation_is_noticed_by_a_requirement_of_its_own(judged: list[Row]) -> None:
    """Nothing survives, and nothing is noticed for another reason alone."""
    known = deviations()
    assert [r for r in judged if r.verdict != "nonconformant"] == []
    assert [r for r in judged if not set(known[r.deviation].noticed_by) & set(r.killed_by)] == []


def test_right_deviation_is_diagnosed_first(judged: list[Row]) -> None:
    """Of nine in ten; what comes out first of the others fills the same slot, or reproduces the same numbers."""
    assert len([r for r in judged if r.diagnosis[:1] == (r.deviation,)]) >= 0.9 * len(judged)
