"""What one build leaves for the next, bound to what it was made of.

A hash of the sources and of the version of every installed package is part of the path under which
anything is kept. Change an equation, and what was computed with the old one is not found any more:
nothing has to be judged out of date, and nobody can forget to. What was made of other sources is
removed.

Nothing here imports the specification: finding its files takes milliseconds, loading torch takes seconds.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from generators.problems import GapError

DOCS = Path(__file__).parents[1]
ROOT = Path(".cache") / "site"
IGNORED = (".pyc", ".pyi", ".typed")


def folder_of(package: str) -> Path:
    """Where a package stands.

    Raises:
        ModuleNotFoundError: if it stands nowhere.
    """
    spec = find_spec(package)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"the site is about {package}, which is not installed: pip install -e .[docs]")
    return Path(spec.origin).parent


@cache
def packages() -> str:
    """A hash of Python's version and that of every installed package."""
    found = sorted({f"{d.name} {d.version}" for d in distributions()})
    return hashlib.sha256("\n".join([sys.version, *found]).encode()).hexdigest()


def digest(folders: Iterable[Path], without: Path | None = None) -> str:
    """A hash of every file below some folders, by path and content, and of what is installed."""
    hashed = hashlib.sha256(packages().encode())
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix not in IGNORED and without not in file.parents:
                content = file.read_bytes()
                hashed.update(f"\n{file.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return hashed.hexdigest()[:16]


@cache
def computed() -> str:
    """What the results of executed pages depend on, beside their own text: everything but the tests of the suite."""
    suite = folder_of("conformance_tests")
    return digest([folder_of("encoder_spec"), suite, Path(__file__).parent], without=suite / "meta_tests")


@cache
def everything() -> str:
    """What the generated pages depend on: the same, and the chapters, examples, data and changes of the book."""
    return digest([folder_of("encoder_spec"), folder_of("conformance_tests"), DOCS, DOCS.parent / "changelog.d"])


def place(kind: str, fingerprint: str) -> Path:
    """The folder of what was made under a fingerprint; what was made under others is gone."""
    own = ROOT / kind / fingerprint
    for other in own.parent.glob("*"):
        if other != own:
            shutil.rmtree(other, ignore_errors=True)
    own.mkdir(parents=True, exist_ok=True)
    return own


def once(file: Path, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What ``file`` keeps, or what ``make`` makes, which is then kept.

    Two builds at once may both make it. A file appears whole or not at all.
    """
    if file.is_file():
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return found
    made = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part", delete=False, encoding="utf-8") as part:
        json.dump(made, part)
    Path(part.name).replace(file)
    return made


def forget() -> None:
    """Look at the sources anew, which may change while a site is served."""
    computed.cache_clear()
    everything.cache_clear()


def pages() -> dict[str, str]:
    """Every generated page and script, by its path below ``docs``.

    Raises:
        GapError: if something that the specification promises is missing.
    """
    return once(place("generated", everything()) / "pages.json", generate)


def generate() -> dict[str, str]:
    """All pages, made by a fresh process: one that serves a site still has the modules of when it began."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pages.json"
        command = [sys.executable, "-m", "generators", str(file)]
        paths = [str(DOCS), *(str(folder_of(package).parent) for package in ("encoder_spec", "conformance_tests"))]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise GapError(done.stderr.strip())
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def text(kind: str, content: str, make: Callable[[str], str]) -> str:
    """What ``make`` makes of ``content``, which depends on nothing but that and the generators."""
    name = hashlib.sha256(content.encode()).hexdigest()[:24]
    return once(place(kind, computed()) / f"{name}.json", lambda: {"text": make(content)})["text"]
