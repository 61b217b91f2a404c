"""The computation of JAX functions as graphs: which entries each operation reads."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

jax = pytest.importorskip("jax", reason="needs the extra `flax`: run by `make frameworks`")
pytest.importorskip("flax", reason="needs the extra `flax`: run by `make frameworks`")

from flax import linen  # noqa: E402
from jax import lax  # noqa: E402

from conformance_tests.computation.graph import Graph, Value  # noqa: E402
from conformance_tests.computation.loops import rolled  # noqa: E402
from conformance_tests.computation.reading import read  # noqa: E402
from conformance_tests.meta_tests.encoders.flax_examples import one_layer, scanned  # noqa: E402
from conformance_tests.subjects.evaluation import Coded  # noqa: E402
from conformance_tests.subjects.hints import Hints  # noqa: E402
from conformance_tests.subjects.jax.flax import FlaxSubject  # noqa: E402
from conformance_tests.subjects.jax.operations import as_meant, evaluate  # noqa: E402
from conformance_tests.subjects.jax.recording import JaxEvaluation  # noqa: E402
from conformance_tests.subjects.jax.subject import JaxSubject  # noqa: E402

jnp = jax.numpy


@pytest.mark.parametrize(
    ("kept", "meant"),
    [
        (math.sqrt(2 / math.pi), math.sqrt(2 / math.pi)),
        (-math.sqrt(1 / 2), -math.sqrt(1 / 2)),
        (math.sqrt(30), math.sqrt(30)),
        (1 / math.sqrt(7), 1 / math.sqrt(7)),
        (0.044715, 0.044715),
        (1e-6, 1e-6),
        (1.702, 1.702),
        (-1e9, -1e9),
        (0.5, 0.5),
    ],
)
def test_a_number_in_float32_is_read_as_what_it_rounds(kept: float, meant: float) -> None:
    """Roots of whole numbers and of their ratios to π, and short decimals."""
    assert float(as_meant(np.float32(kept))) == pytest.approx(meant, rel=1e-15)


def test_other_numbers_stay_what_they_are() -> None:
    """In float64, in an array, and 0."""
    array = np.float32([0.7, 0.8])
    assert as_meant(array) is array
    assert as_meant(np.float64(np.float32(0.1))) == np.float32(0.1)
    assert as_meant(np.float32(0.0)) == 0


def float64() -> AbstractContextManager[Any]:
    """JAX with float64."""
    enabled: AbstractContextManager[Any] = jax.enable_x64(True)
    return enabled


def evaluated(function: Callable[..., Any], *arrays: Any) -> tuple[JaxEvaluation, list[Coded], list[Coded]]:
    """The evaluation of a function of one argument and parameters, what it reads and what it gives."""
    evaluation = JaxEvaluation()
    with float64():
        closed = jax.make_jaxpr(function)(*arrays)
        kinds = ["argument", *["parameter"] * (len(arrays) - 1)]
        leaves = [
            evaluation.leaf(kind, torch.from_numpy(array), kind, learned=kind == "parameter")
            for kind, array in zip(kinds, arrays, strict=True)
        ]
        constants = list(map(evaluation.constant, closed.consts))
        return evaluation, leaves, evaluate(closed.jaxpr, constants, leaves, evaluation)


def made(evaluation: JaxEvaluation) -> list[Value]:
    """The operations."""
    return [value for value in evaluation.graph.values if value.reads]


X = np.arange(24.0).reshape(2, 3, 4)


MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(2, 0, 1),
    "reshape": lambda x: x.reshape(6, 4)[None],
    "reshape in another order": lambda x: lax.reshape(x, (3, 8), (1, 0, 2)),
    "squeeze": lambda x: x[:1].squeeze(0),
    "slice": lambda x: x[:, ::2, 1:],
    "dynamic slice": lambda x: lax.dynamic_slice(x, (1, 0, 2), (1, 2, 2)),
    "dynamic update": lambda x: lax.dynamic_update_slice(x, x[:1, :1, :1], (1, 2, 3)),
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (2, 5, 3, 4)),
    "concatenate": lambda x: jnp.concatenate([x, x[::-1]], axis=1),
    "stack": lambda x: jnp.stack([x, x[::-1]], axis=1),
    "split": lambda x: jnp.split(x, 2, axis=2)[1],
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2), (0, 0))),
    "reverse": lambda x: x[:, ::-1],
    "roll": lambda x: jnp.roll(x, 1, axis=1),
    "gather": lambda x: x[:, jnp.array([2, 0])],
    "take": lambda x: jnp.take(x, jnp.array([[1, 1], [2, 0]]), axis=2),
    "scatter": lambda x: x.at[:, 1].set(x[:, 0]),
    "other type and back": lambda x: x.astype(jnp.float32).astype(jnp.float64),
    "in a compiled function": lambda x: jax.jit(lambda y: y.T)(x),
    "in a branch": lambda x: lax.cond(True, lambda y: y.mT, lambda y: y.mT + 1, x),
    "recomputed": lambda x: jax.checkpoint(lambda y: y.mT)(x),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_leave_no_operation_and_move_codes(name: str) -> None:
    """Each entry of the result is the entry of the argument that holds its number."""
    evaluation, (x,), (result,) = evaluated(MOVES[name], X)
    assert made(evaluation) == []
    graph = evaluation.graph
    np.testing.assert_array_equal(graph.numbers(result.codes).numpy(), result.array.numpy())
    assert {v.operation for v in graph.owners(result.codes)} <= {"argument", "constant"}
    assert graph.owner(x.codes) in graph.owners(result.codes)


def test_a_scan_is_unrolled() -> None:
    """Each step reads its own slice of the parameters."""
    evaluation, (_, W), (result, beside) = evaluated(
        lambda x, W: lax.scan(lambda x, W: (x @ W, x), x, W), X[0], np.ones((3, 4, 4))
    )
    products = made(evaluation)
    assert [p.operation for p in products] == ["product"] * 3
    assert all(torch.equal(p.reads[1][0], W.codes[i]) for i, p in enumerate(products))  # type: ignore[index]
    assert evaluation.graph.owner(result.codes) is products[-1]
    assert beside.codes.shape == (3, 3, 4)


def test_a_scan_backwards_and_a_loop_are_unrolled_in_their_order() -> None:
    """The last slice comes first; a loop stops when its condition fails."""
    evaluation, (_, W), _ = evaluated(
        lambda x, W: lax.scan(lambda x, W: (x @ W, None), x, W, reverse=True)[0], X[0], np.ones((2, 4, 4))
    )
    assert torch.equal(made(evaluation)[0].reads[1][0], W.codes[1])  # type: ignore[index]
    evaluation, _, _ = evaluated(
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1])), (0, x))[1], X
    )
    assert [v.operation for v in made(evaluation)] == ["tanh"] * 3


OPERATIONS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "ReLU": (jax.nn.relu, ["maximum"]),
    "sigmoid": (jax.nn.sigmoid, ["sigmoid"]),
    "square": (lambda x: x**2, ["pow"]),
    "mean": (lambda x: x.mean(-1), ["sum", "div"]),
    "choice": (lambda x: jnp.where(x > 3, x, 0.0), ["gt", "where"]),
    "rounding": (lambda x: (x / 3).astype(int), ["div", "to"]),
    "cumulative sum": (lambda x: lax.cumsum(x, axis=1), ["cumsum"]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_named_as_in_torch(name: str) -> None:
    """Readers know one name for each."""
    function, names = OPERATIONS[name]
    evaluation, _, (result,) = evaluated(function, X)
    assert [v.operation for v in made(evaluation)] == names
    np.testing.assert_array_equal(evaluation.graph.numbers(result.codes).numpy(), result.array.numpy())


def test_a_choice_reads_condition_then_both_cases() -> None:
    """JAX orders its cases the other way."""
    evaluation, (x,), _ = evaluated(lambda x: jnp.where(x > 3, x, -1.0), X)
    _, chosen, otherwise = made(evaluation)[-1].reads
    assert torch.equal(chosen, x.codes)  # type: ignore[arg-type]
    assert otherwise == -1.0


@pytest.mark.parametrize(
    "drop",
    [lambda x, kept: jnp.where(kept, x / 0.75, 0), lambda x, kept: x * kept / 0.75],
    ids=["where", "product"],
)
def test_dropout_is_its_mean(drop: Any) -> None:
    """X · 0.75 / 0.75, whatever is drawn: the numbers are those of x, and the line is remembered."""

    def dropped(x: Any) -> Any:
        return drop(x, jax.random.bernoulli(jax.random.PRNGKey(0), 0.75, x.shape))

    evaluation, (x,), (result,) = evaluated(dropped, X)
    assert not any(value.operation == "where" for value in made(evaluation))
    assert torch.allclose(evaluation.graph.numbers(result.codes), evaluation.graph.numbers(x.codes))
    assert evaluation.graph.disturbed


def test_ids_are_looked_up() -> None:
    """Behind a guard against negative ids, which the readers see through."""
    ids = np.array([[1, 2], [0, 3]])
    evaluation, (_, table), (result,) = evaluated(lambda ids, E: jnp.take(E, ids, axis=0), ids, np.ones((5, 4)))
    look_up = evaluation.graph.owner(result.codes)
    assert look_up is not None
    assert (look_up.operation, look_up.options) == ("look-up", {"axis": 0})
    assert torch.equal(look_up.reads[0], table.codes)  # type: ignore[arg-type]
    assert torch.equal(evaluation.graph.numbers(look_up.reads[1]), torch.from_numpy(ids).double())


@pytest.mark.parametrize(
    "looked_up",
    [
        lambda ids, E: E[:, ids],
        lambda ids, E: jnp.take(E, ids, axis=1),
        lambda ids, E: jnp.stack([jnp.stack([E[:, id] for id in row], axis=1) for row in ids], axis=1),
    ],
    ids=["index", "take", "one by one"],
)
def test_columns_are_looked_up_as_rows(looked_up: Callable[[Any, Any], Any]) -> None:
    """A table may be stored the other way round, and ids may be looked up one after the other."""
    ids, E = np.array([[1, 2], [0, 3]]), np.arange(20.0).reshape(4, 5)
    evaluation, (_, table), (result,) = evaluated(looked_up, ids, E)
    np.testing.assert_array_equal(evaluation.graph.numbers(result.codes).numpy(), E[:, ids])
    evaluation.graph.output = result.codes
    graph = rolled(evaluation.graph)
    look_up = graph.owner(graph.output)
    assert look_up is not None
    assert (look_up.operation, look_up.options) == ("look-up", {"axis": 0})
    assert torch.equal(look_up.reads[0], table.codes.T)  # type: ignore[arg-type]
    np.testing.assert_array_equal(look_up.data.reshape(-1, 4).numpy(), E.T[ids.reshape(-1)])


@pytest.mark.parametrize(
    "numbers", [("NHC", "HIO", "NHC"), ("NCH", "OIH", "NCH")], ids=["channels last", "channels first"]
)
def test_a_convolution_reads_its_patches(numbers: tuple[str, str, str]) -> None:
    """In whatever order its axes stand."""
    x = np.arange(36.0).reshape(tuple({"N": 2, "H": 6, "C": 3}[a] for a in numbers[0]))
    W = np.arange(24.0).reshape(tuple({"H": 2, "I": 3, "O": 4}[a] for a in numbers[1]))
    evaluation, (_, kernel), (result,) = evaluated(
        lambda x, W: lax.conv_general_dilated(x, W, (2,), "VALID", dimension_numbers=numbers), x, W
    )
    product = made(evaluation)[0]
    assert (product.operation, tuple(product.reads[0].shape)) == ("product", (1, 6, 6))  # type: ignore[union-attr]
    order = [numbers[1].index(axis) for axis in "OIH"]
    assert torch.equal(product.reads[1][0], kernel.codes.permute(order).reshape(4, 6).mT)  # type: ignore[index]
    np.testing.assert_array_equal(evaluation.graph.numbers(result.codes).numpy(), result.array.numpy())


class Map(JaxSubject):
    """A map, and what goes with it."""

    def __init__(self) -> None:
        super().__init__({"W": torch.zeros(3, 3, dtype=torch.float64), "E": torch.zeros(7, 3)}, Hints())

    def arguments(self) -> Mapping[str, Any]:
        """Ids alone."""
        return {"ids": None}

    def fixed(self) -> set[str]:
        """The table is not learned."""
        return {"E"}

    def evaluated(self, weights: Mapping[str, Any], positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Map the rows that the ids choose."""
        return {"beside": positional[0].sum(1) * 1.0, "hidden": weights["E"][positional[0]] @ weights["W"]}


