"""Fixtures that several files of the suite's own tests share."""

from collections.abc import Iterator

import pytest
from jaxtyping import config

from conformance_tests.own.site import generators_on_path, site

__all__ = ["generators_on_path", "site", "without_shape_checks"]

JUDGING_BY_THE_DOZEN = {
    f"conformance_tests.own.test_{name}"
    for name in (
        "ambiguous", "black_box", "deviations", "foreign_deviations", "look_alikes", "onnx", "precision", "pretrained",
        "ready_made", "torch_encoders", "transformers", "transformers_rounding", "tutorials", "uncatalogued",
        "wrong_input",
    )
}  # fmt: skip
"""Files that evaluate the specification many thousand times, of which checking every shape takes two thirds."""


@pytest.fixture(scope="module", autouse=True)
def without_shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """The equations have had every shape checked in the files of their own topics, and here they are used."""
    config.update("jaxtyping_disable", request.module.__name__ in JUDGING_BY_THE_DOZEN)
    yield
    config.update("jaxtyping_disable", False)
