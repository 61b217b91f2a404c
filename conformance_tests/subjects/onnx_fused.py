"""Operators of ONNX Runtime that stand for several of ONNX: what its optimiser puts in their place.

They have no reference implementation. So each is written here in operators that have one, as the runtime documents it
(``ContribOperators.md`` of onnxruntime), for the attributes and the inputs that a node has.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import onnx

SPELLED = "spelled.out"
"""The domain of the functions that stand for fused nodes until they are inlined."""

OLDEST, LEAST = 13, 17
"""Layer normalisation is an operator from version 17 on; what graphs from 13 on hold means the same there."""


class Fused:
    """A fused node, and the text of operators that do the same.

    In the text its inputs are ``x0``, ``x1``, … and its outputs ``y0``, ``y1``, …

    Args:
        node: the node.
        opset: the version of ONNX's operators.
        lengths: the values of the graph that are numbers of keys: so many of each sequence are kept, the first ones.
    """

    def __init__(self, node: onnx.NodeProto, opset: int, lengths: Collection[str] = ()) -> None:
        self.opset = opset
        self.lengths = {f"x{place}" for place, name in enumerate(node.input) if name in lengths}
        self.attributes: Mapping[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.inputs = dict.fromkeys(f"x{place}" for place, name in enumerate(node.input) if name)
        self.outputs = dict.fromkeys(f"y{place}" for place, name in enumerate(node.output) if name)
        self.lines: list[str] = []

    def let(self, operator: str, *reads: str, gives: str = "", **attributes: Any) -> str:
        """Add an operator, and return the name of what it gives."""
        name = gives or f"t{len(self.lines)}"
        stated = ", ".join(f"{key} = {written(value)}" for key, value in attributes.items())
        self.lines.append(f"{name} = {operator} {f'<{stated}>' if stated else ''} ({', '.join(reads)})")
        return name

    def number(self, value: float) -> str:
        """Return the name of a number."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = Constant <value = double {{{value!r}}}> ()")
        return name

    def whole(self, *values: int) -> str:
        """Return the name of whole numbers, such as axes or sizes."""
        return self.let("Constant", value_ints=list(values))

    def double(self, x: str) -> str:
        """Return the name of whole numbers as floating ones."""
        return self.let("Cast", x, to=onnx.TensorProto.DOUBLE)

    def sum_of(self, first: str, *others: str) -> str:
        """Return the sum of something and those of some inputs that are given."""
        for other in others:
            first = self.let("Add", first, other) if other in self.inputs else first
        return first

    def layer_norm(self, x: str, gamma: str, beta: str) -> None:
        """Normalise each position, scale it, and shift it if that is given."""
        shift = [beta] if beta in self.inputs else []
        epsilon = self.attributes.get("epsilon", 1e-12)
        self.let("LayerNormalization", x, gamma, *shift, gives="y0", axis=-1, epsilon=epsilon)

    def rms_norm(self, x: str, gamma: str) -> None:
        """Divide each position by the root of its mean square, and scale it."""
        square = self.let("Mul", x, x)
        axes: dict[str, Any] = {"axes": [-1]} if self.opset < 18 else {}
        mean = self.let("ReduceMean", square, *([] if axes else [self.whole(-1)]), keepdims=1, **axes)
        root = self.let("Sqrt", self.let("Add", mean, self.number(self.attributes.get("epsilon", 1e-5))))
        self.let("Mul", self.let("Div", x, root), gamma, gives="y0")

    def thirds(self, x: str) -> list[str]:
        """Split an array in three along its last axis."""
        names = [f"t{len(self.lines)}_{part}" for part in range(3)]
        parts = ", num_outputs = 3" if self.opset >= 18 else ""
        self.lines.append(f"{', '.join(names)} = Split <axis = -1{parts}> ({x})")
        return names

    def heads(self, x: str, *order: int) -> str:
        """Split features (B, n, h·d) into heads (B, n, h, d), and put the axes in an order."""
        apart = self.let("Reshape", x, self.whole(0, 0, self.attributes["num_heads"], -1))
        return self.let("Transpose", apart, perm=list(order))

    def size(self, x: str, axis: int) -> str:
        """Return the name of the size of an axis."""
        return self.let("Squeeze", self.let("Gather", self.let("Shape", x), self.whole(axis)), self.whole(0))

    def counted(self, size: str) -> str:
        """Return the name of 0, 1, 2, … up to a size."""
        zero, one = (self.let("Constant", value_int=number) for number in (0, 1))
        return self.let("Range", zero, size, one)

    def total(self, x: str) -> str:
        """Return the name of the sums of whole numbers (B, n) over n."""
        return self.let("ReduceSum", x, self.whole(1), keepdims=0)

    def attend(self, q: str, k: str, v: str, mask: str, bias: str) -> None:
        """Compute attention; a mask (B, n) is 1 where a key is kept, and a bias is added to the scores."""
        queries = self.heads(q, 0, 2, 1, 3)
        scores = self.let("MatMul", queries, self.heads(k, 0, 2, 3, 1))
        if scale := self.attributes.get("scale", 0.0):
            scores = self.let("Mul", scores, self.number(scale))
        else:
            scores = self.let("Div", scores, self.let("Sqrt", self.double(self.size(queries, 3))))
        if mask in self.inputs:
            kept = mask
            if mask in self.lengths:
                places = self.double(self.counted(self.size(k, 1)))
                kept = self.let("Less", places, self.let("Unsqueeze", self.double(mask), self.whole(1)))
            hidden = self.let("Sub", self.number(1.0), self.double(kept))
            low = self.let("Mul", hidden, self.number(self.attributes.get("mask_filter_value", -10000.0)))
            scores = self.let("Add", scores, self.let("Unsqueeze", low, self.whole(1, 2)))
        weights = self.let("Softmax", self.sum_of(scores, bias), axis=-1)
        merged = self.let("Transpose", self.let("MatMul", weights, self.heads(v, 0, 2, 1, 3)), perm=[0, 2, 1, 3])
        self.let("Reshape", merged, self.whole(0, 0, -1), gives="y0")


