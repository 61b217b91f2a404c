"""Encoders in the styles of tutorials: judged right with nothing stated, and found out when one thing is broken."""

import pytest

from conformance_tests.meta_tests.encoders.catalogue import all_tutorials
from conformance_tests.meta_tests.judgements import Judgements


@pytest.mark.parametrize(("seed", "name"), [(place % 2, name) for place, name in enumerate(all_tutorials())])
def test_an_encoder_in_a_tutorials_style_is_conformant(name: str, seed: int, judged: Judgements) -> None:
    """With the choices that its code makes, and in the conventions that its code has; `make seeds` draws more seeds."""
    written = all_tutorials()[name]
    report = judged(written.make, known_as=name, seed=seed)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    choices, conventions = report.profile["choices"], report.profile["conventions"]
    assert {k: choices.get(k) for k in written.choices} == written.choices
    assert {k: conventions.get(k) for k in written.conventions} == written.conventions


@pytest.mark.parametrize("name", all_tutorials())
def test_the_same_encoder_with_one_thing_wrong_is_found_out(name: str, judged: Judgements) -> None:
    """It departs where it was broken; of an object of arrays, which shows no intermediates, its sublayer is named.

    What the diagnosis says of it is no matter here, and takes its time.
    """
    written = all_tutorials()[name]
    report = judged(written.broken, known_as=f"{name}, broken", explain=False)
    assert report.verdict == "nonconformant", report.notes
    assert report.departs_at == written.departs_at


def test_more_than_thirty_styles_are_covered() -> None:
    """The list is what is parametrised above: a file that is not imported would be missing silently."""
    assert len(all_tutorials()) > 30
