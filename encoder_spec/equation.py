"""Equations, and the registry of all of them.

An equation is a plain function on tensors. Its signature is its declaration:

* positional arguments flow through the encoder;
* keyword-only arguments are supplied by the encoder, by name: an array is a
  learned parameter with its symbolic shape, a number is a constant, and a
  callable is the equation that fills another slot; ``keep`` is the mask of the
  call, and ``ids`` are its tokens, for an equation into which they do not flow.

Its docstring is its text: title, source, display formula between ``$$``, side
conditions, and ``Undefined:`` for what the source leaves open. It is written
nowhere else.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar, get_args, get_origin

from jaxtyping import AbstractArray

TOPICS = (
    "embedding",
    "position",
    "rotation",
    "attention",
    "multihead",
    "norm",
    "ffn",
    "residual",
    "dropout",
    "layer",
    "encoder",
    "head",
)

F = TypeVar("F", bound=Callable[..., Any])

STACKS = {"layers": "layer", "stages": "stage"}
"""The arguments that are several equations, one behind the other, and the slot of these."""

MASK = "keep"
"""The keyword-only argument that is the mask of the call: (B, n, n) or what broadcasts to it, True = keep."""

IDS = "ids"
"""The keyword-only argument that is the first input of the call, where that are ids (B, n)."""


@dataclass(frozen=True)
class Requirement:
    """A testable statement about an equation, with a stable id.

    ``algebraic`` statements follow from the formula alone: SymPy proves them.
    """

    id: str
    equation: str
    statement: str
    algebraic: bool = False


@dataclass(frozen=True, eq=False)
class Equation:
    """One formula that can fill one slot of the encoder.

    ``to_be_declared`` marks one that most encoders compute by mistake: it is right where a profile says so, or beside
    the choices with which it was published, ``but_beside``, by slot.
    """

    id: str
    slot: str
    variant: str
    function: Callable[..., Any]
    to_be_declared: bool = field(default=False, kw_only=True)
    but_beside: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def topic(self) -> str:
        """The topic whose module, oracle, tests and page treat this equation."""
        return self.id.split(".")[0]

    def is_mistake_beside(self, choices: Mapping[str, Any]) -> bool:
        """Return whether it is taken for a mistake beside these choices, variants by slot, where no profile says so."""
        is_published = self.but_beside and all(choices.get(slot) == v for slot, v in self.but_beside.items())
        return self.to_be_declared and not is_published

    @cached_property
    def _doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @cached_property
    def title(self) -> str:
        """The first sentence of the docstring."""
        return self._doc.split(".")[0]

    @cached_property
    def source(self) -> str:
        """Where the formula comes from: the rest of the first paragraph."""
        first = self._doc.split("\n\n")[0]
        return " ".join(first.partition(".")[2].split())

    @cached_property
    def latex(self) -> str:
        """The display formula."""
        found = re.search(r"\$\$(.+?)\$\$", self._doc, re.DOTALL)
        return found[1].strip() if found else ""

    @cached_property
    def notes(self) -> list[str]:
        """The paragraphs after the formula: side conditions, then what is undefined."""
        return [" ".join(p.split()) for p in self._doc.partition("$$")[2].split("\n\n")[1:]]

    @cached_property
    def _supplied(self) -> dict[str, Any]:
        return {
            p.name: p.annotation
            for p in inspect.signature(self.function).parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    @cached_property
    def flowing(self) -> dict[str, Any]:
        """The positional arguments and their annotations."""
        return {
            p.name: p.annotation
            for p in inspect.signature(self.function).parameters.values()
            if p.kind is not inspect.Parameter.KEYWORD_ONLY
        }

    @cached_property
    def returns(self) -> Any:
        """The annotation of the result."""
        return inspect.signature(self.function).return_annotation

    @cached_property
    def parameters(self) -> dict[str, tuple[str, ...]]:
        """The learned parameters of the equation itself: name → symbolic shape."""
        return {
            name: tuple(hint.dim_str.split())
            for name, hint in self._supplied.items()
            if name not in (MASK, IDS) and isinstance(hint, type) and issubclass(hint, AbstractArray)
        }

    @cached_property
    def reads_mask(self) -> bool:
        """True if the encoder supplies the mask of the call."""
        return MASK in self.of_call

    @cached_property
    def of_call(self) -> dict[str, Any]:
        """The arrays of the call that the encoder supplies, by name, each with its annotation."""
        return {name: self._supplied[name] for name in (MASK, IDS) if name in self._supplied}

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The arguments that other equations fill."""
        return tuple(n for n, hint in self._supplied.items() if get_origin(hint) is not None)

    @cached_property
    def widths(self) -> dict[str, str]:
        """The axis that d_model means in the equation of a slot, where the slot's annotation has another one."""
        returned = {name: get_args(self._supplied[name])[-1] for name in self.slots}
        axes = {name: hint.dim_str.split()[-1] for name, hint in returned.items() if hasattr(hint, "dim_str")}
        return {name: axis for name, axis in axes.items() if axis != "d_model"}

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """The numbers that the encoder supplies."""
        return tuple(n for n, hint in self._supplied.items() if hint in (int, float))

    @property
    def oracle(self) -> Callable[..., Any]:
        """The independent NumPy evaluation of the same formula.

        Raises:
            LookupError: if nobody has written it.
        """
        module = importlib.import_module(f"encoder_spec.oracle.{self.topic}")
        try:
            return getattr(module, self.function.__name__)  # type: ignore[no-any-return]
        except AttributeError:
            raise LookupError(f"{self.id} has no oracle in {module.__name__}") from None


