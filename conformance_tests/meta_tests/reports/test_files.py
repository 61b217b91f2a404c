"""Files are tried before the work, and written so that any text has a place in them."""

from pathlib import Path

import pytest

from conformance_tests.reports.files import demand_writable, write
from encoder_spec.notation import SpecificationError


def test_a_trial_leaves_nothing_behind(tmp_path: Path) -> None:
    """No new file, and in one that was there what was in it."""
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("kept")
    demand_writable(new, old)
    assert not new.exists()
    assert old.read_text() == "kept"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "b", "a"], "cannot hold two reports: name a file for each"),
        (["a", "./a"], "cannot hold two reports"),
        (["absent/a"], "absent/a cannot be written: No such file or directory"),
        (["a", "."], "cannot be written: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    names: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two options with one file, however it is written; a folder that is absent; a folder in place of a file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecificationError, match=said):
        demand_writable(*map(Path, names))


def test_a_lone_surrogate_is_written_out(tmp_path: Path) -> None:
    """UTF-8 has no place for it."""
    write(tmp_path / "a", "½ \ud800")
    assert (tmp_path / "a").read_bytes() == "½ ".encode() + rb"\ud800"


def test_a_file_that_can_no_longer_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="absent/a cannot be written: No such file or directory"):
        write(tmp_path / "absent" / "a", "x")
