"""An ONNX file as a subject, run by ONNX Runtime in the precision in which it was stored.

Exporters fold transposes into constants, rename what they fold, and store equal weights
once. So each use of a stored weight counts as a separate weight, with the name that the
graph gives it: that of the module in whose scope it is read.
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
from torch import Tensor

from conformance_tests.computation.graph import Graph
from conformance_tests.errors import SubjectError, Unsupported, one_line
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import REQUIRED, Arguments
from conformance_tests.subjects.evaluation import Coded
from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.likely_inputs import SEQUENCE
from conformance_tests.subjects.masks import tells_of_a_mask
from conformance_tests.subjects.noisy_call import noisy_call
from conformance_tests.subjects.onnx_recording import OnnxEvaluation, inlined, widened
from conformance_tests.subjects.shapes import ShapesSubject

SCOPES = "pkg.torch.onnx.name_scopes"
"""Property in which torch's exporter writes the modules around a node."""

DIGITS = r"\d+"

WHOLE = ""
"""Stands for the end of a whole graph."""

LAYER = re.compile(r"(?:.*[.])?\d+")
"""A name that identifies no more than a layer."""

FLOATS = {
    TensorProto.DOUBLE: torch.float64,
    TensorProto.FLOAT: torch.float32,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.FLOAT16: torch.float16,
}

