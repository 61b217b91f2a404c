"""Ratios measured side by side in one run; absolute times say little about another machine.

Each figure is the median of several repetitions, interleaved so that a busy machine slows
both sides alike. ``history.jsonl`` keeps the figures of each run, one entry in a line, by commit
and versions: commit the line with a change that was meant to make something faster.
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

REPETITIONS = 5
HISTORY = Path(__file__).with_name("history.jsonl")


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ratio(work: Callable[[], object], unit: Callable[[], object]) -> float:
    """The median time of ``work`` over that of ``unit``, measured in turns."""
    pairs = [(seconds(work), seconds(unit)) for _ in range(REPETITIONS)]
    return median(w for w, _ in pairs) / median(u for _, u in pairs)


def python(*arguments: str) -> Callable[[], object]:
    """A fresh interpreter running something."""
    return lambda: subprocess.run([sys.executable, *arguments], check=False, capture_output=True)


def measured() -> dict[str, float]:
    """Measure every ratio, by what it compares."""
    import_torch = python("-c", "import torch")
    command = ("-m", "conformance_tests")
    one = python(*command, "check", "torch-post-ln")
    ratios = {
        "help / import torch": ratio(python(*command, "--help"), import_torch),
        "usage error / import torch": ratio(python(*command, "check", "nobody"), import_torch),
        "check of one encoder / import torch": ratio(one, import_torch),
    }

    from conformance_tests import check

    check("torch-post-ln")
    several = ["torch-post-ln", "torch-pre-ln", "reference"]
    work, unit = lambda: check(several), lambda: check(several[0])
    return ratios | {"three encoders / one, torch imported": ratio(work, unit)}


def key() -> dict[str, str]:
    """Name what was measured: the commit, marked if files differ from it, and the versions that matter."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=HISTORY.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return {"commit": described.stdout.strip(), "python": platform.python_version(), "torch": version("torch")}


def last_entry(history: Path) -> dict[str, Any] | None:
    """Return the last entry of a history; None if there is no history yet."""
    lines = history.read_text(encoding="utf-8").splitlines() if history.is_file() else []
    return dict(json.loads(lines[-1])) if lines else None


def append(history: Path, entry: dict[str, Any]) -> None:
    """Add an entry at the end of a history."""
    with history.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def comparison(entry: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Compare an entry with an earlier one: each ratio, what it was, and by how much it has changed.

    A ratio without an earlier value, such as a new benchmark, stands alone.
    """
    lines = []
    if before is not None:
        lines.append("compared with " + ", ".join(f"{name} {before[name]}" for name in ("commit", "python", "torch")))
    for name, value in entry["ratios"].items():
        line = f"{name:38}{value:8.2f}"
        was = before["ratios"].get(name) if before is not None else None
        lines.append(line if was is None else f"{line}   was {was:6.2f}   {(value / was - 1) * 100:+4.0f} %")
    return "\n".join(lines)


def main() -> None:
    """Measure, compare with the last entry of the history, and add one."""
    entry = {**key(), "ratios": {name: round(value, 3) for name, value in measured().items()}}
    print(comparison(entry, last_entry(HISTORY)))
    append(HISTORY, entry)


if __name__ == "__main__":
    main()
