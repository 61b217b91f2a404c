"""The built site: once for the same sources, whoever asks for it, ``make docs`` or the tests.

``python -m generators.built`` tells the folder of the site, and builds it first if nobody has. With a folder as
argument it puts a copy there.

A built site is found under the hash of everything that it was made of, and it is put there whole, when MkDocs has
finished without a fault. So there is no site that is stale or half done, and nobody has to judge one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from generators import kept
from generators.problems import GapError

SETTINGS = Path("mkdocs.yml")
PATIENCE = 1800
"""Seconds for which another process may build; executing every page takes minutes on a busy machine."""


def fingerprint() -> str:
    """Return a hash of what the whole site is made of: what its pages are made of, and the settings of MkDocs."""
    kept.forget()
    return hashlib.sha256(kept.everything().encode() + SETTINGS.read_bytes()).hexdigest()[:16]


def site() -> Path:
    """Return the folder of the site as the present sources make it, built strictly unless it was built before.

    Raises:
        GapError: if MkDocs finds a fault, or if the sources change while the site is built.
        filelock.Timeout: if another process builds for half an hour.
    """
    kept.ROOT.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.ROOT / "built.lock", timeout=PATIENCE):
        before = fingerprint()
        folder = kept.place("built", before) / "site"
        if not folder.is_dir():
            part = folder.with_name("part")
            shutil.rmtree(part, ignore_errors=True)
            build(part)
            if fingerprint() != before:
                raise GapError("the sources changed while the site was built from them: build it again")
            part.rename(folder)
    return folder


def build(folder: Path) -> None:
    """Let MkDocs build the site into a folder and stop at its first warning; what it says goes to standard error.

    Raises:
        GapError: if it stops.
    """
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode:
        raise GapError("MkDocs found a fault in the site")


def main(arguments: list[str]) -> None:
    """Tell where the site is, or put a copy of it into the folder that is named."""
    try:
        built = site()
    except GapError as problem:
        sys.exit(str(problem))
    if arguments:
        shutil.rmtree(arguments[0], ignore_errors=True)
        built = Path(shutil.copytree(built, arguments[0]))
    print(built.resolve())


if __name__ == "__main__":
    main(sys.argv[1:])