def written(value: Any) -> str:
    """Return an attribute as the text of a graph states it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def activated(node: Fused) -> None:
    """GELU of an input, with a bias if there is one."""
    node.let("Gelu", node.sum_of("x0", "x1"), gives="y0")


def activated_by_tanh(node: Fused) -> None:
    """GELU by the hyperbolic tangent, with a bias if there is one."""
    node.let("Gelu", node.sum_of("x0", "x1"), gives="y0", approximate="tanh")


def activated_by_sigmoid(node: Fused) -> None:
    """X σ(αx)."""
    steep = node.let("Mul", "x0", node.number(node.attributes.get("alpha", 1.702)))
    node.let("Mul", "x0", node.let("Sigmoid", steep), gives="y0")


def multiplied(node: Fused) -> None:
    """α times a product of matrices, each of which may be turned."""
    left, right = ("ji" if node.attributes.get("transA") else "ij"), ("kj" if node.attributes.get("transB") else "jk")
    product = node.let("Einsum", "x0", "x1", equation=f"...{left},...{right}->...ik")
    node.let("Mul", product, node.number(node.attributes.get("alpha", 1.0)), gives="y0")


def added_and_normed(node: Fused) -> None:
    """Norm of a sum, which may be given as well."""
    total = node.sum_of("x0", "x1", "x4")
    node.layer_norm(total, "x2", "x3")
    if "y3" in node.outputs:
        node.let("Identity", total, gives="y3")


def added_and_normed_by_root(node: Fused) -> None:
    """Norm by the root mean square of a sum, which may be given as well."""
    total = node.sum_of("x0", "x1", "x3")
    node.rms_norm(total, "x2")
    if "y3" in node.outputs:
        node.let("Identity", total, gives="y3")


def embedded(node: Fused) -> None:
    """Norm of what tables hold for tokens, positions from 0 on, and segments; and how many tokens a mask keeps."""
    place = "x8" if "x8" in node.inputs else node.counted(node.size("x0", 1))
    total = node.let("Add", node.let("Gather", "x2", "x0"), node.let("Gather", "x3", place))
    if "x4" in node.inputs:
        total = node.let("Add", total, node.let("Gather", "x4", "x1"))
    node.layer_norm(total, "x5", "x6")
    if "x7" in node.inputs:
        node.let("Identity", node.total("x7"), gives="y1")
    else:
        node.let("Sub", node.total("x0"), node.total("x0"), gives="y1")


def projected_and_attended(node: Fused) -> None:
    """Attention with one map for queries, keys and values."""
    q, k, v = node.thirds(node.sum_of(node.let("MatMul", "x0", "x1"), "x2"))
    node.attend(q, k, v, mask="x3", bias="x5")


def attended(node: Fused) -> None:
    """Attention of queries, keys and values, with one bias for all three."""
    q, k, v = "x0", "x1", "x2"
    if "x3" in node.inputs:
        q, k, v = (node.let("Add", x, b) for x, b in zip((q, k, v), node.thirds("x3"), strict=True))
    node.attend(q, k, v, mask="x4", bias="x5")


SPELLING: Mapping[tuple[str, str], Callable[[Fused], None]] = {
    ("com.microsoft", "Gelu"): activated,
    ("com.microsoft", "BiasGelu"): activated,
    ("com.microsoft", "FastGelu"): activated_by_tanh,
    ("com.microsoft", "QuickGelu"): activated_by_sigmoid,
    ("com.microsoft", "FusedMatMul"): multiplied,
    ("com.microsoft", "SkipLayerNormalization"): added_and_normed,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): added_and_normed_by_root,
    ("", "SimplifiedLayerNormalization"): lambda node: node.rms_norm("x0", "x1"),
    ("com.microsoft", "EmbedLayerNormalization"): embedded,
    ("com.microsoft", "Attention"): projected_and_attended,
    ("com.microsoft", "MultiHeadAttention"): attended,
}
"""The function that spells each fused operator out, by domain and name."""

UNSPELLED = ("unidirectional", "do_rotary", "qkv_hidden_sizes", "transBatchA", "transBatchB")
"""Attributes with which an operator does what is not written here, if they are not 0."""


def spelled_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which fused nodes are calls of functions that do the same; those not written here stay."""
    standard = next((entry.version for entry in model.opset_import if not entry.domain), 0)
    fused = [place for place, node in enumerate(model.graph.node) if (node.domain, node.op_type) in SPELLING]
    if not fused or standard < OLDEST:
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    opset = max(standard, LEAST)
    others = [entry for entry in model.opset_import if entry.domain]
    del whole.opset_import[:]
    whole.opset_import.extend([*others, onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(SPELLED, 1)])
    lengths = {node.output[1] for node in model.graph.node if node.op_type == "EmbedLayerNormalization"}
    for place in fused:
        node = whole.graph.node[place]
        function = function_of(node, f"{node.op_type}_{place}", opset, lengths)
        if function is not None:
            whole.functions.append(function)
            reads, gives = filter(None, node.input), filter(None, node.output)
            call = onnx.helper.make_node(function.name, list(reads), list(gives), name=node.name, domain=SPELLED)
            node.CopyFrom(call)
    return whole


def function_of(node: onnx.NodeProto, name: str, opset: int, lengths: Collection[str]) -> onnx.FunctionProto | None:
    """Return a function that does what a fused node does; None if it has more than is written here."""
    fused = Fused(node, opset, lengths)
    if any(fused.attributes.get(attribute) for attribute in UNSPELLED):
        return None
    SPELLING[node.domain, node.op_type](fused)
    body = "\n".join(fused.lines)
    read, given = set(re.findall(r"\bx\d+\b", body)), set(re.findall(r"^y\d+\b", body, re.MULTILINE))
    if read != fused.inputs.keys() or not fused.outputs.keys() <= given:
        return None
    head = f'<domain: "{SPELLED}", opset_import: ["" : {opset}]> {name}'
    takes, gives = ", ".join(fused.inputs), ", ".join(fused.outputs)
    return onnx.parser.parse_function(f"{head} ({takes}) => ({gives}) {{ {body} }}")
