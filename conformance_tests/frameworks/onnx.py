"""An ONNX file as a subject: its own graph, in float64, with weights that can be set.

Exporters fold transposes into constants, rename what they fold, and store equal weights
once. So each use of a stored weight is taken for a weight of its own, with the name that
the graph gives it: that of the module in whose scope it is read. ONNX Runtime computes it
wherever it has kernels for float64; where it lacks one, the reference evaluator of ONNX
computes the same graph.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from torch import Tensor

from conformance_tests.called import CalledSubject
from conformance_tests.calling import REQUIRED, Arguments, tells_of_a_mask
from conformance_tests.hints import Hints
from conformance_tests.subject import Undetermined
from conformance_tests.targets import SubjectError, one_line

SCOPES = "pkg.torch.onnx.name_scopes"
"""Where torch's exporter writes the modules in which a node stands."""

DIGITS = r"\d+"

LAYER = re.compile(r"(?:.*[.])?\d+")
"""A name that tells no more than which layer it is."""

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

KINDS = {
    ("MatMul", 0): "kernel",
    ("MatMul", 1): "kernel",
    ("Gemm", 2): "bias",
    ("Add", 0): "bias",
    ("Add", 1): "bias",
    ("Mul", 0): "weight",
    ("Mul", 1): "weight",
    ("LayerNormalization", 1): "weight",
    ("LayerNormalization", 2): "bias",
    ("Conv", 1): "weight",
    ("Conv", 2): "bias",
    ("Gather", 0): "weight",
}
"""What an operator reads at which place, in the words that parameters are called by."""


@dataclass(frozen=True)
class Use:
    """One place where a stored weight is read: which input of which node, and the weight's name."""

    node: int
    place: int
    name: str


