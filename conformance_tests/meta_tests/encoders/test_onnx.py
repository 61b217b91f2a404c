"""ONNX files, exported by torch and run by ONNX Runtime, are judged right."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.frontends.command_line import main

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
pytest.importorskip("onnxscript", reason="torch exports with onnxscript")


def stack(**options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(20, 4, 28, batch_first=True, **options)
    norm = nn.LayerNorm(20) if options.get("norm_first") else None
    return nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)


class Masked(nn.Module):
    """Torch's encoder with a mask where True = keep."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.encoder = stack(**options)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(x, src_key_padding_mask=~mask)
        return hidden


class ScaledByWidth(nn.Module):
    """One hand-written layer; ``width`` is what the root in the scores is taken of."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(20, 20) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(20, eps=1e-6), nn.LayerNorm(20, eps=1e-6)
        self.fc1, self.fc2 = nn.Linear(20, 28), nn.Linear(28, 20)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (4, 5)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        scores = (q @ k.mT / self.width**0.5).masked_fill(~mask[:, None, None], float("-inf"))
        x = self.norm1(x + self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        normed: Tensor = self.norm2(x + self.fc2(self.fc1(x).relu()))
        return normed


def exported(module: nn.Module, path: Path, dynamic: bool = True) -> Path:
    """The module in a file, as torch's exporter writes it."""
    x, mask = torch.randn(3, 7, 20), torch.arange(7)[None] < torch.tensor([[7], [5], [6]])
    axes = {0: torch.export.Dim("B"), 1: torch.export.Dim("n")}
    shapes = {"dynamic_shapes": (axes, axes)} if dynamic else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (x, mask), str(path), dynamo=True, verbose=False, **shapes)
    return path


SOUND: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "Post-LN": (Masked, {"layer": "post-ln", "activation": "relu", "eps": 1e-5, "num_layers": 2}),
    "Pre-LN": (
        lambda: Masked(norm_first=True, activation="gelu"),
        {"layer": "pre-ln", "activation": "gelu", "final_norm": "norm"},
    ),
    "by hand": (lambda: ScaledByWidth(5), {"layer": "post-ln", "eps": 1e-6, "num_layers": 1}),
}


