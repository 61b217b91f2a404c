"""Encoders of the transformers package, unmodified: judged right, with the variant that their configuration names."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.families import (
    DISTIL,
    IMAGE,
    LAYERS,
    LISTENING,
    SOUND,
    SPECIAL,
    T5,
    TEXT,
    TRANSLATION,
    maker,
)
from conformance_tests.meta_tests.judgements import Judgements

SHIFTED = {"position": "learned-offset", "position_offset": 2}
PRE = {"layer": "pre-ln", "final_norm": "norm"}
POST = {"layer": "post-ln", "final_norm": "none"}

PROPHET = {f"num_{what}_layers": 2 for what in ("encoder", "decoder")} | {
    f"{name.format(what)}": n
    for what in ("encoder", "decoder")
    for name, n in (("num_{}_attention_heads", 4), ("{}_ffn_dim", 72))
}
DISENTANGLED = {
    "relative_attention": True,
    "position_buckets": 8,
    "max_relative_positions": 64,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
"""DeBERTa as released, but for sizes."""

TEXTS = {
    "BERT": (maker("Bert", **TEXT), POST | {"eps": 1e-12, "activation": "gelu", "segment": "added"}),
    "BERT with tanh-GELU": (maker("Bert", hidden_act="gelu_new", **TEXT), {"activation": "gelu-tanh"}),
    "BERT for generation": (maker("BertGeneration", model="BertGenerationEncoder", **TEXT), {"segment": "none"}),
    "RoBERTa": (maker("Roberta", **TEXT), POST | SHIFTED),
    "XLM-RoBERTa": (maker("XLMRoberta", **TEXT), POST | SHIFTED),
    "XLM-RoBERTa-XL": (maker("XLMRobertaXL", **TEXT), PRE | SHIFTED | {"embedding_norm": "none"}),
    "CamemBERT": (maker("Camembert", **TEXT), POST | SHIFTED),
    "Data2Vec, text": (maker("Data2VecText", **TEXT), POST | SHIFTED),
    "I-BERT": (maker("IBert", **TEXT), POST | SHIFTED),
    "ERNIE": (maker("Ernie", **TEXT), POST | {"position": "learned"}),
    "ERNIE with tasks": (maker("Ernie", use_task_id=True, **TEXT), POST | {"position": "learned"}),
    "ELECTRA": (maker("Electra", embedding_size=32, **TEXT), POST | {"input": "embedded", "eps": 1e-12}),
    "ELECTRA, narrow": (maker("Electra", embedding_size=17, **TEXT), {"input": "factorised", "embedding_size": 17}),
    "RemBERT": (maker("RemBert", input_embedding_size=17, **TEXT), POST | {"input": "factorised"}),
    "ALBERT": (
        maker("Albert", embedding_size=17, **TEXT),
        POST | {"input": "factorised", "embedding_size": 17, "sharing": "all", "activation": "gelu-tanh"},
    ),
    "ALBERT, as wide": (maker("Albert", embedding_size=32, **TEXT), {"input": "factorised", "sharing": "all"}),
    "ALBERT, a group each": (maker("Albert", embedding_size=17, num_hidden_groups=2, **TEXT), {"sharing": "none"}),
    "DistilBERT": (maker("DistilBert", **DISTIL), {"segment": "none", "embedding_norm": "norm", "position": "learned"}),
    "DistilBERT, sinusoids to begin with": (
        maker("DistilBert", sinusoidal_pos_embds=True, **DISTIL),
        {"position": "learned"},
    ),
    "LayoutLM without boxes": (maker("LayoutLM", **TEXT), POST | {"segment": "added", "position": "learned"}),
    "Megatron-BERT": (maker("MegatronBert", **TEXT), PRE | {"embedding_norm": "none"}),
    "RoBERTa-PreLayerNorm": (maker("RobertaPreLayerNorm", **TEXT), PRE | SHIFTED),
    "ESM, rotary": (
        maker("Esm", position_embedding_type="rotary", pad_token_id=1, mask_token_id=2, **TEXT),
        PRE | {"rotation": "halves", "position": "in-attention"},
    ),
    "ESM-2": (
        maker(
            "Esm",
            position_embedding_type="rotary",
            token_dropout=True,
            emb_layer_norm_before=False,
            pad_token_id=1,
            mask_token_id=4,
            **TEXT,
        ),
        PRE | {"rotation": "halves", "embedding_scale": "token-dropout", "mask_token_id": 4, "masked_share": 0.12},
    ),
    "EuroBERT": (
        maker("EuroBert", **SPECIAL, **TEXT),
        PRE | {"rotation": "halves", "norm": "rms", "ffn": "gated", "activation": "silu"},
    ),
    "Nomic-BERT": (maker("NomicBert", **TEXT), POST | {"rotation": "halves", "rotary_base": 1000.0, "ffn": "gated"}),
    "GTE": (maker("Gte", **TEXT), POST | {"rotation": "halves", "rotary_base": 160000.0, "ffn": "gated-output-bias"}),
    "Jina embeddings v3": (
        maker("JinaEmbeddingsV3", **TEXT),
        POST | {"rotation": "halves", "rotary_base": 20000.0, "ffn": "affine"},
    ),
    "RoFormer": (
        maker("RoFormer", embedding_size=32, **TEXT),
        POST | {"rotation": "pairs", "rotary_base": 10000.0, "eps": 1e-12},
    ),
    "EuroBERT, grouped": (
        maker("EuroBert", num_key_value_heads=2, **SPECIAL, **TEXT),
        PRE | {"multihead": "grouped-query", "num_key_value_heads": 2, "rotation": "halves"},
    ),
    "ModernBERT": (
        maker("ModernBert", cls_token_id=1, sep_token_id=2, local_attention=8, **SPECIAL, **TEXT),
        PRE
        | {"layers.0": "pre-ln-bare", "rotary_base": "160000, 10000, repeated"}
        | {"reach": "global, local, repeated", "window": 8.0},
    ),
    "EmbeddingGemma": (
        maker(
            "Gemma3Text",
            model="Gemma3TextModel",
            use_bidirectional_attention=True,
            layer_types=["sliding_attention", "full_attention"],
            sliding_window=8,
            num_key_value_heads=1,
            head_dim=8,
            query_pre_attn_scalar=8,
            **TEXT,
        ),
        {"layer": "sandwich-ln", "attention": "normed", "num_key_value_heads": 1, "embedding_scale": "sqrt-d-model"}
        | {"reach": "local, global, repeated", "rotary_base": "10000, 1000000, repeated", "norm": "rms"},
    ),
    "MPNet": (maker("MPNet", **TEXT), POST | {"bias": "bucketed", "max_distance": 128.0, "sharing": "bias"}),
    "DeBERTa-v3": (
        maker("DebertaV2", type_vocab_size=0, layer_norm_eps=1e-7, **DISENTANGLED, **TEXT),
        POST | {"scores": "disentangled", "max_distance": 64.0, "sharing": "bias", "position": "in-attention"},
    ),
    "T5": (
        maker("T5", model="T5EncoderModel", **T5),
        PRE | {"bias": "bucketed", "sharing": "bias", "scores": "unscaled", "norm": "rms", "position": "in-attention"},
    ),
    "UMT5": (
        maker("UMT5", model="UMT5EncoderModel", **T5),
        PRE | {"bias": "bucketed", "sharing": "none", "ffn": "gated", "activation": "gelu-tanh"},
    ),
    "ESM": (maker("Esm", position_embedding_type="absolute", pad_token_id=1, mask_token_id=2, **TEXT), PRE),
    "BigBird, full": (maker("BigBird", attention_type="original_full", **TEXT), POST | {"activation": "gelu-tanh"}),
    "LUKE, words alone": (maker("Luke", entity_vocab_size=7, entity_emb_size=8, **TEXT), POST | SHIFTED),
    "VisualBERT, text alone": (maker("VisualBert", visual_embedding_dim=8, **TEXT), POST),
    "BLIP, text": (maker("BlipText", encoder_hidden_size=32, **TEXT), POST | {"segment": "none"}),
    "FLAVA, text": (maker("FlavaText", **TEXT), PRE | {"segment": "added"}),
    "Chinese CLIP, text": (maker("ChineseCLIPText", model="ChineseCLIPTextModel", **TEXT), POST | {"segment": "added"}),
    "AltCLIP, text": (
        maker("AltCLIPText", model="AltCLIPTextModel", project_dim=16, **TEXT),
        SHIFTED | {"layer": "post-ln", "final_norm": "norm"},
    ),
    "mT5": (
        maker("MT5", model="MT5EncoderModel", **T5),
        PRE | {"bias": "bucketed", "sharing": "bias", "ffn": "gated", "activation": "gelu-tanh"},
    ),
    "SigLIP, text": (maker("SiglipText", **TEXT), PRE | {"activation": "gelu-tanh"}),
}
TRANSLATIONS = {
    "BART": (maker("Bart", "encoder", **TRANSLATION), POST | SHIFTED | {"eps": 1e-5, "embedding_scale": "none"}),
    "BART, scaled": (
        maker("Bart", "encoder", scale_embedding=True, **TRANSLATION),
        {"embedding_scale": "sqrt-d-model"},
    ),
    "PLBART": (maker("PLBart", "encoder", **TRANSLATION), POST | SHIFTED | {"embedding_scale": "sqrt-d-model"}),
    "MVP": (maker("Mvp", "encoder", **TRANSLATION), POST | SHIFTED),
    "mBART": (maker("MBart", "encoder", **TRANSLATION), PRE | SHIFTED),
    "Marian": (
        maker("Marian", "encoder", scale_embedding=True, **SPECIAL | {"decoder_start_token_id": 0}, **TRANSLATION),
        POST | {"position": "sinusoidal-concatenated", "embedding_scale": "sqrt-d-model"},
    ),
    "Pegasus": (maker("Pegasus", "encoder", **TRANSLATION), PRE | {"position": "sinusoidal-concatenated"}),
    "Blenderbot": (maker("Blenderbot", "encoder", **TRANSLATION), PRE | {"position": "learned"}),
    "Blenderbot, small": (maker("BlenderbotSmall", "encoder", **TRANSLATION), POST | {"position": "learned"}),
    "M2M100": (
        maker("M2M100", "encoder", **TRANSLATION),
        PRE | {"position": "sinusoidal-tensor2tensor", "position_offset": 2, "embedding_scale": "sqrt-d-model"},
    ),
    "BigBirdPegasus, full": (
        maker("BigBirdPegasus", "encoder", attention_type="original_full", **TRANSLATION),
        PRE | {"projections": "linear", "activation": "gelu-tanh"},
    ),
    "ProphetNet": (
        maker(
            "ProphetNet",
            "encoder",
            vocab_size=41,
            hidden_size=32,
            max_position_embeddings=31,
            **PROPHET,
        ),
        POST | {"position": "learned-offset", "position_offset": 1},
    ),
    "NLLB": (maker("NllbMoe", "encoder", num_experts=2, **TRANSLATION), PRE | {"position_offset": 2}),
    "FSMT": (
        maker("FSMT", "encoder", langs=["a", "b"], src_vocab_size=41, tgt_vocab_size=41, **TRANSLATION),
        POST | {"embedding_scale": "sqrt-d-model", "activation": "relu"},
    ),
}


class BehindFeatures(nn.Module):
    """Calls the encoder of a model of sounds like the model itself: with a copy of the vectors and a boolean mask.

    The encoder writes zeros into the vectors that it is given.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.encoder = make()

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = None if attention_mask is None else attention_mask.bool()
        hidden: Tensor = self.encoder(hidden_states.clone(), attention_mask=keep).last_hidden_state
        return hidden


