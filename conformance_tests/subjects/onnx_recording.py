"""The computation of an ONNX file as a graph: its nodes, evaluated with numbers and with codes.

ONNX's reference implementation evaluates each node in float64; casts to shorter types are left out. Functions are taken
apart into the nodes that they stand for, and of branches the one is recorded that the numbers choose.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx.inliner import inline_local_functions, inline_selected_functions
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from conformance_tests.subjects.evaluation import Axes, Coded, Evaluation
from conformance_tests.subjects.onnx_fused import spelled_out

ELEMENTWISE = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Tanh": "tanh", "Erf": "erf", "Pow": "pow", "Sigmoid": "sigmoid", "Relu": "relu",
    "Gelu": "gelu", "Abs": "abs", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Mod": "fmod",
    "Max": "maximum", "Min": "minimum", "Where": "where", "Clip": "clamp", "Not": "bitwise_not", "And": "bitwise_and",
    "Or": "bitwise_or", "Xor": "bitwise_xor", "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt",
    "LessOrEqual": "le", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Sinh": "sinh", "Cosh": "cosh", "IsNaN": "isnan",
    "IsInf": "isinf", "LeakyRelu": "leaky_relu", "PRelu": "prelu", "Elu": "elu", "Selu": "selu", "Celu": "celu",
    "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Softplus": "softplus", "Softsign": "softsign",
    "Mish": "mish", "Swish": "silu", "ThresholdedRelu": "threshold",
}  # fmt: skip
"""Operators on each entry by itself, with the names that torch gives the same operations."""

REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "amax",
    "ReduceMin": "amin",
    "ReduceProd": "prod",
    "ReduceL1": "l1_norm",
    "ReduceL2": "l2_norm",
    "ReduceSumSquare": "sum_of_squares",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "logsumexp",
}

MOVES: dict[str, tuple[int, ...]] = {
    "Identity": (0,), "Transpose": (0,), "Reshape": (0,), "Squeeze": (0,), "Unsqueeze": (0,), "Flatten": (0,),
    "Slice": (0,), "Split": (0,), "Expand": (0,), "Tile": (0,), "DepthToSpace": (0,), "SpaceToDepth": (0,),
    "Trilu": (0,), "Dropout": (0,), "Pad": (0, 2), "Concat": tuple(range(256)), "Gather": (0,), "GatherElements": (0,),
    "GatherND": (0,), "ScatterND": (0, 2), "ScatterElements": (0, 2),
}  # fmt: skip
"""Operators whose result has nothing but entries of what they read: the places of what they move."""

APART = [("", "Attention"), ("", "RotaryEmbedding"), ("", "GroupNormalization")]
"""Operators that stand for others which a reader is to see."""

SIZES = ("Shape", "Size")
"""Operators that read no entries: sizes are the same for all arguments of one shape."""


class Erf(OpRun):
    """The error function in the precision of what it reads: the reference implementation rounds to float32."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (torch.erf(torch.from_numpy(np.asarray(x))).numpy(),)


class Gelu(OpRun):
    """GELU in the precision of what it reads: the reference implementation calls its own error function."""

    op_domain = ""

    def _run(self, x: Any, approximate: str | None = None) -> tuple[Any]:
        read = torch.from_numpy(np.asarray(x))
        return (torch.nn.functional.gelu(read, approximate=approximate or "none").numpy(),)


EXACT = [Erf, Gelu]
"""Operators that are evaluated otherwise than the reference does."""


