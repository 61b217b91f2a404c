"""The ratios of each run on file, one entry in a line, by commit and versions: ``docs/benchmarks.jsonl``.

The file stands beside the site, whose page of benchmarks shows it.
"""

import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.figures import Ratio
from benchmarks.measuring import ROOT

FILE = ROOT / "docs" / "benchmarks.jsonl"
DIGITS = 4
DIRTY = "-dirty"
KEY = ("commit", "python", "torch")


def git(*arguments: str, check: bool = True) -> str:
    """Return what git prints; with ``check`` it must succeed."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=check)
    return done.stdout.strip()


def commit_of(revision: str = "") -> str:
    """Return the short name of a commit; of this working tree where none is named, marked if files differ from it."""
    if revision:
        return git("rev-parse", "--short=12", f"{revision}^{{commit}}")
    return git("describe", "--always", f"--dirty={DIRTY}", "--abbrev=12", "--exclude=*")


def entry(
    commit: str, figures: Mapping[str, Ratio], counts: Mapping[str, Any], missing: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is put on file of one run."""
    key = {"commit": commit, "python": platform.python_version(), "torch": version("torch")}
    shown = {
        name: {
            k: round(v, DIGITS) if isinstance(v, float) else v for k, v in asdict(one).items() if v not in (None, "")
        }
        for name, one in figures.items()
    }
    return key | {"figures": shown, "counts": dict(counts), "not measured": dict(missing)}


def entries(file: Path = FILE) -> list[dict[str, Any]]:
    """Return what is on file, the oldest first."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [dict(json.loads(line)) for line in lines]


def put(new: Mapping[str, Any], file: Path = FILE) -> None:
    """Put an entry at the end; an earlier one of the same commit and versions goes."""
    others = [old for old in entries(file) if any(old[k] != new[k] for k in KEY)]
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in [*others, new])
    file.write_text(text, encoding="utf-8")


def ratios_of(entry: Mapping[str, Any]) -> dict[str, Ratio]:
    """Return the ratios of an entry; one of the first runs has no spread."""
    return {
        name: Ratio(**({"low": one["ratio"], "high": one["ratio"]} | one)) for name, one in entry["figures"].items()
    }


def commit_on_file(file: Path = FILE) -> str:
    """Return the commit of the last entry: the one that was measured, or else the one that put the entry on file.

    Raises:
        LookupError: if nothing is on file, or neither commit is in this clone.
    """
    on_file = entries(file)
    if not on_file:
        raise LookupError(f"no benchmark is on file in {file}: run `make bench`, and commit the file")
    measured = on_file[-1]["commit"]
    filed = git("log", "--format=%H", "-S", f'"commit": "{measured}"', "--", str(file), check=False).splitlines()
    for commit in (measured.removesuffix(DIRTY), *filed[-1:]):
        if found := git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", check=False):
            return found[:12]
    raise LookupError(f"commit {measured}, which is on file, is not in this clone: run `git fetch --unshallow`")
