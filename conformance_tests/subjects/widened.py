"""A computation in float64 throughout: casts to a narrower type that an encoder states are left out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from conformance_tests.subjects.dispatched import OperationMode

NARROW = (torch.float32, torch.bfloat16, torch.float16)


@contextmanager
def widened() -> Iterator[None]:
    """Compute in float64, also where a cast or a new array is asked for in a narrower type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widening():
            yield
    finally:
        torch.set_default_dtype(before)


class Widening(OperationMode):
    """Replaces a narrower type that an operation on float64 is asked for."""

    def ran(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operation."""
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        wide = not tensors or any(t.dtype is torch.float64 for t in tensors)
        if kwargs.get("dtype") in NARROW and wide:
            kwargs["dtype"] = torch.float64
        return operation(*args, **kwargs)
