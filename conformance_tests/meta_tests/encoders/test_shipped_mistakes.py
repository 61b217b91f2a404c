"""Mistakes that ports of today's encoders have shipped, planted in unmodified code of transformers: found and named."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from conformance_tests import check
from conformance_tests.meta_tests.encoders.families import IMAGE, SPECIAL, T5, TEXT, maker, transformers

SLIDING = SPECIAL | TEXT | {"num_hidden_layers": 6, "cls_token_id": 1, "sep_token_id": 2}

masking_utils = import_module(f"{transformers.__name__}.masking_utils")

Make = Callable[[], nn.Module]


def code_of(family: str) -> Any:
    """The module with a family's code."""
    return import_module(f"{transformers.__name__}.models.{family}.modeling_{family}")


class Mistake(NamedTuple):
    """A mistake: the encoder that has it, the profile that it is held to, and what the report must say.

    ``patches`` are parts of the package that are replaced while it is judged.
    """

    make: Make
    profile: str
    says: str
    patches: Mapping[tuple[Any, str], Any] = {}


def modernbert(shift: int = 0, **configured: Any) -> Make:
    """ModernBERT of six layers, of which every third one reads all, the first of them ``shift`` layers too early."""
    types = ["full_attention" if (l + shift) % 3 == 0 else "sliding_attention" for l in range(6)]
    return maker("ModernBert", layer_types=types, **configured, **SLIDING)


def thetas(full: float, sliding: float) -> dict[str, Any]:
    """The bases of both kinds of layers, as ModernBERT's configuration has them."""
    kinds = {"full_attention": full, "sliding_attention": sliding}
    return {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in kinds.items()}


def planted(make: Make, change: Callable[[nn.Module], None]) -> Make:
    """The encoder with a change of its parts."""

    def changed() -> nn.Module:
        made = make()
        change(made)
        return made

    return changed


def wider_by_one(model: Any) -> None:
    """Each query of the local layers reads one more key on either side."""
    model.config.sliding_window += 1


def neighbours(x: Tensor) -> Tensor:
    """Neighbouring features are turned, where the model turns the two halves of a head."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def in_few_digits(model: Any) -> None:
    """Cosines and sines are rounded to bfloat16."""
    inner = model.rotary_emb.forward
    model.rotary_emb.forward = lambda *given: tuple(x.bfloat16().to(x.dtype) for x in inner(*given))


def looking_back(**given: Any) -> Tensor:
    """The mask of a decoder's window, which has the keys before a query alone."""
    found: Tensor = masking_utils.create_sliding_window_causal_mask(**given, past_key_values=None)
    return found


def bidirectional(**given: Any) -> Tensor:
    """The mask of a layer that reads all."""
    found: Tensor = masking_utils.create_bidirectional_mask(**given)
    return found


