"""What follows from walking a choice of equations: which stand where, with which parameters and constants."""

import pytest
import torch

from conformance_tests.meta_tests.spec.values import KEEP, close, normal, random_parameters, refused, tensor
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.equation import equations, variants
from encoder_spec.profiles import ALBERT, TORCH_PRE_LN

SIZES = Dimensions(d_model=6, h=3, d_ff=11, N=2, V=13, max_len=7, patch=2)


def test_the_equations_in_use_are_listed_once_each() -> None:
    """Two Pre-LN layers, outermost first; the last norm is of another kind, and how layers share comes last."""
    encoder = Encoder(TORCH_PRE_LN.replace(norm_final="rms"), SIZES)
    before = "projections", "multihead.split", "attention", "rotation.none"
    attending = *before, "scores", "unbiased", "global_reach", "mask", "weights", "dropout.identity", "output"
    within = [id if "." in id or id == "attention" else f"attention.{id}" for id in attending]
    listed = [
        *("encoder", "embedding.given", "layer.pre_ln", "multihead", *within, "multihead.concat", "multihead.output"),
        *("ffn", "ffn.relu", "norm.layer_norm", "norm.statistics", "residual"),
        *("encoder.final_norm", "norm.rms", "head.none", "encoder.unshared"),
    ]
    assert encoder.equations() == [equations()[id] for id in listed]


def test_choices_are_the_variants_constants_and_sizes_in_use() -> None:
    """Without dropout there is no probability and no noise, without an offset none; every norm reads an ε.

    The norm at the end is another one, with an ε of its own. Embeddings that are given have no width but d_model.
    """
    encoder = Encoder(TORCH_PRE_LN.replace(**{"norm_final": "rms", "norm_final.eps": 0.5}), SIZES)
    variants = {
        **{"stack": "plain", "input": "given", "layer": "pre-ln", "sharing": "none", "multihead": "self-attention"},
        **{"projections": "affine", "split": "heads", "attention": "dot-product", "rotation": "none"},
        **{"scores": "scaled", "bias": "none", "reach": "global"},
        **{"mask": "boolean", "weights": "softmax", "values": "average", "merge": "concat", "output": "affine"},
        **{"residual": "sum", "dropout": "none", "norm": "layer-norm", "statistics": "features", "ffn": "affine"},
        **{"activation": "relu", "final_norm": "norm", "head": "none", "norm_final": "rms"},
    }
    numbers = {"eps": 1e-5, "norm_final.eps": 0.5, "num_layers": 2, "num_heads": 3, "d_model": 6, "d_ff": 11}
    assert list(encoder.choices().items()) == list((variants | numbers).items())


def test_choices_of_an_encoder_with_everything_name_every_constant() -> None:
    """Dropout with its noise, positions with an offset, and embeddings of width 5: ``p_drop`` and so on."""
    profile = ALBERT.replace(dropout="inverted", position="learned-offset", position_offset=2)
    choices = Encoder(profile, SIZES.replace(d_e=5)).choices()
    assert choices["noise"] == "uniform"
    assert [(name, value) for name, value in choices.items() if not isinstance(value, str)] == [
        *(("eps", 1e-12), ("p_drop", 0.1), ("position_offset", 2)),
        *(("num_layers", 2), ("num_heads", 3), ("d_model", 6), ("d_ff", 11), ("embedding_size", 5)),
    ]


def test_choices_of_an_encoder_whose_heads_share_keys_name_how_many_there_are() -> None:
    """Behind the number of heads; elsewhere it is no choice."""
    choices = Encoder(TORCH_PRE_LN.replace(multihead="grouped-query"), SIZES.replace(h=6, g=2)).choices()
    assert (choices["num_heads"], choices["num_key_value_heads"]) == (6, 2)
    assert "num_key_value_heads" not in Encoder(TORCH_PRE_LN, SIZES).choices()


def test_parameters_stand_in_the_order_of_the_walk() -> None:
    """One Pre-LN layer: attention, network, norms; then the last norm and, at the end, what the head reads."""
    declared = Encoder(TORCH_PRE_LN.replace(head="classifier"), SIZES.replace(N=1)).symbolic_shapes()
    layer = ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V", "W_O", "b_O", "W_1", "b_1", "W_2", "b_2")
    norms = ("layers.0.norm_1", "layers.0.norm_2", "norm_final")
    gains = [f"{norm}.{letter}" for norm in norms for letter in ("gamma", "beta")]
    assert list(declared) == [*(f"layers.0.{name}" for name in layer), *gains, "W_cls", "b_cls"]
    assert declared["layers.0.W_2"] == ("d_ff", "d_model")
    assert declared["W_cls"] == ("d_model", "classes")


def test_what_is_done_to_a_list_of_parameters_changes_no_encoder() -> None:
    """The caller gets a list of its own."""
    encoder = Encoder(TORCH_PRE_LN, SIZES)
    encoder.parameter_shapes().clear()
    assert encoder.parameter_shapes()["norm_final.gamma"] == (6,)


