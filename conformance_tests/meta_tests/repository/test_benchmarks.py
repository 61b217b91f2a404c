"""The history of the benchmarks: what an entry says, and how it is compared with the one before."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "run.py"
if not SCRIPT.is_file():
    pytest.skip("the benchmarks come with the repository, not with a source distribution", allow_module_level=True)

BEFORE = {"commit": "abc", "python": "3.11.2", "torch": "2.13.0", "ratios": {"help / import torch": 0.05}}


@pytest.fixture(scope="module")
def bench() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("benchmarks_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_ratio_is_compared_with_its_last_value(bench: Any) -> None:
    """0.06 after 0.05 is 20 per cent more; a benchmark that is new has nothing to be compared with."""
    entry = BEFORE | {"ratios": {"help / import torch": 0.06, "new / old": 3.0}}
    assert bench.comparison(entry, BEFORE).splitlines() == [
        "compared with commit abc, python 3.11.2, torch 2.13.0",
        "help / import torch                       0.06   was   0.05    +20 %",
        "new / old                                 3.00",
    ]


def test_the_first_run_is_compared_with_nothing(bench: Any, tmp_path: Path) -> None:
    assert bench.last_entry(tmp_path / "history.jsonl") is None
    assert bench.comparison(BEFORE, None) == "help / import torch                       0.05"


def test_an_entry_is_a_line_at_the_end(bench: Any, tmp_path: Path) -> None:
    """What was written last is read first."""
    history = tmp_path / "history.jsonl"
    bench.append(history, BEFORE)
    bench.append(history, BEFORE | {"commit": "def"})
    assert bench.last_entry(history) == BEFORE | {"commit": "def"}
    assert len(history.read_text(encoding="utf-8").splitlines()) == 2


def test_entries_on_file_say_what_was_measured_and_not_when() -> None:
    """A commit, two versions and positive ratios."""
    entries = [json.loads(line) for line in SCRIPT.with_name("history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert entries
    for entry in entries:
        assert list(entry) == ["commit", "python", "torch", "ratios"]
        assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", entry["commit"])
        assert min(entry["ratios"].values()) > 0
