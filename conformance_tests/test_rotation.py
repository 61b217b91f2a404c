"""Checks of rotary positions: what turns queries and keys."""

from functools import partial

from torch import Tensor

from conformance_tests.harness.checks import decides
from conformance_tests.harness.run import Run
from encoder_spec.rotation import angles, halves, pairs


@decides("ROT-1", "ROT-7", "ROT-9", "ROT-10", level="trace")
def test_each_pair_of_features_has_the_angles_of_its_wavelength(run: Run) -> None:
    """m·θ^(−2i/r), or of an image by row and column: an intermediate, and what turns queries and keys."""
    run.expect("angles").reaches("rotation").is_formed()


@decides("ROT-13", "ROT-14", "ROT-15", level="trace")
def test_patches_have_the_coordinates_of_their_rows_and_columns(run: Run) -> None:
    """Counted, stretched or from the centre, (0, 0) for a class token: an intermediate, and what is put in order."""
    run.expect("coordinates").reaches("axes").is_formed()


@decides("ROT-11", "ROT-12", level="trace")
def test_pairs_tell_rows_and_columns_in_their_order(run: Run) -> None:
    """Row and column, or column and row: an intermediate, and what the angles are multiples of."""
    run.expect("axes").reaches("angles").is_formed()


@decides("ROT-2", "ROT-5", "ROT-6", level="trace")
def test_scores_compare_turned_queries_and_keys(run: Run) -> None:
    """Both are turned, in halves, in pairs or not at all: intermediates, and what the scores read."""
    expected = run.expect("rotation").reaches("scores")
    if run.encoder.profile["rotation"].variant == "none":
        expected.is_not_changed_by(turned_in_halves).is_not_changed_by(turned_in_pairs)
    expected.is_formed()


def turned_in_halves(x: Tensor) -> Tensor:
    """Return queries or keys as rotary positions with the usual base turn them, a feature of each half."""
    return halves(x, angles=partial(angles, theta=10000.0, fraction=1.0))


def turned_in_pairs(x: Tensor) -> Tensor:
    """Return queries or keys as rotary positions with the usual base turn them, neighbouring features."""
    return pairs(x, angles=partial(angles, theta=10000.0, fraction=1.0))
