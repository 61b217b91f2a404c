"""Encoders of Keras and keras-hub, with the choices that their configurations state."""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
from keras import layers

SIZES = {"num_layers": 2, "num_heads": 4, "d_model": 32, "d_ff": 72}


def stacked(**options: Any) -> Callable[[], Any]:
    """keras-hub's layer twice; neither is built."""
    return lambda: [keras_hub.layers.TransformerEncoder(72, 4, **options) for _ in range(2)]


def called() -> Any:
    """keras-hub's layer twice, built by a call, in a Sequential."""
    model = keras.Sequential([keras_hub.layers.TransformerEncoder(72, 4) for _ in range(2)])
    model(keras.ops.zeros((2, 5, 32)))
    return model


def backbone() -> Any:
    """keras-hub's BERT, from token ids."""
    return keras_hub.models.BertBackbone(
        vocabulary_size=41,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=72,
        max_sequence_length=31,
    )


class Block(layers.Layer):
    """Post-LN as in a tutorial: a Sequential for the feed-forward network, ε as Keras has it."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.att = layers.MultiHeadAttention(4, 8, dropout=rate)
        self.ffn = keras.Sequential([layers.Dense(72, activation="gelu"), layers.Dense(32)])
        self.layernorm1 = layers.LayerNormalization()
        self.layernorm2 = layers.LayerNormalization()

    def call(self, x: Any, mask: Any = None) -> Any:
        mask = None if mask is None else mask[:, None, :]
        x = self.layernorm1(x + self.att(x, x, attention_mask=mask))
        return self.layernorm2(x + self.ffn(x))


class WideAsItsParts(layers.Layer):
    """The width of its input stands in its parts alone; an axis of length 1 would fit, too."""

    def __init__(self) -> None:
        super().__init__()
        self.att = layers.MultiHeadAttention(5, 30)
        self.ffn = keras.Sequential([layers.Dense(44, activation="relu"), layers.Dense(30)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)

    def call(self, x: Any) -> Any:
        x = self.layernorm1(x + self.att(x, x))
        return self.layernorm2(x + self.ffn(x))


class SaysNothingOfMasks(layers.Layer):
    """A block without an argument for a mask, which Keras hands on to the attention of the first one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def call(self, x: Any) -> Any:
        return self.block(x)


def without_masks() -> Any:
    """Blocks in a Sequential, which has an argument for a mask all the same."""
    return keras.Sequential([keras.Input((None, 32)), SaysNothingOfMasks(), SaysNothingOfMasks()])


class Stack(keras.Model):
    """Two blocks."""

    def __init__(self, block: Callable[[], Any] = Block) -> None:
        super().__init__()
        self.blocks = [block() for _ in range(2)]

    def call(self, x: Any, mask: Any = None) -> Any:
        for block in self.blocks:
            x = block(x, mask=mask)
        return x


class AsksForItsMask(Stack):
    """The mask has no default: nothing can be called, or built, without one."""

    def call(self, x: Any, mask: Any) -> Any:
        return super().call(x, mask)


def graph(pre: bool) -> Callable[[], Any]:
    """A functional model without any layer class of its own; the mask must be given."""

    def normed(x: Any) -> Any:
        return layers.LayerNormalization(epsilon=1e-6)(x)

    def make() -> Any:
        x = inputs = keras.Input((None, 32), name="x")
        keep = keras.Input((None,), dtype="bool", name="mask")
        for _ in range(2):
            y = normed(x) if pre else x
            attended = layers.MultiHeadAttention(4, 8)(y, y, attention_mask=keras.ops.expand_dims(keep, 1))
            x = x + attended if pre else normed(x + attended)
            inner = layers.Dense(72, activation="relu")(normed(x) if pre else x)
            x = x + layers.Dense(32)(inner) if pre else normed(x + layers.Dense(32)(inner))
        return keras.Model([inputs, keep], normed(x) if pre else x)

    return make


