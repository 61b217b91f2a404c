"""Whose code a file is."""

from pathlib import Path

import pytest
import torch

from conformance_tests.subjects.source_lines import folders_of, is_authors


def test_a_package_is_found_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework may be installed for one user, or be built in a folder of its sources."""
    (tmp_path / "built_from_sources").mkdir()
    (tmp_path / "built_from_sources" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(folders_of(["built_from_sources", "installed_nowhere"])) == [f"{tmp_path}/built_from_sources/"]


def test_an_author_writes_neither_a_framework_nor_the_suite() -> None:
    """The encoders of its tests are encoders all the same."""
    assert not is_authors(str(torch.__file__))
    assert not is_authors(folders_of.__code__.co_filename)
    assert not is_authors("<string>")
    assert is_authors(__file__)
    assert is_authors("/home/author/model.py")
