"""An encoder of which nothing is known but its weights and outputs is told what is wrong with it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from conformance_tests.engine.judging import check
from conformance_tests.meta_tests.encoders.plain import Plain, PlainLayer, plain_layers
from conformance_tests.meta_tests.encoders.uncatalogued import attending, layered, normed, stacked

Numbers = np.ndarray[Any, np.dtype[Any]]
PLAIN_CHOICES = {"layer": "post-ln", "norm": "layer-norm", "activation": "relu", "scores": "scaled"}


class BlackBox:
    """Weights and ``encode``, behind which a torch module computes."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self.module = make().double().eval()
        self.weights = {name: w.detach().numpy().copy() for name, w in self.module.named_parameters()}

    def encode(self, x: Numbers, mask: Numbers | None = None) -> Numbers:
        """Hidden states (B, n, d) for x of the same shape; mask (B, n), True = keep."""
        weights = {name: torch.as_tensor(w) for name, w in self.weights.items()}
        keep = None if mask is None else torch.as_tensor(mask)
        output: Tensor = functional_call(self.module, weights, (torch.as_tensor(x), keep))
        return output.detach().numpy()


def unbiased(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    scaled: Tensor = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + norm.eps).sqrt()
    return norm.weight * scaled + norm.bias


def cosine(_: Any, q: Tensor, k: Tensor) -> Tensor:
    return nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT


def leaky(layer: Any, x: Tensor) -> Tensor:
    features: Tensor = layer.fc2(nn.functional.leaky_relu(layer.fc1(x)))
    return features


@pytest.mark.parametrize(
    ("wrong", "deviation"),
    [
        (normed(unbiased), "norm-unbiased-variance"),
        (attending(score=cosine), "scores-of-cosine"),
        (layered(feed_forward=leaky), "activation-leaky-relu"),
    ],
)
def test_a_deviation_in_a_black_box_is_named_beside_what_is_right(
    wrong: Callable[[], nn.Module], deviation: str
) -> None:
    """Its other choices are those with which the deviation gives its outputs, not what comes nearer without it."""
    target = check(lambda: BlackBox(wrong)).targets[0]
    assert [d["deviation"] for d in target.diagnosis] == [deviation]
    assert (target.verdict, target.departs_at) == ("nonconformant", target.diagnosis[0]["equation"])
    assert {name: target.profile["choices"][name] for name in PLAIN_CHOICES} == PLAIN_CHOICES
    assert target.profile["choices"]["num_heads"] == 4
    assert not [note for note in target.notes if "random" in note]


@pytest.mark.parametrize(
    ("wrong", "sublayer"),
    [
        (attending(weigh=lambda _, scores: scores.softmax(-1) ** 1.5), "multihead"),
        (layered(feed_forward=lambda layer, x: layer.fc2(layer.fc1(x).relu() ** 1.1)), "ffn"),
    ],
)
def test_a_defect_of_no_catalogue_is_placed_in_its_sublayer(wrong: Callable[[], nn.Module], sublayer: str) -> None:
    """Outputs agree as long as it adds nothing; what else it chooses is right, and no odd choice comes nearer."""
    target = check(lambda: BlackBox(wrong)).targets[0]
    assert (target.verdict, target.diagnosis, target.departs_at) == ("nonconformant", [], sublayer)
    assert {name: target.profile["choices"][name] for name in PLAIN_CHOICES} == PLAIN_CHOICES


def test_a_defect_around_the_sublayers_is_placed_in_none() -> None:
    """The output is wrong where both add nothing."""
    wrong = stacked(lambda s, x, hidden: Plain.run(s, x, hidden) ** 3)
    target = check(lambda: BlackBox(lambda: wrong()), explain=False).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "encoder")


def test_the_black_box_that_they_change_is_conformant() -> None:
    """The same with nothing replaced."""
    assert check(lambda: BlackBox(lambda: Plain(plain_layers()))).verdict == "conformant"


class Deep(PlainLayer):
    """Two layers have four sublayers: the stream weighs √2."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.norm1(2**0.5 * x + self.attention(x, hidden))
        return self.norm2(2**0.5 * x + self.feed_forward(x))


def test_outputs_alone_tell_the_weight_of_deepnorm() -> None:
    """Where both sublayers add nothing the norm takes it back, but for ε: it shows where either adds something."""
    target = check(lambda: BlackBox(lambda: Plain(plain_layers(Deep)))).targets[0]
    assert (target.verdict, target.level) == ("conformant", "agreement"), target.notes
    assert {name: target.profile["choices"][name] for name in PLAIN_CHOICES} == PLAIN_CHOICES
    assert (target.profile["choices"]["residual"], target.profile["choices"]["eps"]) == ("deepnorm", 1e-5)


def test_a_number_of_heads_that_nothing_tells_is_called_a_guess() -> None:
    """No choice comes near to cubes of the hidden states: a single head is where the search began."""
    box = BlackBox(stacked(lambda s, x, hidden: Plain.run(s, x, hidden) ** 3))
    assert "the number of heads is a guess" in check(box, explain=False).targets[0].notes[0]
