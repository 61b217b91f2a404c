"""The operations of JAX on tensors of torch.

JAX compiles a function anew for each shape, which takes longer than all else in a judgement: it makes few calls, and
these of many shapes. An operation that stands here is computed without compiling. Any other one, such as a scatter, is
applied by JAX, and so are operations on random keys and in half precision.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import jax
import numpy as np
import torch
from jax import lax
from torch import Tensor

from conformance_tests.subjects.jax.operations import (
    ELEMENTWISE,
    LOOPS,
    PASSES_ON,
    REDUCTIONS,
    SINGLE,
    Unrolling,
    applied,
    as_meant,
    wide,
)

NOT_IN_TORCH = {"cbrt", "round", "reduce_precision"}
"""Those of them that torch lacks, or that have options."""

Params = Mapping[str, Any]


class Translated(Unrolling):
    """Computes on tensors, and with JAX what is not translated.

    Args:
        least: floating types of fewer bytes stay as they are.
        translates: whether anything is translated.
    """

    def __init__(self, least: int, translates: bool = True) -> None:
        self.least = least
        self.translates = translates

    def constant(self, array: Any) -> Any:
        """See ``Arithmetic``."""
        return array if isinstance(array, Tensor) or is_key(array) else tensor(wide(as_meant(array), self.least))

    def apply(self, equation: Any, reads: Sequence[Any]) -> list[Any]:
        """See ``Arithmetic``: a loop is gone through step by step."""
        name, results = equation.primitive.name, [variable.aval for variable in equation.outvars]
        if name in LOOPS:
            return LOOPS[name](self, equation.params, reads)
        if self.translates and all(map(is_translated, reads)) and not any(self._stays(aval) for aval in results):
            given = translation(name, equation.params, reads)
            if given is not None:
                return [as_declared(g, aval) for g, aval in zip(given, results, strict=True)]
        arrays = [self._untranslated(read, var.aval) for read, var in zip(reads, equation.invars, strict=True)]
        return [tensor(wide(result, self.least)) for result in applied(equation, arrays, self.least)]

    def _stays(self, aval: Any) -> bool:
        """Return whether arrays of this type are not computed in float64."""
        is_floating = jax.dtypes.issubdtype(aval.dtype, np.floating)
        return bool(is_floating and aval.dtype.itemsize < self.least)

    def _untranslated(self, read: Any, aval: Any) -> Any:
        """Return a tensor as an array of JAX, in the half precision that it stands for."""
        if not isinstance(read, Tensor):
            return read
        return jax.numpy.asarray(read.numpy(), aval.dtype if self._stays(aval) else None)

    def entry(self, read: Any, i: int) -> Any:
        """See ``Unrolling``."""
        return read[i]

    def stacked(self, reads: Sequence[Any]) -> Any:
        """See ``Unrolling``."""
        return torch.stack(list(reads)) if isinstance(reads[0], Tensor) else jax.numpy.stack(reads)

    def number(self, read: Any) -> int:
        """See ``Unrolling``."""
        return int(read)


def translation(name: str, params: Params, reads: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the results of a primitive on tensors; None if it is not translated, or not with these options."""
    if name in PASSES_ON:
        return list(reads)
    if name in ELEMENTWISE and name not in NOT_IN_TORCH:
        whole = name == "div" and not reads[0].is_floating_point()
        return [torch.div(*reads, rounding_mode="trunc") if whole else getattr(torch, ELEMENTWISE[name])(*reads)]
    if name in REDUCTIONS:
        return [reduced(REDUCTIONS[name], reads[0], params["axes"])]
    if name in OTHERS:
        result = OTHERS[name](params, *reads)
        return result if isinstance(result, list) or result is None else [result]
    return None


def is_translated(read: Any) -> bool:
    """Return whether an array is a tensor of a type that torch computes with."""
    return isinstance(read, Tensor) and read.dtype not in (torch.uint16, torch.uint32, torch.uint64)


def as_declared(result: Tensor, aval: Any) -> Tensor:
    """Return a result in the type of whole numbers or truth values that JAX gives it; all else is in float64."""
    if jax.dtypes.issubdtype(aval.dtype, np.floating):
        return result.double()
    return result.to(TYPES[aval.dtype.name]) if aval.dtype.name in TYPES else result


TYPES = {name: getattr(torch, name) for name in ("bool", "uint8", "int8", "int16", "int32", "int64")}


