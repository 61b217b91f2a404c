"""Encoders of Paddle, unmodified: judged right, and given back as they were."""

import warnings
from typing import Any

import numpy as np
import pytest

from conformance_tests import check
from conformance_tests.reports.report import TargetReport

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing Paddle warns where there is no cache of compilers
    paddle = pytest.importorskip("paddle", reason="needs the extra `paddle`: run by `make frameworks`")

from conformance_tests.meta_tests.encoders.paddle_encoders import RIGHT, WRONG, stock


def report(make: Any, seed: int = 0) -> TargetReport:
    """The report on what a function makes."""
    return check(make, seed=seed).targets[0]


def said(found: TargetReport) -> str:
    """What a report says in words."""
    return "\n".join([*found.notes, *(f"{r.id} {r.message}" for r in found.of("fail"))])


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_encoder_of_paddle_is_conformant(name: str, seed: int) -> None:
    """With the choices of its constructor, up to gradients, without any adapter."""
    make, choices = RIGHT[name]
    found = report(make, seed)
    assert found.verdict == "conformant", said(found)
    assert {key: found.profile["choices"].get(key) for key in choices} == choices
    assert found.level == "gradient"
    assert "True = keep" in found.profile["conventions"]["mask"]


def test_a_published_profile_is_met_by_its_constants_as_paddle_keeps_them() -> None:
    """ε = 10⁻⁵ reaches the kernels as 9.99999974·10⁻⁶, whatever they compute in: the nearest float32."""
    found = check(stock(), profile="torch-post-ln").targets[0]
    assert found.verdict == "conformant", said(found)
    other = check(stock(layer_norm_eps=1.01e-5), profile="torch-post-ln").targets[0]
    assert other.verdict == "nonconformant"


@pytest.mark.parametrize("name", WRONG)
def test_an_encoder_with_one_thing_wrong_is_nonconformant(name: str) -> None:
    """The requirement that it breaks fails, and the report says where it departs."""
    make, requirement, departs_at = WRONG[name]
    found = report(make)
    assert found.verdict == "nonconformant", said(found)
    assert requirement in {r.id for r in found.of("fail")}
    assert found.departs_at == departs_at


def test_nothing_of_a_layer_changes() -> None:
    """Neither its values nor their types nor its mode, nor Paddle's default type, random numbers and operations."""
    encoder = stock(normalize_before=True)()
    encoder.train()
    before = {name: p.numpy().copy() for name, p in encoder.named_parameters()}
    operations = paddle._C_ops.matmul, paddle.Tensor.__add__
    paddle.seed(3)
    follows = paddle.randn([3]).numpy()
    paddle.seed(3)
    assert check(encoder).verdict == "conformant"
    after = {name: p.numpy() for name, p in encoder.named_parameters()}
    assert all((before[name] == after[name]).all() and after[name].dtype == np.float32 for name in before)
    assert all(part.training for part in encoder.sublayers(include_self=True))
    assert paddle.get_default_dtype() == "float32"
    assert (paddle.randn([3]).numpy() == follows).all()
    assert (paddle._C_ops.matmul, paddle.Tensor.__add__) == operations


def test_frozen_parameters_stay_so() -> None:
    """They are differentiated all the same, in the copy that is judged."""
    encoder = stock()()
    encoder.layers[0].linear1.weight.stop_gradient = True
    assert check(encoder).verdict == "conformant"
    assert encoder.layers[0].linear1.weight.stop_gradient
    assert not encoder.layers[1].linear1.weight.stop_gradient
