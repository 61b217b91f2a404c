"""How far a computation is read: long calls only where they may say more."""

import pytest
import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.harness.question import Question
from conformance_tests.identification.opening import opened
from conformance_tests.identification.settling import FAR
from conformance_tests.meta_tests.encoders.uncatalogued import Make, attending, distance
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.torch_subject import TorchSubject


def opening(make: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[int | None]]:
    """Open an encoder; return how far tokens see in it, and the lengths of the calls that were read."""
    asked: list[int | None] = []
    computation = TorchSubject.computation

    def watched(self: TorchSubject, sizes: Sizes | None = None) -> Graph:
        asked.append(None if sizes is None else sizes.length)
        return computation(self, sizes)

    monkeypatch.setattr(TorchSubject, "computation", watched)
    with opened(make(), Question()) as run:
        return str(run.encoder.choices()["reach"]), asked


def test_a_wrong_encoder_is_not_read_far_where_calls_as_long_as_the_probes_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read as it was called first, and once more as the probes call it."""
    reach, asked = opening(attending(score=lambda a, q, k: 2 * q @ k.mT / a.scale), monkeypatch)
    assert (reach, len(asked), asked[0]) == ("global", 2, None)
    assert FAR not in asked


def test_a_window_that_the_first_call_did_not_show_is_read_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five tokens all see each other, of the seven or more of the probes not all do."""

    def within_five(_: object, scores: Tensor, hidden: Tensor | None) -> Tensor:
        far = distance(scores.shape[-1]) > 5
        return scores.masked_fill(far if hidden is None else far | hidden, -torch.inf)

    reach, asked = opening(attending(hide=within_five), monkeypatch)
    assert (reach, asked[-1]) == ("local", FAR)
