"""Each statement of the security policy names a test that there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = re.findall(r"`(\S+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))


def test_each_statement_names_a_test() -> None:
    """One behind each point of the list."""
    points = re.findall(r"^\* .*(?:\n  .*)*", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(points) == len(NAMED) > 10
    assert all("::test_" in point.splitlines()[-1] for point in points)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    source = (ROOT / "conformance_tests/meta_tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {test}\(", source, re.MULTILINE)
