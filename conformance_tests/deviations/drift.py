"""A state that changes with every call, which an encoder in evaluation must not have."""

from itertools import count

CALLS = count()


def drift() -> float:
    """A factor between 1.01 and 1.12 that is another one each time it is asked for."""
    return 1.01 + next(CALLS) % 1009 / 1e4
