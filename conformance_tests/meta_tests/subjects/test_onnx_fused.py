"""Operators of ONNX Runtime, against the runtime itself: they do what they are written out as."""

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from conformance_tests.subjects.onnx_fused import SPELLED, spelled_out  # noqa: E402
from conformance_tests.subjects.onnx_recording import EXACT, inlined  # noqa: E402

B, N, H, D = 2, 5, 3, 12
"""Sequences, positions, heads and features."""

X, Y, GAMMA, BETA, WIDE = (B, N, D), (B, N, D), (D,), (D,), (3 * D,)

KEEP = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=np.int32)
IDS = np.array([[3, 1, 4, 1, 5], [2, 6, 0, 3, 5]], dtype=np.int32)
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], dtype=np.int32)

MICROSOFT = "com.microsoft"

CASES: dict[str, tuple[str, str, list[Any], dict[str, Any]]] = {
    "Gelu": (MICROSOFT, "Gelu", [X], {}),
    "BiasGelu": (MICROSOFT, "BiasGelu", [X, BETA], {}),
    "FastGelu": (MICROSOFT, "FastGelu", [X], {}),
    "FastGelu with a bias": (MICROSOFT, "FastGelu", [X, BETA], {}),
    "QuickGelu": (MICROSOFT, "QuickGelu", [X], {"alpha": 1.5}),
    "FusedMatMul": (MICROSOFT, "FusedMatMul", [X, (D, 7)], {"alpha": 0.25}),
    "FusedMatMul, right turned": (MICROSOFT, "FusedMatMul", [X, Y], {"transB": 1}),
    "FusedMatMul, both turned": (MICROSOFT, "FusedMatMul", [(B, D, N), (B, 4, D)], {"transA": 1, "transB": 1}),
    "SkipLayerNormalization": (MICROSOFT, "SkipLayerNormalization", [X, Y, GAMMA, BETA], {"epsilon": 0.1}),
    "SkipLayerNormalization with a bias": (
        MICROSOFT, "SkipLayerNormalization", [X, Y, GAMMA, None, BETA], {"epsilon": 0.1},
    ),
    "SkipSimplifiedLayerNormalization": (
        MICROSOFT, "SkipSimplifiedLayerNormalization", [X, Y, GAMMA, BETA], {"epsilon": 0.1},
    ),
    "SimplifiedLayerNormalization": ("", "SimplifiedLayerNormalization", [X, GAMMA], {"axis": -1, "epsilon": 0.1}),
    "EmbedLayerNormalization": (
        MICROSOFT, "EmbedLayerNormalization", [IDS, SEGMENTS, (7, D), (9, D), (2, D), GAMMA, BETA], {"epsilon": 0.1},
    ),
    "EmbedLayerNormalization without segments": (
        MICROSOFT, "EmbedLayerNormalization", [IDS, None, (7, D), (9, D), None, GAMMA, BETA], {"epsilon": 0.1},
    ),
    "EmbedLayerNormalization with a mask": (
        MICROSOFT, "EmbedLayerNormalization", [IDS, SEGMENTS, (7, D), (9, D), (2, D), GAMMA, BETA, KEEP], {},
    ),
    "Attention": (MICROSOFT, "Attention", [X, (D, 3 * D), WIDE], {"num_heads": H}),
    "Attention with a mask": (MICROSOFT, "Attention", [X, (D, 3 * D), WIDE, KEEP], {"num_heads": H}),
    "Attention with a bias of its scores": (
        MICROSOFT, "Attention", [X, (D, 3 * D), WIDE, None, None, (B, H, N, N)], {"num_heads": H, "scale": 0.3},
    ),
    "MultiHeadAttention": (MICROSOFT, "MultiHeadAttention", [X, Y, X], {"num_heads": H}),
    "MultiHeadAttention with biases and a mask": (
        MICROSOFT, "MultiHeadAttention", [X, Y, X, WIDE, KEEP], {"num_heads": H, "scale": 0.3},
    ),
}  # fmt: skip


def model_of(domain: str, kind: str, reads: list[Any], attributes: dict[str, Any], opset: int = 17) -> Any:
    """A model with one node, and what it reads."""
    random = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for place, read in enumerate(reads):
        if read is not None:
            drawn = random.standard_normal(read).astype(np.float32) if isinstance(read, tuple) else read
            given[f"a{place}"] = drawn
    names = [f"a{place}" if read is not None else "" for place, read in enumerate(reads)]
    beside = ["lengths"] if kind == "EmbedLayerNormalization" else []
    node = onnx.helper.make_node(kind, names, ["y", *beside], domain=domain, **attributes)
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in given.items()}
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info(name, types[name], x.shape) for name, x in given.items()],
        [
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
            *(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, None) for name in beside),
        ],
    )
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(MICROSOFT, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), given


@pytest.mark.parametrize("opset", [14, 17, 18])
@pytest.mark.parametrize("name", CASES)
def test_a_fused_operator_does_what_it_is_written_out_as(name: str, opset: int) -> None:
    """As far as float32 goes."""
    model, given = model_of(*CASES[name], opset=opset)
    running = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    in_float64 = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in given.items()}
    got = ReferenceEvaluator(inlined(model), new_ops=EXACT).run(None, in_float64)
    for ours, theirs in zip(got, running.run(None, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def test_a_mask_may_be_told_as_lengths() -> None:
    """As the embedding counts them for the attention behind it."""
    model, given = model_of(*CASES["EmbedLayerNormalization with a mask"])
    weights = {"W": (D, 3 * D), "b": WIDE}
    random = np.random.default_rng(1)
    for name, shape in weights.items():
        given[name] = random.standard_normal(shape).astype(np.float32)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    model.graph.node.append(
        onnx.helper.make_node("Attention", ["y", "W", "b", "lengths"], ["z"], domain=MICROSOFT, num_heads=H)
    )
    model.graph.output[0].name = "z"
    running = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    in_float64 = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in given.items()}
    (want,) = running.run(["z"], given)
    (got,) = ReferenceEvaluator(inlined(model), new_ops=EXACT).run(["z"], in_float64)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    ("kind", "reads", "attributes"),
    [
        ("Attention", [X, (D, 3 * D), WIDE], {"num_heads": H, "unidirectional": 1}),
        ("Attention", [X, (D, 3 * D), WIDE, KEEP, (2, B, H, 4, D // H)], {"num_heads": H}),
        ("FusedMatMul", [X, Y], {"transBatchA": 1}),
        ("FusedConv", [X, Y], {}),
    ],
)
def test_an_operator_with_more_than_is_written_here_stays(
    kind: str, reads: list[Any], attributes: dict[str, Any]
) -> None:
    """So it has no reference implementation, and that is what is said."""
    model, _ = model_of(MICROSOFT, kind, reads, attributes)
    assert [node.op_type for node in spelled_out(model).graph.node] == [kind]


def test_a_model_without_fused_operators_is_what_it_was() -> None:
    """Nor is one from before the operators that they are written in."""
    old, _ = model_of(*CASES["BiasGelu"], opset=12)
    plain, _ = model_of("", "Relu", [X], {})
    assert spelled_out(old) is old
    assert spelled_out(plain) is plain
    fused, _ = model_of(*CASES["BiasGelu"])
    assert [node.domain for node in spelled_out(fused).graph.node] == [SPELLED]
    assert [node.domain for node in fused.graph.node] == [MICROSOFT]
