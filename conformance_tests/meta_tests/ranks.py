"""Processes that are started together, as torchrun does it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENCODERS = "conformance_tests.meta_tests.encoders.spread"

PATIENT = """
import sys
from datetime import timedelta
from conformance_tests.subjects.spread import ranks
ranks.PATIENCE = timedelta(seconds=float(sys.argv.pop(1)))
from conformance_tests.frontends.command_line import main
main()
"""
"""The command line, which waits so many seconds for other ranks."""


@dataclass(frozen=True)
class Ended:
    """Processes that have ended, in the order of their ranks, and the report that the first one wrote by target."""

    statuses: list[int]
    printed: list[str]
    complaints: list[str]
    targets: Mapping[str, Any]


def checked(size: int, names: list[str], folder: Path, patience: float = 60.0, level: str = "gradient") -> Ended:
    """Judge encoders in so many processes that are started together.

    Args:
        size: the number of processes.
        names: those of the encoders.
        folder: where the report is written.
        patience: how many seconds each process waits for the others.
        level: the strongest evidence to look for.
    """
    file = folder / "report.json"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    targets = [f"{ENCODERS}:{name}" for name in names]
    command = [sys.executable, "-c", PATIENT, str(patience), "check", *targets, "--level", level, "--json", str(file)]
    around = os.environ | {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    around |= {"OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command, env=around | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
    try:
        told = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    report = json.loads(file.read_text()) if file.exists() else {"targets": []}
    by_name = {t["target"].rpartition(":")[2]: t for t in report["targets"]}
    return Ended([p.returncode for p in started], [out for out, _ in told], [err for _, err in told], by_name)
