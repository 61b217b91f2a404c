"""Look-alikes: other computations of the same equations, which no check may take for a deviation.

They are written like deviations, in the file of their topic, and judged like them; only the
verdict must be the other one.
"""

import importlib
from collections.abc import Callable
from inspect import getdoc
from typing import Any, TypeVar

from conformance_tests.deviations import Deviation, tuple_of
from encoder_spec.equation import Equation, equations

F = TypeVar("F", bound=Callable[..., Any])

LOOK_ALIKES: dict[str, Deviation] = {}


def look_alike(id: str, of: str | tuple[str, ...]) -> Callable[[F], F]:
    """Put another computation of an equation, or of several in one slot, among the look-alikes.

    Args:
        id: its name, in words.
        of: the equations whose values it gives, where their padding is not compared.
    """

    def register(function: F) -> F:
        known, text = tuple_of(of), (getdoc(function) or "").split("\n")[0]
        slot = equations()[known[0]].slot
        if id in LOOK_ALIKES or not text:
            raise ValueError(f"look-alike {id} is defined twice, or not described")
        LOOK_ALIKES[id] = Deviation(id, text, known, (), {slot: Equation(f"look_alike.{id}", slot, id, function)})
        return function

    return register


def look_alikes() -> dict[str, Deviation]:
    """Every look-alike, by id."""
    for topic in ("attention", "multihead", "norm", "ffn", "layer", "encoder"):
        importlib.import_module(f"{__name__}.{topic}")
    return LOOK_ALIKES
