"""The sources from which a file was computed, in a few characters.

For the kill matrix, comments, docstrings, empty lines and what is imported from where among our own modules do not
count, because they change no outcome. For the catalogue of the lists every line counts.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator
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
    return hash_of(SOURCES, code_of)


def hash_of(sources: Iterable[tuple[Path, str]], lines: Callable[[str], Iterable[str]]) -> str:
    """Return a hash of source files.

    Args:
        sources: folders, each with a pattern for the files in it.
        lines: returns the lines of a source that count.
    """
    digest = sha256()
    for folder, pattern in sources:
        for file in sorted(folder.glob(pattern)):
            digest.update(file.relative_to(folder).as_posix().encode())
            digest.update("\n".join(lines(file.read_text(encoding="utf-8"))).encode())
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
