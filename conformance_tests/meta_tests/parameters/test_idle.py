"""Parameters without influence are forgotten in a layer or an empty slot, and otherwise belong to a head."""

import torch
from torch import Tensor

from conformance_tests.parameters.idle import forgotten, is_one_token
from conformance_tests.parameters.mapping import ParameterMapping, Source


def flat(w: Tensor) -> Tensor:
    return w


USED = {
    "layers.0.W_Q": "blocks.0.q.weight",
    "layers.0.b_Q": "blocks.0.q.bias",
    "layers.0.W_1": "blocks.0.up.weight",
    "layers.1.W_Q": "blocks.1.q.weight",
    "layers.1.W_1": "blocks.1.up.weight",
    "E": "words.weight",
}


def forgets(empty: set[str] = set(), used: dict[str, str] = USED, **idle: tuple[int, ...]) -> list[str]:  # noqa: B006
    """Return the names that count as forgotten, for idle parameters of these shapes; ``__`` stands for a dot."""
    shapes: dict[str, tuple[int, ...]] = {name.replace("__", "."): shape for name, shape in idle.items()}
    weights = {name: torch.zeros(*shape) for name, shape in shapes.items()}
    weights |= {name: torch.zeros(8, 8) for name in used.values()}
    mapping = ParameterMapping({path: Source((name,), flat) for path, name in used.items()}, tuple(shapes))
    return forgotten(list(shapes), mapping, weights, empty)


def test_what_belongs_to_a_layer_is_forgotten() -> None:
    """Of one that is run, or of a further one."""
    assert forgets(blocks__0__gate=(3,), blocks__7__q__weight=(8, 8), head__weight=(5, 8)) == [
        "blocks.0.gate",
        "blocks.7.q.weight",
    ]


def test_without_owners_shapes_tell_of_layers() -> None:
    """Nothing tells arrays of one heap apart but their shapes."""
    heap = {path: f"w{number}" for number, path in enumerate(USED)}
    assert forgets(used=heap, a=(8, 8), b=(5, 8), c=(1, 1, 8)) == ["a"]


def test_a_bias_beside_a_map_that_is_used_is_forgotten() -> None:
    assert forgets(words__bias=(8,), head__bias=(5,)) == ["words.bias"]


def test_a_norm_is_forgotten_where_its_slot_stands_empty() -> None:
    """One with a map behind it is that of a head."""
    norm = {"after__weight": (8,), "after__bias": (8,)}
    assert forgets({"norm"}, **norm) == ["after.weight", "after.bias"]
    assert forgets(set(), **norm) == []
    assert forgets({"norm"}, **norm, head__weight=(5, 8)) == []


def test_a_vector_among_other_arrays_is_no_norm() -> None:
    """A model owns such a vector beside its parts, as one that replaces what is hidden in training."""
    within = {path: f"model.{name}" for path, name in USED.items()}
    assert forgets({"norm"}, within, model__hidden=(8,)) == []
    assert forgets({"norm"}, within, model__after__weight=(8,)) == ["model.after.weight"]


def test_a_table_is_forgotten_where_nothing_tells_positions() -> None:
    assert forgets({"position"}, places__weight=(30, 8)) == ["places.weight"]
    assert forgets(set(), places__weight=(30, 8)) == []


def test_a_token_has_one_vector() -> None:
    assert is_one_token((1, 1, 8))
    assert not is_one_token((8,))
    assert not is_one_token((1, 2, 8))