def behind_features(family: str, **configuration: Any) -> Callable[[], nn.Module]:
    """Return a function that makes the encoder of a model of sounds."""
    return lambda: BehindFeatures(maker(family, "encoder", **SOUND | configuration))


HEARD = {"position": "convolution", "position_kernel": 4, "group_width": 16, "activation": "gelu"}
WAVES = {"embedding": "waveform", "feature_norm": "norm", "stage_widths": "3, 2", "stage_strides": "2, 2"}
STAGES = WAVES | {"stage": "convolution", "stages.0": "convolution-norm-over-time"}
NORMED_STAGES = WAVES | {"stage": "convolution-norm"}
LAYER_NORMED = SOUND | {"feat_extract_norm": "layer", "conv_bias": True}
STACKED = {"num_conv_pos_embeddings": 3, "conv_pos_kernel_size": 5}
RELEASED_STAGES = {
    "conv_dim": [8] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "num_feat_extract_layers": 7,
}
IMAGES_AND_SOUNDS = {
    "ViT": (maker("ViT", **IMAGE), PRE | {"embedding": "patches", "cls": "cls", "eps": 1e-12}),
    "DeiT": (maker("DeiT", **IMAGE), PRE | {"cls": "cls-and-distillation"}),
    "BEiT": (
        maker("Beit", use_relative_position_bias=True, attn_implementation="eager", **IMAGE),
        {"bias": "by-grid", "sharing": "none", "residual": "scaled", "layer": "pre-ln", "final_norm": "none"},
    ),
    "Data2Vec, images by relative positions": (
        maker("Data2VecVision", use_shared_relative_position_bias=True, **IMAGE),
        {"bias": "by-grid", "sharing": "bias", "residual": "scaled", "layer": "pre-ln", "final_norm": "none"},
    ),
    "BEiT, absolute": (
        maker("Beit", use_absolute_position_embeddings=True, layer_scale_init_value=0.0, **IMAGE),
        {"layer": "pre-ln", "projections": "affine-but-keys"},
    ),
    "ViT-MSN": (maker("ViTMSN", **IMAGE), PRE | {"eps": 1e-6}),
    "YOLOS, positions at the entrance alone": (
        maker("Yolos", num_detection_tokens=5, use_mid_position_embeddings=False, **IMAGE | {"image_size": [8, 8]}),
        PRE | {"cls": "cls", "registers": "registers-behind", "num_registers": 5},
    ),
    "I-JEPA": (maker("IJepa", **IMAGE), PRE | {"cls": "none"}),
    "DPT": (maker("DPT", **IMAGE), PRE | {"cls": "cls"}),
    "CLIP, vision": (maker("CLIPVision", **IMAGE), {"activation": "quick-gelu", "embedding_norm": "norm"}),
    "OWLv2, vision": (maker("Owlv2Vision", **IMAGE), {"activation": "quick-gelu", "embedding_norm": "norm"}),
    "BLIP, vision": (maker("BlipVision", **IMAGE), PRE | {"eps": 1e-5}),
    "FLAVA, vision": (maker("FlavaImage", **IMAGE), PRE),
    "DINOv2": (
        maker("Dinov2", mlp_ratio=2, **IMAGE),
        PRE | {"residual": "scaled", "cls": "cls", "eps": 1e-6, "d_ff": 64},
    ),
    "DINOv2, gated": (
        maker("Dinov2", mlp_ratio=2, use_swiglu_ffn=True, **IMAGE),
        {"residual": "scaled", "ffn": "gated-affine", "activation": "silu", "d_ff": 48},
    ),
    "DINOv2 with registers": (
        maker("Dinov2WithRegisters", mlp_ratio=2, **IMAGE),
        PRE | {"residual": "scaled", "cls": "cls", "registers": "registers", "num_registers": 4, "d_ff": 64},
    ),
    "DINOv3": (
        maker("DINOv3ViT", num_register_tokens=4, **IMAGE),
        PRE
        | {"residual": "scaled", "num_registers": 4, "projections": "affine-but-keys", "eps": 1e-5}
        | {
            "rotation": "halves",
            "angles": "axial",
            "axes": "rows-first",
            "coordinates": "centred",
            "rotary_base": 100.0,
        },
    ),
    "DINOv3, gated": (
        maker("DINOv3ViT", use_gated_mlp=True, hidden_act="silu", rope_theta=50.0, **IMAGE),
        {"ffn": "gated-affine", "registers": "none", "coordinates": "centred", "rotary_base": 50.0},
    ),
    "InternVL, vision": (
        maker("InternVLVision", model="InternVLVisionModel", **IMAGE | {"image_size": [8, 8], "patch_size": [2, 2]}),
        {"layer": "pre-ln", "residual": "scaled", "cls": "cls"},
    ),
    "InternVL, vision, normed queries": (
        maker(
            "InternVLVision",
            model="InternVLVisionModel",
            use_qk_norm=True,
            **IMAGE | {"image_size": [8, 8], "patch_size": [2, 2]},
        ),
        {"attention": "normed-across-heads", "residual": "scaled", "cls": "cls"},
    ),
    "BLIP-2, vision": (maker("Blip2Vision", model="Blip2VisionModel", **IMAGE), PRE | {"cls": "cls"}),
    "Chinese CLIP, vision": (
        maker("ChineseCLIPVision", model="ChineseCLIPVisionModel", **IMAGE),
        {"activation": "quick-gelu", "embedding_norm": "norm"},
    ),
    "Idefics3, vision": (
        maker("Idefics3Vision", model="Idefics3VisionTransformer", **IMAGE),
        PRE | {"activation": "gelu-tanh", "cls": "none"},
    ),
    "SigLIP": (maker("SiglipVision", **IMAGE), PRE | {"activation": "gelu-tanh", "cls": "none", "eps": 1e-6}),
    "spectrogram transformer": (
        maker("AST", patch_size=2, frequency_stride=2, time_stride=2, max_length=8, num_mel_bins=8, **LAYERS),
        PRE | {"cls": "cls-and-distillation"},
    ),
    "Whisper": (
        maker("Whisper", "encoder", num_mel_bins=5, **SPECIAL, **LISTENING),
        PRE | {"embedding": "convolutions", "position": "sinusoidal-tensor2tensor", "projections": "affine-but-keys"},
    ),
    "wav2vec 2.0": (maker("Wav2Vec2", **SOUND), POST | STAGES | HEARD | {"embedding_norm": "norm"}),
    "wav2vec 2.0 in Pre-LN": (
        maker("Wav2Vec2", do_stable_layer_norm=True, **LAYER_NORMED),
        PRE | NORMED_STAGES | HEARD | {"embedding_norm": "none"},
    ),
    "wav2vec 2.0, stages as released": (
        maker("Wav2Vec2", **SOUND | RELEASED_STAGES),
        POST | STAGES | {"stage_widths": "10, 3, 3, 3, 3, 2, 2", "stage_strides": "5, 2, 2, 2, 2, 2, 2"},
    ),
    "HuBERT": (maker("Hubert", **SOUND), POST | STAGES | HEARD | {"embedding_norm": "norm"}),
    "HuBERT in Pre-LN": (
        maker("Hubert", do_stable_layer_norm=True, **LAYER_NORMED),
        PRE | NORMED_STAGES | HEARD | {"embedding_norm": "none"},
    ),
    "Data2Vec, sounds": (
        maker("Data2VecAudio", **SOUND | STACKED),
        POST
        | NORMED_STAGES
        | {"position": "convolutions", "position_kernel": 5, "position_convolutions": 3, "group_width": 16},
    ),
    "UniSpeech": (maker("UniSpeech", **SOUND), POST | STAGES | HEARD | {"embedding_norm": "norm"}),
    "wav2vec 2.0, encoder": (behind_features("Wav2Vec2"), POST | HEARD | {"embedding_norm": "norm"}),
    "wav2vec 2.0, encoder in Pre-LN": (
        behind_features("Wav2Vec2", do_stable_layer_norm=True),
        PRE | HEARD | {"embedding_norm": "none"},
    ),
    "wav2vec 2.0, encoder with a kernel as released": (
        behind_features("Wav2Vec2", num_conv_pos_embeddings=128, num_conv_pos_embedding_groups=16),
        POST | HEARD | {"position_kernel": 128, "group_width": 2},
    ),
    "HuBERT, encoder": (behind_features("Hubert"), POST | HEARD | {"embedding_norm": "norm"}),
    "UniSpeech, encoder": (behind_features("UniSpeech"), POST | HEARD | {"embedding_norm": "norm"}),
}
RIGHT = TEXTS | TRANSLATIONS | IMAGES_AND_SOUNDS

