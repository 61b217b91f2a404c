"""One encoder of each kind, right and wrong: what `make test` sees of the zoo that `make test-all` judges whole."""

import pytest

from conformance_tests.meta_tests.encoders.catalogue import all_defects, all_tutorials
from conformance_tests.meta_tests.encoders.defects import Defect
from conformance_tests.meta_tests.encoders.tutorials import Tutorial
from conformance_tests.meta_tests.judgements import Judgements

LONG = ("letters", "stacked")
"""Kinds whose arrays can be read in so many ways that one encoder takes as long as ten of another kind."""


def one_of_each_kind() -> dict[str, Tutorial]:
    """Return the first encoder of each file of tutorials, by the file."""
    by_file: dict[str, Tutorial] = {}
    for tutorial in all_tutorials().values():
        if (kind := tutorial.make.__module__.rpartition("_")[2]) not in LONG:
            by_file.setdefault(kind, tutorial)
    return by_file


def one_for_each_place() -> dict[str, Defect]:
    """Return the first encoder that departs at each equation, by the equation."""
    by_place: dict[str, Defect] = {}
    for defect in all_defects().values():
        if not defect.profile.endswith(".toml"):
            by_place.setdefault(defect.departs_at, defect)
    return by_place


KINDS, PLACES = one_of_each_kind(), one_for_each_place()


def test_sample_has_many_kinds_and_places() -> None:
    assert len(KINDS) >= 12
    assert len(PLACES) >= 12


@pytest.mark.parametrize("kind", KINDS)
def test_encoder_of_a_kind_is_conformant(kind: str, judged: Judgements) -> None:
    report = judged(KINDS[kind].make, known_as=KINDS[kind].name)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert {k: report.profile["choices"].get(k) for k in KINDS[kind].choices} == KINDS[kind].choices


@pytest.mark.parametrize("kind", KINDS)
def test_broken_encoder_of_a_kind_departs_where_it_was_broken(kind: str, judged: Judgements) -> None:
    report = judged(KINDS[kind].broken, known_as=f"{KINDS[kind].name}, broken", explain=False)
    assert (report.verdict, report.departs_at) == ("nonconformant", KINDS[kind].departs_at), report.notes


@pytest.mark.parametrize("place", PLACES)
def test_defect_fails_the_requirements_of_its_equation(place: str, judged: Judgements) -> None:
    defect = PLACES[place]
    report = judged(defect.make, profile=defect.profile, explain=False)
    assert report.verdict == "nonconformant", report.notes
    assert set(defect.fails) & {r.id for r in report.of("fail")}
