"""The computation of ONNX files as graphs: which entries each node reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")

from conformance_tests.computation.graph import Value  # noqa: E402
from conformance_tests.computation.norm import read_norm  # noqa: E402
from conformance_tests.computation.reading import read  # noqa: E402
from conformance_tests.errors import Unsupported  # noqa: E402
from conformance_tests.subjects.evaluation import Coded, contraction, spelt_out  # noqa: E402
from conformance_tests.subjects.onnx import OnnxSubject  # noqa: E402
from conformance_tests.subjects.onnx_recording import OnnxEvaluation, as_written  # noqa: E402

SHAPES = {"x": (2, 3, 4), "W": (4, 6), "V": (6, 4), "b": (6,), "E": (7, 4), "K": (4, 3, 2)}
"""Shapes of what the graphs of these tests read: an argument, and parameters."""


def evaluated(nodes: str, **given: Any) -> tuple[OnnxEvaluation, dict[str, Coded], Coded]:
    """The evaluation of nodes that give y, what they read, and y."""
    read_here = {name: shape for name, shape in SHAPES.items() if name not in given}
    inputs = ", ".join(f"float[{','.join(map(str, shape))}] {name}" for name, shape in read_here.items())
    stored = ", ".join(f"int64[{len(v)}] {name} = {{{', '.join(map(str, v))}}}" for name, v in given.items())
    text = f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => (float[N] y) <{stored}> {{ {nodes} }}'
    evaluation = OnnxEvaluation()
    generator = np.random.default_rng(0)
    leaves = {}
    for name, shape in read_here.items():
        kind = "argument" if name == "x" else "parameter"
        leaves[name] = evaluation.leaf(kind, generator.standard_normal(shape), name, learned=kind == "parameter")
    (result,) = evaluation.run(onnx.parser.parse_model(text), leaves)
    np.testing.assert_allclose(evaluation.graph.numbers(result.codes).numpy(), result.array, rtol=0, atol=1e-12)
    return evaluation, leaves, result


def made(evaluation: OnnxEvaluation) -> list[Value]:
    """The operations."""
    return [value for value in evaluation.graph.values if value.reads]


MOVES = {
    "Transpose": "y = Transpose <perm = [2, 0, 1]> (x)",
    "Reshape": "y = Reshape (x, shape)",
    "Slice": "y = Slice (x, one, three, one)",
    "Gather": "y = Gather <axis = 1> (x, shape)",
    "Concat": "y = Concat <axis = 2> (x, x)",
    "Expand": "a = Unsqueeze (x, one)  y = Expand (a, sizes)",
    "Pad": "y = Pad (x, pads)",
    "Trilu": "y = Trilu (x)",
    "Split": "a, y = Split <axis = 2, num_outputs = 2> (x)",
    "Cast": "a = Cast <to = 10> (x)  y = Cast <to = 1> (a)",
    "Dropout": "y = Dropout (x)",
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_leave_no_operation_and_move_codes(name: str) -> None:
    """Each entry of the result is the entry of the argument that holds its number."""
    given = {"shape": [2, -1], "one": [1], "three": [3], "sizes": [2, 5, 3, 4], "pads": [0, 1, 0, 0, 2, 0]}
    given = {key: value for key, value in given.items() if key in MOVES[name]}
    evaluation, leaves, result = evaluated(MOVES[name], **given)
    assert made(evaluation) == []
    graph = evaluation.graph
    assert graph.owner(leaves["x"].codes) in graph.owners(result.codes)


def test_sizes_are_constants() -> None:
    """A shape that is computed from the argument's shape depends on no entry."""
    evaluation, leaves, result = evaluated(
        "a = Shape (x)  b1 = Gather (a, first)  c = Concat <axis = 0> (b1, rest)  y = Reshape (x, c)",
        first=[0],
        rest=[-1],
    )
    assert made(evaluation) == []
    assert torch.equal(result.codes, leaves["x"].codes.reshape(2, 12))


