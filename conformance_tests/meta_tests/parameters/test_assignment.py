"""Arrays are assigned to the parts for which most evidence speaks: words, shapes and neighbours together."""

import pytest
import torch
from torch import Tensor

from conformance_tests.parameters.mapping import reading
from conformance_tests.parameters.questions import open_storage
from conformance_tests.parameters.storage import Storage
from encoder_spec.notation import SpecificationError

WIDTH, INNER = 12, 20
SHAPES = {"square": (WIDTH, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER), "packed": (3 * WIDTH, WIDTH)}
SHAPES |= {"width": (WIDTH,), "inner": (INNER,), "table": (31, WIDTH), "heads": (WIDTH, 3, 4), "back": (3, 4, WIDTH)}


def arrays(names: str) -> dict[str, Tensor]:
    """Return random arrays, written as ``name:shape``."""
    written = (entry.split(":") for entry in names.split())
    return {name: torch.randn(SHAPES[shape]) for name, shape in written}


def paths(names: str, **stated: str) -> dict[str, str]:
    """Return the canonical paths of arrays by name, without the layer."""
    found = reading(arrays(names), stated=stated).sources
    return {name: path.removeprefix("layers.0.") for path, source in found.items() for name in source.names}


LAYER = "q:square k:square v:square o:square w1:up w2:down norm1:width norm2:width"


def test_single_layer_needs_no_number() -> None:
    assert paths(LAYER) == {
        **{letter: f"W_{letter.upper()}" for letter in "qkvo"},
        **{"w1": "W_1", "w2": "W_2", "norm1": "norm_1.gamma", "norm2": "norm_2.gamma"},
    }


def test_a_vector_may_have_axes_of_length_one() -> None:
    """Gains (1, 1, d) and biases (1, d), which broadcast over batch and positions."""
    spread = {"norm.gamma": (1, 1, WIDTH), "norm.beta": (1, WIDTH), "w1": (INNER, WIDTH), "b1": (1, INNER)}
    layers = {f"layers.{l}.{name}": torch.randn(shape) for l in range(2) for name, shape in spread.items()}
    layers |= {f"layers.{l}.{letter}": torch.randn(WIDTH, WIDTH) for l in range(2) for letter in "qkvo"}
    layers |= {f"layers.{l}.w2": torch.randn(WIDTH, INNER) for l in range(2)}
    found = reading(layers)
    shapes = {path: tuple(w.shape) for path, w in found.canonical(layers).items()}
    assert shapes["layers.1.norm_2.gamma"] == shapes["layers.1.norm_2.beta"] == (WIDTH,)
    assert shapes["layers.1.b_1"] == (INNER,)
    assert found.unmapped == ()


@pytest.mark.parametrize("name", ["position", "pos_embedding", "token", "norm", "q", "bias", "cls", "w1", "patch"])
def test_a_number_alone_is_no_part_whatever_its_name(name: str) -> None:
    found = reading({**arrays(LAYER), name + ".scalar": torch.tensor(1.0)})
    assert found.unmapped == (name + ".scalar",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("attention.output:square output:down", {"attention.output": "W_O", "output": "W_2"}),
        ("ffn:up ffn_output:down attn.dense:square", {"ffn": "W_1", "ffn_output": "W_2", "attn.dense": "W_O"}),
        ("c_fc:up c_proj:down attn.c_proj:square", {"c_fc": "W_1", "c_proj": "W_2", "attn.c_proj": "W_O"}),
        ("wi_0:up wi_1:up wo:down o:square", {"wi_0": "W_1", "wi_1": "W_G", "wo": "W_2", "o": "W_O"}),
        ("gate:up up:up down:down o:square", {"gate": "W_G", "up": "W_1", "down": "W_2", "o": "W_O"}),
        ("mlp.0:up mlp.3:down proj:square", {"mlp.0": "W_1", "mlp.3": "W_2", "proj": "W_O"}),
    ],
)
def test_a_part_is_known_by_what_the_others_are(names: str, expected: dict[str, str]) -> None:
    """The same word means another part beside other words."""
    found = paths(f"q:square k:square v:square norm1:width norm2:width {names}")
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("input_layernorm", "post_attention_layernorm"),
        ("attention.LayerNorm", "LayerNorm"),
        ("attention.LayerNorm", "full_layer_layer_norm"),
        ("self_attn_layer_norm", "final_layer_norm"),
        ("attn_norm", "ffn_norm"),
        ("layernorm_before", "layernorm_after"),
        ("sublayer.0.norm", "sublayer.1.norm"),
    ],
)
def test_norms_are_told_by_each_other(first: str, second: str) -> None:
    """In either order of definition."""
    maps = "q:square k:square v:square o:square w1:up w2:down"
    for norms in (f"{first}:width {second}:width", f"{second}:width {first}:width"):
        layers = " ".join(f"layers.{l}.{entry}" for l in range(2) for entry in f"{maps} {norms}".split())
        found = paths(layers)
        assert found[f"layers.0.{first}"] == "norm_1.gamma"
        assert found[f"layers.0.{second}"] == "norm_2.gamma"


