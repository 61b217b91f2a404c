"""Functions for workers to call."""

import os
import time
from dataclasses import dataclass

CALLS: list[str] = []
"""What `placed` was called with in this process."""


@dataclass(frozen=True)
class Point:
    """A value of a class of the suite's tests."""

    x: float
    y: float


def mirrored(point: Point) -> Point:
    """Exchange the coordinates, after as many seconds as the first says; 0 takes half of one."""
    time.sleep(point.x if point.x > 10 else 0.5 * (point.x == 0))
    return Point(point.y, point.x)


def placed(word: str) -> tuple[int, list[str]]:
    """Return this process, and all words with which it was called."""
    CALLS.append(word)
    return os.getpid(), CALLS


def raised(number: int) -> float:
    """Divide by zero."""
    return number / 0


def ended(status: int) -> None:
    """End this process."""
    os._exit(status)
