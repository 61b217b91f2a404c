"""The gate: the tree has no hole, and each kind of hole is found when it is planted, it and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from jaxtyping import Float
from torch import Tensor

import conformance_tests.test_norm
import encoder_spec.oracle.norm
from conformance_tests.frontends.command_line import main
from conformance_tests.harness.checks import REGISTRY
from conformance_tests.quality.traceability import holes, rows
from encoder_spec.equation import EQUATIONS, REQUIREMENTS, Equation, Requirement
from encoder_spec.proof import PROOFS

WHOLE = """Planted norm. Nobody 2000, eq. (1).

$$ y = x $$

Undefined: nothing.
"""


def whole(x: Tensor, *, gamma: Float[Tensor, "d_model"]) -> Tensor:
    return x * gamma


def with_a_strange_axis(x: Tensor, *, gamma: Float[Tensor, "d_strange"]) -> Tensor:
    return x * gamma


def oracle(x: Any) -> Any:
    return x


def any_test() -> None:
    """What is planted as a test; it never runs."""


Plant = Callable[..., None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Plant an equation with everything that it needs, but for what the arguments take away; all is undone later."""
    rows()

    def planted(
        doc: str = WHOLE,
        function: Callable[..., Any] = whole,
        oracle: Callable[..., Any] | None = oracle,
        requirement: bool = True,
        test: bool = True,
        algebraic: bool = True,
        proof: bool = True,
    ) -> None:
        monkeypatch.setattr(function, "__doc__", doc)
        monkeypatch.setattr(function, "__name__", "planted")
        monkeypatch.setitem(EQUATIONS, "norm.planted", Equation("norm.planted", "norm", "planted", function))
        if oracle:
            monkeypatch.setattr(encoder_spec.oracle.norm, "planted", oracle, raising=False)
        if requirement:
            stated = Requirement("NORM-9001", "norm.planted", "It does nothing.", algebraic)
            monkeypatch.setitem(REQUIREMENTS, "NORM-9001", stated)
        if test:
            demonstrations = [*REGISTRY.demonstrations, (("NORM-9001",), any_test)]
            monkeypatch.setattr(REGISTRY, "demonstrations", demonstrations)
        if proof:
            monkeypatch.setitem(PROOFS, "NORM-9001", lambda: None)

    return planted


def test_the_tree_has_no_hole() -> None:
    """Every equation has its oracle, source, formula and requirements, and every requirement its test and proof."""
    assert holes() == []
    assert len(rows()) == len(EQUATIONS) > 40


def test_equation_with_everything_makes_no_hole(plant: Plant) -> None:
    """The control: what is found below is what was taken away."""
    plant()
    assert holes() == []
    assert "norm.planted" in [row.equation.id for row in rows()]


HOLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "oracle": ({"oracle": None}, ["norm.planted has no oracle"]),
    "formula": (
        {"doc": WHOLE.replace("$$", "")},
        ["norm.planted has no formula", "norm.planted has no statement of what is undefined"],
    ),
    "source": ({"doc": WHOLE.replace(" Nobody 2000, eq. (1).", "")}, ["norm.planted has no source"]),
    "undefined": (
        {"doc": WHOLE.replace("Undefined: nothing.", "")},
        ["norm.planted has no statement of what is undefined"],
    ),
    "docstring": (
        {"doc": ""},
        [f"norm.planted has no {w}" for w in ("title", "source", "formula", "statement of what is undefined")],
    ),
    "axis": (
        {"function": with_a_strange_axis},
        ["norm.planted has a parameter with the axis d_strange, which notation.py does not define"],
    ),
    "requirement": (
        {"requirement": False, "test": False, "proof": False},
        ["norm.planted has no requirement"],
    ),
    "test": ({"test": False}, ["NORM-9001 has no test"]),
    "proof": ({"proof": False}, ["NORM-9001 is algebraic, but has no proof"]),
    "algebraic": ({"algebraic": False}, ["there is a proof of NORM-9001, which is not an algebraic requirement"]),
    "statement of what is tested": (
        {"requirement": False},
        [
            "norm.planted has no requirement",
            "a test names the requirement NORM-9001, which does not exist",
            "there is a proof of NORM-9001, which is not an algebraic requirement",
        ],
    ),
}


@pytest.mark.parametrize("missing", HOLES)
def test_what_is_missing_is_found_and_nothing_else(missing: str, plant: Plant) -> None:
    """One thing is taken away from a planted equation; exactly the lines that say so appear."""
    taken, found = HOLES[missing]
    plant(**taken)
    assert holes() == found


@pytest.mark.parametrize("place", [conformance_tests.test_norm, "conformance_tests.meta_tests.spec.test_norm"])
def test_test_without_requirement_is_found(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the checks and beside the demonstrations alike; a helper that is no test is left alone."""
    rows()
    module = __import__(place, fromlist=["_"]) if isinstance(place, str) else place
    monkeypatch.setattr(module, "test_planted", any_test, raising=False)
    monkeypatch.setattr(module, "helper_planted", any_test, raising=False)
    assert holes() == [f"{module.__name__}.test_planted names no requirement"]


def test_command_fails_at_a_hole(plant: Plant) -> None:
    """``encoder-spec traceability`` names the hole, counts it, and exits with 1."""
    plant(oracle=None)
    result = CliRunner().invoke(main, ["traceability"])
    assert (result.exit_code, "HOLE norm.planted has no oracle" in result.output) == (1, True)
    assert result.output.rstrip().endswith(", 1 holes")
