"""The oracles: complete, independent, and equal to the implementations in value and gradient."""

import ast
import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import encoder_spec.oracle
from conformance_tests.meta_tests.spec.agreement import (
    ROUNDING,
    check_encoders,
    check_gradients,
    check_values,
    difference,
)
from conformance_tests.meta_tests.spec.generate import Twin, as_tensor, neighbours
from encoder_spec.equation import TOPICS, Equation, equations
from encoder_spec.oracle.attention import weights
from encoder_spec.profiles import PROFILES

EVERY = list(equations().values())
DETERMINISTIC = [e for e in EVERY if e.id != "dropout.noise"]
"""Two random generators cannot agree in value: the noise has a test of its own."""

DIFFERENTIABLE = [e for e in DETERMINISTIC if e.returns is not int]


def each(chosen: list[Equation]) -> pytest.MarkDecorator:
    """One test item per equation."""
    return pytest.mark.parametrize("equation", chosen, ids=lambda equation: equation.id)


def test_difference_is_relative_to_large_values_and_absolute_for_small_ones() -> None:
    """|3 − 2|/2 = 0.5 where |want| > 1; |0.3 − 0.1| = 0.2 where |want| < 1; the larger counts."""
    assert difference(np.array([3.0, 0.3]), np.array([2.0, 0.1])) == 0.5


@pytest.mark.parametrize(
    "got",
    [np.zeros((1, 2)), np.zeros(2, dtype=np.float32), np.array([0, math.nan]), np.array([0, math.inf])],
    ids=["shape", "dtype", "nan", "infinity"],
)
def test_difference_is_infinite_where_no_number_measures_it(got: np.ndarray) -> None:
    """A wrong shape or dtype, NaN or ∞ is no small error, on whichever side it stands."""
    assert difference(got, np.zeros(2)) == difference(np.zeros(2), got) == math.inf


# Complete and independent ------------------------------------------------------------


@each(EVERY)
def test_every_equation_has_an_oracle_with_its_own_arguments(equation: Equation) -> None:
    """Same names, same order, same kinds: whatever binds the equation binds its oracle."""

    def arguments(function: Callable[..., Any]) -> list[tuple[str, Any]]:
        return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]

    assert equation.oracle.__module__ == f"encoder_spec.oracle.{equation.topic}"
    assert arguments(equation.oracle) == arguments(equation.function)


