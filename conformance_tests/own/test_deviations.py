"""The suite can fail: every deviation of the catalogue is noticed, by a requirement of its own equation."""

import os
import re

import pytest

from conformance_tests.deviations import deviation, deviations
from conformance_tests.kill_matrix import AUTO, Row, cases, computed, faults, on_file
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
def file() -> list[Row]:
    return on_file()


def test_matrix_on_file_has_a_row_for_every_deviation_in_every_profile(file: list[Row]) -> None:
    """Otherwise it is stale: `make matrix` computes it anew."""
    assert [(r.deviation, r.within, r.judged_as) for r in file] == cases()


def test_matrix_on_file_shows_no_fault(file: list[Row]) -> None:
    """Nothing survives, nothing is noticed for another reason alone, and no requirement is idle."""
    assert list(faults(file)) == []


def test_matrix_on_file_is_what_the_suite_computes(file: list[Row]) -> None:
    """Every deviation is run once more, within the profiles that it gets wrong."""
    kept = {(r.deviation, r.within, r.judged_as): r for r in file}
    wanted = [case for case in cases() if case[2] != AUTO]
    again = computed(wanted, os.cpu_count() or 1, lambda _done, _of: None)
    assert [r for r in again if kept[r.deviation, r.within, r.judged_as] != r] == []


def test_right_deviation_is_diagnosed_first(file: list[Row]) -> None:
    """At least 95 % of single deviations; of the others a deviation of the same slot is named first."""
    declared = [r for r in file if r.judged_as != AUTO]
    wrong = [r for r in declared if r.diagnosis[:1] != (r.deviation,)]
    assert len(wrong) <= 0.05 * len(declared), [(r.deviation, r.within, r.diagnosis) for r in wrong]
    known = deviations()
    assert [r for r in wrong if not r.diagnosis or known[r.diagnosis[0]].slot != known[r.deviation].slot] == []
