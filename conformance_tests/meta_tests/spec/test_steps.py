"""The steps of an encoder: shapes written by hand, and sums that agree with the costs of the whole."""

import pytest
import sympy

from encoder_spec.cost import N, flops, parameters, symbol
from encoder_spec.profiles import ALBERT, BERT, DEIT, PROFILES, VASWANI_2017, VIT, WHISPER, Profile
from encoder_spec.steps import steps

B, n, d, h, d_k, d_v, d_ff, d_e, V = map(symbol, ("B", "n", "d_model", "h", "d_k", "d_v", "d_ff", "d_e", "V"))


def shapes(profile: Profile) -> dict[str, tuple[tuple[sympy.Expr, ...], ...]]:
    return {step.equation.id: step.shapes for step in steps(profile)}


def test_steps_of_attention_have_the_shapes_of_the_paper() -> None:
    """Vaswani et al. 2017, §3.2: Q and K are (n, d_k) and V is (n, d_v) in each of h heads, the weights (n, n)."""
    found = shapes(VASWANI_2017)
    assert found["attention.projections_without_bias"] == ((B, n, h * d_k), (B, n, h * d_k), (B, n, h * d_v))
    assert found["attention.scores"] == found["attention.weights"] == ((B, h, n, n),)
    assert found["attention.output"] == ((B, h, n, d_v),)
    assert found["multihead.concat"] == ((B, n, h * d_v),)
    assert found["ffn.relu"] == ((B, n, d_ff),)
    assert found["norm.statistics"] == ((B, n, 1), (B, n, 1))
    assert found["encoder"] == ((B, n, d),)


def test_steps_before_a_prepended_token_are_shorter() -> None:
    """The layers see n tokens: ViT embeds n − 1 patches, DeiT n − 2."""
    assert shapes(VIT)["embedding.patches"] == ((B, n - 1, d),)
    assert shapes(DEIT)["embedding.patches"] == ((B, n - 2, d),)
    assert shapes(VIT)["embedding.cls"] == shapes(DEIT)["embedding.cls_and_distillation"] == ((B, n, d),)


def test_steps_of_a_factorised_embedding_are_narrow() -> None:
    found = {step.equation.id: step for step in steps(ALBERT)}
    assert found["embedding.lookup"].shapes == ((B, n, d_e),)
    assert found["embedding.lookup"].parameters == V * d_e
    assert found["embedding.factorised"].shapes == ((B, n, d),)


def test_steps_inside_of_a_layer_are_run_n_times() -> None:
    for step in steps(BERT):
        within = step.equation.topic in ("layer", "multihead", "attention", "ffn", "residual")
        assert step.times == N or not within, step.equation.id
        assert step.times == 1 or step.equation.topic not in ("embedding", "encoder", "head"), step.equation.id


def test_a_step_is_as_deep_as_the_equations_around_it() -> None:
    """The encoder calls the layer, the layer the sublayer, this one attention, and attention the scores."""
    depths = {step.equation.id: step.depth for step in steps(WHISPER)}
    around = ("encoder", "layer.pre_ln", "multihead", "attention", "attention.scores")
    assert [depths[id] for id in around] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_steps_add_up_to_the_costs_of_the_whole(profile: Profile) -> None:
    """Input, layer, final norm and head stand side by side below the encoder; one layer is run N times."""
    found = steps(profile)
    parts = [step for step in found if step.depth == 1]
    assert sympy.expand(sum(p.flops * p.times for p in parts) - flops(profile)["whole"]) == 0
    one_layer = parameters(profile)["whole"].subs(N, 1)
    assert sympy.expand(sum(p.parameters for p in parts) - one_layer) == 0
    assert found[0].parameters == one_layer
