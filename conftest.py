"""Shape annotations are executed, and the longest files of tests begin first.

Beartype checks each equation that the tests of this repository evaluate.

Files that judge encoders by the dozen are the exception; ``conformance_tests/meta_tests/conftest.py`` lists them.

The hook must stand before the topics are imported, hence here; users of the package never load it.
"""

import pytest
from jaxtyping import install_import_hook

from encoder_spec.equation import TOPICS

install_import_hook([f"encoder_spec.{topic}" for topic in TOPICS], "beartype.beartype")

LONGEST = ("test_site_pages.py", "test_verdicts.py", "test_isolation.py", "test_tutorials.py", "test_transformers.py")
"""Files that take minutes: begun first, they end while the others are still running beside them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; each file keeps its order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