def leaf(graph: Graph, name: str) -> Value:
    """The leaf of this name."""
    return next(v for v in graph.values if v.name == name)


def test_the_computation_has_noise_on_what_is_learned() -> None:
    """Frozen weights stay what they are; afterwards all have their own values; sequences are the output."""
    subject = Map()
    with float64():
        graph = subject.computation()
    assert bool(leaf(graph, "W").data.all())
    assert not bool(leaf(graph, "E").data.any())
    assert not leaf(graph, "E").learned
    assert not any(bool(w.any()) for w in subject.weights().values())
    assert graph.output.shape == (2, 5, 3)
    assert leaf(graph, "ids").operation == "argument"


def read_of(thing: Any) -> tuple[Graph, Mapping[str, Tensor]]:
    """The graph of an encoder of Flax, and the codes that are read of it."""
    subject = FlaxSubject(thing)
    with subject.borrowed():
        graph = subject.computation()
    found = read(graph)
    assert found is not None
    assert found.unread == []
    return graph, found.codes


def test_a_module_without_parameters_is_initialised_by_a_first_call() -> None:
    """As wide as the largest size that it states and can be called with."""
    unbound, _ = one_layer()
    weights = FlaxSubject(unbound).weights()
    assert {w.shape[0] for name, w in weights.items() if name.endswith("scale")} == {32}


