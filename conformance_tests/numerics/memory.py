"""Memory of large arrays, which is given back to the system as soon as it is free.

The C library keeps what is let go for what is asked for next. Between small arrays that stay, large ones leave gaps
that later ones do not fit into, and BERT-base takes twice what is in use. Other libraries than GNU's are left alone.
"""

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
"""The parameter of ``mallopt``: from so many bytes on an array gets separate memory, which goes back with it."""

SEPARATE = 4 * 2**20
"""The weights of large encoders are such arrays; what they compute of few positions are not, and need no new pages."""

UNKNOWN_LIBRARY = AttributeError, OSError, TypeError


def keep_large_arrays_apart() -> None:
    """Give back the memory of each large array with it, until the process ends: a tenth of the time goes into that."""
    with suppress(*UNKNOWN_LIBRARY):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, SEPARATE)


def give_back() -> None:
    """Give back the memory that smaller arrays have left."""
    with suppress(*UNKNOWN_LIBRARY):
        ctypes.CDLL(None).malloc_trim(0)
