"""Encoders of Keras and keras-hub, unmodified: judged right, and given back as they were."""

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance_tests import check
from conformance_tests.reports.report import TargetReport

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="needs the extra `keras`: run by `make frameworks`")
pytest.importorskip("keras_hub", reason="needs the package keras-hub: run by `make frameworks`")

from conformance_tests.meta_tests.encoders.keras_encoders import RIGHT, WRONG, Stack, called, graph, stacked  # noqa: E402
from conformance_tests.subjects.keras.building import built  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
"""Keras on torch hands its arrays to NumPy in an outdated way."""


def report(make: Any, seed: int = 0) -> TargetReport:
    """The report on what a function makes."""
    return check(make, seed=seed).targets[0]


def said(found: TargetReport) -> str:
    """What a report says in words."""
    return "\n".join([*found.notes, *(f"{r.id} {r.message}" for r in found.of("fail"))])


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_encoder_of_keras_is_conformant(name: str, seed: int) -> None:
    """With the choices of its configuration, up to gradients, without any adapter."""
    make, choices = RIGHT[name]
    found = report(make, seed)
    assert found.verdict == "conformant", said(found)
    assert {key: found.profile["choices"].get(key) for key in choices} == choices
    assert found.level == "gradient"
    # Keras hands masks of token ids on by itself: this one has no argument for it.
    assert found.profile["conventions"].get("mask", "True = keep").endswith("True = keep")


@pytest.mark.parametrize("name", WRONG)
def test_an_encoder_with_one_thing_wrong_is_nonconformant(name: str) -> None:
    """The requirement that it breaks fails."""
    make, requirement = WRONG[name]
    found = report(make)
    assert found.verdict == "nonconformant", said(found)
    assert requirement in {r.id for r in found.of("fail")}


def test_nothing_of_a_model_changes() -> None:
    """Neither its values nor their types, nor those of its symbolic inputs, nor Keras's own settings."""
    keras.utils.set_random_seed(3)
    model = graph(pre=True)()
    before = [np.array(w) for w in model.get_weights()]
    settings = keras.config.floatx(), keras.config.dtype_policy().name
    follows = np.array(keras.ops.convert_to_numpy(keras.random.normal((3,))))
    keras.utils.set_random_seed(3)
    model = graph(pre=True)()
    assert check(model).verdict == "conformant"
    assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(before, model.get_weights(), strict=True))
    assert [x.dtype for x in model.inputs] == ["float32", "bool"]
    assert {part.dtype_policy.name for part in model._flatten_layers()} == {"float32"}
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == settings
    assert keras.backend.result_type("float64", "float32") == "float32"
    assert (np.array(keras.ops.convert_to_numpy(keras.random.normal((3,)))) == follows).all()


def test_a_layer_that_is_not_built_stays_so() -> None:
    """Its width is left to its first input, which is still to come."""
    layers = stacked()()
    assert check(lambda: layers).verdict == "conformant"
    assert not any(layer.built for layer in layers)


class AsksForItsMode(keras.layers.Layer):
    """Cannot be called without ``training``."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = keras.layers.LayerNormalization()

    def call(self, x: Any, training: bool) -> Any:
        """Apply the norm."""
        return self.norm(x)


def test_a_layer_that_asks_for_its_mode_is_built_in_evaluation() -> None:
    assert built(AsksForItsMode()).norm.built


class KeepsItsWidth(keras.layers.Layer):
    """Has a width that no input tells, and holds what Python cannot copy."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.width, self.held = 4, 28, threading.Lock()

    def build(self, _: Any) -> None:
        """Make its norm, as wide as it is itself."""
        self.norm = keras.layers.LayerNormalization()
        self.norm.build((None, None, self.width))

    def call(self, x: Any) -> Any:
        """Apply the norm."""
        return self.norm(x)


class WidthOfAPart(keras.layers.Layer):
    """Fails where its input is added to a map of another width; Keras cannot make it again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attends = keras.layers.MultiHeadAttention(num_heads=2, key_dim=width)
        self.parts = [keras.layers.Dense(width)]

    def call(self, x: Any) -> Any:
        """Apply the map to what is attended to, and add it."""
        return x + self.parts[0](self.attends(x, x))


@pytest.mark.parametrize(("make", "width"), [(KeepsItsWidth, 28), (lambda: WidthOfAPart(64), 64)])
def test_a_wrong_width_that_is_tried_leaves_a_layer_as_it_is(make: Callable[[], Any], width: int) -> None:
    """The first variable is γ, or a kernel whose first axis is that of the input."""
    layer = make()
    assert built(layer).weights[0].shape[0] == width
    assert not layer.built
    assert not layer.weights


def test_a_list_of_layers_is_one_encoder_and_not_several() -> None:
    """Two layers; the width is 8 for each of the 4 heads, unless the layers are built."""
    found = report(stacked())
    assert (found.profile["choices"]["num_layers"], found.profile["choices"]["d_model"]) == (2, 32)


def test_keras_on_torch_is_not_taken_for_a_torch_module() -> None:
    """There every layer of Keras is a torch module as well, with other names for its parameters."""
    from conformance_tests.targets.adapting import adapt

    for made in (called(), Stack()):
        assert type(adapt(made)).__module__.startswith("conformance_tests.subjects.keras.subject")


def test_something_else_in_the_list_is_refused() -> None:
    """Layers come one after the other; a number is none."""
    found = report(lambda: [*stacked()(), 3])
    assert found.verdict == "error"
    assert "int is not a layer of Keras" in said(found)


def test_a_layer_that_accepts_no_likely_input_asks_for_a_call() -> None:
    """Its width is a product of its own making: 7 · 13 features."""

    class Odd(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            if shape[-1] != 91:
                raise ValueError("91 features are wanted")

        def call(self, x: Any) -> Any:
            return x

    found = report(lambda: Odd())
    assert found.verdict == "error"
    assert "ValueError: 91 features are wanted: call it once with an input of the right shape" in said(found)
