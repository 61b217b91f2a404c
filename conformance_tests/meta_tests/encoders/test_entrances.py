"""Entrances with norms and activations for which no slot exists: they are left open, and not accused."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.tutorials_entrances import Spoken


def behind(*parts: nn.Module) -> Spoken:
    """The entrance of toolkits for speech with other parts behind its map."""
    encoder = Spoken()
    encoder.behind = nn.Sequential(*parts)
    return encoder


class Times(nn.Module):
    """Multiplies by 3."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


class OverTime(nn.Module):
    """Norms each feature over its sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, correction=0) + 1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: behind(nn.ReLU(), nn.LayerNorm(28)),
        lambda: behind(nn.LayerNorm(28), nn.Tanh()),
        lambda: behind(Times(), nn.LayerNorm(28)),
        lambda: behind(OverTime()),
        lambda: behind(nn.LayerNorm(28), nn.LayerNorm(28)),
    ],
    ids=["norm behind ReLU", "tanh", "scaled before its norm", "norm over time", "two norms"],
)
def test_what_has_no_slot_before_the_first_layer_is_left_open(make: Callable[[], nn.Module]) -> None:
    """Each may be right, and no equation says so."""
    report = check(make).targets[0]
    assert report.verdict == "undetermined", [r.message for r in report.of("fail")]


def test_a_norm_that_runs_over_time_is_named() -> None:
    """With a line, as everything that the computation shows."""
    notes = " ".join(check(lambda: behind(OverTime())).targets[0].notes)
    assert "a norm gives other numbers than any of the specification (tutorials_entrances.py:" in notes, notes
