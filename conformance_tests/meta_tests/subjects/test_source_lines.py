"""Whose code a file is."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from conformance_tests.subjects.source_lines import folders_of, is_authors


def test_a_package_is_found_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be installed for one user, or be built from its sources. A mere folder, or a stand-in, is none."""
    (tmp_path / "built_from_sources").mkdir()
    (tmp_path / "built_from_sources" / "__init__.py").touch()
    (tmp_path / "mere_folder").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "stand_in", ModuleType("stand_in"))
    names = ["built_from_sources", "installed_nowhere", "mere_folder", "stand_in"]
    assert list(folders_of(names)) == [f"{tmp_path}/built_from_sources/"]


def test_an_author_writes_neither_a_framework_nor_the_suite() -> None:
    """The encoders of its tests are encoders all the same."""
    assert not is_authors(str(torch.__file__))
    assert not is_authors(folders_of.__code__.co_filename)
    assert not is_authors("<string>")
    assert is_authors(__file__)
    assert is_authors("/home/author/model.py")
