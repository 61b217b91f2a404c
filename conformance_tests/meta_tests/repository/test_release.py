"""A release in a small repository: what it writes, what it refuses, and that a dry run changes nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ".ci/release.py"
if not (ROOT / SCRIPT).is_file():
    pytest.skip("the release script comes with the repository, not with a source distribution", allow_module_level=True)

CHANGELOG = """# Changelog

What users notice.

<!-- towncrier release notes start -->

## 0.2.0 (unreleased)

- Written by hand before fragments came.

## 0.1.0

- The first.
"""


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the repository, as an author whom no configuration names."""
    author = {f"GIT_{who}_{what}": "somebody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = os.environ | author | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def git(folder: Path, *arguments: str) -> str:
    """Run git; it must succeed."""
    done = call(folder, "git", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def released(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the release script."""
    return call(folder, sys.executable, SCRIPT, *arguments)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the script, this configuration, version 0.1.0, its tag and one fragment."""
    for path in (SCRIPT, "pyproject.toml", "changelog.d/README.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    (tmp_path / "encoder_spec").mkdir()
    (tmp_path / "encoder_spec" / "__init__.py").write_text('"""The package."""\n\n__version__ = "0.1.0"\nSPEC = "1"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "changelog.d" / "7.added.md").write_text("Squared ReLU.\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def test_a_release_is_a_tagged_commit_with_version_and_changelog(repository: Path) -> None:
    """The fragment moves into the changelog, above what was written by hand, and nothing is left to commit."""
    done = released(repository, "0.2.0")
    assert (done.returncode, done.stdout) == (0, "Released 0.2.0. To publish it: git push --follow-tags\n"), done.stderr
    assert git(repository, "tag", "--points-at", "HEAD") == "v0.2.0\n"
    assert git(repository, "cat-file", "-t", "v0.2.0") == "tag\n"
    assert git(repository, "log", "-1", "--format=%s") == "Release 0.2.0\n"
    assert git(repository, "status", "--porcelain") == ""
    module = (repository / "encoder_spec" / "__init__.py").read_text()
    assert module == '"""The package."""\n\n__version__ = "0.2.0"\nSPEC = "1"\n'
    assert [path.name for path in (repository / "changelog.d").iterdir()] == ["README.md"]
    lines = [line for line in (repository / "CHANGELOG.md").read_text().splitlines() if line]
    date = git(repository, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d").strip()
    assert lines[2:] == [
        "<!-- towncrier release notes start -->",
        f"## 0.2.0 ({date})",
        "### Added",
        "- Squared ReLU. (#7)",
        "- Written by hand before fragments came.",
        "## 0.1.0",
        "- The first.",
    ]


def test_a_dry_run_shows_the_changelog_and_changes_nothing(repository: Path) -> None:
    """No file, no commit and no tag."""
    before = git(repository, "rev-parse", "HEAD"), git(repository, "tag")
    done = released(repository, "0.2.0", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "- Squared ReLU. (#7)" in done.stdout
    assert done.stdout.endswith("would state 0.2.0; the commit would be tagged v0.2.0.\n")
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "tag")) == before
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("0.2", "'0.2' is not a version of the form x.y.z"),
        ("0.1.0", "0.1.0 is not above 0.1.0, which is tagged already"),
        ("0.0.9", "0.0.9 is not above 0.1.0, which is tagged already"),
    ],
)
def test_a_version_that_cannot_come_next_is_refused(repository: Path, version: str, problem: str) -> None:
    done = released(repository, version)
    assert (done.returncode, done.stderr) == (1, f"no release: {problem}\n")


def test_versions_are_compared_by_number_and_not_by_letter(repository: Path) -> None:
    """0.10.0 comes after 0.9.0, though "1" stands before "9"."""
    git(repository, "tag", "v0.9.0")
    git(repository, "tag", "v0.10.0")
    assert "0.9.1 is not above 0.10.0" in released(repository, "0.9.1").stderr
    assert released(repository, "0.11.0", "--dry-run").returncode == 0


def test_changes_that_nobody_committed_are_no_release(repository: Path) -> None:
    """They would be part of it, and in no review."""
    (repository / "CHANGELOG.md").write_text("something else")
    done = released(repository, "0.2.0")
    assert done.returncode == 1
    assert "no release: the tree has uncommitted changes:\n M CHANGELOG.md" in done.stderr


def test_a_release_without_anything_to_say_is_refused(repository: Path) -> None:
    git(repository, "rm", "--quiet", "changelog.d/7.added.md")
    git(repository, "commit", "--quiet", "--message", "Say nothing")
    assert "no release: changelog.d has no fragment" in released(repository, "0.2.0").stderr
