"""Files for reports."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from encoder_spec.notation import SpecificationError

STANDARD_OUTPUT = Path("-")
"""Stands for standard output in the place of a file."""


def demand_writable(*files: Path) -> None:
    """Find out before the work that a file cannot be written.

    Raises:
        SpecificationError: if one cannot, or is to hold two reports.
    """
    for n, path in enumerate(files):
        if path.resolve() in [other.resolve() for other in files[:n]]:
            raise SpecificationError(f"{path} cannot hold two reports: name a file for each")
        if path == STANDARD_OUTPUT:
            continue
        try:
            existed = path.exists()
            with path.open("a", encoding="utf-8"):
                pass
            if not existed:
                path.unlink()
        except OSError as fault:
            raise SpecificationError(f"{path} cannot be written: {fault.strerror}") from None


def forget(stream: IO[str]) -> None:
    """Write nothing more to a stream, whose reader is gone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):
        os.dup2(nothing, stream.fileno())


def write(path: Path, text: str) -> None:
    """Write a report file; what has no place in UTF-8 is written out, in JSON as its own escape."""
    try:
        if path == STANDARD_OUTPUT:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            return
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as fault:
        raise SpecificationError(f"{path} cannot be written: {fault.strerror}") from None