@pytest.mark.parametrize("topic", TOPICS)
def test_an_oracle_file_imports_numpy_and_the_standard_library_alone(topic: str) -> None:
    """Read from the source, so that an import inside a function counts too."""
    tree = ast.parse(Path(encoder_spec.oracle.__path__[0], f"{topic}.py").read_text(encoding="utf-8"))
    imported = [n.module or "." for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    imported += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    allowed = (set(sys.stdlib_module_names) | {"numpy"}) - {"importlib", "runpy", "subprocess"}
    assert {name.split(".")[0] for name in imported} - allowed == set()


def test_importing_all_oracles_loads_neither_torch_nor_an_implementation() -> None:
    """Seen in a fresh interpreter, so that an import by a detour counts too."""
    program = f"""
import importlib, sys
for topic in {TOPICS}:
    importlib.import_module("encoder_spec.oracle." + topic)
for name in sorted(sys.modules):
    if name.startswith("encoder_spec.oracle.") or name.split(".")[0] in ("torch", "jaxtyping"):
        print(name)
    elif name.startswith("encoder_spec.") and name != "encoder_spec.oracle":
        print(name)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == sorted(f"encoder_spec.oracle.{topic}" for topic in TOPICS)


# Equal in value ----------------------------------------------------------------------


@each(DETERMINISTIC)
def test_the_implementation_equals_the_oracle(equation: Equation) -> None:
    """Slots below it are filled as a profile fills them, on both sides."""
    check_values(equation)


@pytest.mark.parametrize(
    "draw",
    [lambda e: np.asarray(e.function(torch.empty(3, 5, 1301).double())), lambda e: e.oracle(np.empty((3, 5, 1301)))],
    ids=["implementation", "oracle"],
)
def test_noise_is_uniform_and_drawn_anew(draw: Callable[[Equation], np.ndarray]) -> None:
    """A statement about the distribution, since two generators never draw the same numbers.

    Of m = 3·5·1301 = 19515 uniform draws the empirical distribution function departs
    from u by more than δ with probability at most 2·exp(−2mδ²) (Dvoretzky, Kiefer,
    Wolfowitz; Massart): for δ = 0.025 that is 2·exp(−24.4) < 10⁻¹⁰.
    """
    u, again = draw(equations()["dropout.noise"]), draw(equations()["dropout.noise"])
    assert u.shape == (3, 5, 1301)
    assert 0 <= u.min() <= u.max() < 1
    assert abs(np.sort(u.ravel()) - (np.arange(u.size) + 0.5) / u.size).max() < 0.025
    assert (u != again).any()


def test_weights_of_scores_beyond_the_range_of_exp_are_finite() -> None:
    """exp(10⁴) is no float, yet the row (10⁴, 10⁴ − 1, −10⁴) weighs e/(e + 1), 1/(e + 1), 0."""
    S = np.array([[[[1e4, 1e4 - 1, -1e4]] * 3]])
    want = np.array([[[[math.e, 1, 0]] * 3]]) / (math.e + 1)
    assert difference(weights(S), want) <= ROUNDING
    assert difference(equations()["attention.weights"].function(as_tensor(S)), want) <= ROUNDING


# Whole encoders ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_equals_its_oracle(name: str) -> None:
    """Compared at every position: padded queries too have their equations, and some key to attend to."""
    check_encoders(PROFILES[name], examples=20)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_with_any_one_slot_replaced_equals_its_oracle(name: str) -> None:
    """Every variant is seen in every profile in which it has an effect."""
    replaced = list(neighbours(PROFILES[name]))
    assert len(replaced) >= 15
    for slot, equation in replaced:
        check_encoders(PROFILES[name].replace(**{slot: equation}), examples=3)


# Equal in gradient -------------------------------------------------------------------


@each(DIFFERENTIABLE)
def test_the_gradient_equals_the_difference_quotient_of_the_oracle(equation: Equation) -> None:
    """With respect to all inputs and parameters at once, along a random direction."""
    check_gradients(equation)


# The comparisons can fail ------------------------------------------------------------


def wrong(id: str, function: Callable[..., Any]) -> Equation:
    """Give the equation ``id`` another implementation, beside its own oracle and shapes."""
    right = equations()[id]
    function.__signature__ = inspect.signature(right.function)  # type: ignore[attr-defined]
    return Twin(right.id, right.slot, "wrong", function, twin=right.oracle)


def scaled_for_all_heads(Q: Tensor, K: Tensor) -> Tensor:
    """Divide by the root of the whole width h·d_k."""
    return Q @ K.mT / math.sqrt(Q.shape[1] * Q.shape[-1])


def softmax_over_queries(S: Tensor) -> Tensor:
    """Normalise columns instead of rows."""
    return S.softmax(dim=-2)


def heads_not_moved(X: Tensor, *, h: int) -> Tensor:
    """Split without moving the head axis: heads then hold positions."""
    return X.reshape(len(X), h, X.shape[1], -1)


def tanh_for_exact_gelu(x: Tensor) -> Tensor:
    """Approximate, to within 5·10⁻⁴."""
    return torch.nn.functional.gelu(x, approximate="tanh")


def sublayer_alone(x: Tensor, sublayer: Tensor) -> Tensor:
    """Forget x."""
    return sublayer


def sum_without_gradient_of_x(x: Tensor, sublayer: Tensor) -> Tensor:
    """Add x, but cut it off from the backward pass."""
    return x.detach() + sublayer


WRONG = [
    wrong("attention.scores", scaled_for_all_heads),
    wrong("attention.weights", softmax_over_queries),
    wrong("multihead.split", heads_not_moved),
    wrong("ffn.gelu", tanh_for_exact_gelu),
    wrong("residual", sublayer_alone),
]
WRONG_IN_GRADIENT_ALONE = wrong("residual", sum_without_gradient_of_x)


@each(WRONG)
def test_a_wrong_implementation_is_found(equation: Equation) -> None:
    """The same search as above, now for a known defect."""
    with pytest.raises(AssertionError):
        check_values(equation)


def test_a_wrong_scale_is_found_in_whole_encoders() -> None:
    """A defect deep in a layer reaches the output of the encoder."""
    with pytest.raises(AssertionError):
        check_encoders(PROFILES["bert"].replace(scores=WRONG[0]), examples=3)


def test_a_wrong_gradient_of_a_right_value_is_found() -> None:
    """The values agree, hence only the comparison of gradients can see it."""
    check_values(WRONG_IN_GRADIENT_ALONE)
    with pytest.raises(AssertionError):
        check_gradients(WRONG_IN_GRADIENT_ALONE)
