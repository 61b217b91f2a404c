"""Encoder layers in a functional Keras model that was written as one flat graph."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras

Path = tuple[Any, ...]


def blocks(layers: Sequence[Any]) -> Iterator[tuple[Path, Any]]:
    """Yield a path for each layer of the graph, those of encoder layers below ``layers``.

    An encoder layer is an attention with the two maps after it, and two norms. Each norm stands after its sublayer, or
    before it if the sublayer alone reads its output.
    """
    names = plain_names(layers)
    place, number = 0, 0
    while place < len(layers):
        before = is_norm(layers[place]) and place + 1 < len(layers) and is_attention(layers[place + 1])
        pre = before and readers(layers[place]) == 1
        if not (pre or is_attention(layers[place])):
            norm = "final_norm" if number else "embedding_norm"
            yield (norm if is_norm(layers[place]) else names[place],), layers[place]
            place += 1
            continue
        norms, maps = 0, 0
        while place < len(layers) and not (maps == 2 and norms == 2):
            layer = layers[place]
            norms, maps = norms + is_norm(layer), maps + (not is_norm(layer) and not is_attention(layer))
            name = f"norm_{norms}" if is_norm(layer) else "attention" if is_attention(layer) else f"linear_{maps}"
            yield ("layers", number, name), layer
            place += 1
        number += 1


def is_attention(layer: Any) -> bool:
    """Return whether a layer is Keras's attention."""
    return isinstance(layer, keras.layers.MultiHeadAttention)


def is_norm(layer: Any) -> bool:
    """Return whether a layer is a norm."""
    return isinstance(layer, keras.layers.LayerNormalization | keras.layers.RMSNormalization)


def readers(layer: Any) -> int:
    """Count the operations that read the output of a layer."""
    return len({id(node.operation) for node in layer._outbound_nodes})


def plain_names(layers: Sequence[Any]) -> list[str]:
    """Return the names of layers without the number of the session, where they still differ without it."""
    plain = [re.sub(r"_\d+$", "", str(layer.name)) for layer in layers]
    return [name if plain.count(name) == 1 else str(layer.name) for name, layer in zip(plain, layers, strict=True)]