@pytest.mark.parametrize("bias", ["w1_bias", "w1_b", "b1", "bias_1"])
def test_bias_shares_its_words_with_a_map_and_fits_its_width(bias: str) -> None:
    assert paths(f"{LAYER} {bias}:inner")[bias] == "b_1"


@pytest.mark.parametrize(("scale", "shift"), [("ln1_g", "ln1_b"), ("ln1_g", "ln1_o"), ("ln1.a_2", "ln1.b_2")])
def test_letters_may_tell_scale_and_shift(scale: str, shift: str) -> None:
    found = paths(f"q:square k:square v:square o:square w1:up w2:down {scale}:width {shift}:width ln2:width")
    assert (found[scale], found[shift]) == ("norm_1.gamma", "norm_1.beta")


def test_letters_may_number_norms() -> None:
    """Where no number does: two norms that only scale."""
    found = paths("q:square k:square v:square o:square w1:up w2:down norm_a:width norm_b:width")
    assert (found["norm_a"], found["norm_b"]) == ("norm_1.gamma", "norm_2.gamma")


def test_many_arrays_of_something_else_take_no_time() -> None:
    """Hundreds of maps, of which one layer and no more can be read."""
    weights = arrays(" ".join(f"{LAYER} part{i}.weight:square part{i}.bias:width" for i in range(100)))
    assert len(reading(weights).unmapped) == 200


def test_biases_of_a_packed_map_may_stand_apart() -> None:
    """A packed map for three, and biases of queries and values alone."""
    found = paths("attn.qkv:packed attn.q_bias:width attn.v_bias:width proj:square fc1:up fc2:down n1:width n2:width")
    assert (found["attn.q_bias"], found["attn.v_bias"]) == ("b_Q", "b_V")


@pytest.mark.parametrize("spelled", ["heads.{h}.{letter}", "head_{h}.{letter}", "w{letter}{h}"])
def test_arrays_of_heads_are_one(spelled: str) -> None:
    """In the order of their numbers, and their number is that of the heads."""
    held = {spelled.format(h=h, letter=letter): torch.full((WIDTH, 4), float(h)) for h in range(3) for letter in "qkv"}
    weights = held | arrays("o:square w1:up w2:down norm1:width norm2:width")
    mapping = reading(weights)
    assert mapping.heads == 3
    assert mapping.canonical(weights)["layers.0.W_Q"][0].tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4


def test_an_axis_for_the_heads_tells_their_number() -> None:
    mapping = reading(arrays("q:heads k:heads v:heads o:back w1:up w2:down norm1:width norm2:width"))
    assert mapping.heads == 3