class OnnxEvaluation(Evaluation):
    """Evaluates the nodes of a model, and records them."""

    def run(self, model: onnx.ModelProto, given: Mapping[str, Coded]) -> list[Coded]:
        """Evaluate a model, and return its results; what its nodes give are its parts.

        Args:
            model: the model.
            given: its inputs, and those initializers that are parameters.
        """
        evaluator = ReferenceEvaluator(inlined(model), new_ops=EXACT)
        values = dict(given)
        with np.errstate(all="ignore"):
            results = self._graph(evaluator, values)
        self.graph.parts = [(name, value.codes) for name, value in values.items() if name not in given]
        return results

    def _graph(self, evaluator: Any, values: MutableMapping[str, Coded]) -> list[Coded]:
        """Evaluate a graph, which may read the values of the one around it."""
        for name, array in evaluator.rt_inits_.items():
            if name not in values:
                values[name] = self.constant(widened(array))
        for node in evaluator.rt_nodes_:
            if node.op_type == "If":
                branch = "then_branch" if bool(values[node.input[0]].array) else "else_branch"
                inner = next(a.g for a in node.onnx_node.attribute if a.name == branch)
                results = self._graph(ReferenceEvaluator(inner, opsets=evaluator.opsets, new_ops=EXACT), values)
            else:
                results = self._node(node, [values[name] if name else None for name in node.input])
            values.update(zip(node.output, results, strict=False))
        return [values[name] for name in evaluator.output_names]

    def _node(self, node: Any, reads: list[Coded | None]) -> list[Coded]:
        """Evaluate and record one node."""
        name = node.op_type
        there = [read for read in reads if read is not None]
        if name in ("Cast", "CastLike") and keeps_numbers(node, there):
            return there[:1]
        arrays = [None if read is None else read.array for read in reads]
        results = [widened(result) for result in node.run(*arrays)[: len(node.output)]]
        if name in SIZES:
            return [self.constant(results[0])]
        if name in MOVES:
            beside = [read for i, read in enumerate(reads) if read is not None and i not in MOVES[name]]
            if not any(self.graph.depends(read.codes) for read in beside):
                return self._moved(node, reads, results)
        line = place_of(node.onnx_node)
        first = self._recorded(node, reads, there, results[0], line)
        return [first, *(self.other(f"{name} (beside)", there, result, line) for result in results[1:])]

    def _moved(self, node: Any, reads: list[Coded | None], results: list[Any]) -> list[Coded]:
        """Move the codes as the node moves the entries; indices and shapes stay what they are."""
        data = MOVES[node.op_type]
        given = [None if r is None else r.codes.numpy() if i in data else r.array for i, r in enumerate(reads)]
        moved = node.run(*given)
        return [Coded(r, torch.from_numpy(np.array(m, dtype=np.int64))) for r, m in zip(results, moved, strict=False)]

    def _recorded(self, node: Any, reads: list[Coded | None], there: list[Coded], result: Any, line: str) -> Coded:
        """Record one node with one result."""
        name = node.op_type
        if name in BY_NAME:
            return BY_NAME[name](self, node, reads, result, line)
        if name in ELEMENTWISE:
            return self.elementwise(ELEMENTWISE[name], there, result, line)
        if name in REDUCTIONS:
            axes = axes_of(node, reads)
            return self.reduction(REDUCTIONS[name], there[0], axes, result, line) if axes else there[0]
        return self.other(name, there, result, line)

    def _converted(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:  # noqa: ARG002
        """Record a conversion to another type, unless it leaves the numbers what they are."""
        read = reads[0]
        assert read is not None
        if np.array_equal(result, read.array):
            return Coded(result, read.codes)
        return self.elementwise("to", (read,), result, line)

    def _summed(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:  # noqa: ARG002
        """Record a sum of several arrays, one after the other."""
        first, *others = (read for read in reads if read is not None)
        for other in others:
            first = self.elementwise("add", (first, other), first.array + other.array, line)
        return Coded(result, first.codes)

    def _looked_up(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        table, index = reads
        assert table is not None
        assert index is not None
        axis = attribute(node, "axis", 0) % table.codes.ndim if node.op_type == "Gather" else None
        return self.look_up(table, index, axis, result, line)

    def _softmax(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        """Record a softmax along one axis; before opset 13 it was along all axes from one on."""
        read = reads[0]
        assert read is not None
        since = int(node._schema.since_version) if node._schema is not None else 13
        axis = attribute(node, "axis", -1 if since >= 13 else 1) % result.ndim
        whole = since < 13 and axis != result.ndim - 1
        kind = "softmax" if node.op_type == "Softmax" else "log-softmax"
        return self.other(f"{kind} (flattened)" if whole else kind, (read,), result, line, {"axes": (axis,)})

    def _normed(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        """Record a norm; its ε is kept in float32, and few digits of it were written."""
        x, gamma, beta = (*reads, None)[:3]
        assert x is not None
        axes = tuple(range(attribute(node, "axis", -1) % result.ndim, result.ndim))
        there = [read for read in (x, gamma, beta) if read is not None]
        codes = {"gamma": None if gamma is None else gamma.codes, "beta": None if beta is None else beta.codes}
        kind = "layer-norm" if node.op_type == "LayerNormalization" else "rms-norm"
        options = codes | {"eps": as_written(attribute(node, "epsilon", 1e-5)), "axes": axes}
        return self.other(kind, there, result, line, options)

    def _matrices(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:  # noqa: ARG002
        left, right = reads
        assert left is not None
        assert right is not None
        return self.matrices(left, right, result, line)

    def _gemm(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        """Record α times a product, and β times what is added to it."""
        left, right, *rest = reads
        assert left is not None
        assert right is not None
        turned = attribute(node, "transA", 0), attribute(node, "transB", 0)
        numbers = [r.array.T if t else r.array for r, t in zip((left, right), turned, strict=True)]
        contracted: Axes = ((0 if turned[0] else 1,), (1 if turned[1] else 0,))
        product = self.product(left, right, contracted, numbers[0] @ numbers[1], line)
        product = self._times(product, attribute(node, "alpha", 1.0), line)
        if not rest or rest[0] is None:
            return product
        added = self._times(rest[0], attribute(node, "beta", 1.0), line)
        return self.elementwise("add", (product, added), result, line)

    def _times(self, read: Coded, factor: float, line: str) -> Coded:
        return read if factor == 1 else self.elementwise("mul", (read, factor), factor * read.array, line)

    def _einsum(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        there = [read for read in reads if read is not None]
        return self.einsum(attribute(node, "equation", b"").decode(), there, result, line)

    def _convolved(self, node: Any, reads: list[Coded | None], result: Any, line: str) -> Coded:
        """Record a convolution; one with gaps between what it reads is not taken apart."""
        x, W, bias = (*reads, None)[:3]
        assert x is not None
        assert W is not None
        spatial = result.ndim - 2
        dilations, strides = (attribute(node, name, [1] * spatial) for name in ("dilations", "strides"))
        pads = attribute(node, "pads", [0] * 2 * spatial)
        if any(d != 1 for d in dilations) or attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            return self.other("convolution", [read for read in reads if read is not None], result, line)
        padding = list(zip(pads[:spatial], pads[spatial:], strict=True))
        beside = (1, -1, *[1] * spatial)
        without = result if bias is None else result - bias.array.reshape(beside)
        product = self.convolution(x, W, strides, padding, attribute(node, "group", 1), without, line)
        if bias is None:
            return product
        added = Coded(bias.array.reshape(beside), bias.codes.reshape(beside))
        return self.elementwise("add", (product, added), result, line)


Record = Callable[[OnnxEvaluation, Any, list[Coded | None], Any, str], Coded]

BY_NAME: Mapping[str, Record] = {
    "Cast": OnnxEvaluation._converted,
    "CastLike": OnnxEvaluation._converted,
    "Sum": OnnxEvaluation._summed,
    "Gather": OnnxEvaluation._looked_up,
    "GatherElements": OnnxEvaluation._looked_up,
    "GatherND": OnnxEvaluation._looked_up,
    "Softmax": OnnxEvaluation._softmax,
    "LogSoftmax": OnnxEvaluation._softmax,
    "LayerNormalization": OnnxEvaluation._normed,
    "RMSNormalization": OnnxEvaluation._normed,
    "MatMul": OnnxEvaluation._matrices,
    "Gemm": OnnxEvaluation._gemm,
    "Einsum": OnnxEvaluation._einsum,
    "Conv": OnnxEvaluation._convolved,
}
"""Operators with a form that no others have, and how each is recorded."""


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which no node stands for several others."""
    model = spelled_out(model)
    whole = inline_local_functions(model) if model.functions else model
    used = {node.op_type for node in whole.graph.node}
    apart = [function for function in APART if function[1] in used]
    return inline_selected_functions(whole, apart, inline_schema_functions=True) if apart else whole


def widened(array: Any) -> Any:
    """Return a floating array in float64, a single number as it was written, and anything else as it is."""
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind != "f":
        return array
    if array.size == 1 and array.dtype == np.float32:
        return np.full(array.shape, as_written(float(array.reshape(-1)[0])))
    return np.asarray(array, dtype=np.float64)


def as_written(number: float) -> float:
    """Return the number with few digits that float32 keeps as this one, such as an ε; this one if there is none."""
    short = float(f"{number:.6g}")
    return short if np.float32(short) == np.float32(number) else number


def keeps_numbers(node: Any, reads: Sequence[Coded]) -> bool:
    """Return whether a cast is one from one floating type to another."""
    target = reads[1].array.dtype if node.op_type == "CastLike" else None
    if target is None:
        target = onnx.helper.tensor_dtype_to_np_dtype(attribute(node, "to", 0))
    return reads[0].array.dtype.kind == "f" and np.dtype(target).kind in "fV"


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return an attribute of a node as it is written in the file."""
    written = (a for a in node.onnx_node.attribute if a.name == name)
    return next((onnx.helper.get_attribute_value(a) for a in written), default)


def axes_of(node: Any, reads: Sequence[Coded | None]) -> list[int]:
    """Return the axes of a reduction; none if it leaves everything as it is."""
    given = attribute(node, "axes", None)
    if given is None and len(reads) > 1 and reads[1] is not None:
        given = np.asarray(reads[1].array).reshape(-1).tolist()
    if given is None or not list(given):
        return [] if attribute(node, "noop_with_empty_axes", 0) else list(range(np.ndim(reads[0].array)))  # type: ignore[union-attr]
    return [int(axis) for axis in given]


def place_of(node: onnx.NodeProto) -> str:
    """Return where in the model a node stands: its name, or what it gives."""
    return node.name or next(iter(node.output), "")