def is_key(array: Any) -> bool:
    """Return whether an array holds random keys and not numbers."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.extended)


def tensor(array: Any) -> Any:
    """Copy an array to a tensor, float32 for the shorter floating types; leave random keys as they are."""
    if isinstance(array, Tensor) or is_key(array):
        return array
    numbers = np.asarray(array)
    short = jax.dtypes.issubdtype(numbers.dtype, np.floating) and numbers.dtype.itemsize < SINGLE
    return torch.from_numpy(np.array(numbers, dtype=np.float32 if short else None))


def reduced(name: str, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reduce some axes."""
    if name == "prod":
        for axis in sorted(axes, reverse=True):
            x = x.prod(axis)
        return x
    return getattr(torch, name)(x, dim=tuple(axes)) if axes else x


def broadcast(params: Params, x: Tensor, *_: Tensor) -> Tensor:
    """Put axes in their places among those of a shape."""
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        shape[axis] = size
    return x.reshape(shape).expand(params["shape"])


def reshaped(params: Params, x: Tensor) -> Tensor:
    """Lay entries out in another shape; the axes may be put in another order before."""
    order = params.get("dimensions")
    return (x if order is None else x.permute(order)).reshape(params["new_sizes"])


def squeezed(params: Params, x: Tensor) -> Tensor:
    """Leave axes of length 1 out."""
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in params["dimensions"]])


def sliced(params: Params, x: Tensor) -> Tensor:
    """Take a range of each axis."""
    steps = params["strides"] or [1] * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return x[tuple(slice(*bound) for bound in bounds)]


