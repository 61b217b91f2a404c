"""The pytest plugin: ``pytest --pyargs conformance_tests --encoder TARGET``.

It only adds the options; the package's own conftest does the rest, when its tests are
collected. A run that does not use it imports nothing but this file.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("encoder-spec", "conformance of Transformer encoders")
    group.addoption(
        "--encoder",
        action="append",
        metavar="TARGET",
        help="encoder to check: package.module:attribute, file.py:attribute, or a built-in name (repeatable)",
    )
    group.addoption(
        "--encoder-profile",
        default="auto",
        metavar="NAME",
        help="profile that must hold exactly; auto (the default) accepts any variant",
    )
