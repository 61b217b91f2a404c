"""Which subject an object gets, and what its parameters are called: known without any framework."""

import subprocess
import sys
from typing import Any

import pytest

from conformance_tests.subjects.numbered import telling_names
from conformance_tests.subjects.ready_made import READY_MADE, framework_of
from conformance_tests.subjects.stated import stated_by
from conformance_tests.targets.builtin import BUILTIN, Builtin, runnable


def of_module(module: str) -> type:
    """An empty class that says it comes from this module."""
    return type("Layer", (), {"__module__": module})


class Mine(of_module("keras.src.layers.layer")):  # type: ignore[misc]
    """Somebody's own layer of Keras."""


class OnTorch(Mine, of_module("torch.nn.modules.module")):  # type: ignore[misc]
    """The same on torch."""


@pytest.mark.parametrize(
    ("thing", "framework"),
    [
        (Mine(), "keras"),
        (OnTorch(), "keras"),
        ([Mine(), Mine()], "keras"),
        (of_module("flax.nnx.module")(), "flax"),
        ((of_module("flax.linen.module")(), {"params": {}}), "flax"),
        (of_module("paddle.nn.layer.layers")(), "paddle"),
        (of_module("torch.nn.modules.module")(), None),
        (of_module("flaxen")(), None),
        ([], None),
        (len, None),
        ("keras", None),
    ],
)
def test_the_class_tells_the_framework(thing: Any, framework: str | None) -> None:
    """By the modules of the class and of those that it descends from."""
    assert framework_of(thing) == framework


def test_no_framework_is_imported_for_a_torch_encoder() -> None:
    """A user of torch has none of them."""
    code = (
        "import sys; from conformance_tests import check; "
        "assert check('torch-post-ln', level='static').verdict == 'conformant'; "
        f"print([name for name in {list(READY_MADE)!r} + ['jax', 'onnx', 'onnxruntime'] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_numbers_behind_names_are_layers_where_parts_have_parts() -> None:
    """Two blocks with an attention; ``norm1`` and ``norm2`` are no layers, nor are the heads inside of one."""
    names = {
        ("block1", "heads_0", "query", "kernel"): "block.1.heads_0.query.kernel",
        ("block1", "heads_1", "query", "kernel"): "block.1.heads_1.query.kernel",
        ("block2", "norm1", "scale"): "block.2.norm1.scale",
        ("block2", "norm2", "scale"): "block.2.norm2.scale",
        ("norm", "scale"): "norm.scale",
        ("layers", 0, "norm1", "scale"): "layers.0.norm1.scale",
    }
    assert telling_names(dict.fromkeys(names, (3,))) == list(names.values())


def test_parts_with_the_number_of_their_layer_behind_their_name_are_put_into_it() -> None:
    """Four parts with the numbers 0 and 1 are those of two layers."""
    parts = ("attention", "fc1", "fc2", "norm1")
    paths = {(f"{part}_{layer}", "kernel"): (3, 5) for layer in range(2) for part in parts}
    assert telling_names(paths) == [f"layers.{layer}.{part}.kernel" for layer in range(2) for part in parts]


def test_maps_counted_by_linen_are_told_by_what_they_read() -> None:
    """``Dense(3)(relu(Dense(5)(x)))`` makes the outer map first: Dense_0 reads 5 and gives the norms 3."""
    arrays = {
        ("Layer_0", "Dense_0", "kernel"): (5, 3),
        ("Layer_0", "Dense_1", "kernel"): (3, 5),
        ("Layer_0", "LayerNorm_0", "scale"): (3,),
        ("Layer_0", "LayerNorm_1", "scale"): (3,),
        ("Layer_0", "Attention_0", "query", "kernel"): (3, 3),
    }
    assert telling_names(arrays) == [
        "Layer.0.linear_2.kernel",
        "Layer.0.linear_1.kernel",
        "Layer.0.LayerNorm_1.scale",
        "Layer.0.LayerNorm_2.scale",
        "Layer.0.Attention.query.kernel",
    ]


def test_attributes_are_hints() -> None:
    """The norm outside of layers has an ε of its own; the first of several statements counts."""

    class LayerNorm:
        def __init__(self, epsilon: float) -> None:
            self.epsilon = epsilon

    class Block:
        num_heads = 7
        normalize_first = True
        activation = "gelu_new"

    hints = stated_by({"": object(), "layers.0": Block(), "layers.0.norm": LayerNorm(1e-7), "norm": LayerNorm(1e-3)})
    assert hints.sizes == {"h": 7}
    assert hints.choices == {"layer": "pre-ln", "activation": "gelu-tanh", "eps": 1e-7, "norm_final.eps": 1e-3}


def test_a_built_in_target_says_what_it_misses() -> None:
    """It can run here if nothing is missing."""
    assert Builtin("", lambda: None, ("torch", "package_that_nobody_has")).missing() == ["package_that_nobody_has"]
    assert Builtin("", lambda: None).missing() == []
    assert {name for name, builtin in BUILTIN.items() if not builtin.missing()} == set(runnable())
    assert {"torch-post-ln", "torch-pre-ln", "reference"} <= set(runnable())