KINDS = {
    ("MatMul", 0): "kernel",
    ("MatMul", 1): "kernel",
    ("Gemm", 1): "kernel",
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
"""Names of the inputs of operators, in the usual words for parameters."""


@dataclass(frozen=True)
class Use:
    """One place where a stored weight is read: which input of which node, and the weight's name.

    ``turned`` maps are stored output × input; all others are read as they are.
    """

    node: int
    place: int
    name: str
    turned: bool


class OnnxSubject(CalledSubject):
    """A graph in a file, or in memory.

    Raises:
        SubjectError: if the file is not an ONNX model.
    """

    ends_with = "what it computes in {}"
    """See ``CalledSubject``: nodes have names, and modules have none."""

    def __init__(self, model: str | Path | onnx.ModelProto) -> None:
        super().__init__()
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model if isinstance(model, onnx.ModelProto) else read(Path(model)))
        leave_out_stored_inputs(self.model.graph)
        self.dtype = precision_of(self.model.graph)
        found = list(uses(self.model.graph))
        self._values = give_each_use_its_own(self.model.graph, found)
        self._turned_maps = {use.name for use in found if use.turned}
        self._sessions: dict[str, Any] = {}  # of the whole graph, and up to a part; shared by what shares the weights
        self.hints = stated_by(self.model.graph)

    def stated_shape(self) -> tuple[int | None, ...] | None:
        """See ``CalledSubject``: that of its first input, which a graph may fix."""
        entry = next(entry for entry in self.model.graph.input if entry.name == next(iter(self.arguments())))
        shape = entry.type.tensor_type.shape.dim
        return tuple(d.dim_value or None for d in shape) or None

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: the inputs of the graph, all required; those that are not masks come first."""
        names = [entry.name for entry in self.model.graph.input]
        return dict.fromkeys(sorted(names, key=tells_of_a_mask), REQUIRED)

    def call(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None], gradients: bool) -> Any:  # noqa: ARG002
        """See ``CalledSubject``; a graph has no gradients."""
        return self._run(positional, named)

    def cuts(self, graph: Graph) -> tuple[tuple[str, Tensor], ...]:
        """See ``Subject``: what the nodes of the file give, with a vector for each position."""
        inner = {value.name for value in self._inner}
        return tuple((name, codes) for name, codes in graph.parts if name in inner and codes.ndim == SEQUENCE)

    def record_call(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> list[Tensor]:
        """See ``CalledSubject``: what every node gives."""
        shown = onnx.ModelProto()
        shown.CopyFrom(self.model)
        shown.graph.output.extend(self._inner)
        plain, end = self._sessions, self.ending.part if self.ending else WHOLE
        self._sessions = {end: session(shown, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)}
        self._everything: list[Tensor] = []
        try:
            self.encode(inputs, keep)
        finally:
            self._sessions = plain
        return [x for x in inputs if x.is_floating_point()] + self._everything

    def computation(self, sizes: Sizes | None = None) -> Graph:
        """See ``Subject``: of the first call that goes through, in float64, with noise on the weights."""

        def tried(x: Tensor, named: Mapping[str, Any]) -> Any:
            return self.call_with_batch([x], named, gradients=False)

        with noisy_call(self, tried, sizes) as (called, weights, _):
            evaluation = OnnxEvaluation()
            given = {}
            for name, w in weights.items():
                leaf = evaluation.leaf("parameter", w.numpy(), name, learned=True)
                turned = name in self._turned_maps
                given[name] = Coded(leaf.array.T, leaf.codes.mT) if turned else leaf
            first = next(iter(self.arguments()))
            named = {name: x for name, x in called.named.items() if x is not None}
            for name, array in self._typed({first: called.inputs} | named).items():
                given[name] = evaluation.leaf("argument", widened(array), name)
            try:
                results = evaluation.run(self.model, given)
            except (NotImplementedError, RuntimeError, TypeError) as fault:
                raise Unsupported(f"a node has no reference implementation: {one_line(fault)}") from fault
        if self.ending is not None:
            end = dict(evaluation.graph.parts)[self.ending.part]
            return evaluation.finish([Coded(evaluation.graph.numbers(end), end)], lambda tensors: tensors[0])
        names = [entry.name for entry in self.model.graph.output]
        return evaluation.finish(results, lambda tensors: dict(zip(names, tensors, strict=True)))

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        weights = {name: torch.from_numpy(value.astype(np.float64)) for name, value in self._values.items()}
        return {name: w.mT.contiguous() if name in self._turned_maps else w for name, w in weights.items()}

    def set_weights(self, values: Mapping[str, Tensor]) -> None:
        """See ``Subject``."""
        stored = {entry.name: entry for entry in self.model.graph.initializer}
        for name, value in self._values.items():
            given = values[name].mT if name in self._turned_maps else values[name]
            stored[name].CopyFrom(numpy_helper.from_array(given.numpy().astype(value.dtype), name))
        self._sessions.clear()

    @cached_property
    def _inner(self) -> list[onnx.ValueInfoProto]:
        """Every floating value that a node gives and that is not yet an output."""
        graph = onnx.shape_inference.infer_shapes(inlined(self.model)).graph
        given = {entry.name for entry in graph.output}
        made = {name for node in self.model.graph.node for name in node.output}
        return [
            onnx.helper.make_tensor_value_info(v.name, v.type.tensor_type.elem_type, None)
            for v in graph.value_info
            if v.type.tensor_type.elem_type in FLOATS and v.name in made - given
        ]

    def _session(self) -> Any:
        """Return a session that runs the graph, or the part of it that is judged."""
        end = self.ending.part if self.ending else WHOLE
        if end not in self._sessions:
            model = self.model
            if self.ending is not None:
                model = onnx.ModelProto()
                model.CopyFrom(self.model)
                del model.graph.output[:]
                model.graph.output.extend(value for value in self._inner if value.name == end)
            self._sessions[end] = session(model, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
        return self._sessions[end]

    def _run(self, positional: Sequence[Tensor], named: Mapping[str, Tensor | None]) -> Any:
        """Run the graph, and return its results by name, or what the part gives that it is judged up to."""
        main = [name for name in self.arguments() if name not in named]
        given = dict(zip(main, positional, strict=False)) | {k: v for k, v in named.items() if v is not None}
        running = self._session()
        names = [entry.name for entry in running.get_outputs()]
        found = dict(zip(names, running.run(names, self._typed(given)), strict=True))
        tensors = {name: self._computed(torch.from_numpy(np.array(value))) for name, value in found.items()}
        self._everything = [t for t in tensors.values() if t.is_floating_point() and t.numel() > 1]
        if self.ending is not None:
            return tensors[self.ending.part]
        return {entry.name: tensors[entry.name] for entry in self.model.graph.output}

    def _computed(self, result: Tensor) -> Tensor:
        """Return a result in the type that the graph computes in, if it is handed out in a longer one.

        Conversions to half precision leave the types of inputs and outputs as their callers know them.
        """
        is_longer = result.is_floating_point() and torch.finfo(result.dtype).bits > torch.finfo(self.dtype).bits
        return result.to(self.dtype) if is_longer else result

    def _typed(self, given: Mapping[str, Tensor]) -> dict[str, np.ndarray[Any, Any]]:
        """Convert inputs to the types that the graph declares.

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


def shapes_in(path: Path) -> ShapesSubject:
    """Return the shapes of the weights in a file; what is stored beside it need not be there.

    Raises:
        SubjectError: if the file is not an ONNX model.
    """
    graph = read(path, with_weights=False).graph
    stored = {entry.name: entry for entry in graph.initializer}
    found = {use.name: (use, stored[of_use(graph, use)]) for use in uses(graph)}
    shapes = {
        name: torch.empty(tuple(entry.dims), dtype=FLOATS[entry.data_type], device="meta")
        for name, (_, entry) in found.items()
    }
    readers = Counter(entry.name for _, entry in found.values())
    return ShapesSubject(
        {name: shapes[name].mT if use.turned else shapes[name] for name, (use, _) in found.items()},
        stated_by(graph),
        stored_once={name for name, (_, entry) in found.items() if readers[entry.name] > 1},
        tells_constants=False,
    )


def stated_by(graph: onnx.GraphProto) -> Hints:
    """Return what a graph states: the ε of most of its norms."""
    norms = [n for n in graph.node if n.op_type.endswith("LayerNormalization")]
    epsilons = Counter(a.f for n in norms for a in n.attribute if a.name == "epsilon")
    # The attribute holds a float32: what was written has few digits.
    return Hints({} if not epsilons else {"eps": float(f"{epsilons.most_common(1)[0][0]:.6g}")})


