"""Defects that no catalogue has come out nonconformant, at the equation that is wrong."""

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.plain import Plain, plain_layers
from conformance_tests.meta_tests.encoders.uncatalogued import UNCATALOGUED, attending, layered, reading
from conformance_tests.meta_tests.judgements import Judgements
from conformance_tests.reports.arranged import diagnoses


@pytest.mark.parametrize("name", UNCATALOGUED)
def test_a_defect_of_no_catalogue_is_found_where_it_is(name: str, judged: Judgements) -> None:
    """What no deviation explains is still localised. What the diagnosis says is no matter here, and takes its time."""
    make, equation = UNCATALOGUED[name]
    report = judged(make, explain=False)
    assert report.verdict == "nonconformant", report.notes
    assert report.departs_at == equation, [r.message for r in report.of("fail")]


def test_nothing_is_sought_that_reproduces_an_encoder_which_answers_at_random() -> None:
    """The line is said instead that the random numbers enter at."""
    noisy = layered(feed_forward=lambda l, x: l.fc2(l.fc1(x).relu()) + torch.rand_like(x))
    (said,) = (d.sentence for d in diagnoses(check(noisy).targets[0]))
    assert "random numbers enter the output in evaluation (test_uncatalogued.py:" in said


def test_the_encoder_that_they_change_is_conformant() -> None:
    """Step by step, with nothing replaced."""
    assert check(attending()).verdict == "conformant"
    assert check(reading(torch.add)).verdict == "conformant"


class Early(Plain):
    """Stops some layers before the last one."""

    missed = 1

    def run(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        for layer in list(self.layers)[: -self.missed]:
            x = layer(x, hidden)
        return x


@pytest.mark.parametrize(("missed", "says"), [(1, "a further layer"), (2, "2 further layers")])
def test_layers_that_are_not_run_are_counted(missed: int, says: str, judged: Judgements) -> None:
    """Their arrays have the shapes of those that are run, and no part in the output."""

    def make() -> nn.Module:
        encoder = Early(plain_layers(depth=4))
        encoder.missed = missed
        return encoder

    report = judged(make)
    assert (report.verdict, report.departs_at) == ("nonconformant", "encoder"), report.notes
    assert report.profile["choices"]["num_layers"] == 4 - missed
    assert f"the parameters of {says} (layers.{4 - missed}." in report.diagnosis[0]["says"]
    assert {r.id for r in report.of("fail")} == {"ENC-8"}