def queries_alone(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Keys that are not turned."""
    half = code_of("nomic_bert").rotate_half
    return query * cos.unsqueeze(unsqueeze_dim) + half(query) * sin.unsqueeze(unsqueeze_dim), key


def one_table_each(model: Any) -> None:
    """The second layer has a table of distances by itself, though all should add that of the first."""
    attention = model.encoder.block[1].layer[0].SelfAttention
    attention.has_relative_attention_bias = True
    attention.relative_attention_bias = nn.Embedding(32, 4)
    inner = model.encoder.block[1].forward
    model.encoder.block[1].forward = lambda x, mask, _, *given, **named: inner(x, mask, None, *given, **named)


def no_table(model: Any) -> None:
    """The table of distances is there, and nothing of it is added."""
    model.encoder.compute_position_bias = lambda x, **_: x.new_zeros(len(x), 4, x.shape[1], x.shape[1])


def other_way_round(model: Any) -> None:
    """The distance is counted from the key to the query."""
    inner = model.encoder.relative_position_bucket
    model.encoder.relative_position_bucket = lambda distance, **named: inner(-distance, **named)


def nearer(model: Any) -> None:
    """Rows are shared from a distance of 64 on, and not of 128."""
    inner = model.encoder.relative_position_bucket
    model.encoder.relative_position_bucket = lambda distance, **named: inner(distance, max_distance=64, **named)


def scaled_stream(model: Any) -> None:
    """The factors of LayerScale multiply the sum, and not what is added."""
    for layer in model.encoder.layer:
        factors = layer.layer_scale1.lambda1
        layer.layer_scale1.forward = lambda x: x
        layer.register_forward_hook(lambda *given, factors=factors: given[-1] * factors)


def without_layer_scale(model: Any) -> None:
    """The factors of LayerScale are there, and not used."""
    for layer in model.encoder.layer:
        layer.layer_scale1.forward = layer.layer_scale2.forward = lambda x: x


def before_the_norm(model: Any) -> None:
    """The output of the last layer is returned without the final norm."""
    model.final_norm.forward = lambda x: x


def counted_from_0(model: Any) -> None:
    """Positions begin at row 0 of RoBERTa's table, and not behind the row of padding."""
    ids = lambda given, *_: torch.arange(given.shape[1]).expand(given.shape)  # noqa: E731
    model.embeddings.create_position_ids_from_input_ids = ids


def causal(model: Any) -> None:
    """Each position sees itself and those before it, as after an upgrade that changed a default."""
    for layer in model.encoder.layer:
        inner = layer.attention.self.forward

        def forward(states: Tensor, attention_mask: Tensor | None = None, inner: Any = inner, **named: Any) -> Any:
            n = states.shape[1]
            mask = torch.full((n, n), -torch.inf, dtype=states.dtype).triu(1)[None, None]
            return inner(states, mask if attention_mask is None else mask.masked_fill(~attention_mask, -torch.inf))

        layer.attention.self.forward = forward


def registers_first(model: Any) -> None:
    """The registers are put before the class token."""

    def forward(image: Tensor, **_: Any) -> Tensor:
        own = model.embeddings
        patches = own.patch_embeddings(image)
        tokens = torch.cat([own.cls_token.expand(len(image), -1, -1), patches], 1) + own.position_embeddings
        return torch.cat([own.register_tokens.expand(len(image), -1, -1), tokens], 1)

    model.embeddings.forward = forward


GEMMA = TEXT | {"use_bidirectional_attention": True, "head_dim": 8, "num_key_value_heads": 2}
NOMIC, MPNET, ROBERTA = maker("NomicBert", **TEXT), maker("MPNet", **TEXT), maker("Roberta", **TEXT)
DINO = maker("Dinov2", mlp_ratio=2, **IMAGE)

MISTAKES = {
    "layers shifted by one": Mistake(modernbert(2), "modernbert", "one layer too late"),
    "layers shifted by two": Mistake(modernbert(1), "modernbert", "two layers too late"),
    "bases exchanged": Mistake(modernbert(rope_parameters=thetas(10000.0, 160000.0)), "modernbert", "ROT-1"),
    "one base for all layers": Mistake(modernbert(rope_parameters=thetas(10000.0, 10000.0)), "modernbert", "ROT-1"),
    "window too wide by one": Mistake(planted(modernbert(), wider_by_one), "modernbert", "window"),
    "neighbours for halves": Mistake(
        NOMIC, "nomic-bert", "rotation", {(code_of("nomic_bert"), "rotate_half"): neighbours}
    ),
    "values turned too": Mistake(maker("RoFormer", rotary_value=True, **TEXT), "", "keys and values are turned"),
    "angles in few digits": Mistake(planted(modernbert(), in_few_digits), "modernbert", "ROT-"),
    "a window that looks back alone": Mistake(
        modernbert(local_attention=8),
        "",
        "global_reach",
        {(code_of("modernbert"), "create_bidirectional_sliding_window_mask"): looking_back},
    ),
    "no window": Mistake(
        modernbert(),
        "modernbert",
        "every query reads every key",
        {(code_of("modernbert"), "create_bidirectional_sliding_window_mask"): bidirectional},
    ),
    "queries turned alone": Mistake(
        NOMIC, "", "its keys are not", {(code_of("nomic_bert"), "apply_rotary_pos_emb"): queries_alone}
    ),
    "bias of the first layer not shared": Mistake(
        planted(maker("T5", model="T5EncoderModel", **T5), one_table_each), "t5-encoder", "sharing is none"
    ),
    "bias in the file and absent in the graph": Mistake(planted(MPNET, no_table), "mpnet", "bias is none"),
    "distances the other way round": Mistake(planted(MPNET, other_way_round), "", "from the key to the query"),
    "another boundary of the buckets": Mistake(planted(MPNET, nearer), "mpnet", "ATT-18"),
    "LayerScale on the stream": Mistake(planted(DINO, scaled_stream), "dinov2", "residual_1.lam is missing"),
    "LayerScale forgotten": Mistake(planted(DINO, without_layer_scale), "dinov2", "lambda1"),
    "not the normed states": Mistake(planted(modernbert(), before_the_norm), "modernbert", "final norm is none"),
    "positions counted from 0": Mistake(planted(ROBERTA, counted_from_0), "roberta", "POS-"),
    "a mask that became causal": Mistake(planted(maker("Bert", **TEXT), causal), "", "causal mask"),
    "scores scaled for another width": Mistake(
        maker("Gemma3Text", model="Gemma3TextModel", **GEMMA | {"query_pre_attn_scalar": 256}),
        "",
        "the scores are multiplied by 0.0625",
    ),
    "registers before the class token": Mistake(
        planted(maker("Dinov2WithRegisters", mlp_ratio=2, **IMAGE), registers_first), "", "before the class token"
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_that_was_shipped_is_found_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = MISTAKES[name]
    for (owner, attribute), other in mistake.patches.items():
        monkeypatch.setattr(owner, attribute, other)
    report = check(mistake.make, **({"profile": mistake.profile} if mistake.profile else {})).targets[0]
    said = str([report.diagnosis, report.notes, [(r.id, r.message) for r in report.of("fail")]])
    assert report.verdict == "nonconformant", report.notes
    assert mistake.says in said
