"""Facts that a launcher such as torchrun tells each process that it starts. Nothing here imports torch."""

import os


def processes_launched() -> int:
    """Return how many processes were started together; 1 without a launcher."""
    return number("WORLD_SIZE", 1)


def rank_launched() -> int:
    """Return which of them this process is; 0 without a launcher."""
    return number("RANK", 0)


def number(variable: str, default: int) -> int:
    """Return the number in an environment variable; the default if there is none."""
    told = os.environ.get(variable, "")
    return int(told) if told.isdigit() else default
