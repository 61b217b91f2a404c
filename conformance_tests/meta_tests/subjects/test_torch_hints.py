"""What the attributes and the configuration of a torch module say, as tables."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from conformance_tests.subjects.torch_hints import (
    activation_name,
    configured,
    hints_of,
    number_called,
    parts_without_parameters,
)
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.module import EncoderModule
from encoder_spec.profiles import BERT


class Saying(nn.Module):
    """A module with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (nn.ReLU(), "relu"),
        (nn.SiLU(), "silu"),
        (nn.GELU(), "gelu"),
        (nn.GELU(approximate="tanh"), "gelu-tanh"),
        (torch.relu, "relu"),
        (nn.functional.relu, "relu"),
        (nn.functional.gelu, "gelu"),
        (nn.Tanh(), ""),
        (torch.tanh, ""),
        ("gelu", ""),
        ([], ""),
        (None, ""),
    ],
)
def test_an_activation_is_told_by_its_class_or_function(activation: Any, name: str) -> None:
    """What cannot be looked up, such as a list, is none."""
    assert activation_name(activation) == name


@pytest.mark.parametrize(
    ("attributes", "number"),
    [
        ({"num_heads": 5}, 5),
        ({"n_heads": 7}, 7),
        ({"heads": 3, "n_heads": 7}, 7),
        ({"num_heads": 0, "n_heads": 7}, 7),
        ({"num_heads": -2}, 0),
        ({"num_heads": 2.0}, 0),
        ({"num_heads": "2"}, 0),
        ({}, 0),
    ],
)
def test_a_positive_number_is_read_under_the_first_name_that_has_one(attributes: dict[str, Any], number: int) -> None:
    assert number_called(Saying(**attributes), ("num_heads", "n_heads")) == number


@pytest.mark.parametrize(
    ("configuration", "choices", "sizes"),
    [
        (None, {}, {}),
        ({"num_attention_heads": 5, "num_hidden_layers": 3}, {}, {"h": 5, "N": 3}),
        ({"n_heads": 7, "n_layers": 2, "patch_size": 4}, {}, {"h": 7, "N": 2, "patch": 4}),
        ({"encoder_attention_heads": 5, "encoder_layers": 3}, {}, {"h": 5, "N": 3}),
        ({"num_attention_heads": 5, "n_heads": 7}, {}, {"h": 5}),
        ({"num_attention_heads": True, "patch_size": (4, 4)}, {}, {}),
        ({"layer_norm_eps": 1e-7}, {"eps": 1e-7}, {}),
        ({"rms_norm_eps": 1e-6, "layer_norm_epsilon": 1e-5}, {"eps": 1e-5}, {}),
        ({"layer_norm_eps": 1}, {}, {}),
        ({"hidden_act": "gelu"}, {"activation": "gelu"}, {}),
        ({"activation_function": "gelu_new"}, {"activation": "gelu-tanh"}, {}),
        ({"hidden_activation": "gelu_fast"}, {"activation": "gelu-tanh"}, {}),
        ({"activation": "gelu_pytorch_tanh"}, {"activation": "gelu-tanh"}, {}),
        ({"hidden_act": "quick_gelu"}, {"activation": "quick-gelu"}, {}),
        ({"hidden_act": "swish"}, {"activation": "silu"}, {}),
        ({"hidden_act": "silu"}, {"activation": "silu"}, {}),
        ({"hidden_act": "relu"}, {"activation": "relu"}, {}),
        ({"hidden_act": "tanh"}, {}, {}),
        ({"hidden_act": nn.functional.gelu}, {}, {}),
    ],
)
def test_a_configuration_says_sizes_and_constants_under_the_names_of_its_family(
    configuration: dict[str, Any] | None, choices: dict[str, Any], sizes: dict[str, int]
) -> None:
    """Truth values are no numbers, and a pair is no side of a patch."""
    given = None if configuration is None else SimpleNamespace(**configuration)
    assert configured(given) == (choices, sizes)


@pytest.mark.parametrize(
    ("parts", "stated"),
    [
        ([Saying(num_heads=4), Saying(n_head=4)], 4),
        ([Saying(num_heads=4), Saying(num_heads=2)], None),
        ([Saying(num_heads=4)], None),
        ([Saying(config=SimpleNamespace(num_attention_heads=4))], None),
        ([], None),
    ],
)
def test_a_number_of_heads_is_stated_if_several_parts_agree(parts: list[nn.Module], stated: int | None) -> None:
    """One part alone may count something else."""
    assert hints_of(nn.Sequential(*parts)).configured.get("h") == stated


def test_a_configuration_states_the_number_of_heads() -> None:
    configuration = SimpleNamespace(num_attention_heads=4)
    assert hints_of(Saying(config=configuration)).configured["h"] == 4
    disagreeing = Saying(config=configuration)
    disagreeing.parts = nn.ModuleList([Saying(num_heads=2), Saying(num_heads=2)])
    assert "h" not in hints_of(disagreeing).configured


def norm(eps: float) -> nn.LayerNorm:
    return nn.LayerNorm(2, eps=eps)


