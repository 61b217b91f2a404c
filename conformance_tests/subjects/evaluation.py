"""The computation of a program as a graph: a program that is evaluated operation by operation, beside its codes.

Frameworks that show an encoder as a list of operations, such as jaxprs and ONNX files, evaluate each operation in their
own way. Here it is recorded: what only moves entries does the same to their codes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conformance_tests.computation.graph import Graph, Operand, Recording
from conformance_tests.subjects.first_call import with_output

Axes = tuple[Sequence[int], Sequence[int]]
"""Axes of the left and of the right side of a product, which belong together."""


@dataclass(frozen=True, eq=False)
class Coded:
    """An array of a framework, and the codes of its entries."""

    array: Any
    codes: Tensor


class Evaluation:
    """Records the operations of a program in the order in which they are evaluated.

    What depends neither on the arguments of the call nor on parameters is a constant, however it was computed.
    """

    def __init__(self) -> None:
        self.recording = Recording()

    @property
    def graph(self) -> Graph:
        """Everything recorded so far."""
        return self.recording.graph

    def leaf(self, operation: str, array: Any, name: str = "", *, learned: bool = False) -> Coded:
        """Add a leaf."""
        return Coded(array, self.recording.leaf(operation, as_tensor(array), name, learned=learned))

    def constant(self, array: Any) -> Coded:
        """Add a constant without a name; objects that hold no numbers, such as random keys, get the code 0."""
        if not holds_numbers(array):
            return Coded(array, torch.zeros(np.shape(array), dtype=torch.long))
        return self.leaf("constant", array)

    def without_arguments(self, reads: Sequence[Coded], array: Any) -> Coded:
        """Add what is computed of constants, or of random numbers, alone."""
        is_random = any(self.recording.is_drawn(read.codes) for read in reads)
        return self.leaf("random", array) if is_random else self.constant(array)

    def is_constant(self, *reads: Coded) -> bool:
        """Return whether arrays depend neither on the arguments nor on parameters."""
        return not any(self.graph.depends(read.codes) or self.graph.learned(read.codes) for read in reads)

    def operand(self, read: Coded) -> Operand:
        """Return the codes of an array, or the number that a constant consists of."""
        codes = read.codes
        if codes.numel() and bool((codes == codes.reshape(-1)[0]).all()) and self.is_constant(read):
            return float(self.graph.numbers(codes.reshape(-1)[:1]))
        return codes

    def elementwise(self, operation: str, reads: Sequence[Coded | float], array: Any, line: str = "") -> Coded:
        """Add an operation on each entry by itself."""
        if self.is_constant(*coded(reads)):
            return self.without_arguments(coded(reads), array)
        operands = [self.operand(r) if isinstance(r, Coded) else r for r in reads]
        return Coded(array, self.recording.elementwise(operation, operands, as_tensor(array), line=line))

    def reduction(self, operation: str, read: Coded, axes: Sequence[int], array: Any, line: str = "") -> Coded:
        """Add a reduction over some axes."""
        if self.is_constant(read):
            return self.without_arguments([read], array)
        return Coded(array, self.recording.reduction(operation, read.codes, axes, as_tensor(array), line=line))

    def other(
        self,
        operation: str,
        reads: Sequence[Coded],
        array: Any,
        line: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Coded:
        """Add any other operation."""
        if not holds_numbers(array):
            return self.constant(array)
        if self.is_constant(*reads):
            return self.without_arguments(reads, array)
        operands = [read.codes for read in reads]
        return Coded(array, self.recording.other(operation, operands, as_tensor(array), options=options, line=line))

    def look_up(self, table: Coded, index: Coded, axis: int | None, array: Any, line: str = "") -> Coded:
        """Add a look-up in a table by indices that depend on the arguments of the call.

        A look-up along another axis than the first one is one in the table with that axis first. In the result the
        axes of the index stand in its place.
        """
        if not axis:
            return self.other("look-up", (table, index), array, line, {"axis": axis})
        front = tuple(range(index.codes.ndim))
        there = tuple(axis + i for i in front)
        turned = Coded(as_tensor(table.array).movedim(axis, 0), table.codes.movedim(axis, 0))
        rows = self.look_up(turned, index, 0, as_tensor(array).movedim(there, front), line)
        return Coded(array, rows.codes.movedim(front, there))

    def product(
        self, left: Coded, right: Coded, contracted: Axes, array: Any, line: str = "", batch: Axes = ((), ())
    ) -> Coded:
        """Add a product over some axes of both sides; the result has the batch's axes, then left's, then right's."""
        if self.is_constant(left, right):
            return self.without_arguments([left, right], array)
        rows = in_order(left.codes, batch[0], contracted[0], last=contracted[0])
        columns = in_order(right.codes, batch[1], contracted[1], last=contracted[1]).mT
        data = as_tensor(array).reshape(len(rows), rows.shape[1], columns.shape[2])
        codes = self.recording.product(rows, columns, data, line=line)
        return Coded(array, codes.reshape(np.shape(array)))

    def matrices(self, left: Coded, right: Coded, array: Any, line: str = "") -> Coded:
        """Add a product of matrices, of batches of them, or with vectors."""
        last = left.codes.ndim - 1
        if right.codes.ndim <= 2:
            return self.product(left, right, ((last,), (0,)), array, line)
        if last == 0:
            return self.product(left, right, ((0,), (right.codes.ndim - 2,)), array, line)
        batch = np.broadcast_shapes(left.codes.shape[:-2], right.codes.shape[:-2])
        left, right = (Coded(r.array, r.codes.broadcast_to(*batch, *r.codes.shape[-2:])) for r in (left, right))
        shared = tuple(range(len(batch)))
        contracted = ((len(batch) + 1,), (len(batch),))
        return self.product(left, right, contracted, array, line, (shared, shared))

    def einsum(self, equation: str, reads: Sequence[Coded], array: Any, line: str = "") -> Coded:
        """Add an einsum of two arrays as a product; anything else is not taken apart."""
        sides = contraction(spelt_out(equation, [read.codes.ndim for read in reads]))
        if sides is None:
            return self.other("einsum", reads, array, line)
        contracted, batch, order = sides
        left, right = reads
        found = self.product(left, right, contracted, array.transpose(np.argsort(order)), line, batch)
        return Coded(array, found.codes.permute(order))

    def convolution(
        self,
        x: Coded,
        W: Coded,
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        groups: int,
        array: Any,
        line: str = "",
    ) -> Coded:
        """Add a convolution of x (B, C, *sizes) with W (O, C/groups, *kernel)."""
        data = as_tensor(array)
        return Coded(array, self.recording.convolution(x.codes, W.codes, strides, padding, groups, data, line=line))

    def finish(self, results: Sequence[Coded], rebuilt: Callable[[list[Tensor]], Any]) -> Graph:
        """Return the graph, with the codes of the hidden states among what the program returns.

        Args:
            results: the arrays that it returns.
            rebuilt: puts tensors in their places in the structure that it returns.
        """
        tensors = [as_tensor(result.array) for result in results]
        codes = {id(tensor): result.codes for result, tensor in zip(results, tensors, strict=True)}
        return with_output(self.graph, rebuilt(tensors), lambda tensor: codes[id(tensor)])