def starts(indices: Sequence[Tensor], shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return where a range of each axis begins, moved so that it lies within."""
    return [min(max(int(i), 0), n - size) for i, n, size in zip(indices, shape, sizes, strict=True)]


def cut_out(params: Params, x: Tensor, *indices: Tensor) -> Tensor:
    """Take a range of each axis that begins where indices say."""
    sizes = params["slice_sizes"]
    return x[tuple(slice(i, i + s) for i, s in zip(starts(indices, x.shape, sizes), sizes, strict=True))]


def put_in(_: Params, x: Tensor, update: Tensor, *indices: Tensor) -> Tensor:
    """Replace a range of each axis that begins where indices say."""
    changed = x.clone()
    places = zip(starts(indices, x.shape, update.shape), update.shape, strict=True)
    changed[tuple(slice(i, i + s) for i, s in places)] = update
    return changed


def padded(params: Params, x: Tensor, value: Tensor) -> Tensor | None:
    """Put a number before and behind; ranges between entries are not translated."""
    config = params["padding_config"]
    if any(between for _, _, between in config) or x.dtype is torch.bool:
        return None
    sides = [side for low, high, _ in reversed(config) for side in (low, high)]
    return torch.nn.functional.pad(x, sides, value=value.item())


def product(params: Params, x: Tensor, y: Tensor) -> Tensor:
    """Multiply over some axes of both sides; the result has the batch's axes, then x's, then y's.

    Whole numbers may be multiplied with others, and truths with truths (a sum of which is true if any is), which torch
    refuses.
    """
    kind = torch.promote_types(x.dtype, y.dtype)
    x, y = (side.to(torch.int32 if kind is torch.bool else kind) for side in (x, y))
    (of_x, of_y), (batch_x, batch_y) = params["dimension_numbers"]
    free_x, free_y = (
        [axis for axis in range(side.ndim) if axis not in (*summed, *batch)]
        for side, summed, batch in ((x, of_x, batch_x), (y, of_y, batch_y))
    )
    sizes = [[side.shape[axis] for axis in axes] for side, axes in ((x, batch_x), (x, free_x), (y, free_y))]
    summed = prod(x.shape[axis] for axis in of_x)
    b, m, n = map(prod, sizes)
    rows = x.permute(*batch_x, *free_x, *of_x).reshape(b, m, summed)
    columns = y.permute(*batch_y, *of_y, *free_y).reshape(b, summed, n)
    return (rows @ columns).to(kind).reshape([size for group in sizes for size in group])


def convolved(params: Params, x: Tensor, W: Tensor) -> Tensor | None:
    """Convolve; with gaps in what is read, as in gradients, it is not translated."""
    if params["batch_group_count"] != 1 or any(gap != 1 for gap in params["lhs_dilation"]):
        return None
    lhs, rhs, out = params["dimension_numbers"]
    x, W = x.permute(lhs), W.permute(rhs)
    how = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}.get(x.ndim - 2)
    if how is None or any(side < 0 for sides in params["padding"] for side in sides):
        return None
    x = torch.nn.functional.pad(x, [side for sides in reversed(params["padding"]) for side in sides])
    options = {"stride": params["window_strides"], "dilation": params["rhs_dilation"]}
    y = how(x, W, groups=params["feature_group_count"], **options)
    return y.permute([out.index(axis) for axis in range(y.ndim)])


def gathered(params: Params, x: Tensor, indices: Tensor) -> Tensor | None:
    """Take ranges that begin where indices say; out of bounds they are moved, or filled with NaN."""
    numbers, sizes, mode = params["dimension_numbers"], params["slice_sizes"], params["mode"]
    fills = mode == lax.GatherScatterMode.FILL_OR_DROP
    number = params["fill_value"] if params["fill_value"] is not None or not x.is_floating_point() else torch.nan
    if numbers.operand_batching_dims or (fills and number is None):
        return None
    batch = indices.shape[:-1]
    within = [axis for axis in range(x.ndim) if axis not in numbers.collapsed_slice_dims]
    inside = torch.ones(batch, dtype=torch.bool)
    places: list[Tensor] = []
    for axis, (length, size) in enumerate(zip(x.shape, sizes, strict=True)):
        begin = torch.zeros(batch, dtype=torch.long)
        if axis in numbers.start_index_map:
            begin = indices[..., numbers.start_index_map.index(axis)].long()
            inside &= (begin >= 0) & (begin <= length - size)
            begin = begin.clamp(0, length - size)
        offsets = [1] * len(within)
        if axis in within:
            offsets[within.index(axis)] = size
        places.append(begin.reshape(*batch, *[1] * len(within)) + torch.arange(size).reshape(offsets))
    taken = x[tuple(places)]
    if fills:
        taken = taken.masked_fill(~inside.reshape(*batch, *[1] * len(within)), number)
    # The axes of the ranges stand where the result wants them, and those of the indices between them.
    back = iter(range(len(batch)))
    ranges = iter(range(len(batch), taken.ndim))
    return taken.permute([next(ranges) if axis in numbers.offset_dims else next(back) for axis in range(taken.ndim)])


def chosen(_: Params, which: Tensor, *cases: Tensor) -> Tensor | None:
    """Choose one of two arrays for each entry: the second where it is true."""
    return torch.where(which, cases[1], cases[0]) if len(cases) == 2 and which.dtype is torch.bool else None


def counted(params: Params, *_: Tensor) -> Tensor:
    """Count along one axis."""
    shape, axis = params["shape"], params["dimension"]
    counts = torch.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return counts.expand(shape)


def converted(params: Params, x: Tensor) -> Tensor | None:
    """Convert to another type; the result is cast as it is declared."""
    return x.bool() if params["new_dtype"].name == "bool" else x


def split(params: Params, x: Tensor) -> list[Tensor]:
    """Split one axis."""
    return list(x.split(list(params["sizes"]), dim=params["axis"]))


OTHERS: Mapping[str, Callable[..., Tensor | list[Tensor] | None]] = {
    "broadcast_in_dim": broadcast,
    "clamp": lambda _, least, x, most: torch.minimum(torch.maximum(x, least), most),
    "concatenate": lambda params, *parts: torch.cat(parts, dim=params["dimension"]),
    "stack": lambda params, *parts: torch.stack(parts, dim=params["axis"]),
    "conv_general_dilated": convolved,
    "convert_element_type": converted,
    "dot_general": product,
    "dynamic_slice": cut_out,
    "dynamic_update_slice": put_in,
    "gather": gathered,
    "integer_pow": lambda params, x: x ** params["y"],
    "iota": counted,
    "pad": padded,
    "reshape": reshaped,
    "rev": lambda params, x: x.flip(tuple(params["dimensions"])),
    "select_n": chosen,
    "slice": sliced,
    "split": split,
    "square": lambda _, x: x * x,
    "squeeze": squeezed,
    "tile": lambda params, x: x.tile(tuple(params["reps"])),
    "transpose": lambda params, x: x.permute(tuple(params["permutation"])),
}
"""Primitives with a form that no others have."""
