"""The computation of a JAX function as a graph: its jaxpr, evaluated with numbers and with codes.

Inner jaxprs stand for their operations. Loops are unrolled, and the branch is recorded that the numbers choose.
Everything is in float64; casts to shorter types are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import torch
from torch import Tensor

from conformance_tests.subjects.evaluation import Coded, Evaluation, as_tensor
from conformance_tests.subjects.jax.operations import (
    ELEMENTWISE,
    HALF,
    LOOPS,
    PASSES_ON,
    REDUCTIONS,
    Unrolling,
)
from conformance_tests.subjects.jax.translated import Translated, reshaped, squeezed, translation
from conformance_tests.subjects.source_lines import innermost

DRAWS = ("random_bits", "threefry2x32", "rng_bit_generator", "rng_uniform")
"""Primitives that draw random numbers."""

BERNOULLI = "_bernoulli"
"""The inner function that draws true with a probability, its last argument: dropout is made of it."""

MOVES: dict[str, tuple[int, ...]] = {
    "pad": (),
    "split": (),
    "tile": (),
    "gather": (1,),
    "dynamic_slice": tuple(range(1, 16)),
    "dynamic_update_slice": tuple(range(2, 16)),
    "scatter": (1,),
}
"""Primitives whose result has nothing but entries of what they read: the places of their indices."""

RESHAPES: Mapping[str, Callable[[Any, Tensor], Tensor]] = {"reshape": reshaped, "squeeze": squeezed}


class JaxEvaluation(Evaluation, Unrolling):
    """Evaluates jaxprs, and records them.

    Args:
        numbers: computes the numbers.
    """

    def __init__(self, numbers: Translated | None = None) -> None:
        super().__init__()
        self.numbers = numbers or Translated(HALF)

    def constant(self, array: Any) -> Coded:
        """See ``Arithmetic`` and ``Evaluation``."""
        return super().constant(self.numbers.constant(array))

    def entry(self, read: Coded, i: int) -> Coded:
        """See ``Unrolling``."""
        return Coded(read.array[i], read.codes[i])

    def stacked(self, reads: Sequence[Coded]) -> Coded:
        """See ``Unrolling``."""
        return Coded(self.numbers.stacked([r.array for r in reads]), torch.stack([r.codes for r in reads]))

    def number(self, read: Coded) -> int:
        """See ``Unrolling``."""
        return self.numbers.number(read.array)

    def inside(self, equation: Any, reads: Sequence[Coded], found: list[Any]) -> list[Coded]:
        """See ``Arithmetic``."""
        return self._drawn(super().inside(equation, reads, found), reads, str(equation.params.get("name")))

    def apply(self, equation: Any, reads: Sequence[Coded]) -> list[Coded]:
        """See ``Arithmetic``."""
        name = equation.primitive.name
        if name in LOOPS:
            return LOOPS[name](self, equation.params, reads)
        results = self.numbers.apply(equation, [read.array for read in reads])
        if name in DRAWS:
            return [Coded(r, self.recording.leaf("random", as_tensor(r))) for r in results]
        if name in MEANS and self.recording.is_drawn(reads[0].codes) and reads[0].array.dtype is torch.bool:
            return [MEANS[name](self, reads, line_of(equation))]
        if name in PASSES_ON:
            return [Coded(r, read.codes) for r, read in zip(results, reads, strict=True)]
        indices = [reads[i] for i in MOVES.get(name, ()) if i < len(reads)]
        if name in MOVES and self.is_fixed(indices):
            return self._moved(equation, reads, results)
        return [self._recorded(equation, reads, results[0], line_of(equation)), *map(self.constant, results[1:])]

    def _drawn(self, results: list[Coded], reads: Sequence[Coded], name: str) -> list[Coded]:
        """Return results of an inner function, with the probability in the place of what was drawn with it."""
        if name != BERNOULLI:
            return results
        probability = as_tensor(reads[-1].array)
        return [Coded(r.array, self.recording.leaf("random", probability.expand(r.array.shape))) for r in results]

    def _mean(self, reads: Sequence[Coded], _line: str) -> Coded:
        """Return a drawn mask as numbers: the probability that it is true."""
        return Coded(self.graph.numbers(reads[0].codes), reads[0].codes)

    def _mean_of_chosen(self, reads: Sequence[Coded], line: str) -> Coded:
        """Return what a drawn mask chooses of two arrays, on average."""
        which, no, yes = reads
        mean = self._mean([which], line)
        kept = self.elementwise("mul", [yes, mean], yes.array * mean.array, line)
        if not no.array.any():
            return kept
        rest = self.elementwise("mul", [no, self.constant(1 - mean.array)], no.array * (1 - mean.array), line)
        return self.elementwise("add", [kept, rest], kept.array + rest.array, line)

    def is_fixed(self, reads: Sequence[Coded]) -> bool:
        """Return whether arrays are the same in each call, whatever its arguments."""
        return not any(self.graph.depends(read.codes) for read in reads)

    def _recorded(self, equation: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        """Record one operation with one result."""
        name, params = equation.primitive.name, equation.params
        if name in RESHAPES:
            return Coded(result, RESHAPES[name](params, reads[0].codes))
        if name in ELEMENTWISE:
            return self.elementwise(ELEMENTWISE[name], reads, result, line)
        if name in REDUCTIONS and params["axes"]:
            return self.reduction(REDUCTIONS[name], reads[0], params["axes"], result, line)
        if name in BY_NAME:
            return BY_NAME[name](self, params, reads, result, line)
        if not reads:
            return self.constant(result)
        return self.other(name, reads, result, line)

    def _moved(self, equation: Any, reads: Sequence[Coded], results: list[Any]) -> list[Coded]:
        """Move the codes as the operation moves the entries; indices stay what they are."""
        params = dict(equation.params)
        if "fill_value" in params:
            params["fill_value"] = 0
        indices = MOVES[equation.primitive.name]
        given = [r.array if i in indices else r.codes for i, r in enumerate(reads)]
        moved = translation(equation.primitive.name, params, given)
        if moved is None:
            bound = equation.primitive.bind(*(jnp.asarray(array.numpy()) for array in given), **params)
            moved = [as_tensor(array) for array in (bound if equation.primitive.multiple_results else [bound])]
        return [Coded(r, m) for r, m in zip(results, moved, strict=True)]

    def _converted(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:  # noqa: ARG002
        """Record a conversion to another type, unless it leaves the numbers what they are."""
        if bool((result.double() == reads[0].array.double()).all()):
            return Coded(result, reads[0].codes)
        return self.elementwise("to", reads, result, line)

    def _broadcast(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:  # noqa: ARG002
        shape = [1] * result.ndim
        for axis, size in zip(params["broadcast_dimensions"], reads[0].codes.shape, strict=True):
            shape[axis] = size
        return Coded(result, reads[0].codes.reshape(shape).broadcast_to(result.shape))

    def _squared(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        return self.elementwise("pow", [reads[0], float(params.get("y", 2))], result, line)

    def _chosen(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:  # noqa: ARG002
        which, *cases = reads
        if len(cases) != 2:
            return self.other("select_n", reads, result, line)
        return self.elementwise("where", (which, cases[1], cases[0]), result, line)

    def _clamped(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:  # noqa: ARG002
        least, x, most = reads
        return self.elementwise("clamp", (x, least, most), result, line)

    def _product(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        contracted, batch = params["dimension_numbers"]
        return self.product(reads[0], reads[1], contracted, result, line, batch)

    def _convolved(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        """Record a convolution; one with gaps between what it reads is not taken apart."""
        if any(d != 1 for d in (*params["lhs_dilation"], *params["rhs_dilation"], params["batch_group_count"])):
            return self.other("convolution", reads, result, line)
        lhs, rhs, out = params["dimension_numbers"]
        x, W = (Coded(r.array, r.codes.permute(spec)) for r, spec in zip(reads, (lhs, rhs), strict=True))
        strides, padding, groups = (params[key] for key in ("window_strides", "padding", "feature_group_count"))
        found = self.convolution(x, W, strides, padding, groups, result.permute(out), line)
        return Coded(result, found.codes.permute([out.index(axis) for axis in range(result.ndim)]))

    def _looked_up(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        """Record a gather whose indices depend on the arguments: along one axis, or along none in particular.

        Along an axis that is taken whole the index says nothing.
        """
        table, index = reads
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        parts = [axis for axis, size in enumerate(sizes) if size < table.codes.shape[axis]]
        indexed = [place for place, axis in enumerate(numbers.start_index_map) if axis in parts]
        is_row = len(parts) == len(indexed) == 1 and sizes[parts[0]] == 1 and not numbers.operand_batching_dims
        # The axes of the index stand where that of the table was, unless the author wants them elsewhere.
        kept = [axis for axis in range(result.ndim) if axis not in numbers.offset_dims]
        if is_row and numbers.collapsed_slice_dims == (parts[0],) and kept == [parts[0] + i for i in range(len(kept))]:
            at = indexed[0]
            return self.look_up(table, Coded(index.array[..., at], index.codes[..., at]), parts[0], result, line)
        return self.look_up(table, index, None, result, line)

    def _sliced_at(self, params: Any, reads: Sequence[Coded], result: Any, line: str) -> Coded:
        """Record a slice that begins where the arguments say: of one row, it is a look-up of that row."""
        table, *starts = reads
        parts = [a for a, size in enumerate(params["slice_sizes"]) if size < table.codes.shape[a]]
        if len(parts) != 1 or params["slice_sizes"][parts[0]] != 1:
            return self.other("dynamic_slice", reads, result, line)
        row = self.look_up(table, starts[parts[0]], parts[0], result.squeeze(parts[0]), line)
        return Coded(result, row.codes.unsqueeze(parts[0]))


def permuted(_: JaxEvaluation, params: Any, reads: Sequence[Coded], result: Any, __: str) -> Coded:
    """Move codes as a transpose does."""
    return Coded(result, reads[0].codes.permute(tuple(params["permutation"])))


def sliced(_: JaxEvaluation, params: Any, reads: Sequence[Coded], result: Any, __: str) -> Coded:
    """Move codes as a slice does."""
    strides = params["strides"] or [None] * result.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return Coded(result, reads[0].codes[tuple(slice(*bound) for bound in bounds)])


def concatenated(_: JaxEvaluation, params: Any, reads: Sequence[Coded], result: Any, __: str) -> Coded:
    """Move codes as a concatenation does."""
    return Coded(result, torch.cat([read.codes for read in reads], dim=params["dimension"]))


def stacked(_: JaxEvaluation, params: Any, reads: Sequence[Coded], result: Any, __: str) -> Coded:
    """Move codes as stacking does."""
    return Coded(result, torch.stack([read.codes for read in reads], dim=params["axis"]))


def reversed_(_: JaxEvaluation, params: Any, reads: Sequence[Coded], result: Any, __: str) -> Coded:
    """Move codes as a reversal of axes does."""
    return Coded(result, reads[0].codes.flip(tuple(params["dimensions"])))


Record = Callable[[JaxEvaluation, Any, Sequence[Coded], Any, str], Coded]

BY_NAME: Mapping[str, Record] = {
    "transpose": permuted,
    "slice": sliced,
    "concatenate": concatenated,
    "stack": stacked,
    "rev": reversed_,
    "broadcast_in_dim": JaxEvaluation._broadcast,
    "convert_element_type": JaxEvaluation._converted,
    "integer_pow": JaxEvaluation._squared,
    "square": JaxEvaluation._squared,
    "select_n": JaxEvaluation._chosen,
    "clamp": JaxEvaluation._clamped,
    "dot_general": JaxEvaluation._product,
    "conv_general_dilated": JaxEvaluation._convolved,
    "gather": JaxEvaluation._looked_up,
    "dynamic_slice": JaxEvaluation._sliced_at,
}
"""Primitives with a form that no others have, and how each is recorded."""


def line_of(equation: Any) -> str:
    """Return the innermost line of the encoder's source behind an operation."""
    traceback = equation.source_info.traceback
    return innermost((f.file_name, f.line_num) for f in (() if traceback is None else traceback.frames))


MEANS: Mapping[str, Callable[[JaxEvaluation, Sequence[Coded], str], Coded]] = {
    "convert_element_type": JaxEvaluation._mean,
    "select_n": JaxEvaluation._mean_of_chosen,
}
"""How primitives read a mask that was drawn."""
