"""Hints: facts that an encoder states about itself, before any experiment, and facts from its author."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from encoder_spec.equation import places, slots
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import is_layer


@dataclass(frozen=True)
class Hints:
    """Choices by slot or constant, and sizes by letter, as far as the subject states them.

    Hints order the search; agreement with the specification decides it.

    Attributes:
        choices: the variant by slot, and constants by name.
        sizes: sizes by letter.
        heads: a likely number of heads, under a name that others use for other things: tried first.
        parameters: canonical letter → the subject's own name, with ``{l}`` for the layer.
        mask: the argument that takes the padding mask, and what its values mean.
        batch: the only number of sequences that a call takes, and ``length`` that of positions; 0 if it takes any.
        arguments: values that every call gets, by argument.
        stated: the choices and sizes that its author states, by name: these must turn out true.
        configured: those of the choices that a configuration or a flag states, which are held against the computation.
        output_by_input: weights whose class documents that they are output × input, as that of nn.Linear is.
        cut: of an encoder that is spread over processes, the axis along which each array is cut, by name with ``{l}``
            for the layer; −1 for one that each process holds as a whole.
        parts: parts without parameters that no slot of the specification covers, such as rotary positions.
        strides: how far each of the stages moves that samples pass.
    """

    choices: dict[str, str | float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    heads: int = 0
    parameters: dict[str, str] = field(default_factory=dict)
    mask: tuple[str, str] | None = None
    batch: int = 0
    length: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    stated: dict[str, str | float] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    configured: dict[str, str | float] = field(default_factory=dict)
    output_by_input: frozenset[str] = frozenset()
    strides: tuple[int, ...] = ()


def demand_places(choices: Iterable[str]) -> None:
    """Go on only with choices for places that there are: ``norm_final.eps``, but not ``norm_fnal.eps``.

    Raises:
        SpecificationError: for another place.
    """
    for choice in choices:
        place, _, constant = choice.rpartition(".")
        if place and place not in {*places(), *slots()} and not is_layer(choice):
            known = ", ".join(sorted(places()))
            raise SpecificationError(f"unknown place {place!r} for {constant}: choose among {known}")