SHALLOW_TEXT, SHALLOW_IMAGE, SHALLOW_TRANSLATION = (
    sizes | {"num_hidden_layers": 1, "encoder_layers": 1} for sizes in (TEXT, IMAGE, TRANSLATION)
)

OUTSIDE = {
    "ALBERT, layers in turn": (maker("Albert", embedding_size=17, inner_group_num=2, **TEXT), "shared in turn"),
    "DeBERTa-v2": (
        maker("DebertaV2", type_vocab_size=0, conv_kernel_size=3, conv_act="gelu", **DISENTANGLED, **TEXT),
        "encoder.conv.conv",
    ),
    "FNet": (
        maker("FNet", **{k: v for k, v in SHALLOW_TEXT.items() if k != "num_attention_heads"}),
        "no attention projections",
    ),
    "Longformer": (maker("Longformer", attention_window=4, **SHALLOW_TEXT), "query_global"),
    "LED": (
        maker("LED", "encoder", attention_window=4, max_encoder_position_embeddings=31, **SHALLOW_TRANSLATION),
        "query_global",
    ),
    "Nyströmformer": (maker("Nystromformer", num_landmarks=4, **SHALLOW_TEXT), "self.conv.weight"),
    "ConvBERT": (maker("ConvBert", embedding_size=32, **SHALLOW_TEXT), "key_conv_attn_layer"),
    "SqueezeBERT": (maker("SqueezeBert", embedding_size=32, **SHALLOW_TEXT), "intermediate.conv1d"),
    "MobileBERT": (
        maker("MobileBert", embedding_size=32, intra_bottleneck_size=32, use_bottleneck=False, **SHALLOW_TEXT),
        "embedding_transformation",
    ),
    "CANINE": (maker("Canine", num_hash_buckets=32, **SHALLOW_TEXT), "HashBucketCodepointEmbedder"),
    "X-MOD": (maker("Xmod", **SHALLOW_TEXT), "lang_ids"),
    "RoCBERT": (maker("RoCBert", **SHALLOW_TEXT), "pronunciation_embed"),
    "LiLT": (maker("Lilt", **SHALLOW_TEXT), "layout_embeddings"),
    "YOLOS": (maker("Yolos", **IMAGE | {"image_size": [8, 8]}), "mid_position_embeddings"),
    "VideoMAE": (maker("VideoMAE", num_frames=2, **SHALLOW_IMAGE), "patch_embeddings.projection"),
    "wav2vec 2.0, stages of several widths": (
        maker("Wav2Vec2", **SOUND | {"conv_dim": [8, 12]}),
        "give [8, 12] channels",
    ),
    "Speech2Text": (
        maker("Speech2Text", "encoder", input_feat_per_channel=5, input_channels=1, conv_channels=16, **LISTENING),
        "conv.conv_layers",
    ),
}

