"""A folder with configuration and safetensors is judged; what cannot be trusted is refused."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from conformance_tests import check
from conformance_tests.frontends.command_line import main

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