def test_a_place_may_have_a_constant_of_its_own() -> None:
    """Layers that add 0 to (1, 3), and a last norm with ε = 3 (NORM-3): (4, 12). The norms inside have another ε."""
    silent = TORCH_PRE_LN.replace(multihead=lambda X, _: 0 * X, ffn=lambda X: 0 * X, **{"norm_final.eps": 3.0})
    encoder = Encoder(silent, Dimensions(d_model=2, h=1, N=2))
    p = random_parameters(encoder) | {"norm_final.gamma": tensor([2, 10]), "norm_final.beta": tensor([5, 7])}
    close(encoder(p, tensor([[[1, 3]]])), tensor([[[4, 12]]]))


def test_a_trace_tells_where_each_value_was_computed() -> None:
    """Two norms in each of two layers, under the paths of their parameters, and the one at the end."""
    encoder = Encoder(TORCH_PRE_LN, SIZES)
    trace = encoder.trace(random_parameters(encoder), normal(0, 2, 5, 6))
    normed = [i.path for i in trace if i.equation.id == "norm.layer_norm"]
    assert normed == [*(f"layers.{l}.norm_{i}" for l in (0, 1) for i in (1, 2)), "norm_final"]
    assert [i.path for i in trace if i.equation.id == "residual"] == [
        f"layers.{l}.residual_{i}" for l in (0, 1) for i in (1, 2)
    ]
    assert (trace[-1].path, trace[-1].equation.id) == ("", "encoder")


def test_a_trace_is_of_the_masked_evaluation() -> None:
    """Its last value is the output; without the mask that is another one."""
    encoder = Encoder(TORCH_PRE_LN, SIZES)
    parameters, x = random_parameters(encoder), normal(0, 2, 5, 6)
    masked = encoder.trace(parameters, x, keep=KEEP)[-1].value
    close(masked, encoder(parameters, x, keep=KEEP))
    assert not masked.allclose(encoder(parameters, x))


# A choice for each layer ----------------------------------------------------------------


IN_TURN = TORCH_PRE_LN.replace(reach=("global", "local", "local"), window=(2, 4), rotation="halves")


def test_layers_take_choices_in_turn() -> None:
    """Of four layers the first and the last are global; windows of 2 and 4 alternate."""
    encoder = Encoder(IN_TURN, SIZES.replace(N=4))
    reached = [place for place in encoder.places() if place.equation.slot == "reach"]
    assert [place.equation.variant for place in reached] == ["global", "local", "local", "global"]
    assert [place.constants.get("window") for place in reached] == [None, 4, 2, None]


def test_choices_in_turn_are_named_in_one_text_which_gives_them_again() -> None:
    """``replace`` takes what ``choices`` names; of two layers no third one is told."""
    named = IN_TURN.choices()
    assert (named["reach"], named["window"]) == ("global, local, local, repeated", "2, 4, repeated")
    again = TORCH_PRE_LN.replace(reach=named["reach"], window=named["window"])
    assert (again.in_turn, again.equations["reach"]) == (IN_TURN.in_turn, IN_TURN.equations["reach"])
    assert Encoder(IN_TURN, SIZES.replace(N=2)).choices()["reach"] == "global, local, repeated"
    assert Encoder(IN_TURN, SIZES.replace(N=1)).choices()["reach"] == "global"
    late = IN_TURN.replace(reach=("local", "global", "local"))
    assert {Encoder(late, SIZES.replace(N=N)).choices()["reach"] for N in (4, 6)} == {"local, global, local, repeated"}


def test_one_choice_takes_the_place_of_those_in_turn() -> None:
    """What is the same in all layers is no pattern, however it is written."""
    for choice in ("local", ("local", "local"), "local, local, repeated"):
        assert IN_TURN.replace(reach=choice).choice("reach") == (variants("reach")["local"],)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"reach": ("global", "nearby")}, "slot reach has no variant 'nearby'"),
        ({"reach": ()}, "reach must be a choice, or several"),
        ({"window": "2, wide, repeated"}, "window must be a non-negative number, but is 'wide'"),
    ],
    ids=["unknown", "none", "no-number"],
)
def test_choices_in_turn_that_are_none_are_refused(choices: dict[str, object], says: str) -> None:
    with refused(match=says):
        TORCH_PRE_LN.replace(**choices)


def test_a_pattern_is_computed_layer_by_layer() -> None:
    """The scores of layer 0 are all finite, and those of layer 1 within a window of 2 alone."""
    encoder = Encoder(IN_TURN, SIZES.replace(N=2))
    trace = encoder.trace(random_parameters(encoder), normal(0, 1, 4, 6))
    first, second = (i.value for i in trace if i.equation.slot == "reach")
    assert first.isfinite().all()
    place = torch.arange(4)
    assert torch.equal(second.isfinite()[0, 0], (place[:, None] - place).abs() <= 2)
