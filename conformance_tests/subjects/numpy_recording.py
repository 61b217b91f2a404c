"""The computation of an encoder in NumPy as a graph: its arrays record what is done with them.

Each piece of memory has a shadow of codes; an array is read by its strides on the shadow, so that views need no rule,
and what is written into a part changes the codes of that part. Everything is in float64.

Single numbers and lists of Python record nothing. What is computed or chosen by them is noticed, because two calls with
other inputs then differ in their constants, or read other entries.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Value
from conformance_tests.errors import Unsupported
from conformance_tests.subjects.evaluation import Axes, Coded, Evaluation, as_tensor, holds_numbers
from conformance_tests.subjects.numpy_draws import AVERAGES, Averages
from conformance_tests.subjects.source_lines import is_authors, source_line

Array = np.ndarray[Any, Any]

ELEMENTWISE = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "power": "pow",
    "float_power": "pow", "absolute": "abs", "fabs": "abs", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "equal": "eq", "not_equal": "ne", "logical_not": "bitwise_not", "logical_and": "bitwise_and",
    "logical_or": "bitwise_or", "logical_xor": "bitwise_xor", "invert": "bitwise_not", "clip": "clamp", "rint": "round",
    "expit": "sigmoid", "fmax": "maximum", "fmin": "minimum",
}  # fmt: skip
"""Universal functions on each entry by itself that torch calls by another name."""

REDUCTIONS = {
    "add": "sum",
    "maximum": "amax",
    "minimum": "amin",
    "multiply": "prod",
    "logical_and": "all",
    "logical_or": "any",
}
"""Universal functions by which entries are reduced, and the names that torch gives the reductions."""

CODE = np.dtype(np.int64)

NUMPY = f"{np.__path__[0]}/"

MAKERS = ("zeros", "ones", "empty", "full", "eye", "identity", "arange", "linspace", "tri")
"""Functions that make an array of numbers alone."""

CONVERTERS = ("array", "asarray", "asanyarray", "ascontiguousarray")
"""Functions that make an array of others, which may stand in lists."""


class Recorded(np.ndarray[Any, Any]):
    """An array that records what is done with it."""

    recording: "NumpyRecording"

    def __array_finalize__(self, whole: Any) -> None:
        """Let arrays that are made of this one record as well."""
        if isinstance(whole, Recorded):
            self.recording = whole.recording

    @property
    def data(self) -> Any:
        """The array itself: code with a class for arrays takes its numbers so, and NumPy's memory records nothing."""
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Record a universal function."""
        return self.recording.universal(ufunc, method, inputs, out, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Record any other function; most are written in Python, and consist of some that are recorded."""
        if function in FUNCTIONS:
            return FUNCTIONS[function](self.recording, *args, **kwargs)
        if inspect.isfunction(function._implementation):
            return super().__array_function__(function, types, args, kwargs)
        return function._implementation(*map(bare, args), **{name: bare(value) for name, value in kwargs.items()})

    def __getitem__(self, key: Any) -> Any:
        """Record a look-up, or give a part; a single number stays an array."""
        return self.recording.part(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Record what is written into a part."""
        self.recording.write(self, key, value)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Record a conversion."""
        return self.recording.converted(self, dtype)

    def take(self, indices: Any, axis: int | None = None, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """Record a look-up along an axis, or among all entries in their order."""
        if axis is None:
            return self.ravel()[indices]
        return self[(slice(None),) * (axis % self.ndim) + (indices,)]

    def dot(self, b: Any, out: Any = None) -> Any:
        """Record a product."""
        return self.recording.dot(self, b, out)

    def fill(self, value: Any) -> None:
        """Record that all entries are one number."""
        self.recording.write(self, ..., value)


def moving(name: str) -> Callable[..., Any]:
    """Return a method that only moves entries: it does the same to their codes, unless the result is a view."""

    def method(array: Recorded, *args: Any, **kwargs: Any) -> Any:
        return array.recording.moved(array, lambda a: getattr(a, name)(*map(bare, args), **kwargs))

    return method


for _name in ("reshape", "ravel", "flatten", "copy", "repeat", "diagonal", "__copy__", "__deepcopy__"):
    setattr(Recorded, _name, moving(_name))


class NumpyRecording(Evaluation):
    """Records what arrays of NumPy are used for.

    Args:
        draws: whether random numbers change what is computed. Otherwise they are constants, as in dropout at rate 0.
    """

    def __init__(self, *, draws: bool = True) -> None:
        super().__init__()
        self._draws = draws
        self._shadows: dict[int, tuple[Array, Array]] = {}
        self._returned: list[tuple[Tensor, Tensor]] = []
        self._given: list[Tensor] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let arrays that the encoder makes meanwhile record too: entries may be written into them."""

        def patched(name: str, replacement: Callable[..., Any]) -> Any:
            original = getattr(np, name)

            def called(*args: Any, **kwargs: Any) -> Any:
                caller = sys._getframe(1).f_code.co_filename
                # NumPy's functions make arrays to pad with, and convert what they read.
                within = caller.startswith(NUMPY) and (name in MAKERS or isinstance(args[0], Recorded))
                return (partial(replacement, original) if within or is_authors(caller) else original)(*args, **kwargs)

            return patch.object(np, name, called)

        with ExitStack() as stack:
            for name in MAKERS:
                stack.enter_context(patched(name, self._made))
            for name in CONVERTERS:
                stack.enter_context(patched(name, self._gathered))
            applied = lambda function, *args, **kwargs: self.applied(function, *args, **kwargs)  # noqa: E731  -- a method
            stack.enter_context(patch.object(np.vectorize, "__call__", applied))
            averages = Averages(self.drawn, np.random)
            for name in ("default_rng", *(name for name in AVERAGES if hasattr(np.random, name))):
                stack.enter_context(patch.object(np.random, name, getattr(averages, name)))
            stack.enter_context(np.errstate(all="ignore"))
            yield

    def known(self, operation: str, array: Any, name: str = "", *, learned: bool = False) -> Any:
        """Return an array with the same numbers that records, and is a leaf of the graph."""
        return self.wrapped(self.leaf(operation, widened(np.array(array)), name, learned=learned))

    def drawn(self, average: Array) -> Any:
        """Return random numbers, each of which is its average."""
        return self.wrapped(self.leaf("random" if self._draws else "constant", widened(average)))

    def tensor(self, array: Any) -> Tensor:
        """Return a tensor with the numbers that an encoder returns, and remember their codes."""
        read = self.array(array)
        tensor = torch.from_numpy(np.array(read.array))
        self._returned.append((tensor, read.codes))
        return tensor

    def remembered(self, value: Value, dtype: torch.dtype) -> Tensor:
        """Return a tensor with the numbers of a value, in another memory, and remember their codes."""
        tensor = value.data.to(dtype, copy=True)
        self._returned.append((tensor, value.codes))
        return tensor

    def codes_of(self, returned: Tensor) -> Tensor:
        """Return the codes of one of the tensors that were returned, or of a view of one."""
        codes = next(codes for tensor, codes in self._returned if tensor.data_ptr() == returned.data_ptr())
        return codes.reshape(returned.shape)

    def results(self) -> list[Tensor]:
        """Return what each operation gave, in order: what merely moves entries, too."""
        return self._given

    def _note(self, array: Array, codes: Tensor) -> None:
        """Keep what an operation gave, for those who compare intermediates."""
        if array.size > 1 and array.dtype.kind == "f" and self.graph.depends(codes):
            self._given.append(as_tensor(array))

    def wrapped(self, coded: Coded, out: Any = None) -> Any:
        """Return an array that has these codes, and records: the one that is given for it, if one is."""
        if isinstance(out, np.ndarray):
            self.put(out, ..., coded)
            self._note(bare(out), coded.codes)
            return out
        array = np.asarray(coded.array)
        self._lay(array, coded.codes)
        self._note(array, coded.codes)
        recorded = array.view(Recorded)
        recorded.recording = self
        return recorded

    def codes(self, array: Array) -> Tensor:
        """Return the codes that an array has now; what nothing has given is a constant."""
        return torch.from_numpy(self._on_shadow(array).copy())

    def coded(self, thing: Any) -> Coded | float:
        """Return what an operation reads: an array with its codes, or a number."""
        if isinstance(thing, bool | int | float | np.generic) and not isinstance(thing, np.complexfloating):
            return float(thing)
        array = thing if isinstance(thing, np.ndarray) else bare(np.asarray(thing))
        return Coded(bare(array), self.codes(array))

    def array(self, thing: Any) -> Coded:
        """Return what an operation reads as an array."""
        found = self.coded(thing)
        return self.constant(np.asarray(found)) if isinstance(found, float) else found

    def _on_shadow(self, array: Array) -> Array:
        root = owner_of(array)
        if id(root) not in self._shadows:
            self._lay(root, self.constant(bare(root)).codes)
        if array.dtype != root.dtype:
            return self.constant(bare(array)).codes.numpy()  # bits that are read as other numbers are none of these
        start = (address(array) - address(root)) // root.itemsize
        scaled = [stride // max(array.itemsize, 1) * CODE.itemsize for stride in array.strides]
        return np.ndarray(array.shape, CODE, self._shadows[id(root)][1], start * CODE.itemsize, scaled)

    def _lay(self, array: Array, codes: Tensor) -> None:
        """Lay codes under the entries of an array, and keep its memory from being used again."""
        root = owner_of(array)
        if id(root) not in self._shadows:
            reached = sum((size - 1) * stride for size, stride in zip(root.shape, root.strides, strict=True))
            # Nothing is read behind the end, where an array is empty.
            self._shadows[id(root)] = root, np.zeros(max(reached // max(root.itemsize, 1), 0) + 1, dtype=CODE)
        if array.size:
            self._on_shadow(array)[...] = codes.numpy()

    def universal(self, ufunc: Any, method: str, inputs: Sequence[Any], out: Any, options: Mapping[str, Any]) -> Any:
        """Apply and record a universal function."""
        given = {k: v for k, v in options.items() if k not in ("where", "subok", "casting", "dtype")}
        if options.get("where", True) is not True or method in ("at", "reduceat"):
            raise Unsupported(f"{ufunc.__name__} acts on a part of the entries")
        line, reads = source_line(), [self.coded(each) for each in inputs]
        result = getattr(ufunc, method)(*(r if isinstance(r, float) else r.array for r in reads), **bare(given))
        if isinstance(result, tuple):
            results = [self.other(ufunc.__name__, arrays_in(reads), r, line) for r in result]
            return tuple(map(self.wrapped, results))
        result = as_numbers(result)
        found = self._universal(ufunc, method, reads, result, given, line)
        return self.wrapped(found, out[0] if isinstance(out, tuple) else out)

    def _universal(
        self, ufunc: Any, method: str, reads: list[Coded | float], result: Any, options: Mapping[str, Any], line: str
    ) -> Coded:
        name = ufunc.__name__.partition(" ")[0]  # one that is made of a function is called "erf (vectorized)"
        if ufunc is np.matmul and method == "__call__":
            left, right = (r if isinstance(r, Coded) else self.array(r) for r in reads)
            return self.matrices(left, right, result, line)
        if method == "__call__" and name == "square":
            return self.elementwise("pow", [*reads, 2.0], result, line)
        if method == "__call__" and ufunc.signature is None:
            return self.elementwise(ELEMENTWISE.get(name, name), reads, result, line)
        first = arrays_in(reads)[0]
        if method == "reduce" and name in REDUCTIONS:
            axis = options.get("axis", 0)
            axes = tuple(range(first.codes.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
            return self.reduction(REDUCTIONS[name], first, axes, result, line) if axes else first
        return self.other(f"{name} ({method})", arrays_in(reads), result, line)

    def part(self, array: Recorded, key: Any) -> Any:
        """Return a part of an array: a view, a copy, or a look-up by indices that depend on the arguments."""
        indices = self.arguments_in(key)
        if not indices:
            return self.moved(array, lambda a: a[bare(key)])
        found = bare(array)[bare(key)]
        parts = key if isinstance(key, tuple) else (key,)
        axes = [axis for axis, p in enumerate(parts) if isinstance(p, Recorded)]
        simple = all(isinstance(p, slice | Recorded) for p in parts)
        table = self.array(array)
        if simple and len(axes) == 1 and parts[axes[0]].dtype.kind in "iu":
            return self.wrapped(self.look_up(table, indices[0], axes[0], found, source_line()))
        return self.wrapped(self.other("look-up", [table, *indices], found, source_line(), {"axis": None}))

    def arguments_in(self, key: Any) -> list[Coded]:
        """Return the indices in a key that depend on the arguments of the call."""
        parts = key if isinstance(key, tuple) else (key,)
        arrays = [self.array(part) for part in parts if isinstance(part, Recorded)]
        return [read for read in arrays if self.graph.depends(read.codes)]

    def moved(self, array: Recorded, move: Callable[[Array], Any]) -> Any:
        """Return an array with entries of this one at other places."""
        found = np.asarray(move(bare(array)))
        if np.may_share_memory(found, bare(array)):
            given = found.view(Recorded)
            given.recording = self
            self._note(found, self.codes(found))
            return given
        return self.wrapped(Coded(found, torch.from_numpy(np.asarray(move(self.codes(array).numpy())))))

    def converted(self, thing: Any, dtype: Any) -> Any:
        """Return an array in another type; a shorter floating type is left out."""
        read = self.array(thing)
        result = widened(read.array.astype(dtype)) if np.dtype(dtype).kind != "f" else read.array.astype(np.float64)
        same = np.array_equal(result, read.array, equal_nan=result.dtype.kind == "f")
        return self.wrapped(
            Coded(result, read.codes) if same else self.elementwise("to", (read,), result, source_line())
        )

    def write(self, array: Array, key: Any, value: Any) -> None:
        """Write into a part of an array; hiding what depends on the arguments is an operation."""
        written = self.array(value)
        mask = key if isinstance(key, np.ndarray) and key.dtype == bool else None
        if mask is None or written.codes.numel() != 1:
            before, indices = self.array(array), self.arguments_in(key)
            self.put(array, bare(key), written)
            if indices:
                now = np.array(bare(array))
                self.put(array, ..., self.other("written", (before, written, *indices), now, source_line()))
            return
        before, chosen = self.array(array), self.array(mask)
        beside = [1] * (before.codes.ndim - chosen.codes.ndim)
        shaped = [c.reshape(*c.shape, *beside) for c in (chosen.array, chosen.codes)]
        result = np.where(shaped[0], written.array, before.array)
        found = self.elementwise("where", (Coded(*shaped), written, before), result, source_line())
        self.put(array, ..., found)

    def put(self, array: Array, key: Any, written: Coded) -> None:
        """Write entries and their codes into a part of an array."""
        bare(array)[key] = written.array
        shadow = self._on_shadow(array)
        shadow[key] = written.codes.numpy()

    def dot(self, a: Any, b: Any, out: Any = None) -> Any:
        """Record ``numpy.dot``."""
        left, right = self.array(a), self.array(b)
        result, line = np.asarray(np.dot(left.array, right.array)), source_line()
        if not left.codes.ndim or not right.codes.ndim:
            return self.wrapped(self.elementwise("mul", (left, right), result, line), out)
        contracted = ((left.codes.ndim - 1,), (max(right.codes.ndim - 2, 0),))
        return self.wrapped(self.product(left, right, contracted, result, line), out)

    def inner(self, a: Any, b: Any) -> Any:
        """Record ``numpy.inner``."""
        left, right = self.array(a), self.array(b)
        contracted = ((left.codes.ndim - 1,), (right.codes.ndim - 1,))
        return self.wrapped(self.product(left, right, contracted, np.inner(left.array, right.array), source_line()))

    def contracted(self, a: Any, b: Any, axes: Any = 2) -> Any:
        """Record ``numpy.tensordot``."""
        left, right = self.array(a), self.array(b)
        last = left.codes.ndim
        whole = isinstance(axes, int)
        one, two = (range(last - axes, last), range(axes)) if whole else map(np.atleast_1d, axes)
        given: Axes = [int(a) % last for a in one], [int(a) % right.codes.ndim for a in two]
        result = np.tensordot(left.array, right.array, given)
        return self.wrapped(self.product(left, right, given, result, source_line()))

    def outer(self, a: Any, b: Any, out: Any = None) -> Any:
        """Record ``numpy.outer``."""
        left, right = (self.array(each) for each in (a, b))
        rows, columns = Coded(left.array, left.codes.reshape(-1, 1)), Coded(right.array, right.codes.reshape(1, -1))
        result, line = np.outer(left.array, right.array), source_line()
        return self.wrapped(self.elementwise("mul", (rows, columns), result, line), out)

    def applied(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Record a function of Python that ``numpy.vectorize`` applies to each entry."""
        result = as_numbers(VECTORISED(function, *map(bare, args), **kwargs))
        if not any(isinstance(each, Recorded) for each in args):
            return result
        name = getattr(function.pyfunc, "__name__", "vectorize")
        return self.wrapped(self.elementwise(name, list(map(self.coded, args)), result, source_line()))

    def summed(self, *operands: Any, out: Any = None, **_: Any) -> Any:
        """Record ``numpy.einsum``."""
        if not isinstance(operands[0], str):
            raise Unsupported("an einsum has its subscripts in lists")
        reads = [self.array(each) for each in operands[1:]]
        result = np.asarray(np.einsum(operands[0], *(r.array for r in reads)))
        return self.wrapped(self.einsum(operands[0], reads, result, source_line()), out)

    def chosen(self, condition: Any, *cases: Any) -> Any:
        """Record ``numpy.where``; with a condition alone it gives indices."""
        if not cases:
            return tuple(self.wrapped(self.constant(i)) for i in np.where(self.array(condition).array))
        which, *reads = (self.array(each) for each in (condition, *cases))
        result = widened(np.where(which.array, *(r.array for r in reads)))
        operands = [which, *(self.coded(case) for case in cases)]
        return self.wrapped(self.elementwise("where", operands, result, source_line()))

    def side_by_side(self, arrays: Sequence[Any], axis: int | None = 0, out: Any = None, **_: Any) -> Any:
        """Record ``numpy.concatenate``."""
        reads = [self.array(each) for each in arrays]
        moved = [np.concatenate(each, axis) for each in ([r.array for r in reads], [r.codes.numpy() for r in reads])]
        return self.wrapped(Coded(widened(moved[0]), torch.from_numpy(moved[1])), out)

    def copied_to(self, target: Array, source: Any, *_: Any, where: Any = True, **__: Any) -> None:
        """Record ``numpy.copyto``."""
        if where is True:
            self.put(target, ..., self.array(source))
        else:
            self.write(target, where, source)

    def emptied(self, like: Any, dtype: Any = None, *_: Any, shape: Any = None, **__: Any) -> Any:
        """Record ``numpy.empty_like``: with zeros, as nobody may read what is there."""
        array = bare(like)
        made = np.zeros(array.shape if shape is None else shape, array.dtype if dtype is None else dtype)
        return self.wrapped(self.constant(widened(made)))

    def length(self, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        """Record ``numpy.linalg.norm``: the root of a sum of squares, where it is that."""
        if ord not in (None, 2) or (ord == 2 and not isinstance(axis, int)):
            raise Unsupported(f"a norm of order {ord} is not taken apart")
        return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))

    def _made(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        made = original(*map(bare, args), **{name: bare(value) for name, value in kwargs.items()})
        name = getattr(original, "__name__", "")
        if name == "empty":
            made = np.zeros_like(made)
        return self.wrapped(self.constant(widened(made))) if holds_numbers(made) else made

    def _gathered(self, original: Callable[..., Any], thing: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return an array of what stands in lists, or of another array; a view of it where the function gives one."""
        if isinstance(thing, Recorded):
            copied = thing.copy() if original is ARRAY and kwargs.get("copy", True) else thing
            return copied if dtype is None else self.converted(copied, dtype)
        made = original(bare(thing), dtype, *args, **kwargs)
        if not holds_numbers(made) or (isinstance(thing, np.ndarray) and np.may_share_memory(made, thing)):
            return made
        if not isinstance(thing, list | tuple) or not any(isinstance(leaf, Recorded) for leaf in leaves(thing)):
            return self.wrapped(self.constant(widened(made)))
        codes = np.array(nested(thing, lambda leaf: self.array(leaf).codes.numpy()))
        return self.wrapped(Coded(widened(made), torch.from_numpy(codes)))


ARRAY = np.array

VECTORISED = np.vectorize.__call__

FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.concatenate: NumpyRecording.side_by_side,
    np.where: NumpyRecording.chosen,
    np.dot: NumpyRecording.dot,
    np.inner: NumpyRecording.inner,
    np.einsum: NumpyRecording.summed,
    np.tensordot: NumpyRecording.contracted,
    np.outer: NumpyRecording.outer,
    np.copyto: NumpyRecording.copied_to,
    np.empty_like: NumpyRecording.emptied,
    np.linalg.norm: NumpyRecording.length,
}
"""Functions that consist of no others that would be recorded."""


def bare(thing: Any) -> Any:
    """Return arrays that record as ones that do not, also inside of lists, tuples and dictionaries."""
    if isinstance(thing, Recorded):
        return thing.view(np.ndarray)
    if isinstance(thing, list | tuple):
        return type(thing)(map(bare, thing)) if type(thing) in (list, tuple) else thing
    if type(thing) is dict:
        return {name: bare(value) for name, value in thing.items()}
    return thing


def nested(thing: Any, leaf: Callable[[Any], Any]) -> Any:
    """Replace what stands in lists, however deep."""
    return [nested(each, leaf) for each in thing] if isinstance(thing, list | tuple) else leaf(thing)


def leaves(thing: Any) -> Iterator[Any]:
    """Yield what stands in lists, however deep."""
    for each in thing:
        if isinstance(each, list | tuple):
            yield from leaves(each)
        else:
            yield each


def arrays_in(reads: Sequence[Coded | float]) -> list[Coded]:
    """Return the arrays among operands."""
    return [read for read in reads if isinstance(read, Coded)]


def widened(array: Any) -> Any:
    """Return an array of a shorter floating type in float64, and anything else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" and array.itemsize < 8 else array


def as_numbers(result: Any) -> Any:
    """Return what functions of Python give, which come as objects, as an array in float64."""
    array = np.asarray(result)
    return widened(array.astype(np.float64) if array.dtype == object else array)


def owner_of(array: Array) -> Array:
    """Return the array that owns the memory of this one."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address(array: Array) -> int:
    """Return where in the memory the first entry stands."""
    return int(array.__array_interface__["data"][0])


def differ(one: Graph, other: Graph) -> bool:
    """Return whether two calls are computed otherwise: something is computed, or chosen, where nothing records."""
    return len(one.values) != len(other.values) or not all(map(is_alike, one.values, other.values))


def is_alike(one: Value, other: Value) -> bool:
    """Return whether values of two calls read the same entries; constants have the same numbers."""
    if one.operation == "constant" and not same_numbers(one.data, other.data):
        return False
    return len(one.arrays) == len(other.arrays) and all(map(torch.equal, one.arrays, other.arrays))


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Return whether two arrays are the same, where they have no number too."""
    return one.shape == other.shape and torch.equal(one.double().nan_to_num(), other.double().nan_to_num())