WRONG = {
    "CLIP, text": (maker("CLIPText", **SHALLOW_TEXT), "ENC-11", "causal"),
    "BEiT, fused attention": (
        maker("Beit", use_relative_position_bias=True, **SHALLOW_IMAGE),
        "MASK-2",
        "attention.mask",
    ),
    "YOSO": (maker("Yoso", **SHALLOW_TEXT), "ATT-3", "attention.scores"),
    "ViT-MAE": (maker("ViTMAE", mask_ratio=0.0, **SHALLOW_IMAGE), "DROP-1", "second call"),
    "wav2vec 2.0, encoder by itself": (maker("Wav2Vec2", "encoder", **SOUND), "ENC-6", "changed its own input"),
}
"""Their attention is causal, adds the booleans of its mask to the table of places, has no softmax, or reads patches in
random order; the last one writes over its input."""

WHOLE = {
    "masked language model": (maker("Bert", model="BertForMaskedLM", **TEXT), "bert"),
}
"""Models with something in no slot behind their encoder, and the part that returns the hidden states."""

HEADED = {
    "classifier with its own layers": (
        maker("Roberta", model="RobertaForSequenceClassification", **TEXT),
        "roberta",
        {"head": "transformed", "pool": "first"},
    ),
    "classifier of images": (
        maker("ViT", model="ViTForImageClassification", **IMAGE),
        "vit",
        {"head": "classifier", "pool": "first", "length": "any"},
    ),
    "pooled encoder": (
        maker("DPR", model="DPRContextEncoder", **TEXT),
        "ctx_encoder",
        {"head": "pooled", "pool": "first", "length": "any"},
    ),
}
"""Models with a head behind their encoder, the part that returns the hidden states, and the choices of the head."""