def test_arrays_of_all_layers_in_one_are_taken_apart() -> None:
    """Of each the layer's own; what stands outside stays whole."""
    weights = {name: torch.stack([w, 2 * w]) for name, w in arrays(LAYER).items()} | arrays("token_embedding:table")
    found = reading(weights).canonical(weights)
    assert torch.equal(found["layers.1.W_1"], 2 * found["layers.0.W_1"])
    assert torch.equal(found["E"], weights["token_embedding"])


@pytest.mark.parametrize("name", ["adapter.down", "relative_bias", "pooler.dense", "mystery"])
def test_what_is_no_part_of_an_encoder_is_left_over(name: str) -> None:
    mapping = reading(arrays(f"{LAYER} {name}:square"))
    assert mapping.unmapped == (name,)
    assert mapping.guessed == ()


OPAQUE = "a1x:square a2x:square a3x:square a4x:square u:up d:down s:width t:width"


def test_maps_without_telling_names_are_guesses() -> None:
    """In the order of definition, which a question leaves open; a shape that only one has is no guess."""
    weights = arrays(OPAQUE.replace("a1x", "alpha").replace("a2x", "psi").replace("a3x", "rho").replace("a4x", "tau"))
    mapping = reading(weights)
    assert mapping.guessed == ("alpha", "psi", "rho", "tau", "s", "t")
    assert mapping.sources["layers.0.W_K"].names == ("psi",)
    assert reading(weights, Storage(squares="OVKQ")).sources["layers.0.W_K"].names == ("rho",)
    assert reading(weights, Storage(norms="21")).sources["layers.0.norm_1.gamma"].names == ("t",)
    asked = {key for answers in open_storage(weights) for key in answers[0]}
    assert asked == {"plus", "norms", "turned", "squares"}


def test_what_the_author_states_comes_first() -> None:
    """The bias goes with its map, and the others take what is left."""
    names = "alpha.weight:square alpha.bias:width psi.weight:square rho:square tau:square u:up d:down s:width t:width"
    found = paths(names, W_O="alpha.weight")
    assert (found["alpha.weight"], found["alpha.bias"]) == ("W_O", "b_O")
    assert (found["psi.weight"], found["rho"], found["tau"]) == ("W_Q", "W_K", "W_V")


def test_a_statement_may_name_every_layer_or_turn_a_map() -> None:
    weights = {f"blocks.{l}.{name}": w for l in range(1, 3) for name, w in arrays(OPAQUE).items()}
    mapping = reading(weights, stated={"W_V": "blocks.{l}.a1x.T"})
    assert mapping.sources["layers.1.W_V"].names == ("blocks.2.a1x",)
    assert torch.equal(mapping.canonical(weights)["layers.0.W_V"], weights["blocks.1.a1x"].mT)


def test_a_statement_about_nothing_is_refused() -> None:
    with pytest.raises(SpecificationError, match=r"no parameter .quary.*near to it are query"):
        reading(arrays(LAYER.replace("q:", "query:")), stated={"W_Q": "quary"})


def test_packed_maps_leave_their_order_open() -> None:
    """Not that of torch's own, which is documented."""
    rest = "attn.out_proj:square fc1:up fc2:down norm1:width norm2:width"
    orders = [answers for answers in open_storage(arrays(f"attn.qkv:packed {rest}"), h=3) if "order" in answers[0]]
    assert orders[0][:2] == [{"order": "QKV", "by_head": 0}, {"order": "QKV", "by_head": 3}]
    assert not [a for a in open_storage(arrays(f"attn.in_proj_weight:packed {rest}"), h=3) if "order" in a[0]]


def test_canonical_names_leave_nothing_open() -> None:
    weights = {f"model.layers.0.W_{letter}": torch.zeros(WIDTH, WIDTH) for letter in "QKVO"}
    assert reading(weights).sources["layers.0.W_Q"].names == ("model.layers.0.W_Q",)
    assert open_storage({name.removeprefix("model."): w for name, w in weights.items()}) == []
