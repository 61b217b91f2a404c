"""Encoders of Flax with the choices that their code states, and some with one thing wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from flax import linen, nnx

from conformance_tests.subjects.jax.flax_encoders import LinenEncoder, LinenLayer, NnxEncoder, NnxLayer, linen_encoder

SIZES = {"num_layers": 2, "num_heads": 4, "d_model": 32, "d_ff": 72, "eps": 1e-6}
POST = SIZES | {"layer": "post-ln", "final_norm": "none", "activation": "relu"}
PRE = SIZES | {"layer": "pre-ln", "final_norm": "norm"}


def nnx_encoder() -> Any:
    """The stock encoder in nnx, with the variance that keeps its digits."""
    return NnxEncoder(use_fast_variance=False)


def linen_pair() -> tuple[Any, Any]:
    """The stock encoder in linen beside its variables."""
    module = LinenEncoder()
    return module, module.init(jax.random.key(0), jax.numpy.zeros((2, 5, 32)))


def one_layer() -> tuple[Any, Any]:
    """One layer beside its parameters alone."""
    module, x = LinenLayer(32, 4, 72), jax.numpy.zeros((2, 5, 32))
    return module, module.init(jax.random.key(0), x, None, True)["params"]


class FromTokens(linen.Module):
    """Pre-LN from token ids, all in one module: the layers show in the numbers behind the names alone.

    The mask and whether to drop out must be given.
    """

    @linen.compact
    def __call__(self, ids: Any, keep: Any, deterministic: bool) -> Any:
        def norm(name: str) -> Any:
            return linen.LayerNorm(use_fast_variance=False, name=name)

        x = linen.Embed(41, 32, name="token_embedding")(ids) * 32**0.5
        table = self.param("position_embedding", linen.initializers.normal(0.02), (1, 31, 32))
        x = x + table[:, : ids.shape[1]]
        for i in range(2):
            attention = linen.MultiHeadDotProductAttention(num_heads=4, dropout_rate=0.1, name=f"attention_{i}")
            x = x + attention(norm(f"ln1_{i}")(x), mask=keep[:, None, None, :], deterministic=deterministic)
            inner = linen.relu(linen.Dense(72, name=f"fc1_{i}")(norm(f"ln2_{i}")(x)))
            x = x + linen.Dense(32, name=f"fc2_{i}")(inner)
        return norm("ln_f")(x)


def from_tokens() -> tuple[Any, Any]:
    """The encoder from token ids beside its variables."""
    module, ids = FromTokens(), jax.numpy.zeros((2, 5), int)
    return module, module.init(jax.random.key(0), ids, ids == 0, True)


class InOnePass(linen.Module):
    """Post-LN, with the norms that are the default."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.LayerNorm()(x + linen.MultiHeadDotProductAttention(num_heads=4)(x))
        return linen.LayerNorm()(x + linen.Dense(32)(linen.relu(linen.Dense(72)(x))))


def in_a_function() -> Any:
    """A function of the parameters and the input, with the former given."""
    module = InOnePass()
    parameters = module.init(jax.random.key(0), jax.numpy.zeros((2, 5, 32)))
    return partial(lambda parameters, x: module.apply(parameters, x), parameters)


class OneBlock(linen.Module):
    """Pre-LN, called with names alone; ``drops`` says whether its dropout is ever switched off."""

    drops: bool = False

    @linen.compact
    def __call__(self, *, inputs: Any, keep: Any = None, train: bool = True) -> Any:
        mask = None if keep is None else keep[:, None, None, :]
        normed = linen.LayerNorm(use_fast_variance=False)(inputs)
        x = inputs + linen.MultiHeadDotProductAttention(num_heads=4)(normed, mask=mask)
        inner = linen.Dense(72)(linen.LayerNorm(use_fast_variance=False)(x))
        return x + linen.Dropout(0.1)(linen.Dense(32)(linen.relu(inner)), deterministic=not (train or self.drops))


def one_block() -> tuple[Any, Any]:
    """The block beside its variables."""
    module = OneBlock()
    return module, module.init(jax.random.key(0), inputs=jax.numpy.zeros((2, 5, 32)), train=False)


class SwitchFirst(linen.Module):
    """The block with a switch to training before its input, and without variables."""

    @linen.compact
    def __call__(self, is_train: bool, x: Any, keep: Any = None) -> Any:
        mask = None if keep is None else keep[:, None, None, :]
        normed = linen.LayerNorm(use_fast_variance=False)(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=4, qkv_features=32)(normed, mask=mask)
        inner = linen.Dense(72)(linen.LayerNorm(use_fast_variance=False)(x))
        return x + linen.Dropout(0.1)(linen.Dense(32)(linen.relu(inner)), deterministic=not is_train)


def never_switched_off() -> tuple[Any, Any]:
    """The block whose dropout is on in evaluation too."""
    module, variables = one_block()
    return module.clone(drops=True), variables


class Scanned(linen.Module):
    """Three layers by a scan, which keeps the arrays of all of them in one."""

    @linen.compact
    def __call__(self, x: Any, mask: Any = None, deterministic: bool = True) -> Any:
        hidden = None if mask is None else mask[:, None, None, :]

        def step(layer: Any, x: Any, _: None) -> Any:
            return layer(x, hidden, deterministic), None

        scan = linen.scan(step, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return scan(LinenLayer(32, 4, 72, name="layers"), x, None)[0]


def scanned() -> tuple[Any, Any]:
    """The scanned encoder beside its variables."""
    module = Scanned()
    return module, module.init(jax.random.key(0), jax.numpy.zeros((2, 5, 32)))


RIGHT: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "nnx, Pre-LN, use_fast_variance=False": (nnx_encoder, PRE | {"activation": "gelu-tanh"}),
    "linen, Post-LN, use_fast_variance=False": (linen_encoder, POST),
    "linen, a scan over three layers, use_fast_variance=False": (scanned, POST | {"num_layers": 3}),
    "linen, called by names": (one_block, PRE | {"num_layers": 1, "activation": "relu", "final_norm": "none"}),
    "linen, a switch before its input": (
        SwitchFirst,
        PRE | {"num_layers": 1, "activation": "relu", "final_norm": "none"},
    ),
    "linen, one layer": (one_layer, POST | {"num_layers": 1}),
    "linen, Pre-LN from token ids, use_fast_variance=False": (
        from_tokens,
        PRE | {"activation": "relu", "embedding_scale": "sqrt-d-model", "position": "learned"},
    ),
}


class NormedResidual(NnxLayer):
    """The first residual connection carries what the norm gives, and not what it reads."""

    def __call__(self, x: Any, mask: Any) -> Any:
        x = self.norm1(x)
        x = x + self.attention(x, mask=mask)
        return x + self.linear2(nnx.gelu(self.linear1(self.norm2(x))))


def normed_residual() -> Any:
    """The stock encoder in nnx with such layers."""
    encoder = nnx_encoder()
    encoder.layers = nnx.List([NormedResidual(32, 4, 72, nnx.Rngs(l), use_fast_variance=False) for l in range(2)])
    return encoder


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "the residual connection behind the norm": (normed_residual, "RES-1", "residual"),
    "dropout in evaluation": (never_switched_off, "DROP-6", "dropout.identity"),
}
"""Encoders with one thing wrong, the requirement that says so, and where they depart."""