def sinusoids() -> Any:
    """A functional model from token ids, with keras-hub's sinusoids."""
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(41, 32)(ids)
    x = x + keras_hub.layers.SinePositionEncoding()(x)
    for _ in range(2):
        x = keras_hub.layers.TransformerEncoder(72, 4)(x)
    return keras.Model(ids, x)


class ByHand(layers.Layer):
    """A Post-LN layer whose attention is written out; the names of its parts say next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo, self.d2 = (layers.Dense(32) for _ in range(5))
        self.d1 = layers.Dense(72, activation="relu")
        self.n1, self.n2 = (layers.LayerNormalization(epsilon=1e-6) for _ in range(2))

    def call(self, x: Any, mask: Any = None) -> Any:
        ops, (batch, n, _) = keras.ops, keras.ops.shape(x)
        q, k, v = (
            ops.transpose(ops.reshape(part(x), (batch, n, 4, 8)), (0, 2, 1, 3)) for part in (self.wq, self.wk, self.wv)
        )
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / 8**0.5
        if mask is not None:
            scores = ops.where(mask[:, None, None, :], scores, -1e9)
        heads = ops.transpose(ops.matmul(ops.softmax(scores), v), (0, 2, 1, 3))
        x = self.n1(x + self.wo(ops.reshape(heads, (batch, n, 32))))
        return self.n2(x + self.d2(self.d1(x)))


def post(eps: float, activation: str) -> dict[str, Any]:
    """The choices of a Post-LN encoder."""
    return SIZES | {"layer": "post-ln", "final_norm": "none", "eps": eps, "activation": activation}


RIGHT: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "keras-hub, TransformerEncoder twice": (stacked(), post(1e-5, "relu")),
    "keras-hub, TransformerEncoder twice, normalize_first, gelu, ε 1e-7": (
        stacked(normalize_first=True, activation="gelu", layer_norm_epsilon=1e-7),
        SIZES | {"layer": "pre-ln", "final_norm": "none", "eps": 1e-7, "activation": "gelu"},
    ),
    "keras-hub, TransformerEncoder in a Sequential": (called, post(1e-5, "relu")),
    "keras-hub, BertBackbone": (backbone, post(1e-12, "gelu-tanh") | {"segment": "added", "position": "learned"}),
    "keras-hub, TransformerEncoder behind sinusoids": (
        sinusoids,
        post(1e-5, "relu") | {"position": "sinusoidal", "embedding_scale": "none"},
    ),
    "Keras, layers as in tutorials": (Stack, post(1e-3, "gelu")),
    "Keras, the same with dropout in the attention": (lambda: Stack(lambda: Block(0.1)), post(1e-3, "gelu")),
    "Keras, a mask that must be given": (AsksForItsMask, post(1e-3, "gelu")),
    "Keras, blocks without masks in a Sequential": (without_masks, post(1e-3, "gelu")),
    "Keras, a width that its parts state": (
        WideAsItsParts,
        {"layer": "post-ln", "num_heads": 5, "d_model": 30, "d_ff": 44, "eps": 1e-6},
    ),
    "Keras, attention by hand": (lambda: Stack(ByHand), post(1e-6, "relu")),
    "Keras, functional Post-LN": (graph(pre=False), post(1e-6, "relu")),
    "Keras, functional Pre-LN": (
        graph(pre=True),
        SIZES | {"layer": "pre-ln", "final_norm": "norm", "eps": 1e-6, "activation": "relu"},
    ),
}


class WithoutResidual(Block):
    """The feed-forward network without its residual connection."""

    def call(self, x: Any, mask: Any = None) -> Any:
        mask = None if mask is None else mask[:, None, :]
        x = self.layernorm1(x + self.att(x, x, attention_mask=mask))
        return self.layernorm2(self.ffn(x))


class MaskForgotten(Block):
    """The mask reaches no attention."""

    def call(self, x: Any, mask: Any = None) -> Any:
        return super().call(x)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "without the second residual connection": (lambda: Stack(WithoutResidual), "ENC-2"),
    "with a mask that hides nothing": (lambda: Stack(MaskForgotten), "ENC-3"),
}
"""Encoders with one thing wrong, and the requirement that says so."""