class OnnxSubject(CalledSubject):
    """A graph in a file, or in memory.

    Raises:
        SubjectError: if the file is no ONNX model.
        Undetermined: if the graph is fixed to one batch size or length.
    """

    def __init__(self, model: str | Path | onnx.ModelProto) -> None:
        super().__init__()
        self.model = in_float64(model if isinstance(model, onnx.ModelProto) else read(Path(model)))
        self.uses = list(uses(self.model.graph))
        self._values = give_each_use_its_own(self.model.graph, self.uses)
        self._demand_open_axes()
        norms = [n for n in self.model.graph.node if n.op_type == "LayerNormalization"]
        epsilons = Counter(a.f for n in norms for a in n.attribute if a.name == "epsilon")
        self.hints = Hints({"eps": eps for eps, _ in epsilons.most_common(1)})

    def _demand_open_axes(self) -> None:
        for entry in self.model.graph.input[:1]:
            sizes = [d.dim_value for d in entry.type.tensor_type.shape.dim[:2]]
            if any(sizes):
                raise Undetermined(
                    f"the graph fixes the batch size and length of {entry.name!r} at {tuple(sizes)} (0 = any): "
                    "export it with dynamic axes for both"
                )

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: the inputs of the graph, all of which must be given; what is no mask comes first."""
        names = [entry.name for entry in self.model.graph.input]
        return dict.fromkeys(sorted(names, key=tells_of_a_mask), REQUIRED)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:  # noqa: ARG002
        """See ``CalledSubject``; a graph has no gradients."""
        return self._run(positional, named, [entry.name for entry in self.model.graph.output])

    def record(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``Subject``: what every node gives."""
        self._recorded: list[Tensor] = []
        outputs = self.model.graph.output
        count = len(outputs)
        outputs.extend(self._inner)
        vars(self).pop("_session", None)
        try:
            self.encode(inputs, keep)
        finally:
            del outputs[count:]
            vars(self).pop("_session", None)
        return [x for x in inputs if x.is_floating_point()] + self._recorded

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return {name: torch.from_numpy(value.copy()) for name, value in self._values.items()}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``."""
        stored = {entry.name: entry for entry in self.model.graph.initializer}
        for name in self._values:
            stored[name].CopyFrom(numpy_helper.from_array(values[name].numpy().astype(np.float64), name))
        vars(self).pop("_session", None)

    @cached_property
    def _inner(self) -> list[onnx.ValueInfoProto]:
        """Every floating value that a node gives and that is no output yet."""
        graph = onnx.shape_inference.infer_shapes(self.model).graph
        given = {entry.name for entry in graph.output}
        return [
            onnx.helper.make_tensor_value_info(v.name, TensorProto.DOUBLE, None)
            for v in graph.value_info
            if v.type.tensor_type.elem_type == TensorProto.DOUBLE and v.name not in given
        ]

    @cached_property
    def _session(self) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        # What is fused has kernels of its own, and intermediates that nobody sees.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            return onnxruntime.InferenceSession(
                self.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # no kernel for float64, or an operator that it does not know
            return ReferenceEvaluator(self.model, new_ops=[Gelu])

    def _run(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], wanted: list[str]) -> Any:
        main = [name for name in self.arguments() if name not in named]
        given = dict(zip(main, positional, strict=False)) | {k: v for k, v in named.items() if v is not None}
        with np.errstate(all="ignore"):  # −∞ − (−∞) in a row that is all padding is the graph's own doing
            found = dict(zip(wanted, self._session.run(wanted, self._typed(given)), strict=True))
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in found.items() if value is not None}
        if len(wanted) > 1 and hasattr(self, "_recorded"):
            self._recorded = [t for t in tensors.values() if t.is_floating_point() and t.numel() > 1]
        return tensors

    def _typed(self, given: Mapping[str, Tensor]) -> dict[str, np.ndarray[Any, Any]]:
        """Inputs with the types that the graph declares.

        Raises:
            TypeError: if a mask is given in another form than the graph reads.
        """
        declared = {entry.name: entry.type.tensor_type.elem_type for entry in self.model.graph.input}
        arrays = {}
        for name, tensor in given.items():
            wanted = onnx.helper.tensor_dtype_to_np_dtype(declared[name])
            array = tensor.detach().numpy()
            if array.dtype.kind != wanted.kind:
                raise TypeError(f"{name} is {array.dtype}, but the graph reads {wanted}")
            arrays[name] = array.astype(wanted)
        return arrays


class Gelu(OpRun):
    """GELU as the standard of ONNX has it; its reference evaluator rounds the constants to float32."""

    def _run(self, x: np.ndarray[Any, Any], approximate: str = "none") -> tuple[np.ndarray[Any, Any]]:
        given = torch.from_numpy(np.array(x))
        return (torch.nn.functional.gelu(given, approximate=approximate).numpy(),)


def read(path: Path) -> onnx.ModelProto:
    """The model in a file, with weights that are stored beside it.

    Raises:
        SubjectError: if the file is no ONNX model.
    """
    try:
        model = onnx.load(path)
    except Exception as fault:
        raise SubjectError(f"{path} is no ONNX model: {one_line(fault)}") from fault
    if not model.graph.input or not model.graph.node:
        raise SubjectError(f"{path} is no ONNX model: it holds no graph with an input")
    return model


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph on float64 numbers: weights, constants, inputs, outputs and casts."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for entry in graph.initializer:
        widen(entry)
    stored = {entry.name for entry in graph.initializer}
    for entry in [entry for entry in graph.input if entry.name in stored]:
        graph.input.remove(entry)  # old files list weights among the inputs
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in FLOATS:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if attribute.name == "to" and attribute.i in FLOATS:
                attribute.i = TensorProto.DOUBLE
            if node.op_type == "Constant" and attribute.name == "value_float":
                tensor = numpy_helper.from_array(np.array(attribute.f, dtype=np.float64), "value")
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
    return wide


def widen(tensor: TensorProto) -> None:
    """Store a tensor of floating numbers in float64."""
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def uses(graph: onnx.GraphProto) -> Iterator[Use]:
    """Every place where a stored array of floating numbers is read as a weight, with a name for it."""
    stored = {
        entry.name for entry in graph.initializer if entry.data_type == TensorProto.DOUBLE and prod(entry.dims) > 1
    }
    aliases = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    readers = {name: node for node in graph.node for name in node.input}
    taken: Counter[str] = Counter()
    for index, node in enumerate(graph.node):
        for place, name in enumerate(node.input):
            if node.op_type == "Identity" or aliases.get(name, name) not in stored:
                continue
            telling = told(node, place, name, readers.get(node.output[0]))
            taken[telling] += 1
            yield Use(index, place, telling if taken[telling] == 1 else f"{telling}_{taken[telling]}")


def told(node: onnx.NodeProto, place: int, name: str, reader: onnx.NodeProto | None) -> str:
    """What a weight is called: as it is stored, but in the module in whose scope it is read.

    A map that was stored anew has lost its name; it has that of the bias which is added next.
    """
    scope, kind = scope_of(node), KINDS.get((node.op_type, place), "")
    if node.op_type == "Gemm" and place == 1:
        kind = "weight" if any(a.name == "transB" and a.i for a in node.attribute) else "kernel"
    if kind == "kernel" and reader is not None and reader.op_type == "Add":
        biases = [told(reader, at, read, None) for at, read in enumerate(reader.input) if read != node.output[0]]
        if biases and (stem := re.match(r"(.+)[._]bias$", biases[0])) and not LAYER.fullmatch(stem[1]):
            return f"{stem[1]}.kernel"
    inside = re.match(rf"{DIGITS.join(map(re.escape, re.split(DIGITS, scope)))}[.](.+)", name) if scope else None
    if inside:
        return f"{scope}.{inside[1]}"
    return f"{scope}.{kind}" if scope and kind else name


def scope_of(node: onnx.NodeProto) -> str:
    """The module in which a node stands, as its exporter wrote it down; nothing if it did not."""
    written = next((p.value for p in node.metadata_props if p.key == SCOPES), "")
    if written:
        modules = ast.literal_eval(written)[:-1]
        return str(modules[-1]) if modules else ""
    path = re.match(r"^/(.+)/[^/]+$", node.name)
    return path[1].replace("/", ".") if path else ""


def give_each_use_its_own(graph: onnx.GraphProto, found: Sequence[Use]) -> dict[str, np.ndarray[Any, Any]]:
    """Store a copy of its weight for each use, under its own name."""
    stored = {entry.name: entry for entry in graph.initializer}
    aliases = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    values = {}
    for use in found:
        name = graph.node[use.node].input[use.place]
        values[use.name] = numpy_helper.to_array(stored[aliases.get(name, name)])
        graph.node[use.node].input[use.place] = use.name
    for name in values.keys() & stored.keys():
        graph.initializer.remove(stored[name])
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return values
