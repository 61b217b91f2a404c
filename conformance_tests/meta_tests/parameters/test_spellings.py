"""Arrays that are no modules' are read by what their names say, however weight and bias are told apart."""

import pytest
import torch
from torch import Tensor

from conformance_tests.parameters.mapping import reading

MAPS = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")
NORMS = ("norm_1.gamma", "norm_1.beta", "norm_2.gamma", "norm_2.beta")

SPELLED = {
    "a letter behind": (
        "attn_q_w attn_k_w attn_v_w attn_o_w ff1_w ff2_w",
        "attn_q_b attn_k_b attn_v_b attn_o_b ff1_b ff2_b",
        "ln1_g ln1_b ln2_g ln2_b",
        "lnf_g lnf_b",
    ),
    "a letter between": (
        "attn_w_q attn_w_k attn_w_v attn_w_o ffn_w_in ffn_w_out",
        "attn_b_q attn_b_k attn_b_v attn_b_o ffn_b_in ffn_b_out",
        "attn_norm_w attn_norm_b ffn_norm_w ffn_norm_b",
        "out_norm_w out_norm_b",
    ),
    "a letter before": (
        "Wq Wk Wv Wo W1 W2",
        "bq bk bv bo b1 b2",
        "ln_1_gain ln_1_bias ln_2_gain ln_2_bias",
        "ln_f_gain ln_f_bias",
    ),
    "letters alone": (
        "qw kw vw ow f1w f2w",
        "qb kb vb ob f1b f2b",
        "n1w n1b n2w n2b",
        "nfw nfb",
    ),
    "capitals": (
        "Q_W K_W V_W O_W fc_in_W fc_out_W",
        "Q_b K_b V_b O_b fc_in_b fc_out_b",
        "norm_one_weight norm_one_bias norm_two_weight norm_two_bias",
        "norm_last_weight norm_last_bias",
    ),
    "a word behind": (
        "query_weight key_weight value_weight attn_output_weight mlp_fc1_weight mlp_fc2_weight",
        "query_bias key_bias value_bias attn_output_bias mlp_fc1_bias mlp_fc2_bias",
        "norm1_weight norm1_bias norm2_weight norm2_bias",
        "final_norm_weight final_norm_bias",
    ),
    "a word for biases alone": (
        "to_q to_k to_v to_o to_hidden from_hidden",
        "to_q_bias to_k_bias to_v_bias to_o_bias to_hidden_bias from_hidden_bias",
        "norm_a_weight norm_a_bias norm_b_weight norm_b_bias",
        "norm_out_weight norm_out_bias",
    ),
    "kernels": (
        "mha_q_kernel mha_k_kernel mha_v_kernel mha_o_kernel dense_1_kernel dense_2_kernel",
        "mha_q_bias mha_k_bias mha_v_bias mha_o_bias dense_1_bias dense_2_bias",
        "layer_norm_1_scale layer_norm_1_bias layer_norm_2_scale layer_norm_2_bias",
        "layer_norm_final_scale layer_norm_final_bias",
    ),
    "the parts of GPT": (
        "attn_query_w attn_key_w attn_value_w attn_proj_w mlp_c_fc_w mlp_c_proj_w",
        "attn_query_b attn_key_b attn_value_b attn_proj_b mlp_c_fc_b mlp_c_proj_b",
        "ln_attn_w ln_attn_b ln_mlp_w ln_mlp_b",
        "ln_out_w ln_out_b",
    ),
}
"""By style: the maps of a layer, their biases, its norms, and the final norm."""


def arrays(style: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Arrays of two layers, width 24 and 52 inner features, by name; and the canonical path of each."""
    maps, biases, norms, last = (names.split() for names in SPELLED[style])
    shapes = [(24, 24)] * 4 + [(24, 52), (52, 24)]
    found: dict[str, Tensor] = {}
    paths: dict[str, str] = {}

    def add(name: str, path: str, *shape: int) -> None:
        found[name], paths[name] = torch.zeros(shape, dtype=torch.float64), path

    for layer in range(2):
        for name, bias, path, shape in zip(maps, biases, MAPS, shapes, strict=True):
            add(f"blocks.{layer}.{name}", f"layers.{layer}.{path}", *shape)
            add(f"blocks.{layer}.{bias}", f"layers.{layer}.{path.replace('W', 'b')}", shape[1])
        for name, path in zip(norms, NORMS, strict=True):
            add(f"blocks.{layer}.{name}", f"layers.{layer}.{path}", 24)
    for name, letter in zip(last, ("gamma", "beta"), strict=True):
        add(name, f"norm_final.{letter}", 24)
    return found, paths


@pytest.mark.parametrize("style", SPELLED)
def test_every_array_is_read_as_what_its_name_says(style: str) -> None:
    weights, paths = arrays(style)
    mapping = reading(weights)
    assert {name: path for path, source in mapping.sources.items() for name in source.names} == paths
    assert mapping.unmapped == mapping.guessed == ()


@pytest.mark.parametrize("style", SPELLED)
def test_every_map_is_found_where_there_are_no_biases(style: str) -> None:
    weights, paths = arrays(style)
    maps = {name: w for name, w in weights.items() if paths[name].split(".")[-1] in (*MAPS, "gamma")}
    found = {name: path for path, source in reading(maps).sources.items() for name in source.names}
    assert found == {name: paths[name] for name in maps}
