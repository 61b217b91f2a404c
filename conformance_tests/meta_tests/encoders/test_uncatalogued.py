"""Defects that no catalogue has come out nonconformant, at the equation that is wrong."""

import pytest
import torch

from conformance_tests import check
from conformance_tests.meta_tests.encoders.uncatalogued import UNCATALOGUED, attending, layered, reading
from conformance_tests.reports.arranged import diagnoses


@pytest.mark.parametrize("name", UNCATALOGUED)
def test_a_defect_of_no_catalogue_is_found_where_it_is(name: str) -> None:
    """What no deviation explains is still localised. What the diagnosis says is no matter here, and takes its time."""
    make, equation = UNCATALOGUED[name]
    report = check(make, explain=False).targets[0]
    assert report.verdict == "nonconformant", report.notes
    assert report.departs_at == equation, [r.message for r in report.of("fail")]


def test_nothing_is_sought_that_reproduces_an_encoder_which_answers_at_random() -> None:
    """That two equal calls differ is said instead."""
    noisy = layered(feed_forward=lambda l, x: l.fc2(l.fc1(x).relu()) + torch.rand_like(x))
    said = diagnoses(check(noisy).targets[0])
    assert said == ["Diagnosis: two equal calls give different outputs, so no deviation can reproduce them."]


def test_the_encoder_that_they_change_is_conformant() -> None:
    """Step by step, with nothing replaced."""
    assert check(attending()).verdict == "conformant"
    assert check(reading(torch.add)).verdict == "conformant"