EQUATIONS: dict[str, Equation] = {}
REQUIREMENTS: dict[str, Requirement] = {}


def equation(
    id: str,
    *,
    slot: str,
    variant: str = "",
    to_be_declared: bool = False,
    but_beside: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Register a function as the equation ``id``, which can fill ``slot``.

    ``variant`` names it among the equations of its slot, in reports and in
    profile files; without one it is the last part of the id. For the others
    see ``Equation``.
    """

    def register(function: F) -> F:
        name = variant or id.rpartition(".")[2].replace("_", "-")
        if id in EQUATIONS or any(e.slot == slot and e.variant == name for e in EQUATIONS.values()):
            raise ValueError(f"equation {id} ({slot} = {name}) is defined twice")
        EQUATIONS[id] = Equation(id, slot, name, function, to_be_declared=to_be_declared, but_beside=but_beside or {})
        return function

    return register


def requirement(id: str, statement: str, *, algebraic: bool = False) -> Callable[[F], F]:
    """State a requirement of the equation that the decorated function computes."""

    def register(function: F) -> F:
        if id in REQUIREMENTS:
            raise ValueError(f"requirement {id} is stated twice")
        stated_for = equation_of(function)
        REQUIREMENTS[id] = Requirement(id, stated_for.id, statement, algebraic)
        return function

    return register


def equation_of(function: Callable[..., Any]) -> Equation:
    """Return the registered equation that ``function`` computes.

    Raises:
        LookupError: if the function is not a registered equation.
    """
    for candidate in EQUATIONS.values():
        if candidate.function is function:
            return candidate
    raise LookupError(f"{function!r} is not an equation: decorate it with @equation")


@cache
def load_all() -> None:
    """Import every topic, which fills the registries (and imports torch)."""
    for topic in TOPICS:
        importlib.import_module(f"encoder_spec.{topic}")


def equations() -> dict[str, Equation]:
    """Return the equations of the specification, by id."""
    load_all()
    return EQUATIONS


def earliest(ids: Iterable[str]) -> str | None:
    """Return the one of some equations that the specification evaluates first; None of none."""
    known = list(equations())

    def place(equation: str) -> tuple[int, int]:
        return TOPICS.index(equation.partition(".")[0]), known.index(equation)

    return min(ids, key=place, default=None)


def requirements() -> dict[str, Requirement]:
    """Return the requirements by id, ordered by the first equation of their series and by number."""
    load_all()
    order = {id: place for place, id in enumerate(EQUATIONS)}
    first: dict[str, int] = {}
    for r in REQUIREMENTS.values():
        series = r.id.partition("-")[0]
        first[series] = min(order[r.equation], first.get(series, len(order)))

    def place(r: Requirement) -> tuple[int, int]:
        series, _, number = r.id.partition("-")
        return first[series], int(number)

    return {r.id: r for r in sorted(REQUIREMENTS.values(), key=place)}


def variants(slot: str) -> dict[str, Equation]:
    """Return the equations that can fill ``slot``, by variant name."""
    return {e.variant: e for e in equations().values() if e.slot == slot}


@cache
def places() -> frozenset[str]:
    """Return the arguments with a suffix, such as ``norm_1``: uses of a slot with separate parameters."""
    named = {argument for e in equations().values() for argument in e.slots}
    return frozenset(named - STACKS.keys() - set(slots()))


@cache
def slots() -> tuple[str, ...]:
    """Return the names of all slots, in the order of the specification."""
    return tuple(dict.fromkeys(e.slot for e in equations().values()))
