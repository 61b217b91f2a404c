"""The smallest failing input of small encoders with one wrong equation; whole judgements are in `test_shrinking`."""

import pytest

from conformance_tests.diagnosis.shrinking import first_wrong, smallest_failing_input
from conformance_tests.harness.computed import PADDED, Case
from conformance_tests.meta_tests.diagnosis.conftest import RunWith


@pytest.mark.parametrize(
    ("wrong", "smallest"),
    [
        # One key has weight 1 whatever its score is; between two the scale matters.
        ("scores-scaled-by-d-model", [1, 2, 24]),
        ("activation-tanh", [1, 1, 24]),
        # Positions are shifted where there are two.
        ("residual-shifted", [1, 2, 24]),
        # The second sample begins with two padded positions, which its third one sees with the mask of the first.
        ("mask-of-the-first-sample", [2, 3, 24]),
        # Whole probes agree with gradients. In the first sample the fourth position is the first that is padding.
        ("mask-ignored-without-gradients", [1, 4, 24]),
        # Outputs are right everywhere.
        ("input-detached", None),
    ],
)
def test_the_smallest_input_is_as_small_as_the_defect_allows(
    wrong: str, smallest: list[int] | None, run_with: RunWith
) -> None:
    """By hand, beside each: samples, positions, width."""
    assert smallest_failing_input(run_with(wrong)) == smallest


def test_samples_are_left_out_before_positions_are(run_with: RunWith) -> None:
    """The first size that is wrong is taken, in the order in which sizes are given; none where all agree."""
    run = run_with("scores-scaled-by-d-model")
    assert first_wrong(run, Case(), [(1, 1), (2, 1), (1, 3), (1, 2)]) == (1, 3)
    assert first_wrong(run, Case(), [(1, 1), (2, 1)]) is None
    assert first_wrong(run_with(), PADDED[0], [(1, 2), (2, 3)]) is None


def test_an_image_keeps_its_size(run_with: RunWith) -> None:
    """One sample of it suffices for a wrong scale."""
    run = run_with("scores-scaled-by-d-model", profile="vit")
    assert smallest_failing_input(run) == [1, *run.probes[Case().probe].inputs[0].shape[1:]]
