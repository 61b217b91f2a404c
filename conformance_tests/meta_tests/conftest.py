"""Fixtures that several files of the suite's own tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import config

from conformance_tests.meta_tests.judgements import judged
from conformance_tests.meta_tests.site.site import generators_on_path, site

__all__ = ["generators_on_path", "judged", "shape_checks", "site"]

HERE = Path(__file__).parent

THOROUGH = (
    "deviations/test_look_alikes.py",
    "diagnosis/test_foreign_deviations.py",
    "diagnosis/test_shrinking.py",
    "encoders",
    "engine/test_expected.py",
    "engine/test_precision.py",
    "engine/test_reproduction.py",
    "frontends/test_decorator.py",
    "frontends/test_plugin.py",
    "frontends/test_quick_start.py",
    "frontends/test_readme.py",
    "frontends/test_released_form.py",
    "frontends/test_scaffold.py",
    "frontends/test_workers.py",
    "identification",
    "isolation/test_isolation.py",
    "measurements/test_mutants.py",
    "reports/test_reports.py",
    "repository",
    "site",
    "subjects/test_calling.py",
    "subjects/test_checkpoint.py",
    "subjects/test_inputs.py",
    "subjects/test_segments.py",
    "typing",
)
"""Folders and files that judge whole encoders, start processes or browse the site.

`make test-all` runs them and `make test` leaves them out. `make test` runs the short tests of each room, and
`encoders/test_sample.py`, which judges one encoder of each kind.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known wherever these tests are collected, also where no settings of the repository are read."""
    config.addinivalue_line("markers", "thorough: judges whole encoders, starts processes or browses the site")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that take minutes together."""
    for item in items:
        if item.path.is_relative_to(HERE):
            place = item.path.relative_to(HERE).as_posix()
            if place.startswith(THOROUGH) and item.path.name != "test_sample.py":
                item.add_marker("thorough")


@pytest.fixture(scope="module", autouse=True)
def shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the shapes of each call where equations are tested, and nowhere else.

    Judging an encoder evaluates the specification thousands of times; checking shapes there takes two thirds of the
    time and finds nothing that the tests of the specification do not find.
    """
    config.update("jaxtyping_disable", ".meta_tests.spec." not in request.module.__name__)
    yield
    config.update("jaxtyping_disable", False)
