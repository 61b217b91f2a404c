"""A folder with configuration and safetensors is judged; what cannot be trusted is refused."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from conformance_tests import check
from conformance_tests.frontends.command_line import main
from conformance_tests.subjects import checkpoint

transformers = pytest.importorskip("transformers", reason="needs the extra `transformers`")
safetensors = pytest.importorskip("safetensors.torch", reason="needs the extra `transformers`")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small BERT as ``save_pretrained`` writes it."""
    sizes = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 28}
    config = transformers.BertConfig(vocab_size=41, max_position_embeddings=31, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_model_is_judged_from_token_ids(folder: Path) -> None:
    """Named by its folder alone, it is a BERT with the sizes of its configuration."""
    target = check(str(folder)).targets[0]
    assert target.verdict == "conformant", target.notes
    choices = {"input": "embedded", "num_heads": 4, "num_layers": 2, "d_model": 20, "d_ff": 28, "eps": 1e-12}
    assert target.profile["choices"].items() >= choices.items()


def test_weights_that_lack_a_parameter_are_not_judged(folder: Path) -> None:
    """What the file lacks is drawn at random; that must not pass for the model."""
    file = folder / "model.safetensors"
    weights = safetensors.load_file(file)
    lost = "encoder.layer.1.attention.self.query.weight"
    safetensors.save_file({k: v for k, v in weights.items() if k != lost}, file, {"format": "pt"})
    target = check(str(folder)).targets[0]
    assert target.verdict == "undetermined"
    assert lost in target.notes[0]


def test_weights_without_a_place_are_not_judged(folder: Path) -> None:
    """They belong to an encoder that the configuration does not describe."""
    file = folder / "model.safetensors"
    extra = {"encoder.layer.0.adapter.weight": torch.ones(3, 3)}
    safetensors.save_file(safetensors.load_file(file) | extra, file, {"format": "pt"})
    target = check(str(folder)).targets[0]
    assert target.verdict == "undetermined"
    assert "encoder.layer.0.adapter.weight" in target.notes[0]


@pytest.mark.parametrize(
    "entry", ["../outside.safetensors", "/etc/passwd", "weights.bin", "part/w.safetensors", 3, None]
)
def test_an_index_leads_to_no_other_file(entry: object, folder: Path) -> None:
    """Neither outside of the folder nor to a pickle in it, even where weights stand beside it."""
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"embeddings.w": entry}}))
    target = check(str(folder)).targets[0]
    assert target.verdict == "error"
    assert f"names {entry!r} where it may only name *.safetensors in the folder: it is not opened" in target.notes[0]


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', "{}"])
def test_an_index_that_lists_nothing_is_refused(text: str, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(text)
    target = check(str(folder)).targets[0]
    assert target.verdict == "error"
    assert "model.safetensors.index.json does not list weights: " in target.notes[0]


def test_a_model_in_parts_is_judged(folder: Path) -> None:
    """Its index names files that stand beside it."""
    model = transformers.BertModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="10KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert check(str(folder)).verdict == "conformant"


def test_a_configuration_starts_no_kernel_of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked for where compiled code comes from, and the network of the hub is off meanwhile."""
    file = folder / "config.json"
    named = {"attn_implementation": "kernels-community/flash-attn", "_attn_implementation": "kernels-community/x"}
    file.write_text(json.dumps(json.loads(file.read_text()) | named))
    seen: list[str | None] = []
    load = transformers.AutoModel.from_pretrained

    def loading(*args: Any, **options: Any) -> Any:
        seen.append(os.environ.get(checkpoint.OFFLINE))
        return load(*args, **options)

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", loading)
    monkeypatch.delenv(checkpoint.OFFLINE, raising=False)
    monkeypatch.setitem(sys.modules, "kernels", None)
    target = check(str(folder)).targets[0]
    assert target.verdict == "conformant", target.notes
    assert (seen, os.environ.get(checkpoint.OFFLINE)) == (["1"], None)


def test_pickled_weights_are_not_opened(folder: Path) -> None:
    """A pickle may run code: the report says what to do instead."""
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"not opened")
    target = check(str(folder)).targets[0]
    assert target.verdict == "error"
    assert "is a pickle" in target.notes[0]
    assert "save_pretrained" in target.notes[0]


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    """One line for each thing that is missing."""
    assert "has no config.json" in check(str(tmp_path)).targets[0].notes[0]
    (tmp_path / "config.json").write_text("{}")
    assert "has no *.safetensors" in check(str(tmp_path)).targets[0].notes[0]
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "transformers cannot load" in check(str(tmp_path)).targets[0].notes[0]


def test_weights_alone_are_a_usage_error(folder: Path) -> None:
    """A file of arrays says nothing of what computes with them."""
    called = CliRunner().invoke(main, ["check", str(folder / "model.safetensors")])
    assert called.exit_code == 2
    assert "name its folder" in called.output


# By shapes alone -----------------------------------------------------------------------


def test_a_configuration_without_weights_is_judged_by_shapes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model is made on the device meta, as transformers has it: of the folder, or of the file alone."""
    (folder / "model.safetensors").unlink()
    said = "its configuration alone is judged with --level static"
    assert said in check(str(folder)).targets[0].notes[0]
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", None)
    for place in (folder, folder / "config.json"):
        target = check(str(place), "bert", level="static").targets[0]
        assert target.verdict == "conformant", target.notes
        choices = check(str(place), level="static").targets[0].profile["choices"]
        assert choices.items() >= {"num_heads": 4, "num_layers": 2, "d_ff": 28, "activation": "gelu"}.items()


def test_shapes_of_weights_are_those_of_the_configured_model(folder: Path) -> None:
    """Two ways to the same choices; a file alone does not show whether its table of positions is learned."""
    by_headers = check(str(folder), level="static").targets[0]
    by_configuration = check(str(folder / "config.json"), level="static").targets[0]
    assert by_headers.verdict == by_configuration.verdict == "conformant"
    assert by_headers.profile["choices"] == by_configuration.profile["choices"]
    left, fewer = by_headers.profile["open"], by_configuration.profile["open"]
    assert {name: left[name] for name in left if name != "position"} == {n: fewer[n] for n in fewer if n != "position"}
    assert set(left["position"]) > set(fewer["position"]) == {"learned", "learned-offset"}
    assert by_headers.notes[0] == by_configuration.notes[0]


def test_a_large_configuration_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor with numbers would be of 12·10⁶ terms for each layer and more: none is made."""
    sizes = {"hidden_size": 102_400, "num_attention_heads": 512, "intermediate_size": 409_600, "num_hidden_layers": 8}
    transformers.BertConfig(**sizes).save_pretrained(tmp_path)
    made: list[torch.device] = []
    register = torch.nn.Module.register_parameter

    def registering(module: Any, name: str, parameter: Any) -> None:
        made.extend([parameter.device] if parameter is not None else [])
        register(module, name, parameter)

    monkeypatch.setattr(torch.nn.Module, "register_parameter", registering)
    target = check(str(tmp_path), level="static").targets[0]
    assert target.verdict == "conformant", target.notes
    assert int(target.notes[0].partition(" ")[0].replace(",", "")) > 10**12
    assert {device.type for device in made} == {"meta"}


@pytest.mark.parametrize("text", ["{", "{}", '{"model_type": "nothing-known"}'])
def test_a_configuration_of_no_model_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    target = check(str(tmp_path), level="static").targets[0]
    assert (target.verdict, len(target.notes)) == ("error", 1)
    assert target.notes[0].startswith(f"transformers cannot load {tmp_path}: ")


def test_a_configuration_needs_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights do not: their headers are enough."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert check(str(folder), level="static").verdict == "conformant"
    target = check(str(folder / "config.json"), level="static").targets[0]
    assert target.notes == [f"{folder / 'config.json'} is run by transformers: pip install transformers safetensors"]


def test_code_of_a_configuration_is_not_run(folder: Path) -> None:
    """A configuration may name classes in files beside it."""
    (folder / "model.safetensors").unlink()
    (folder / "theirs.py").write_text("raise SystemExit('run')")
    named = {"auto_map": {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}, "model_type": "theirs"}
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | named))
    target = check(str(folder), level="static").targets[0]
    assert target.verdict == "error"
    assert target.notes[0].startswith(f"transformers cannot load {folder}: ")
    assert "SystemExit" not in target.notes[0]