def demand_right(name: str, seed: int, judged: Judgements) -> None:
    """Conformant up to gradients, with the choices of the configuration or of the family's description.

    Rotary positions, norms by the mean square and BEiT's softmax are computed in float32 there, where gradients are not
    compared.
    """
    make, expected = RIGHT[name]
    report = judged(make, seed=seed)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    sizes: dict[str, Any] = {"num_heads": 4, "num_layers": 2, "d_model": 32, "d_ff": 72}
    chosen = report.profile["choices"]
    assert {key: chosen.get(key) for key in sizes | expected} == sizes | expected
    in_float64 = chosen["rotation"] == "none" and "rms" not in chosen.values() and name != "BEiT"
    assert (report.level == "gradient") is in_float64


@pytest.mark.parametrize("name", RIGHT)
def test_an_encoder_of_the_package_is_conformant(name: str, judged: Judgements) -> None:
    """Each choice is that of the configuration or, where it has none, of the family's published description."""
    demand_right(name, 0, judged)


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "ALBERT", "M2M100", "DeiT", "CLIP, vision", "Whisper"])
def test_another_seed_gives_the_same_verdict(name: str, judged: Judgements) -> None:
    """Other weights, other inputs."""
    demand_right(name, 1, judged)


class InAClassOfItsOwn(nn.Module):
    """The usual way to get the hidden states alone: its call has no place for segments."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.encoder = RIGHT[name][0]()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return hidden


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
def test_an_encoder_in_a_class_around_it_is_conformant(name: str, judged: Judgements) -> None:
    """Segment ids are given to no argument that is meant for something else."""
    report = judged(InAClassOfItsOwn(name))
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["conventions"]["mask"].startswith("attention_mask: ")


class TakesAnythingByPlace(nn.Module):
    """Hands everything on, and states nothing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        hidden: Tensor = self.model(*inputs).last_hidden_state
        return hidden


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # importing the compiler warns
@pytest.mark.parametrize(
    "around",
    [torch.compile, TakesAnythingByPlace],
    ids=["compiled", "in a class that takes anything by place"],
)
def test_what_is_put_around_an_encoder_does_not_hide_what_it_takes(around: Callable[[nn.Module], Any]) -> None:
    """Its mask stands before its segments."""
    report = check(around(RIGHT["BERT"][0]())).targets[0]
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.profile["conventions"]["mask"].startswith("attention_mask: ")


