"""Fixtures that several files of the suite's own tests share."""

from collections.abc import Iterator

import pytest
from jaxtyping import config

from conformance_tests.meta_tests.site.site import generators_on_path, site

__all__ = ["generators_on_path", "shape_checks", "site"]


@pytest.fixture(scope="module", autouse=True)
def shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the shapes of each call where equations are tested, and nowhere else.

    Judging an encoder evaluates the specification thousands of times; checking shapes there takes two thirds of the
    time and finds nothing that the tests of the specification do not find.
    """
    config.update("jaxtyping_disable", ".meta_tests.spec." not in request.module.__name__)
    yield
    config.update("jaxtyping_disable", False)
