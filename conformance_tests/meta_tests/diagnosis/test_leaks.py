"""Masks that hide nearly everything: where the little that leaks shows, and where it says nothing."""

import pytest
import torch

from conformance_tests.deviations import with_deviations
from conformance_tests.diagnosis.explanations import behaving_alike, failing
from conformance_tests.diagnosis.masking import RIGHT_PLACE, becoming, mask_that, unmasked
from conformance_tests.engine.judging import check
from conformance_tests.harness.intermediates import align, departure, valid_rows
from conformance_tests.harness.run import Run
from conformance_tests.meta_tests.diagnosis.conftest import RunWith
from conformance_tests.quality.kill_matrix import SMALL
from encoder_spec.assembly import Encoder
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import PROFILES


def filled_with(number: float) -> EncoderModule:
    """Return an encoder whose masked scores become a number."""
    wrong = mask_that(RIGHT_PLACE, becoming(number), unmasked, "")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return EncoderModule(with_deviations(Encoder(PROFILES["torch-post-ln"], SMALL), (wrong,)))


@pytest.mark.parametrize("number", [-30.0, -60.0])
def test_a_fill_that_padding_beats_at_times_is_found_and_nothing_else_is_blamed(
    number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With −60 outputs depart only where padding holds something large: the numbers there tell, and not behaviour."""

    def is_not_needed(*_: object, **__: object) -> None:
        raise AssertionError("deviations were judged one by one")

    monkeypatch.setattr("conformance_tests.diagnosis.explanations.behaving_alike", is_not_needed)
    (report,) = check(filled_with(number)).targets
    failed = {r.id for r in report.of("fail")}
    assert "MASK-2" in failed
    assert all(id.startswith(("MASK", "ENC")) for id in failed)
    assert report.departs_at == "attention.mask"
    assert f"become −{-number:.0f}" in report.diagnosis[0]["says"]


def test_deviations_that_are_noticed_by_nothing_that_failed_are_not_judged(run_with: RunWith) -> None:
    """Each fails at least one of the requirements that it names, and another subject's failures are not its own."""
    run: Run = run_with("norm-eps-outside-root")

    class Other:
        def __init__(self, *noticed_by: str) -> None:
            self.noticed_by = noticed_by

        def within(self, _profile: object) -> object:
            raise AssertionError("it was judged")

    assert behaving_alike(run, [Other("HEAD-1")]) == []  # type: ignore[list-item]
    with pytest.raises(AssertionError, match="it was judged"):
        behaving_alike(run, [Other("HEAD-1", *failing(run))])  # type: ignore[list-item]


def test_over_a_single_key_attention_says_nothing_and_its_input_and_map_do(run_with: RunWith) -> None:
    """Its weight is 1 whatever its score is: what is found there does not vouch for the scores."""
    run = run_with()
    case = run.case(probe="right")
    trace, keep = run.trace(case), torch.zeros_like(run.keep(case))
    keep[0, 0] = True
    compared = {
        step.equation.slot: bool(rows.any())
        for step in trace
        if isinstance(step.value, torch.Tensor) and (rows := valid_rows(step, step.value, keep)) is not None
    }
    silent = {slot for slot, some in compared.items() if not some}
    assert silent == {"weights", "values", "attention", "merge"}
    aligned = align(trace, lambda: run.recorded(case), run.encoder.dimensions.h, keep)
    assert all(a.is_found for a in aligned if a.spec.equation.slot == "weights")
    assert not any(a.tells for a in aligned if a.spec.equation.slot == "weights")
    assert departure(aligned) == len(aligned)
