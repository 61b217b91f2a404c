"""Judgements that tests share with the runs before: kept under a hash of whatever they depend on.

A judgement is a function of the sources, the installed packages, the processor and the question. The first run after
a change computes it; the runs that follow, of tests whose own files alone have changed, read it. Nothing that is kept
can be out of date, and ``.cache/`` may be deleted at any time.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.metadata import distributions
from inspect import Parameter, signature
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch

from conformance_tests.engine.judging import check
from conformance_tests.reports.report import Result, TargetReport

USUAL = {name: p.default for name, p in signature(check).parameters.items() if p.default is not Parameter.empty}
"""What is asked unless a test asks for something else."""

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".cache" / "judgements"


def sources() -> Iterator[Path]:
    """Yield the files that a judgement may depend on: the code and data of both packages, but no tests."""
    for package in ("encoder_spec", "conformance_tests"):
        for file in sorted((ROOT / package).rglob("*")):
            is_own_test = "meta_tests" in file.parts and file.name.startswith("test_")
            if file.suffix in (".py", ".json") and not is_own_test:
                yield file


@cache
def fingerprint() -> str:
    """Return a hash of the sources, of what is installed, and of the processor, which decides how sums round."""
    installed = sorted(f"{d.name} {d.version}" for d in distributions())
    machine = [sys.version, platform.machine(), torch.backends.cpu.get_cpu_capability()]
    digest = hashlib.sha256("\n".join([*machine, *installed]).encode())
    for file in sources():
        digest.update(f"\n{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Return where the judgements of these sources are kept; those of others are gone."""
    own = KEPT / fingerprint()
    for other in KEPT.glob("*"):
        if other != own:
            rmtree(other, ignore_errors=True)
    own.mkdir(parents=True, exist_ok=True)
    return own


class Judgements:
    """Judges for one test, or looks up what the same test was told before, or any test about an encoder of the zoo.

    Args:
        test: the id of the test, and the content of its file, in which encoders may be defined.
    """

    def __init__(self, *test: str) -> None:
        self.test = test
        self.asked = 0

    def __call__(self, target: Any, known_as: str = "", **question: Any) -> TargetReport:
        """Judge a target as ``check`` does, and return its report.

        Args:
            target: what is judged.
            known_as: the name of an encoder that is defined among the sources, and not in a test: all tests that ask
                the same question about this name share one judgement.
            question: what is asked, as ``check`` takes it.
        """
        self.asked += 1
        asker = ["known", known_as] if known_as else [*self.test, str(self.asked)]
        words = "\n".join([*asker, repr(sorted((USUAL | question).items(), key=str))])
        file = folder() / f"{hashlib.sha256(words.encode()).hexdigest()[:24]}.json"
        if file.is_file():
            kept = json.loads(file.read_text(encoding="utf-8"))
            return TargetReport(**kept | {"requirements": [Result(**r) for r in kept["requirements"]]})
        report = check(target, **question).targets[0]
        part = file.with_suffix(f".{hash(self.test)}.part")
        part.parent.mkdir(parents=True, exist_ok=True)  # a run of other sources may have begun meanwhile
        part.write_text(json.dumps(asdict(report)), encoding="utf-8")
        part.replace(file)  # whole or not at all, also where two workers write it
        return report


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> Judgements:
    """Judge encoders, each once for the same sources."""
    return Judgements(request.node.nodeid, request.path.read_text(encoding="utf-8"))