def leave_out_stored_inputs(graph: onnx.GraphProto) -> None:
    """Leave out the inputs that have a stored value: a graph may list its weights as inputs that nobody has to give."""
    stored = {entry.name for entry in graph.initializer}
    asked = [entry for entry in graph.input if entry.name not in stored]
    del graph.input[:]
    graph.input.extend(asked)


def session(model: onnx.ModelProto, level: Any) -> Any:
    """Open a session that runs a graph; without optimisation it computes each value that stands in the graph."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def read(path: Path, *, with_weights: bool = True) -> onnx.ModelProto:
    """Read the model in a file, with weights that are stored beside it unless these are not needed.

    Raises:
        SubjectError: if the file is not an ONNX model.
    """
    try:
        model = onnx.load(path, load_external_data=with_weights)
    except Exception as fault:
        raise SubjectError(f"{path} is not an ONNX model: {one_line(fault)}") from fault
    if not model.graph.input or not model.graph.node:
        raise SubjectError(f"{path} is not an ONNX model: it holds no graph with an input")
    return model


def precision_of(graph: onnx.GraphProto) -> torch.dtype:
    """Return the precision in which most of the weights are stored."""
    stored = Counter(entry.data_type for entry in graph.initializer if entry.data_type in FLOATS)
    return FLOATS[stored.most_common(1)[0][0]] if stored else torch.float32


def uses(graph: onnx.GraphProto) -> Iterator[Use]:
    """Yield each place where a stored array of floating numbers is read as a weight, with a name for it."""
    floating = {entry.name for entry in graph.initializer if entry.data_type in FLOATS and prod(entry.dims) > 1}
    stored = floating - angles(graph)
    aliases = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    readers = {name: node for node in graph.node for name in node.input}
    taken: Counter[str] = Counter()
    for index, node in enumerate(graph.node):
        turned = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
        for place, name in enumerate(node.input):
            if node.op_type == "Identity" or aliases.get(name, name) not in stored:
                continue
            telling = name_of_use(node, place, name, readers.get(node.output[0]))
            taken[telling] += 1
            numbered = telling if taken[telling] == 1 else f"{telling}_{taken[telling]}"
            yield Use(index, place, numbered, turned and place == 1)


def angles(graph: onnx.GraphProto) -> set[str]:
    """Return the values of which sines and cosines are taken, and nothing else.

    A file does not tell constants from weights. A stored array among these holds frequencies: what is learned adds to
    vectors, or scales them.
    """
    readers: dict[str, list[onnx.NodeProto]] = {entry.name: [] for entry in graph.initializer}
    read_by_caller = {entry.name for entry in graph.output}
    found: set[str] = set()

    def is_angle(name: str) -> bool:
        read_by = readers.get(name, [])
        return bool(read_by) and all(n.op_type in ("Sin", "Cos") or found.issuperset(n.output) for n in read_by)

    for node in reversed(graph.node):  # the readers of a value stand behind what gives it
        found |= {name for name in node.output if name not in read_by_caller and is_angle(name)}
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return found | {entry.name for entry in graph.initializer if is_angle(entry.name)}


def of_use(graph: onnx.GraphProto, use: Use) -> str:
    """Return the name under which the weight of a use is stored."""
    name = str(graph.node[use.node].input[use.place])
    return next((str(n.input[0]) for n in graph.node if n.op_type == "Identity" and n.output[0] == name), name)


def name_of_use(node: onnx.NodeProto, place: int, name: str, reader: onnx.NodeProto | None) -> str:
    """Name a weight as it is stored, but in the module in whose scope it is read.

    A map that was stored anew has lost its name and takes that of the bias which is added next.
    """
    scope, kind = scope_of(node), KINDS.get((node.op_type, place), "")
    if kind == "kernel" and reader is not None and reader.op_type == "Add":
        biases = [name_of_use(reader, at, read, None) for at, read in enumerate(reader.input) if read != node.output[0]]
        if biases and (stem := re.match(r"(.+)[._]bias$", biases[0])) and not LAYER.fullmatch(stem[1]):
            return f"{stem[1]}.kernel"
    inside = re.match(rf"{DIGITS.join(map(re.escape, re.split(DIGITS, scope)))}[.](.+)", name) if scope else None
    if inside:
        return f"{scope}.{re.sub(r'weight$', kind or 'weight', inside[1])}"
    return f"{scope}.{kind}" if scope and kind else name


def scope_of(node: onnx.NodeProto) -> str:
    """Return the module in which a node stands, as its exporter wrote it down; an empty one if it did not."""
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
    for node in [node for node in graph.node if node.op_type == "Identity" and node.output[0] in values]:
        graph.node.remove(node)
    for name in values.keys() & stored.keys():
        graph.initializer.remove(stored[name])
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return values
