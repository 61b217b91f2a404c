"""The code from which the kill matrix was computed, in a few characters.

Comments, docstrings, empty lines and what is imported from where among our own modules do not count, because they
change no outcome.
"""

import ast
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

SUITE = Path(__file__).parents[1]

OURS = ("encoder_spec", "conformance_tests")

SOURCES = (
    (SUITE.parent / "encoder_spec", "*.py"),
    (SUITE, "test_*.py"),
    (SUITE / "deviations", "**/*.py"),
)
"""The equations, the checks and the deviations. The code that runs them is tried anew in each build, on a sample."""


def fingerprint() -> str:
    """Return a hash of the code of all equations, checks and deviations."""
    digest = sha256()
    for folder, pattern in SOURCES:
        for file in sorted(folder.glob(pattern)):
            digest.update(file.relative_to(folder).as_posix().encode())
            digest.update("\n".join(code_of(file.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:16]


def is_stale(file: Path) -> bool:
    """Return whether equations, checks or deviations have changed since a file was computed from them."""
    return bool(json.loads(file.read_text(encoding="utf-8"))["sources"] != fingerprint())


def code_of(text: str) -> Iterator[str]:
    """Yield the lines of a source that are neither empty nor comment nor docstring nor import of our own modules."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            said |= lines_of(node.body[0])
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            said |= lines_of(node)
    for number, line in enumerate(text.splitlines(), start=1):
        if number not in said and line.strip() and not line.lstrip().startswith("#"):
            yield line.rstrip()


def lines_of(statement: ast.stmt) -> set[int]:
    """Return the numbers of the lines on which a statement stands."""
    return set(range(statement.lineno, (statement.end_lineno or 0) + 1))
