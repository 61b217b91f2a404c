"""Parameters that influence nothing: which of them an encoder forgets, and which stand beside it.

Those are forgotten that belong to a layer, to a part that is used, or to a slot that stands empty without them. A head,
a pooler, or a table that no input addresses has no part in the hidden states, and none of their faults.
"""

import re
from collections.abc import Collection, Mapping

from torch import Tensor

from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.parameters.names import common_owner, is_beside, owners_of

TABLE = 2
"""The number of axes of a table, and of a map."""


def forgotten(
    idle: Collection[str], mapping: ParameterMapping, weights: Mapping[str, Tensor], empty: Collection[str]
) -> list[str]:
    """Return those of the idle parameters that an encoder forgets.

    Args:
        idle: parameters without a path that influence nothing.
        mapping: has the others.
        weights: the arrays by name.
        empty: the slots that stand empty, of positions, of segments and of norms outside of the layers.
    """
    width = layer_width(mapping, weights)
    owners = layer_owners(mapping)
    shapes = {tuple(weights[name].shape) for name in names_in_layers(mapping)}

    def is_in_layer(name: str) -> bool:
        shape = tuple(weights[name].shape)
        if owners:
            return any(re.match(rf"{pattern}(\.|$)", name) for pattern in owners)
        return not is_one_token(shape) and shape in shapes

    outside = [name for name in idle if not is_in_layer(name)]
    # A norm with a map behind it is that of a head.
    norms_alone = all(tuple(weights[name].shape) == (width,) for name in outside)

    def fills(name: str) -> bool:
        shape = tuple(weights[name].shape)
        if shape == (width,):
            return "norm" in empty and norms_alone and is_of_norm(name, weights)
        # A template of the layers has their maps, and what has a bias beside it is a map too.
        is_table = len(shape) == TABLE and shape[0] > 1 and shape[-1] == width and shape not in shapes
        return not {"position", "segment"}.isdisjoint(empty) and is_table and not has_bias(name, weights)

    def is_beside_used(name: str) -> bool:
        return weights[name].ndim == 1 and serves_one_part(name.rpartition(".")[0], mapping)

    return [
        name for name in idle if not is_beside(name) and (name not in outside or fills(name) or is_beside_used(name))
    ]


def is_of_norm(name: str, weights: Mapping[str, Tensor]) -> bool:
    """Return whether the module that owns a vector has vectors of its size alone, as a norm has."""
    owner = name.rpartition(".")[0]
    of_owner = [tuple(w.shape) for other, w in weights.items() if other.startswith(f"{owner}.")]
    return bool(owner) and set(of_owner) == {tuple(weights[name].shape)}


def has_bias(name: str, weights: Mapping[str, Tensor]) -> bool:
    """Return whether the module that owns an array owns a vector beside it."""
    owner = name.rpartition(".")[0]
    return bool(owner) and any(w.ndim == 1 and other.rpartition(".")[0] == owner for other, w in weights.items())


def names_in_layers(mapping: ParameterMapping) -> set[str]:
    """Return the names of all arrays of which a layer has a part."""
    return {name for path, s in mapping.sources.items() if path.startswith("layers.") for name in s.names}


def layer_width(mapping: ParameterMapping, weights: Mapping[str, Tensor]) -> int:
    """Return the width of the hidden states; 0 without a layer."""
    source = mapping.sources.get("layers.0.W_Q")
    return source.take(*(weights[name] for name in source.names)).shape[0] if source else 0


def layer_owners(mapping: ParameterMapping) -> set[str]:
    """Return patterns of the modules that own the layers, one for each; nothing if no name tells the layers apart."""
    by_layer: dict[str, set[str]] = {}
    for path, source in mapping.sources.items():
        if path.startswith("layers."):
            by_layer.setdefault(path.split(".")[1], set()).update(source.names)
    owners = [".".join(common_owner(names)) for names in by_layer.values()]
    if "" in owners or len(set(owners)) < len(owners):
        return set()
    # A further layer that is not run has another number.
    return {re.sub(r"\d+", r"\\d+", re.escape(owner)) for owner in owners}


def of_any_layer(name: str) -> str:
    """Return a name without the numbers in it: the same for the part of each layer."""
    return re.sub(r"\d+", "", name)


def is_one_token(shape: tuple[int, ...]) -> bool:
    """Return whether an array is one vector with axes for sequences and positions, such as a class or mask token."""
    return len(shape) > 1 and all(size == 1 for size in shape[:-1])


def serves_one_part(owner: str, mapping: ParameterMapping) -> bool:
    """Return whether the used arrays of a module, and of its parts, all serve one map, or one norm."""
    served = {
        path.rpartition(".")[0] if "norm_" in path else path.rpartition("_")[2] + path.rpartition(".")[0]
        for path, source in mapping.sources.items()
        for name in source.names
        if owner in owners_of(name)
    }
    return len(served) == 1