@pytest.mark.parametrize(
    ("module", "choices", "sizes", "heads"),
    [
        (Saying(norm_first=True), {"layer": "pre-ln"}, {}, 0),
        (Saying(norm_first=False), {"layer": "post-ln"}, {}, 0),
        (Saying(norm_first=1), {}, {}, 0),
        (nn.Sequential(Saying(norm_first=True), Saying(norm_first=False)), {"layer": "pre-ln"}, {}, 0),
        (Saying(activation=nn.GELU()), {"activation": "gelu"}, {}, 0),
        (nn.Sequential(nn.SiLU(), nn.ReLU()), {"activation": "silu"}, {}, 0),
        (nn.Sequential(Saying(num_heads=5), Saying(n_head=7)), {}, {"h": 5}, 0),
        (Saying(heads=5), {}, {}, 5),
        (Saying(nhead=5, heads=7), {}, {}, 5),
        (nn.Sequential(Saying(heads=5), Saying(nhead=7)), {}, {}, 5),
        (Saying(h=5), {}, {}, 0),
        (Saying(h=5, d_k=3), {}, {}, 5),
        (Saying(h=5, head_dim=3), {}, {}, 5),
        (Saying(norm1=norm(1e-3), norm=norm(1e-3)), {"eps": 1e-3}, {}, 0),
        (Saying(norm1=norm(1e-3), norm=norm(1e-7)), {"eps": 1e-3, "norm_final.eps": 1e-7}, {}, 0),
        (Saying(norm1=norm(1e-3), norm2=norm(1e-7)), {"eps": 1e-3}, {}, 0),
        (Saying(norm=norm(1e-7)), {"norm_final.eps": 1e-7}, {}, 0),
        (Saying(inner=Saying(norm=norm(1e-7)), norm1=norm(1e-3)), {"eps": 1e-3, "norm_final.eps": 1e-7}, {}, 0),
        (
            Saying(config=SimpleNamespace(layer_norm_eps=1e-5, n_heads=3), norm1=norm(1e-3), num_heads=5),
            {"eps": 1e-5},
            {"h": 3},
            0,
        ),
    ],
)
def test_attributes_of_parts_are_hints_and_the_first_counts(
    module: nn.Module, choices: dict[str, Any], sizes: dict[str, int], heads: int
) -> None:
    """A configuration goes before; ``h`` is a number of heads beside the width of one; ε of a norm called ``norm``."""
    hints = hints_of(module)
    assert (hints.choices, hints.sizes, hints.heads, hints.parts) == (choices, sizes, heads, ())


def test_the_specifications_own_module_says_all() -> None:
    encoder = Encoder(BERT, Dimensions(d_model=6, h=3, d_ff=5, N=1, V=7, max_len=11))
    hints = hints_of(EncoderModule(encoder))
    assert hints.choices == BERT.choices()
    assert hints.sizes == encoder.dimensions.sizes()


class RotaryEmbedding(nn.Module):
    """By its class, whatever it is called."""


class Weighted(RotaryEmbedding):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))


def with_buffer(name: str) -> nn.Module:
    module = nn.Module()
    module.register_buffer(name, torch.ones(2))
    return module


@pytest.mark.parametrize(
    ("module", "parts"),
    [
        (Saying(pos=RotaryEmbedding()), ["pos (RotaryEmbedding)"]),
        (Saying(rope=nn.Identity()), ["rope (Identity)"]),
        (Saying(my_rope=nn.Identity()), ["my_rope (Identity)"]),
        (Saying(europe=nn.Identity()), []),
        (Saying(alibi=nn.Identity()), ["alibi (Identity)"]),
        (Saying(pos=Weighted()), []),
        (with_buffer("inv_freq"), ["inv_freq"]),
        (with_buffer("relative_position_index"), ["relative_position_index"]),
        (with_buffer("slopes"), ["slopes"]),
        (with_buffer("table"), []),
        (Saying(rope=with_buffer("inv_freq")), ["rope (Module)"]),
        (Saying(rope=RotaryEmbedding(), ropes=nn.Identity()), ["rope (RotaryEmbedding)", "ropes (Identity)"]),
        (Saying(main_input_name="input_ids"), []),
        (Saying(main_input_name="pixel_values"), []),
        (Saying(main_input_name="coordinates"), ["input 'coordinates'"]),
        (Saying(config=SimpleNamespace(num_hidden_groups=1, inner_group_num=1, num_hidden_layers=5)), []),
        (Saying(config=SimpleNamespace(num_hidden_groups=5, num_hidden_layers=5)), []),
        (
            Saying(config=SimpleNamespace(num_hidden_groups=2, inner_group_num=1, num_hidden_layers=5)),
            ["layers shared in turn (num_hidden_groups 2, inner_group_num 1)"],
        ),
        (
            Saying(config=SimpleNamespace(num_hidden_groups=1, inner_group_num=2, num_hidden_layers=5)),
            ["layers shared in turn (num_hidden_groups 1, inner_group_num 2)"],
        ),
    ],
)
def test_what_no_slot_covers_and_no_parameter_shows_is_named(module: nn.Module, parts: list[str]) -> None:
    """By its own name or class, the outermost alone; other inputs; layers that are shared by turns."""
    assert list(parts_without_parameters(module)) == parts