def in_order(codes: Tensor, batch: Sequence[int], contracted: Sequence[int], last: Sequence[int]) -> Tensor:
    """Return codes in three axes: those of the batch, the free ones, and those that a product contracts."""
    free = [axis for axis in range(codes.ndim) if axis not in (*batch, *contracted)]
    sizes = [prod(codes.shape[axis] for axis in axes) for axes in (batch, free, last)]
    return codes.permute([*batch, *free, *last]).reshape(sizes)


def spelt_out(equation: str, axes: Sequence[int]) -> str:
    """Return an einsum with a letter for each axis that it writes as an ellipsis.

    Args:
        equation: the einsum.
        axes: the number of axes of each array.
    """
    read, arrow, given = equation.replace(" ", "").partition("->")
    sides = read.split(",")
    letters = [letter for letter in ascii_letters if letter not in equation]
    written = [side.replace("...", "") for side in sides]
    beyond = [n - len(side) if "..." in whole else 0 for n, side, whole in zip(axes, written, sides, strict=True)]
    most = max(beyond)
    ellipses = [letters[most - n : most] for n in beyond]  # from the right, as NumPy broadcasts them
    spelt = ",".join(side.replace("...", "".join(e)) for side, e in zip(sides, ellipses, strict=True))
    return spelt + arrow + given.replace("...", "".join(letters[:most]))


def contraction(equation: str) -> tuple[Axes, Axes, list[int]] | None:
    """Return contracted axes, the batch's, and where each axis of an einsum's result stands in that of a product.

    None if it is not a product of two arrays.
    """
    written = re.fullmatch(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)", equation.replace(" ", ""))
    if written is None or any(len(set(side)) < len(side) for side in written.groups()):
        return None
    left, right, out = written.groups()
    batch = [x for x in left if x in right and x in out]
    summed = [x for x in left if x in right and x not in out]
    product = [*batch, *(x for x in left if x not in right), *(x for x in right if x not in left)]
    if sorted(product) != sorted(out):
        return None
    contracted, shared = (
        ([left.index(x) for x in letters], [right.index(x) for x in letters]) for letters in (summed, batch)
    )
    return contracted, shared, [product.index(x) for x in out]


def coded(reads: Sequence[Coded | float]) -> list[Coded]:
    """Return the arrays among some operands."""
    return [read for read in reads if isinstance(read, Coded)]


def holds_numbers(array: Any) -> bool:
    """Return whether an array has entries that are numbers or truth values."""
    if isinstance(array, Tensor):
        return not array.is_complex()
    return np.asarray(array).dtype.kind in "biuf" if not hasattr(array, "dtype") else is_numeric(array.dtype)


def is_numeric(dtype: Any) -> bool:
    """Return whether a type is one of numbers or truth values that NumPy knows."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def as_tensor(array: Any) -> Tensor:
    """Copy an array to a tensor."""
    return array.detach().clone() if isinstance(array, Tensor) else torch.from_numpy(np.array(array))
