"""The first layer of a large encoder says of most deviations that they are not what it computes."""

import pytest
import torch

from conformance_tests.deviations import deviation_named, deviations
from conformance_tests.diagnosis.explanations import explanations
from conformance_tests.diagnosis.first_layer import FirstLayer
from conformance_tests.diagnosis.observations import Observation
from conformance_tests.harness.run import Run
from conformance_tests.identification.search import first_layer
from conformance_tests.meta_tests.diagnosis.conftest import RunWith
from conformance_tests.meta_tests.spec.values import random_parameters
from encoder_spec.assembly import Encoder
from encoder_spec.dimensions import Dimensions
from encoder_spec.profiles import TORCH_POST_LN

WRONG = "scores-scaled-by-d-model"


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small encoders count as large ones."""
    monkeypatch.setattr("conformance_tests.diagnosis.first_layer.is_slow", lambda _: True)


def looked_at(run: Run) -> FirstLayer:
    case = run.first_wrong
    assert case is not None
    return FirstLayer(run, Observation(case, (run.output(case),)))


def test_the_first_layer_alone_is_that_of_the_whole_stack() -> None:
    """The sums of DeepNorm weigh 10^¼ in five layers, and in the first one of them looked at alone."""
    whole = Encoder(TORCH_POST_LN.replace(residual="deepnorm"), Dimensions(d_model=6, h=2, d_ff=5, N=5))
    parameters, x = random_parameters(whole), torch.ones(1, 2, 6, dtype=torch.float64).cumsum(-1)
    inside = [i.value for i in whole.trace(parameters, x) if i.path == "layers.0" and i.equation.slot == "layer"]
    alone = [i.value for i in first_layer(whole).trace(parameters, x) if i.equation.slot == "layer"]
    assert len(alone) == 1
    assert torch.equal(alone[0], inside[0])


@pytest.mark.usefixtures("_slow")
def test_only_what_gives_its_first_layer_may_be_what_is_wrong(run_with: RunWith) -> None:
    """Its own deviation. What is done with several layers explains nothing within the first, which reads its input."""
    first = looked_at(run_with(WRONG))
    assert first.recorded is not None
    assert first.may_show([deviation_named(WRONG)])
    assert not first.may_show([deviation_named("softmax-twice")])
    assert not first.may_show([deviation_named("layers-shared")])
    assert first.may_show([deviation_named(WRONG), deviation_named("layers-shared")])
    scaled = [d for d in deviations().values() if d.slot == "scores" and d.applies(first.run.encoder.profile)]
    assert len([d for d in scaled if first.may_show([d])]) < len(scaled)


@pytest.mark.usefixtures("_slow")
def test_where_a_later_layer_departs_the_first_one_cannot_tell(run_with: RunWith) -> None:
    """It is right with every deviation that leaves it as it is."""
    first = looked_at(run_with("layers-reversed"))
    assert not first.departs_within
    assert first.may_show([deviation_named("layers-reversed")])
    assert not first.may_show([deviation_named(WRONG)])


@pytest.mark.usefixtures("_slow")
@pytest.mark.parametrize("wrong", [WRONG, "ffn-detached", "mask-unused", "layers-shared", "residual-missing"])
def test_the_diagnosis_is_the_same_with_that_look(wrong: str, run_with: RunWith) -> None:
    run = run_with(wrong)
    assert wrong in [d.id for explanation in explanations(run) for d in explanation.deviations]


def test_a_small_encoder_is_evaluated_whole(run_with: RunWith) -> None:
    first = looked_at(run_with(WRONG))
    assert first.recorded is None
    assert first.may_show([deviation_named("softmax-twice")])
    layers = {step.path.split(".")[1] for step in first.trace(first.run.encoder) if step.path.startswith("layers.")}
    assert layers == {str(layer) for layer in range(first.run.encoder.dimensions.N)}
