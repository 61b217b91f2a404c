"""The line of an encoder's source behind an operation: neither Python's, nor a framework's, nor the suite's."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from traceback import walk_tb
from types import FrameType

from conformance_tests.errors import one_line

SUITE = f"{__file__.rpartition('/subjects/')[0]}/"

STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]

PACKAGES = tuple({f"{sysconfig.get_paths()[kind]}/" for kind in ("purelib", "platlib")})
"""Where packages are installed, which may be inside of the standard library's folder."""

LIBRARIES = ("torch", "jax", "jaxlib", "flax", "keras", "numpy", "scipy")


def folders_of(packages: Iterable[str]) -> Iterator[str]:
    """Yield the folders of packages that can be imported, wherever they lie: for one user, or elsewhere on the path."""
    for name in packages:
        found = None
        with suppress(ValueError):  # a module that was put in its place by hand has no spec
            found = find_spec(name)
        if found is not None and found.origin:  # a mere folder of that name may be the author's
            yield from (f"{folder}/" for folder in found.submodule_search_locations or ())


FRAMEWORKS = tuple(folders_of(LIBRARIES))


def source_line() -> str:
    """Return the innermost line of the encoder's source that runs now."""
    return innermost(frames_from(sys._getframe(1)))


def with_line(fault: BaseException) -> str:
    """Return an exception in one line, with the innermost line of the encoder's source that it came through."""
    passed = [(frame.f_code.co_filename, line) for frame, line in walk_tb(fault.__traceback__)]
    line = innermost(reversed(passed))
    return f"{one_line(fault)} ({line})" if line else one_line(fault)


def frames_from(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of each call that runs, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def innermost(frames: Iterable[tuple[str, int]]) -> str:
    """Return the first line that is of the encoder's source: ``model.py:41``; empty if there is none.

    Args:
        frames: file and line of each call, the innermost first.
    """
    return next((f"{path.rpartition('/')[2]}:{line}" for path, line in frames if is_authors(path)), "")


def is_authors(path: str) -> bool:
    """Return whether a file of source is the encoder's; code without a file is not."""
    if path.startswith(SUITE):
        return path.startswith(f"{SUITE}meta_tests/")  # the encoders of its tests are encoders
    of_python = path.startswith(STANDARD_LIBRARY) and not path.startswith(PACKAGES)
    return not (of_python or path.startswith(("<", *FRAMEWORKS)))
