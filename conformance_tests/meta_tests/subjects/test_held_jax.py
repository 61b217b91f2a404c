"""Functions of JAX with the arrays that they hold."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

pytest.importorskip("jax", reason="needs the extra `flax`: run by `make frameworks`")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from conformance_tests.engine.judging import check
from conformance_tests.subjects.jax.held import HeldSubject, held_arrays, rebuilt
from conformance_tests.targets.adapting import adapt


class Norm(NamedTuple):
    scale: Any
    shift: Any


def parameters(d: int = 20, inner: int = 36) -> dict[str, Any]:
    """Those of a layer: a dictionary with a named tuple and a list in it."""
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 6))
    maps = [jax.random.normal(next(keys), (d, d)) / d**0.5 for _ in range(4)]
    wide = {"up": jax.random.normal(next(keys), (d, inner)) / 4, "down": jax.random.normal(next(keys), (inner, d)) / 6}
    norms = Norm(jnp.ones(d), jnp.zeros(d)), Norm(jnp.ones(d), jnp.zeros(d))
    return {"maps": maps, "norms": norms, **wide}


def layer(
    held: dict[str, Any], x: Any, mask: Any = None, divisor: float = 5**0.5, drop: Callable[[Any], Any] = lambda y: y
) -> Any:
    """Post-LN with 4 heads, for one sequence (n, d)."""
    n, d = x.shape
    query, key, value = (jnp.reshape(x @ w, (n, 4, -1)) for w in held["maps"][:3])
    scores = jnp.einsum("qhc,khc->hqk", query, key) / divisor
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    mixed = jnp.einsum("hqk,khc->qhc", jax.nn.softmax(scores), value).reshape(n, d)
    x = normed(x + drop(mixed @ held["maps"][3]), held["norms"][0])
    return normed(x + jax.nn.relu(x @ held["up"]) @ held["down"], held["norms"][1])


def normed(x: Any, norm: Norm) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * norm.scale + norm.shift


def test_sinusoids_that_are_held_are_tables() -> None:
    """Nothing but their numbers tells that they are not learned: with noise they would turn vectors by no angles."""
    angles = jnp.arange(16)[:, None] / 100 ** (jnp.arange(4) / 4)
    held = {"cos": jnp.cos(angles)[:, None], "kernel": jnp.ones((16, 4))}
    subject = HeldSubject(partial(lambda held, x: x * held["cos"][: len(x)] @ held["kernel"].T, held))
    assert [name.rpartition(".")[2] for name in subject.weights()] == ["kernel"]
    assert [name.rpartition(".")[2] for name in subject.tables()] == ["cos"]
    with_others = subject.evaluated(
        {name: 2 * jnp.ones((16, 4)) for name in subject.weights()}, [jnp.ones((1, 1, 4))], {}
    )
    assert float(with_others[0, 0, 0]) == pytest.approx(8)


def test_a_function_bound_to_its_parameters_is_judged() -> None:
    """Without a batch, with everything that a module would show."""
    target = check(lambda: partial(layer, parameters())).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    choices = target.profile["choices"]
    assert [choices[name] for name in ("layer", "num_heads", "activation", "projections")] == [
        *("post-ln", 4, "relu", "linear"),
    ]


class Transformed(NamedTuple):
    """Functions apart from their parameters, as Haiku makes them: a key comes before the input."""

    init: Callable[[], Any]
    apply: Callable[..., Any]


def with_key(held: dict[str, Any], key: Any, *inputs: Any) -> Any:
    if key is None:
        raise ValueError("a key is needed")
    return layer(held, *inputs)


def of_a_pair(held: dict[str, Any], inputs: Any) -> Any:
    x, mask = inputs
    return layer(held, x, mask)


def of_a_dictionary(held: dict[str, Any], batch: Any) -> Any:
    return layer(held, batch["vectors"], batch.get("mask"))


@pytest.mark.parametrize("function", [of_a_pair, of_a_dictionary])
def test_the_input_may_stand_in_a_structure(function: Any) -> None:
    """Of two arrays, or of entries with names; neither is a batch of two sequences."""
    target = check(lambda: partial(function, parameters())).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    conventions = target.profile["conventions"]
    assert conventions["input"].startswith("entries of")
    assert "True = keep" in conventions["mask"]


def halved(held: dict[str, Any], x: Any) -> Any:
    return layer(held, x, divisor=2 * 5**0.5)


@pytest.mark.parametrize("function", [layer, with_key, Transformed(parameters, with_key)])
def test_a_function_beside_its_parameters_is_judged(function: Any) -> None:
    """The idiom of JAX: a function and what it takes first, in a pair."""
    target = check(lambda: (function, parameters())).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    wrong = check(lambda: (halved, parameters())).targets[0]
    assert (wrong.verdict, wrong.departs_at) == ("nonconformant", "attention.scores")


def test_what_is_wrong_with_it_is_named() -> None:
    target = check(lambda: partial(layer, parameters(), divisor=20**0.5)).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.scores")


def model(held: dict[str, Any], head: Any, x: Any, divisor: float = 5**0.5, batch: bool = False) -> Any:
    """A layer with a head behind it, for one sequence or for a batch of them."""
    hidden = jax.vmap(lambda one: layer(held, one, divisor=divisor))(x) if batch else layer(held, x, divisor=divisor)
    return jax.nn.log_softmax(jax.nn.tanh(hidden @ head))


def test_a_rate_that_does_nothing_in_evaluation_is_a_setting() -> None:
    """An array without axes; a vector without influence is a part that was forgotten."""
    held = parameters()
    assert check(lambda: partial(layer, held | {"rate": jnp.float32(0.1)})).targets[0].verdict == "conformant"
    target = check(lambda: partial(layer, held | {"spare": jnp.ones(20)})).targets[0]
    assert [r.id for r in target.of("fail")] == ["ENC-8"]


@pytest.mark.parametrize("batch", [False, True])
def test_a_model_is_judged_as_far_as_its_encoder_goes(batch: bool) -> None:
    """No part of it has a name: the line ends it, in each size of a call."""
    head = jax.random.normal(jax.random.PRNGKey(1), (20, 3))
    target = check(lambda: partial(model, parameters(), head, batch=batch)).targets[0]
    assert target.verdict == "conformant", [r.message for r in target.of("fail")] + target.notes
    assert "judged up to what it computes in test_held_jax.py:" in target.notes[0]
    assert "without what follows (1)" in target.notes[0]
    wrong = check(lambda: partial(model, parameters(), head, batch=batch, divisor=5.0)).targets[0]
    assert (wrong.verdict, wrong.departs_at) == ("nonconformant", "attention.scores")


GLOBAL = parameters()


def around(held: dict[str, Any], divisor: float = 5**0.5) -> Callable[[Any], Any]:
    """A function that reads its parameters around it."""

    def run(x: Any) -> Any:
        return layer(held, x, divisor=divisor)

    return run


@pytest.mark.parametrize(
    "make",
    [
        lambda: jax.vmap(partial(layer, parameters())),
        lambda: jax.jit(jax.vmap(around(parameters()))),
        lambda: jax.vmap(lambda x: layer(GLOBAL, x)),
        lambda: lambda x, held=GLOBAL: jax.vmap(around(held))(x),
    ],
    ids=["mapped", "compiled", "global", "default"],
)
def test_a_function_is_judged_by_what_it_reads_beside_its_arguments(make: Callable[[], Any]) -> None:
    """Variables around it, also those of functions that it calls, global objects, and defaults."""
    target = check(make).targets[0]
    assert (target.verdict, target.level) == ("conformant", "gradient"), target.notes


def test_what_a_function_around_its_parameters_does_wrong_is_named() -> None:
    target = check(lambda: jax.vmap(around(parameters(), divisor=5.0))).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "attention.scores")


def test_a_function_stays_as_it_was() -> None:
    """Its copies read other arrays."""
    held = parameters()
    function = jax.vmap(around(held))
    rebuilt(function, lambda _, array: 0 * array)
    assert function(jnp.ones((1, 2, 20))).any()
    assert rebuilt(jnp.tanh, lambda _, array: array) is jnp.tanh


def test_random_numbers_in_evaluation_are_named() -> None:
    def drop(y: Any) -> Any:
        return jnp.where(jax.random.bernoulli(jax.random.PRNGKey(3), 0.9, y.shape), y / 0.9, 0)

    target = check(lambda: partial(layer, parameters(), drop=drop)).targets[0]
    assert (target.verdict, target.departs_at) == ("nonconformant", "dropout.identity")
    assert "random numbers enter the output in evaluation" in target.diagnosis[0]["says"]


def test_arrays_are_held_wherever_they_stand() -> None:
    """In parts of parts, in tuples with names, in attributes, and behind methods; one array has one name."""

    class Holder:
        def __init__(self) -> None:
            self.itself = self
            self.norm = Norm(jnp.ones(2), jnp.arange(2))
            self.parts = [{"w": jnp.zeros((1, 2))}]
            self.again = self.parts[0]["w"]
            self.training = True

        def forward(self, x: Any) -> Any:
            return x

    holder = Holder()
    expected = {"norm.scale": (2,), "parts.0.w": (1, 2)}
    assert {path: array.shape for path, array in held_arrays(holder).items()} == expected
    assert held_arrays(holder.forward).keys() == expected.keys()
    another = rebuilt(holder, lambda _, array: array + 7)
    assert np.array_equal(another.norm.scale, [8, 8])
    assert another.again is another.parts[0]["w"]
    assert (another.training, holder.training) == (False, True)
    assert np.array_equal(holder.norm.scale, [1, 1])


def test_a_copy_computes_with_the_weights_of_the_suite() -> None:
    held = parameters()
    subject = adapt(partial(layer, held))
    assert isinstance(subject, HeldSubject)
    subject.one_by_one = True
    x = torch.randn(2, 5, 20, dtype=torch.float64)
    with subject.borrowed():
        before = subject.encode((x,), None)
        subject.set_weights({name: 0 * w for name, w in subject.weights().items()})
        assert not subject.encode((x,), None).any()
    assert before.shape == x.shape
    assert held["up"].any()
