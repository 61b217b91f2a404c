"""What attributes of parts say in other frameworks, as tables."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance_tests.subjects.stated import first_of, heads_of_kernels, place_of, stated_by


def part(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


class LayerNorm:
    """A norm by its class."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon


def relu() -> None:
    """A function called as the activation is."""


@pytest.mark.parametrize(
    ("parts", "choices", "sizes"),
    [
        ({"": part(num_heads=5)}, {}, {"h": 5}),
        ({"": part(_num_heads=5)}, {}, {"h": 5}),
        ({"": part(nhead=5), "a": part(num_heads=7)}, {}, {"h": 5}),
        ({"": part(num_heads=True)}, {}, {}),
        ({"": part(num_heads=0), "a": part(num_heads=7)}, {}, {"h": 7}),
        ({"a": part(epsilon=1e-3), "b": part(eps=1e-7)}, {"eps": 1e-3}, {}),
        ({"a": part(epsilon=0.0)}, {"eps": 0.0}, {}),
        ({"a": part(epsilon=1)}, {}, {}),
        ({"a": part(normalize_before=True)}, {"layer": "pre-ln"}, {}),
        ({"a": part(normalize_first=False)}, {"layer": "post-ln"}, {}),
        ({"a": part(pre_norm=1)}, {}, {}),
        ({"a": part(activation="gelu")}, {"activation": "gelu"}, {}),
        ({"a": part(act=relu)}, {"activation": "relu"}, {}),
        ({"a": part(hidden_act="gelu_approximate")}, {"activation": "gelu-tanh"}, {}),
        ({"a": part(activation="linear"), "b": part(activation="relu")}, {"activation": "relu"}, {}),
        ({"a": part(activation="linear", act="gelu")}, {"activation": "gelu"}, {}),
        ({"layers.0.norm": LayerNorm(1e-3), "norm": LayerNorm(1e-7)}, {"eps": 1e-3, "norm_final.eps": 1e-7}, {}),
        ({"layers.0.norm": LayerNorm(1e-3), "norm": LayerNorm(1e-3)}, {"eps": 1e-3}, {}),
        (
            {"layers.0.norm": LayerNorm(1e-3), "emb.norm": LayerNorm(1e-7), "norm": LayerNorm(1e-3)},
            {"eps": 1e-3, "norm_embedding.eps": 1e-7},
            {},
        ),
    ],
)
def test_the_first_statement_of_each_kind_counts(
    parts: dict[str, Any], choices: dict[str, Any], sizes: dict[str, int]
) -> None:
    """Numbers of the right type alone; a linear activation is none; the same ε elsewhere is not said twice."""
    hints = stated_by(parts)
    assert (hints.choices, hints.sizes) == (choices, sizes)


def test_known_heads_go_before_and_constants_are_as_they_are_stored() -> None:
    """Rounded to one digit here, as a framework may round to float32."""
    hints = stated_by({"": part(num_heads=5, eps=0.16)}, heads=7, stored=lambda x: round(x, 1))
    assert (hints.sizes, hints.choices) == ({"h": 7}, {"eps": 0.2})


@pytest.mark.parametrize(
    ("name", "thing", "layered", "place"),
    [
        ("norm", LayerNorm(0), True, "norm_final.eps"),
        ("norm", LayerNorm(0), False, "eps"),
        ("", LayerNorm(0), True, "eps"),
        ("layers.0.norm", LayerNorm(0), True, "eps"),
        ("0.norm", LayerNorm(0), True, "eps"),
        ("layers.0", LayerNorm(0), True, "eps"),
        ("layers0.norm", LayerNorm(0), True, "norm_final.eps"),
        ("norm", part(), True, "eps"),
        ("embeddings.norm", LayerNorm(0), True, "norm_embedding.eps"),
    ],
)
def test_a_norm_outside_of_numbered_layers_has_its_own_constant(
    name: str, thing: Any, layered: bool, place: str
) -> None:
    """Where there are layers; it must be a norm by its class."""
    assert place_of(name, thing, layered) == place


@pytest.mark.parametrize(("kind", "value"), [(int, 5), (float, 0.5), (bool, True), (str, None)])
def test_an_attribute_is_the_first_of_its_very_type(kind: type, value: Any) -> None:
    """True is an ``int`` to Python, and no number of heads."""
    thing = part(a=True, b=5, c=0.5, d=7)
    assert first_of(thing, ("absent", "a", "b", "c", "d"), kind) == value


@pytest.mark.parametrize(
    ("weights", "heads"),
    [
        ({"query.kernel": (20, 5, 4)}, 5),
        ({"layers.0.query.kernel": (20, 5, 4), "layers.1.query.kernel": (20, 7, 4)}, 5),
        ({"query.kernel": (20, 20)}, None),
        ({"key.kernel": (20, 5, 4)}, None),
        ({}, None),
    ],
)
def test_heads_are_an_axis_of_the_queries_map(weights: dict[str, tuple[int, ...]], heads: int | None) -> None:
    assert heads_of_kernels({name: torch.zeros(shape) for name, shape in weights.items()}) == heads
