"""Shape annotations are executed: whatever the tests of this repository compute, beartype checks each equation.

The hook must stand before the topics are imported, hence here; users of the package never load it.
"""

import pytest
from jaxtyping import install_import_hook

from encoder_spec.equation import TOPICS

install_import_hook([f"encoder_spec.{topic}" for topic in TOPICS], "beartype.beartype")

LONGEST = ("test_site_pages.py", "test_verdicts.py", "test_isolation.py")
"""Files that take minutes: begun first, they end while the others are still running beside them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; each file keeps its order."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
