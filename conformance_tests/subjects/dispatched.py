"""The operations of torch that an encoder comes down to, seen one by one below autograd."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

FUSED = (functional.scaled_dot_product_attention, functional.multi_head_attention_forward)
"""What computes attention in one kernel: the second calls the first."""


class Unfused(TorchFunctionMode):
    """Attention is computed step by step, whichever kernels the encoder asks for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See ``TorchFunctionMode``."""
        if func not in FUSED:
            return func(*args, **(kwargs or {}))
        with sdpa_kernel([SDPBackend.MATH]):
            return func(*args, **(kwargs or {}))


@contextmanager
def unfused() -> Iterator[None]:
    """Let attention be computed step by step: a fused kernel shows no scores.

    Scripted code passes the mode by; torch's own setting serves it.
    """
    with sdpa_kernel([SDPBackend.MATH]), Unfused():
        yield


class OperationMode(TorchDispatchMode):
    """Runs every operation on memory itself.

    What a tensor does that holds others and computes with these, such as a nested one, comes here as operations on
    those that it holds.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled under this mode, and torch would import its compiler for seconds to ask."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, unless one of the tensors computes with others that it holds."""
        if any(map(holds_others, types)):
            return NotImplemented
        if isinstance(func, HigherOrderOperator):
            with self:  # what takes functions, such as a change of scores, is written in operations
                return func.py_kernels[DispatchKey.CompositeExplicitAutograd](*args, **(kwargs or {}))
        if torch.is_inference_mode_enabled():
            with self:  # autograd, which takes apart what consists of other operations, is passed by there
                parts = func.decompose(*args, **(kwargs or {}))
            if parts is not NotImplemented:
                return parts
        return self.ran(func, tuple(args), dict(kwargs or {}))

    def ran(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation and return what it returns."""
        raise NotImplementedError


def holds_others(kind: type) -> bool:
    """Return whether tensors of a class say themselves how they compute."""
    return getattr(kind, "__torch_dispatch__", None) is not Tensor.__torch_dispatch__


class Recorder(OperationMode):
    """Keeps a copy of every floating tensor that an operation returns, or changes a part of, wherever it computes.

    Args:
        held: where parameters are held: one that is turned as a whole is not computed, and may be large.
    """

    def __init__(self, held: Iterable[int] = ()) -> None:
        super().__init__()
        self.held = set(held)
        self.results: list[Tensor] = []
        self.narrowed: torch.dtype | None = None

    def ran(self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operation and keep what it returns."""
        result = operation(*args, **kwargs)
        results = result if isinstance(result, tuple | list) else (result,)
        # Writing into a part changes the whole.
        is_written = operation._schema.is_mutable
        wholes = [v._base for v in results if is_written and getattr(v, "_base", None) is not None]
        for value in (*results, *wholes):
            if not isinstance(value, Tensor) or not value.is_floating_point() or holds_others(type(value)):
                continue
            # An operation in place counts as a version of its argument only after it has been recorded here.
            if value.numel() > 1 and (is_written or not self._is_view_of_a_whole(value, args)):
                self.results.append(value.detach().clone().cpu())
            if value.dtype is torch.float32 and is_rounded(value):
                self.narrowed = torch.float32
        return result

    def _is_view_of_a_whole(self, value: Tensor, args: Any) -> bool:
        """Return whether a result is a view of all of a parameter, or of an argument."""
        if any(is_same_data(value, argument) for argument in args):
            return True
        storage = value.untyped_storage()
        return storage.data_ptr() in self.held and storage.nbytes() == value.numel() * value.element_size()


def is_rounded(value: Tensor) -> bool:
    """Return whether numbers are subject to rounding: masks, positions and lengths are whole, and so exact."""
    finite = value[value.isfinite()]
    return bool((finite != finite.round()).any())


def is_same_data(value: Tensor, argument: Any) -> bool:
    """Return whether a result is only a view of all of an argument, which has been recorded already."""
    return (
        isinstance(argument, Tensor)
        and argument.numel() == value.numel()
        and argument.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        and not argument.is_inference()  # there torch does not count what is written
        and argument._version == 0
    )