def adding_to_torch() -> nn.Module:
    """BERT, and a function of torch's modules that is neither torch's own nor transformers'."""
    vars_of_modules: Any = nn.Module
    vars_of_modules.added = lambda self: self
    made: nn.Module = RIGHT["BERT"][0]()
    return made


@pytest.mark.parametrize(("make", "notes"), [(RIGHT["BERT"][0], []), (adding_to_torch, ["Module.added"])])
def test_what_the_package_itself_adds_to_torch_is_no_news(
    make: Any, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first model in a process gives torch's modules a method; what an encoder adds beside it is told."""
    monkeypatch.delattr(nn.Module, "smart_apply", raising=False)
    changed = [note for note in check(make, level="static").targets[0].notes if "changed" in note]
    assert changed == [f"the encoder changed {name} (put back for everybody else)" for name in notes]


@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_an_encoder_in_half_precision_is_judged_by_what_it_means(dtype: str) -> None:
    """Its weights are few digits long, but numbers: with them it is run in float64, and given back as it was."""
    model = getattr(maker("Bert", **TEXT)(), dtype)()
    before = {parameter.dtype for parameter in model.parameters()}
    assert check(model).targets[0].verdict == "conformant"
    assert {parameter.dtype for parameter in model.parameters()} == before


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_no_slot_covers_is_named(name: str, judged: Judgements) -> None:
    """Neither conformant nor nonconformant: the report names what the specification lacks."""
    make, part = OUTSIDE[name]
    report = judged(make)
    assert report.verdict == "undetermined", [r.message for r in report.of("fail")] + report.notes
    assert part in " ".join(report.notes)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_encoder_is_found_out(name: str, judged: Judgements) -> None:
    """All of its parameters have a slot, and it computes something else with them. The diagnosis is not looked at."""
    make, requirement, said = WRONG[name]
    report = judged(make, explain=False)
    assert report.verdict == "nonconformant", report.notes
    assert said in next(r.message for r in report.of("fail") if r.id == requirement)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_model_is_judged_up_to_its_hidden_states(name: str, judged: Judgements) -> None:
    """One line says where that is."""
    make, part = WHOLE[name]
    report = judged(make)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.notes[0].startswith(f"judged up to what its part `{part}` returns, without what follows")


@pytest.mark.parametrize("name", HEADED)
def test_a_whole_model_is_judged_with_its_head(name: str, judged: Judgements) -> None:
    """One line says where its hidden states are."""
    make, part, choices = HEADED[name]
    report = judged(make)
    assert report.verdict == "conformant", [r.message for r in report.of("fail")] + report.notes
    assert report.notes[0].startswith(f"its hidden states are what its part `{part}` returns")
    assert {slot: report.profile["choices"][slot] for slot in choices} == choices


def test_an_encoder_with_a_decoder_is_told_what_to_name(judged: Judgements) -> None:
    """One line says it."""
    report = judged(maker("Bart", **TRANSLATION))
    assert report.verdict == "undetermined"
    assert any("its `.encoder`" in note and "\n" not in note for note in report.notes), report.notes