PRODUCTS = {
    "MatMul": ("y = MatMul (x, W)", "W", False),
    "MatMul with the parameter first": ("y = MatMul (V, t)  ", "V", True),
    "Gemm": ("a = Reshape (x, flat)  y = Gemm (a, W, b)", "W", False),
    "Gemm, turned": ("a = Reshape (x, flat)  y = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (a, V, b)", "V", True),
    "Einsum": ('y = Einsum <equation = "abc,cd->dab"> (x, W)', "W", False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_keep_the_parameters_entries_in_their_columns(name: str) -> None:
    """Whichever side they are on, and however they are stored."""
    nodes, parameter, turned = PRODUCTS[name]
    nodes = f"t = Transpose <perm = [0, 2, 1]> (x)  {nodes}" if "t)" in nodes else nodes
    evaluation, leaves, _ = evaluated(nodes, **({"flat": [6, 4]} if "flat" in nodes else {}))
    product = next(v for v in evaluation.graph.values if v.operation == "product")
    columns = product.reads[1]
    assert isinstance(columns, Tensor)
    codes = leaves[parameter].codes
    assert torch.equal(columns[0], codes.mT if turned else codes)


def test_products_of_batches_are_broadcast() -> None:
    """Scores of two arguments: one matrix for each sample."""
    evaluation, leaves, _ = evaluated("t = Transpose <perm = [0, 2, 1]> (x)  y = MatMul (x, t)")
    rows, columns = made(evaluation)[0].reads
    assert torch.equal(rows, leaves["x"].codes)  # type: ignore[arg-type]
    assert torch.equal(columns, leaves["x"].codes.mT)  # type: ignore[arg-type]


def test_a_convolution_reads_its_patches() -> None:
    """Channels first; the bias is added to the product."""
    evaluation, leaves, _ = evaluated("c = ReduceMax <keepdims = 0> (W, one)  y = Conv (x, K, c)", one=[1])
    product, added = (v for v in made(evaluation) if v.operation in ("product", "add"))
    assert torch.equal(product.reads[1][0], leaves["K"].codes.reshape(4, 6).mT)  # type: ignore[index]
    assert added.reads[0].shape == added.data.shape  # type: ignore[union-attr]


def test_ids_are_looked_up() -> None:
    """An index that depends on the argument is no move."""
    evaluation, leaves, result = evaluated("a = Abs (x)  i = Cast <to = 7> (a)  y = Gather (E, i)")
    look_up = evaluation.graph.owner(result.codes)
    assert look_up is not None
    assert (look_up.operation, look_up.options) == ("look-up", {"axis": 0})
    assert torch.equal(look_up.reads[0], leaves["E"].codes)  # type: ignore[arg-type]


def test_norms_and_softmax_are_named_with_their_axes() -> None:
    """ε was written in few digits, and is kept in float32."""
    evaluation, leaves, _ = evaluated(
        "a = LayerNormalization <epsilon = 0.00001> (x, g)  y = Softmax (a)", g=[1, 2, 3, 4]
    )
    norm, softmax = made(evaluation)
    assert (norm.operation, norm.options["eps"], norm.options["axes"]) == ("layer-norm", 1e-5, (2,))
    assert torch.equal(norm.reads[0], leaves["x"].codes)  # type: ignore[arg-type]
    assert (softmax.operation, softmax.options) == ("softmax", {"axes": (2,)})


def test_arrays_that_change_nothing_are_no_parameters_of_a_norm() -> None:
    """A graph gives γ and β where the module has none; norms without any would seem to share one otherwise."""
    evaluation, _, _ = evaluated("y = LayerNormalization (x, g, h)", g=[1, 1, 1, 1], h=[0, 0, 0, 0])
    norm = read_norm(evaluation.graph, made(evaluation)[0])
    assert norm is not None
    assert (norm.form, norm.gamma, norm.beta) == ("layer-norm-without-bias", None, None)


def test_gelu_is_evaluated_in_float64() -> None:
    """The error function of ONNX's reference implementation rounds to float32, and ours does not."""
    for nodes in ("y = Gelu (x)", "one = Constant <value_float = 1.0> ()  a = Erf (x)  y = Add (a, one)"):
        _, leaves, result = evaluated(nodes)
        x = torch.from_numpy(leaves["x"].array)
        wanted = torch.nn.functional.gelu(x) if "Gelu" in nodes else 1 + torch.erf(x)
        np.testing.assert_allclose(result.array, wanted.numpy(), rtol=0, atol=1e-15)


def test_reductions_have_axes() -> None:
    """Given as an input or as none; some leave everything as it is."""
    evaluation, _, _ = evaluated("a = ReduceMean <keepdims = 1> (x, one)  y = ReduceSum <keepdims = 0> (a)", one=[-1])
    mean, total = made(evaluation)
    assert (mean.operation, mean.options["axes"]) == ("mean", (2,))
    assert (total.operation, total.options["axes"]) == ("sum", (0, 1, 2))


def test_the_branch_that_is_taken_is_recorded() -> None:
    """It reads the values around it."""
    nodes = (
        "s = Size (x)  z = Cast <to = 9> (s)"
        "y = If (z) <then_branch = then_g () => (float[N] r) { r = Tanh (x) },"
        " else_branch = else_g () => (float[N] r) { r = Exp (x) }>"
    )
    evaluation, _, _ = evaluated(nodes)
    assert [v.operation for v in made(evaluation)] == ["tanh"]


@pytest.mark.parametrize(
    ("equation", "found"),
    [
        ("bqd,bkd->bqk", (([2], [2]), ([0], [0]), [0, 1, 2])),
        ("bnd,dhk->bhnk", (([2], [0]), ([], []), [0, 2, 1, 3])),
        ("ij,ij->", None),
        ("ii,ij->ij", None),
        ("ij,k->jk", None),
        ("ij->ji", None),
    ],
)
def test_an_einsum_of_two_arrays_is_a_product(equation: str, found: Any) -> None:
    """One that sums over an axis of one array alone, or reads a diagonal, is none."""
    assert contraction(equation) == found


@pytest.mark.parametrize(
    ("equation", "axes", "spelt"),
    [
        ("ab,bc->ac", [2, 2], "ab,bc->ac"),
        ("...ab, cdb->...acd", [3, 3], "eab,cdb->eacd"),
        ("...ab,...bc->...ac", [4, 3], "deab,ebc->deac"),
        ("...a->...", [1], "a->"),
    ],
)
def test_an_ellipsis_of_an_einsum_is_spelt_out(equation: str, axes: list[int], spelt: str) -> None:
    """Ellipses are aligned from the right, as arrays are broadcast."""
    assert spelt_out(equation, axes) == spelt


def layer(path: Path, transposed: bool) -> Path:
    """A Post-LN layer of one head in a file, its kernels stored turned or not."""
    d, f = 6, 10
    generator = np.random.default_rng(1)
    shapes = {"q": (d, d), "k": (d, d), "v": (d, d), "o": (d, d), "w1": (d, f), "w2": (f, d)}
    stored = {f"{n}.weight": generator.standard_normal(s).astype(np.float32) / 3 for n, s in shapes.items()}
    stored |= {f"{n}.{kind}": np.ones(d, np.float32) for n in ("n1", "n2") for kind in ("weight", "bias")}
    stored |= {"root": np.array(d**0.5, np.float32), "rows": np.array([-1, d]), "wide": np.array([-1, f])}

    def product(reads: str, name: str) -> str:
        if not transposed:
            return f"{name} = MatMul ({reads}, {name}_weight)"
        return (
            f"{name}_r = Reshape ({reads}, {'wide' if reads == 'u' else 'rows'})"
            f"  {name}_g = Gemm <transB = 1> ({name}_r, {name}_weight)"
            f"  {name}_s = Shape <end = -1> ({reads})  {name}_n = Shape <end = 1> ({name}_weight)"
            f"  {name}_t = Concat <axis = 0> ({name}_s, {name}_n)  {name} = Reshape ({name}_g, {name}_t)"
        )

    text = "  ".join(
        [
            *(product("x", name) for name in "qkv"),
            "kt = Transpose <perm = [0, 2, 1]> (k)  s = MatMul (q, kt)  z = Div (s, root)  a = Softmax (z)",
            "h = MatMul (a, v)",
            product("h", "o"),
            "r1 = Add (x, o)  l1 = LayerNormalization (r1, n1_weight, n1_bias)",
            product("l1", "w1"),
            "u = Relu (w1)",
            product("u", "w2"),
            "r2 = Add (l1, w2)  y = LayerNormalization (r2, n2_weight, n2_bias)",
        ]
    )
    head = '<ir_version: 9, opset_import: ["" : 20]> g (float[B, n, 6] x) => (float[B, n, 6] y)'
    model = onnx.parser.parse_model(f"{head} {{ {text} }}")
    for name, array in stored.items():
        held = array.T.copy() if transposed and array.ndim == 2 else array
        model.graph.initializer.append(onnx.numpy_helper.from_array(held, name.replace(".", "_")))
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("transposed", [False, True])
def test_the_maps_of_a_layer_are_entries_of_its_parameters(transposed: bool, tmp_path: Path) -> None:
    """In the orientation in which the subject hands its weights over; afterwards it has its own values."""
    subject = OnnxSubject(layer(tmp_path / "layer.onnx", transposed))
    before = subject.weights()
    graph = subject.computation()
    found = read(graph)
    assert found is not None
    assert found.unread == []
    for letter in "QKVO":
        kernel = next(v for v in graph.values if v.name == f"{letter.lower()}_weight")
        assert kernel.data.shape == subject.weights()[kernel.name].shape
        assert torch.equal(found.codes[f"layers.0.W_{letter}"], kernel.codes)
    assert all(torch.equal(w, before[name]) for name, w in subject.weights().items())
    assert found.choices["scores"] == "scaled"


def test_weights_that_are_listed_as_inputs_need_not_be_given(tmp_path: Path) -> None:
    model = onnx.load(layer(tmp_path / "layer.onnx", transposed=False))
    before = OnnxSubject(model)
    for entry in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(entry.name, entry.data_type, entry.dims))
    subject = OnnxSubject(model)
    assert subject.arguments() == before.arguments()
    assert subject.computation().output.shape == before.computation().output.shape


def test_a_node_that_nobody_can_evaluate_is_named(tmp_path: Path) -> None:
    """One of ONNX Runtime that is not written out in others."""
    path = layer(tmp_path / "layer.onnx", transposed=False)
    model = onnx.load(path)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    activation = next(node for node in model.graph.node if node.op_type == "Relu")
    activation.op_type, activation.domain = "ExpandDims", "com.microsoft"
    activation.input.append("axis")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0, dtype=np.int32), "axis"))
    with pytest.raises(Unsupported, match="ExpandDims"):
        OnnxSubject(model).computation()


def test_a_number_in_float32_is_read_as_it_was_written() -> None:
    """ε has few digits; a root has as many as float32 keeps."""
    assert as_written(float(np.float32(1e-12))) == 1e-12
    assert as_written(float(np.float32(30**0.5))) == float(np.float32(30**0.5))


def test_an_image_may_have_a_fixed_size() -> None:
    """Its patches are rows of a product, and the batch is open."""
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> g (float[B, 3, 8, 8] x) => (float[B, n, 5] y) {'
        " c = Conv <strides = [4, 4]> (x, K)  f = Reshape (c, shape)  y = Transpose <perm = [0, 2, 1]> (f) }"
    )
    model = onnx.parser.parse_model(text)
    kernel = np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)
    for name, array in {"K": kernel, "shape": np.array([0, 5, -1])}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    graph = OnnxSubject(model).computation()
    product = graph.owner(graph.output)
    assert product is not None
    weights = next(v for v in graph.values if v.operation == "parameter")
    assert torch.equal(product.reads[1][0], weights.codes.reshape(5, 48).mT)  # type: ignore[index]
    assert graph.output.shape == (2, 4, 5)
