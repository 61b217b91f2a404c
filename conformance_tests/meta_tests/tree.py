"""A copy of the repository's packages, in which a test may write and run what it likes."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied(folder: Path, *parts: str) -> Path:
    """Copy both packages, and other parts of the repository, into a folder, and return it."""
    for part in ("encoder_spec", "conformance_tests", *parts):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a tree, on its packages and no others."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={"PYTHONPATH": str(tree), "PATH": "", "HOME": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def printed(tree: Path, program: str) -> list[str]:
    """Return what a program prints in a tree, line by line; it must succeed."""
    done = python(tree, "-c", program)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()
