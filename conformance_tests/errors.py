"""Exceptions of the suite. This module imports nothing, so that each room can raise and catch them.

A check ends with one of three: ``Disagreement`` if the encoder is wrong, ``Blocked`` if something earlier
is wrong already, ``Unsupported`` if the encoder cannot tell.
"""


class Disagreement(AssertionError):
    """A value that differs from the specification's; the message says where and by how much."""

    def __init__(self, message: str, error: float | None = None, budget: float | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.budget = budget


class Unsupported(Exception):
    """A check that could not run on this subject: never a pass, never a failure."""


class Blocked(Exception):
    """A check whose inputs are already wrong, so that its outcome would mean nothing."""


class Undetermined(Exception):
    """The evidence is not enough for a verdict; the message says what is missing."""


class TableUnknown(Undetermined):
    """Token ids are read, and no name tells through which array; the arrays that it may be are ``tables``."""

    def __init__(self, message: str, tables: tuple[str, ...]) -> None:
        super().__init__(message)
        self.tables = tables


class Refused(Undetermined):
    """The encoder refuses every call that was tried, or needs a value that the suite cannot know."""


class Departs(Undetermined):
    """The computation shows departures from which no encoder can be evaluated: what it says of each equation."""

    def __init__(self, message: str, departures: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.departures = departures


class TargetError(Exception):
    """A target's name that cannot be used: the command exits with status 2."""


class SubjectError(Exception):
    """A target that exists but neither is an encoder nor makes one: its verdict is ``error``."""


MOST_ANNOUNCED = 300
"""So many letters are quoted of what the first line of a message announces, such as the keys that are missing."""


def message(fault: BaseException) -> str:
    """Return the message of an exception, which what is judged may have made."""
    try:
        return str(fault)
    except Exception as another:
        return f"making its message raised {type(another).__name__}"


def one_line(fault: BaseException) -> str:
    """Return the class and the message of an exception as one line, with the beginning of what a colon announces."""
    line, _, rest = f"{type(fault).__name__}: {message(fault)}".strip().partition("\n")
    announced = " ".join(rest.split()) if line.endswith(":") else ""
    cut = announced if len(announced) <= MOST_ANNOUNCED else f"{announced[:MOST_ANNOUNCED]}…"
    return f"{line} {cut}" if announced else line.removesuffix(":")


def tells_of_memory(said: str) -> bool:
    """Return whether an error says that memory ran out: torch raises a ``RuntimeError`` for it."""
    return "allocate memory" in said or "MemoryError" in said


class Lost(Exception):
    """The worker hung or ended; the message says how."""


class WorkerFault(Exception):
    """A fault of the suite itself in a worker, with the traceback from there."""
