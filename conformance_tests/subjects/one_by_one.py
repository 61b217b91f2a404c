"""Encoders without a batch of arrays: they take sequences one by one, or return an array for each sequence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from conformance_tests.subjects.attributes import attribute
from conformance_tests.subjects.likely_inputs import SEQUENCE


def without_batch(value: Any) -> Any:
    """Return an argument for a batch of one sequence as the one for that sequence."""
    return value[0] if attribute(value, "ndim", 0) and len(value) == 1 else value


def with_batch(returned: Any, is_part: bool = False) -> Any:
    """Return what an encoder returns of one sequence as that of a batch of one.

    A part of it may have such a batch already, in either of the first two axes.
    """
    return over_tensors(lambda t: without_inner_batch(t)[None] if is_part else t[None], returned)


def without_inner_batch(hidden: Tensor) -> Tensor:
    """Return hidden states of one sequence without the axis of a batch, if they have one."""
    alone = [axis for axis, size in enumerate(hidden.shape[:2]) if size == 1]
    return hidden.squeeze(alone[0]) if hidden.ndim == SEQUENCE and alone else hidden


def apart(sizes: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """Return what gives each sequence its positions, where those of all sequences come back in one axis.

    Args:
        sizes: the numbers of sequences and positions.
    """
    return lambda t: t.unflatten(0, tuple(sizes)) if t.ndim == SEQUENCE - 1 and len(t) == prod(sizes) else t


def are_sequences(returned: Any, lengths: Sequence[int]) -> bool:
    """Return whether what comes back is an array (n, d) for each sequence, each with as many positions as it has."""
    if not isinstance(returned, tuple | list):
        return False
    if not all(isinstance(t, Tensor) and t.ndim == SEQUENCE - 1 for t in returned):
        return False
    return [len(t) for t in returned] == list(lengths)


def filled_up(returned: Sequence[Tensor], keep: Tensor) -> Tensor:
    """Return the positions of sequences that come back one array each where a mask (B, n) keeps them, among zeros."""
    if bool(keep.all()):
        return torch.stack(list(returned))
    filled = returned[0].new_zeros(*keep.shape, *returned[0].shape[1:])
    filled[keep] = torch.cat(list(returned))
    return filled


def joined(returned: Sequence[Any]) -> Any:
    """Return what an encoder returns of several batches as that of one batch."""
    return over_tensors(lambda *parts: torch.cat(parts), *returned)


def over_tensors(function: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    """Apply a function to the tensors that stand at the same place of structures alike; the rest is that of the first.

    Data classes become dictionaries.
    """
    if isinstance(first, Tensor):
        return function(first, *others)
    if is_dataclass(first) and not isinstance(first, Mapping):
        first, others = vars(first), tuple(map(vars, others))
    if isinstance(first, Mapping):
        return {name: over_tensors(function, value, *(o[name] for o in others)) for name, value in first.items()}
    if isinstance(first, tuple | list):
        parts = [over_tensors(function, *values) for values in zip(first, *others, strict=True)]
        return parts if isinstance(first, list) else tuple(parts)
    return first
