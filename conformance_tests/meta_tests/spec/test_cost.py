"""Parameters against counts by hand, published counts and torch's own; and the table of all costs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import nn
from torch.nn.utils.parametrize import is_parametrized, remove_parametrizations

from encoder_spec.assembly import Encoder
from encoder_spec.cost import number, parameters, report, symbol
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import BERT, PROFILES, TORCH_POST_LN, VASWANI_2017, VIT

BIASED, BARE = TORCH_POST_LN, TORCH_POST_LN.replace(projections="linear", output="linear", ffn="linear")
N, h, d, d_k, d_v = map(symbol, ("N", "h", "d_model", "d_k", "d_v"))


# Parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "bare", "biased"),
    [
        ("attention", 1_048_576, 1_050_624),
        ("FFN", 2_097_152, 2_099_712),
        ("norms", 2_048, 2_048),
        ("layer", 3_147_776, 3_152_384),
    ],
)
def test_base_model_has_the_parameters_counted_by_hand(part: str, bare: int, biased: int) -> None:
    """With d = 512 and d_ff = 2048, so d² = 262,144 and d·d_ff = 1,048,576.

    Attention: 4d² = 1,048,576; biases 4d = 2,048 more. FFN: 2·d·d_ff = 2,097,152; biases
    2,048 + 512 = 2,560 more. Two norms of γ and β: 4d = 2,048. The layer is the sum:
    1,048,576 + 2,097,152 + 2,048 = 3,147,776; the biases 2,048 + 2,560 = 4,608 make 3,152,384.
    """
    assert number(parameters(BARE)[part], Dimensions()) == bare
    assert number(parameters(BIASED)[part], Dimensions()) == biased


def test_bert_base_has_its_published_parameters() -> None:
    """Devlin et al. 2018 say 110M; the released bert-base-uncased has 109,482,240 with its pooler.

    The pooler has 768² + 768 = 590,592, so the encoder has 108,891,648.
    """
    sizes = Dimensions(d_model=768, h=12, d_ff=3072, N=12, V=30522, max_len=512, segments=2)
    assert number(parameters(BERT)["whole"], sizes) == 109_482_240 - 590_592


def test_vit_base_has_its_published_parameters() -> None:
    """Dosovitskiy et al. 2020, table 1, say 86M; ViT-B/16 at 224 with 1000 classes has 86,567,656 in torchvision.

    Its position table has 14·14 patches and the class token, 197 rows.
    """
    sizes = Dimensions(d_model=768, h=12, d_ff=3072, N=12, max_len=197, channels=3, patch=16, classes=1000)
    assert number(parameters(VIT.replace(head="classifier"))["whole"], sizes) == 86_567_656


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    h=some.integers(1, 5),
    width=some.integers(1, 7),
    d_ff=some.integers(1, 40),
    layers=some.integers(1, 4),
    bias=some.booleans(),
    norm=some.booleans(),
)
def test_parameters_equal_those_of_torch(h: int, width: int, d_ff: int, layers: int, bias: bool, norm: bool) -> None:
    """``bias=False`` in torch takes β from the norms too."""
    layer = nn.TransformerEncoderLayer(h * width, h, d_ff, bias=bias)
    final = nn.LayerNorm(h * width, bias=bias) if norm else None
    stack = nn.TransformerEncoder(layer, layers, final, enable_nested_tensor=False)

    profile = TORCH_POST_LN.replace(final_norm="norm" if norm else "none")
    if not bias:
        profile = profile.replace(projections="linear", output="linear", ffn="linear", norm="layer-norm-without-bias")
    sizes = Dimensions(d_model=h * width, h=h, d_ff=d_ff, N=layers)
    cost = parameters(profile)
    assert number(cost["layer"], sizes) == entries_of(layer)
    assert number(cost["whole"], sizes) == entries_of(stack)


def entries_of(module: nn.Module) -> int:
    """The parameters of a module, counted one by one."""
    return sum(p.numel() for p in module.parameters())


LESS = {
    "modernbert": d,
    "deberta-v3": (N - 1) * (symbol("buckets") + 2) * d,
    "mpnet": (N - 1) * symbol("buckets") * h,
    "t5-encoder": (N - 1) * symbol("buckets") * h,
}
"""By how much N layers fall short of N times one: the first norm's γ, and all tables and their norms but one."""


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("head", ["none", "classifier", "nsp", "pooled"])
@pytest.mark.parametrize("layers", [1, 4])
def test_parameters_equal_those_that_a_module_allocates(name: str, head: str, layers: int) -> None:
    """Sizes are distinct primes, so that no letter can stand for another; the parts add up to the whole."""
    profile = PROFILES[name].replace(head=head)
    sizes = Dimensions(
        d_model=13,
        h=3,
        d_k=5,
        d_v=7,
        d_ff=11,
        N=layers,
        buckets=37,
        V=17,
        max_len=19,
        segments=2,
        channels=23,
        patch=29,
        classes=31,
    )
    cost = parameters(profile)
    assert number(cost["whole"], sizes) == entries_of(EncoderModule(Encoder(profile, sizes)))
    distinct = 1 if profile["sharing"].variant == "all" else N
    parts = cost["input"] + distinct * cost["layer"] + cost["final norm"] + cost["head"]
    assert (parts - cost["whole"] - LESS.get(name, 0)).expand() == 0


def test_token_embedding_shared_with_the_head_counts_once() -> None:
    """The head for masked tokens adds W (d²), b and its norm (3d) and |V| biases, but no second E."""
    assert parameters(BERT.replace(head="mlm"))["head"] == d**2 + 3 * d + symbol("V")


