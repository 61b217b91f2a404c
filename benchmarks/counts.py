"""Count, from outside, what judging an encoder takes: passes, evaluations of the specification, draws and casts.

``python -m benchmarks.counts small`` prints the numbers as JSON. A pass repeats another if inputs, weights and mode are
the same, bit for bit.
"""

import ctypes
import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import encoders
from conformance_tests import check
from encoder_spec.equation import variants

PASSES, REPEATED = "forward passes", "of them repeated"
EVALUATIONS = "evaluations of the specification"
DRAWS, DRAWN = "draws of random numbers", "numbers drawn"
CASTS, CAST = "casts to another dtype", "numbers cast"


class Operations(TorchDispatchMode):
    """Counts the operations of torch that draw random numbers or change the dtype of an array."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        result = function(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in function.tags:
            self.counts[DRAWS] += 1
            self.counts[DRAWN] += sum(t.numel() for t in tensors([result]))
        copied = {torch.ops.aten._to_copy.default: args[:1], torch.ops.aten.copy_.default: args[1:2]}
        if any(t.dtype != result.dtype for t in tensors(copied.get(function, ()))):
            self.counts[CASTS] += 1
            self.counts[CAST] += result.numel()
        return result


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among some values and within lists of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def content(tensor: Tensor) -> bytes:
    """Return the bytes behind a tensor and how it reads them, without an operation that anyone could watch."""
    storage = tensor.untyped_storage()
    how = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset()}"
    return how.encode() + ctypes.string_at(storage.data_ptr(), storage.nbytes())


def watched(function: Callable[..., Any], see: Callable[..., None]) -> Callable[..., Any]:
    """Return the same function, whose arguments ``see`` reads first."""

    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        see(*args, **kwargs)
        return function(*args, **kwargs)

    return seen


def counted(make: Callable[[], nn.Module]) -> dict[str, int]:
    """Judge torch's encoder and return what that took."""
    counts: Counter[str] = Counter()
    known: set[bytes] = set()

    def see_pass(encoder: nn.Module, *args: Any, **kwargs: Any) -> None:
        counts[PASSES] += 1
        one = hashlib.blake2b(f"{encoder.training} {torch.is_grad_enabled()} {sorted(kwargs)}".encode())
        for tensor in tensors([*args, *kwargs.values(), *encoder.parameters()]):
            one.update(content(tensor))
        counts[REPEATED] += one.digest() in known
        known.add(one.digest())

    nn.TransformerEncoder.forward = watched(nn.TransformerEncoder.forward, see_pass)
    for equation in variants("stack").values():
        # Equations are frozen, and this process ends with the count.
        vars(equation)["function"] = watched(equation.function, lambda *_, **__: counts.update([EVALUATIONS]))
    with Operations(counts):
        report = check(make)
    if report.verdict != "conformant":
        sys.exit(f"the encoder is {report.verdict}: counting must change nothing")
    return {name: counts[name] for name in (PASSES, REPEATED, EVALUATIONS, DRAWS, DRAWN, CASTS, CAST)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(counted(getattr(encoders, sys.argv[1]))))
