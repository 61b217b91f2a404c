"""Encoders of the transformers package, unmodified: judged right, with the variant that their configuration names."""

from collections.abc import Callable
from typing import Any

import pytest

from conformance_tests import check

transformers = pytest.importorskip("transformers", reason="needs the extra `transformers`")

TEXT = {
    "vocab_size": 41,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 72,
    "max_position_embeddings": 31,
}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 72,
    "image_size": 8,
    "patch_size": 2,
}
TRANSLATION = {
    "vocab_size": 41,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 72,
    "decoder_ffn_dim": 72,
    "max_position_embeddings": 31,
}
DISTIL = {"vocab_size": 41, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 72, "max_position_embeddings": 31}


def maker(family: str, encoder_of: bool = False, **configuration: Any) -> Callable[[], Any]:
    """A function that makes a small model of a family, or the encoder inside it."""

    def make() -> Any:
        configured = getattr(transformers, f"{family}Config")(**configuration)
        model = getattr(transformers, f"{family}Model")(configured)
        return model.encoder if encoder_of else model

    make.__name__ = family
    return make


RIGHT = {
    "BERT": (maker("Bert", **TEXT), {"layer": "post-ln", "eps": 1e-12, "activation": "gelu", "segment": "added"}),
    "BERT with tanh-GELU": (maker("Bert", hidden_act="gelu_new", **TEXT), {"activation": "gelu-tanh"}),
    "RoBERTa": (maker("Roberta", **TEXT), {"position": "learned-offset", "position_offset": 2}),
    "ELECTRA": (maker("Electra", embedding_size=32, **TEXT), {"layer": "post-ln", "eps": 1e-12}),
    "DistilBERT": (maker("DistilBert", **DISTIL), {"segment": "none", "embedding_norm": "norm", "position": "learned"}),
    "DistilBERT, sinusoids": (maker("DistilBert", sinusoidal_pos_embds=True, **DISTIL), {"activation": "gelu"}),
    "Megatron-BERT": (maker("MegatronBert", **TEXT), {"layer": "pre-ln", "embedding_norm": "none"}),
    "RoBERTa-PreLayerNorm": (maker("RobertaPreLayerNorm", **TEXT), {"layer": "pre-ln", "final_norm": "norm"}),
    "ESM": (
        maker("Esm", position_embedding_type="absolute", pad_token_id=1, mask_token_id=2, **TEXT),
        {"layer": "pre-ln", "final_norm": "norm"},
    ),
    "BART": (maker("Bart", True, **TRANSLATION), {"layer": "post-ln", "eps": 1e-5, "embedding_scale": "none"}),
    "BART, scaled": (maker("Bart", True, scale_embedding=True, **TRANSLATION), {"embedding_scale": "sqrt-d-model"}),
    "mBART": (maker("MBart", True, **TRANSLATION), {"layer": "pre-ln", "final_norm": "norm", "position_offset": 2}),
    "Marian": (
        maker("Marian", True, pad_token_id=0, decoder_start_token_id=0, scale_embedding=True, **TRANSLATION),
        {"position": "sinusoidal-concatenated", "embedding_scale": "sqrt-d-model"},
    ),
    "ViT": (maker("ViT", **IMAGE), {"embedding": "patches", "cls": "cls", "eps": 1e-12, "final_norm": "norm"}),
    "CLIP, vision": (maker("CLIPVision", **IMAGE), {"activation": "quick-gelu", "embedding_norm": "norm"}),
    "SigLIP": (maker("SiglipVision", **IMAGE), {"activation": "gelu-tanh", "cls": "none", "eps": 1e-6}),
}  # fmt: skip

OUTSIDE = {
    "ALBERT, factorised": (maker("Albert", embedding_size=32, **TEXT), "embedding_hidden_mapping_in"),
    "MPNet": (maker("MPNet", **TEXT), "relative_attention_bias"),
    "DeBERTa-v2": (maker("DebertaV2", relative_attention=True, **TEXT), "rel_embeddings"),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_encoder_of_the_package_is_conformant(name: str, seed: int) -> None:
    """Each choice is that of the configuration or, where it has none, of the family's published description."""
    make, expected = RIGHT[name]
    report = check(make, seed=seed).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["choices"].items() >= (expected | {"num_heads": 4, "num_layers": 2, "d_ff": 72}).items()
    assert report.level == "gradient"


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_no_slot_covers_is_named(name: str) -> None:
    """Neither conformant nor nonconformant: the report names the parameters that the specification lacks."""
    make, parameter = OUTSIDE[name]
    report = check(make).targets[0]
    assert report.verdict == "undetermined", report.notes
    assert parameter in " ".join(report.notes)


def test_causal_attention_is_called_so() -> None:
    """CLIP's text model masks what comes after each position: it is a decoder's attention."""
    report = check(maker("CLIPText", **TEXT)).targets[0]
    assert report.verdict == "nonconformant"
    assert "causal" in next(r.message for r in report.of("fail") if r.id == "ENC-11")
