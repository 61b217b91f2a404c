"""Small models of the families of the transformers package, for tests."""

from collections.abc import Callable
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="needs the extra `transformers`")

LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 72}
TEXT = LAYERS | {"vocab_size": 41, "max_position_embeddings": 31}
IMAGE = LAYERS | {"image_size": 8, "patch_size": 2}
SOUND = LAYERS | {
    "vocab_size": 41,
    "conv_dim": [8, 8],
    "conv_stride": [2, 2],
    "conv_kernel": [3, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
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
LISTENING = {name: size for name, size in TRANSLATION.items() if name != "max_position_embeddings"} | {
    "max_source_positions": 11,
    "max_target_positions": 11,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
DISTIL = {"vocab_size": 41, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 72, "max_position_embeddings": 31}
T5 = {"vocab_size": 41, "d_model": 32, "d_kv": 8, "d_ff": 72, "num_layers": 2, "num_heads": 4}


def maker(family: str, part: str = "", model: str = "", **configuration: Any) -> Callable[[], Any]:
    """A function that makes a small model of a family, or a part of it."""

    def make() -> Any:
        configured = getattr(transformers, f"{family}Config")(**configuration)
        made = getattr(transformers, model or f"{family}Model")(configured)
        return made.get_submodule(part)

    make.__name__ = model or family
    return make