@pytest.mark.parametrize("name", SOUND)
def test_an_exported_encoder_is_conformant(name: str, tmp_path: Path) -> None:
    """In float32, with derived budgets; heads, order of the norms, activation and ε are those of the module."""
    make, expected = SOUND[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(make(), tmp_path / "encoder.onnx")
    target = check(str(file)).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    assert (target.level, target.dtype) == ("agreement", "float32")
    assert target.profile["choices"].items() >= (expected | {"num_heads": 4, "d_model": 20, "d_ff": 28}).items()
    assert not [r.id for r in target.of("unsupported") if r.id.startswith("MASK") and "float32" not in r.message]


def test_an_exported_defect_is_found(tmp_path: Path) -> None:
    """Scores divided by √d_model: the output is wrong by far more than float32 can be."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(ScaledByWidth(20), tmp_path / "encoder.onnx")
    called = CliRunner().invoke(main, ["check", "--in-process", str(file)])
    assert called.exit_code == 1, called.output
    assert "FAIL ENC-2" in called.output
    assert "the scores are multiplied by 0.223607, where 1/√5 = 0.447214 belongs" in called.output


class Pooled(ScaledByWidth):
    """Returns a vector for each sequence: the mean of the hidden states that are kept, or of all of them."""

    def __init__(self, reads_padding: bool) -> None:
        super().__init__(5)
        self.reads_padding = reads_padding

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = super().forward(x, mask)
        if self.reads_padding:
            return hidden.mean(1)
        kept = mask[..., None].to(hidden)
        return (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


@pytest.mark.parametrize("reads_padding", [False, True])
def test_what_pools_the_hidden_states_in_the_graph_is_judged_as_a_head(reads_padding: bool, tmp_path: Path) -> None:
    """The hidden states are what a node gives; in float32 the vectors with padding tell what the head reads."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(Pooled(reads_padding), tmp_path / "encoder.onnx")
    target = check(str(file)).targets[0]
    assert target.verdict == ("nonconformant" if reads_padding else "conformant"), target.notes
    assert target.profile["choices"]["pool"] == "mean"
    assert any("what follows is judged as its head" in note for note in target.notes)
    assert [r.id for r in target.of("fail")] == (["HEAD-3"] if reads_padding else [])


@pytest.mark.parametrize(("width", "verdict"), [(5, "conformant"), (20, "nonconformant")])
def test_a_graph_that_was_converted_to_float16_is_judged(width: int, verdict: str, tmp_path: Path) -> None:
    """It keeps its constants in float16, and the types of its inputs and outputs as they were."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(ScaledByWidth(width), tmp_path / "encoder.onnx")
    onnx.save(convert_float_to_float16(onnx.load(file), keep_io_types=True), file)
    target = check(str(file)).targets[0]
    assert (target.verdict, target.dtype) == (verdict, "float16"), [r.message for r in target.of("fail")]


@pytest.mark.parametrize(("width", "verdict"), [(5, "conformant"), (20, "nonconformant")])
def test_a_graph_of_one_size_is_judged_at_that(width: int, verdict: str, tmp_path: Path) -> None:
    """Exported without dynamic axes it accepts nothing but the example's own shape."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(ScaledByWidth(width), tmp_path / "encoder.onnx", dynamic=False)
    target = check(str(file)).targets[0]
    assert target.verdict == verdict, [r.message for r in target.of("fail")] + target.notes
    assert "judged with 3 sequences of 7 positions alone: others are refused" in target.notes


def optimised(file: Path) -> None:
    """Let ONNX Runtime's offline optimiser put its own operators into a file."""
    from onnxruntime.transformers.optimizer import optimize_model

    model = optimize_model(str(file), "bert", num_heads=4, hidden_size=20, opt_level=1)
    model.save_model_to_file(str(file))
    assert {"SkipLayerNormalization"} <= {node.op_type for node in onnx.load(file).graph.node}


def with_extensions(file: Path) -> None:
    """Let ONNX Runtime write down what it made of a file before running it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(file)
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    assert {"FusedMatMul"} <= {node.op_type for node in onnx.load(file).graph.node}


@pytest.mark.parametrize(("width", "verdict"), [(5, "conformant"), (20, "nonconformant")])
@pytest.mark.parametrize("optimise", [optimised, with_extensions])
def test_a_graph_with_fused_operators_is_judged(
    optimise: Callable[[Path], None], width: int, verdict: str, tmp_path: Path
) -> None:
    """The suite reads the operators that they stand for."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        file = exported(ScaledByWidth(width), tmp_path / "encoder.onnx")
    optimise(file)
    target = check(str(file)).targets[0]
    assert target.verdict == verdict, [r.message for r in target.of("fail")] + target.notes
    wrong = "the scores are multiplied by 0.223607, where 1/√5 = 0.447214 belongs"
    assert any(wrong in r.message for r in target.of("fail")) == (verdict == "nonconformant")


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    """One line and no traceback: a text file, a truncated model, and a graph that is no encoder."""
    text, cut, other = (tmp_path / f"{name}.onnx" for name in ("text", "cut", "other"))
    text.write_text("no model")
    whole = exported(ScaledByWidth(5), tmp_path / "encoder.onnx").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    exported(Unrelated(), other)
    notes = {file.stem: check(str(file)).targets[0] for file in (text, cut, other)}
    assert [t.verdict for t in notes.values()] == ["error", "error", "undetermined"]
    assert all("\n" not in t.notes[0] or "described" in t.notes[0] for t in notes.values())
    assert "is not an ONNX model" in notes["text"].notes[0]


class Unrelated(nn.Module):
    """A map, and no attention anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(20, 20)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mapped: Tensor = self.map(x) * mask[..., None]
        return mapped


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """Status 2, in one line."""
    called = CliRunner().invoke(main, ["check", str(tmp_path / "nowhere.onnx")])
    assert called.exit_code == 2
    assert "there is no file" in called.output


# By shapes alone -----------------------------------------------------------------------


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Torch's encoder with biases that differ, in a file whose weights stand beside it."""
    module = Masked(norm_first=True)
    for p in module.parameters():
        nn.init.normal_(p)
    file = exported(module, tmp_path / "drawn.onnx")
    onnx.save_model(onnx.load(file), tmp_path / "encoder.onnx", save_as_external_data=True, location="weights.bin")
    return tmp_path / "encoder.onnx"


def test_a_graph_without_its_weights_is_judged_by_shapes(drawn: Path) -> None:
    """The file beside it is not opened, and need not be there."""
    (drawn.parent / "weights.bin").unlink()
    target = check(str(drawn), "torch-pre-ln", level="static").targets[0]
    assert target.verdict == "conformant", target.notes
    assert not target.of("unsupported")
    found = check(str(drawn), level="static").targets[0].profile
    assert found["choices"].items() >= {"final_norm": "norm", "num_layers": 2, "d_ff": 28, "eps": 1e-5}.items()
    assert {"layer", "activation", "num_heads"} <= found["open"].keys()
    assert "weights.bin" in check(str(drawn)).targets[0].notes[0]


def test_a_graph_of_a_trillion_parameters_is_judged_by_shapes(drawn: Path) -> None:
    """Each width is 14,000 times as large, in the file and not beside it."""
    model = onnx.load(drawn, load_external_data=False)
    for entry in model.graph.initializer:
        if entry.data_type == onnx.TensorProto.FLOAT and entry.dims and max(entry.dims) > 4:
            entry.dims[:] = [14_000 * size for size in entry.dims]
    drawn.write_bytes(model.SerializeToString())
    target = check(str(drawn), "torch-pre-ln", level="static").targets[0]
    d, f = 14_000 * 20, 14_000 * 28
    assert target.verdict == "conformant", target.notes
    assert target.notes[0].startswith(f"{2 * (4 * d * d + 2 * d * f + 9 * d + f) + 2 * d:,} parameters")


def test_a_graph_that_stores_equal_arrays_once_does_not_show_whether_layers_share_them(tmp_path: Path) -> None:
    """Every γ is 1 in a module that was just made."""
    path = exported(Masked(), tmp_path / "encoder.onnx")
    unsupported = {r.id: r.message for r in check(str(path), level="static").targets[0].of("unsupported")}
    assert list(unsupported) == ["ENC-15"]
    assert "equal arrays are stored once" in unsupported["ENC-15"]


def test_a_file_without_a_graph_is_refused_by_shapes_too(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    target = check(str(tmp_path / "text.onnx"), level="static").targets[0]
    assert target.verdict == "error"
    assert "is not an ONNX model" in target.notes[0]