@dataclass
class Configuration:
    """As examples of Flax keep their sizes."""

    heads: int = 4
    width: int = 32
    width_of_queries: int = 32
    inner: int = 52


class Configured(linen.Module):
    """Can be called with vectors (B, n, d) of any width."""

    sizes: Configuration

    @linen.compact
    def __call__(self, x: Any) -> Any:
        assert x.ndim == 3
        return x + linen.Dense(x.shape[-1])(linen.Dense(self.sizes.inner)(linen.LayerNorm()(x)))


def test_the_size_that_a_configuration_states_most_often_is_taken_for_the_width() -> None:
    weights = FlaxSubject(Configured(Configuration())).weights()
    assert {w.shape[0] for name, w in weights.items() if name.endswith("scale")} == {32}


def test_the_maps_of_a_layer_are_entries_of_its_parameters() -> None:
    """Flax keeps an axis for the heads, which lie side by side in the map."""
    graph, codes = read_of(one_layer())
    for letter, name in (("K", "key"), ("Q", "query"), ("V", "value")):
        kernel = next(v for v in graph.values if v.name.endswith(f"{name}.kernel"))
        assert torch.equal(codes[f"layers.0.W_{letter}"], kernel.codes.reshape(32, 32))
    out = next(v for v in graph.values if v.name.endswith("out.kernel"))
    assert torch.equal(codes["layers.0.W_O"], out.codes.reshape(32, 32))


def test_the_maps_of_scanned_layers_are_slices_of_one_array() -> None:
    """Each layer is a row of what the scan goes over."""
    graph, codes = read_of(scanned())
    kernel = next(v for v in graph.values if v.name.endswith("key.kernel"))
    for l in range(3):
        assert torch.equal(codes[f"layers.{l}.W_K"], kernel.codes[l].reshape(32, 32))
