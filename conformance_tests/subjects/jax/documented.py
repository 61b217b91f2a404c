"""Parts of Flax that document to compute otherwise, noted while a function that calls them is traced."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ONE_PASS = "norms of Flax document that they compute variances in one pass (use_fast_variance), which costs digits"


def computes_in_one_pass(part: Any) -> bool:
    """Return whether a norm of Flax documents that it computes E[x²] − μ²."""
    return bool(getattr(part, "use_fast_variance", False))


@contextmanager
def one_pass_noted(note: Callable[[], None]) -> Iterator[None]:
    """Call ``note`` whenever a norm of Linen that computes in one pass is called, wherever in a function that is.

    Where Linen is not imported, nothing of it is called.
    """
    linen = sys.modules.get("flax.linen")
    if linen is None:
        yield
        return

    def noted(method: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        if computes_in_one_pass(context.module):
            note()
        return method(*args, **kwargs)

    with linen.intercept_methods(noted):
        yield