def test_sharing_that_is_not_affine_in_the_depth_is_refused() -> None:
    """Layers shared in pairs have ⌈N/2⌉ sets of parameters, which no a + b·N equals."""
    with pytest.raises(SpecificationError, match="not affine"):
        parameters(VASWANI_2017.replace(sharing=lambda layer_index, name: layer_index // 2))


# The table -------------------------------------------------------------------------------


def test_report_prints_formulas_in_the_letters_of_the_project() -> None:
    """4·d² + 4·d for attention with biases, 1,050,624 at d = 512."""
    row = next(r for r in report(BERT, Dimensions(), n=128) if (r.quantity, r.part) == ("parameters", "attention"))
    assert row.text == "4·d_model² + 4·d_model"
    assert row.latex == r"4 d_\text{model}^{2} + 4 d_\text{model}"
    assert row.number == 1_050_624


def test_report_keeps_head_widths_that_are_not_customary() -> None:
    """With h·d_k ≠ d_model nothing cancels: W_Q and W_K have d·h·d_k, W_V and W_O d·h·d_v entries.

    For d = 11, h = 3, d_k = 5, d_v = 7: 2·11·15 + 2·11·21 = 792.
    """
    sizes = Dimensions(d_model=11, h=3, d_k=5, d_v=7)
    row = next(r for r in report(VASWANI_2017, sizes, n=13) if (r.quantity, r.part) == ("parameters", "attention"))
    assert row.expression == 2 * d * h * d_k + 2 * d * h * d_v
    assert row.number == 792


@pytest.mark.parametrize("name", PROFILES)
def test_report_has_every_quantity_of_every_profile(name: str) -> None:
    """Each row's number is its formula's value: no letter is left over."""
    rows = report(PROFILES[name], Dimensions(N=3), n=101, B=2)
    assert {r.quantity for r in rows} == {"parameters", "FLOPs of a layer", "FLOPs", "activations", "crossover at n"}
    assert all(isinstance(r.number, int) for r in rows)


def clip_vision(t: Any) -> nn.Module:
    """CLIP's tower for images, without the norm of the class token that is pooled: hidden states have none."""
    model: nn.Module = t.CLIPVisionModel(t.CLIPVisionConfig())
    owner = next(m for m in model.modules() if "post_layernorm" in dict(m.named_children()))
    owner.post_layernorm = nn.Identity()
    return model


def as_computed(model: nn.Module) -> nn.Module:
    """Return a model of sounds with one array as each kernel in the place of directions and lengths.

    It is without the vector that stands in the place of what is masked in pretraining.
    """
    for module in [m for m in model.modules() if is_parametrized(m)]:
        remove_parametrizations(module, "weight")
    del model.masked_spec_embed
    return model


RELEASED: dict[str, Callable[[Any], nn.Module]] = {
    "bert": lambda t: t.BertModel(t.BertConfig(), add_pooling_layer=False),
    "roberta": lambda t: t.RobertaModel(
        t.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1), add_pooling_layer=False
    ),
    "albert": lambda t: t.AlbertModel(
        t.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072), add_pooling_layer=False
    ),
    "vit": lambda t: t.ViTModel(t.ViTConfig(), add_pooling_layer=False),
    "deit": lambda t: t.DeiTModel(t.DeiTConfig(), add_pooling_layer=False),
    "whisper": lambda t: (
        t.WhisperModel(
            t.WhisperConfig(
                d_model=512,
                encoder_layers=6,
                encoder_attention_heads=8,
                encoder_ffn_dim=2048,
                decoder_attention_heads=8,
            )
        ).encoder
    ),
    "modernbert": lambda t: t.ModernBertModel(t.ModernBertConfig()),
    "eurobert": lambda t: t.EuroBertModel(
        t.EuroBertConfig(
            hidden_size=1152,
            intermediate_size=4096,
            num_hidden_layers=26,
            num_attention_heads=18,
            num_key_value_heads=6,
        )
    ),
    "mpnet": lambda t: t.MPNetModel(t.MPNetConfig(max_position_embeddings=514), add_pooling_layer=False),
    "t5-encoder": lambda t: t.T5EncoderModel(
        t.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, tie_word_embeddings=True)
    ),
    "distilbert": lambda t: t.DistilBertModel(t.DistilBertConfig()),
    "electra": lambda t: t.ElectraModel(t.ElectraConfig()),
    "clip-text": lambda t: t.CLIPTextModel(t.CLIPTextConfig()),
    "clip-vision": clip_vision,
    "wav2vec2": lambda t: as_computed(t.Wav2Vec2Model(t.Wav2Vec2Config())),
    "hubert": lambda t: as_computed(
        t.HubertModel(
            t.HubertConfig(
                hidden_size=1024,
                intermediate_size=4096,
                num_hidden_layers=24,
                num_attention_heads=16,
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                conv_bias=True,
            )
        )
    ),
    "data2vec-audio": lambda t: as_computed(t.Data2VecAudioModel(t.Data2VecAudioConfig())),
    "siglip": lambda t: t.SiglipVisionModel(t.SiglipVisionConfig(vision_use_head=False)),
}
"""The base models as transformers makes them; its default configurations are those of the released ones, or are set."""


@pytest.mark.parametrize("name", RELEASED)
def test_a_profile_in_its_published_sizes_has_the_parameters_of_the_released_model(name: str) -> None:
    """Whisper's sinusoids are not learned; base models of sounds have no biases of stages."""
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        theirs = sum(p.numel() for p in RELEASED[name](transformers).parameters() if p.requires_grad)
    profile = PROFILES[name]
    rows = report(profile, Dimensions().replace(**profile.sizes), n=128, B=1)
    theirs += {"wav2vec2": 7 * 512, "data2vec-audio": 7 * 512}.get(name, 0)
    assert next(row.number for row in rows if (row.quantity, row.part) == ("parameters", "whole")) == theirs
