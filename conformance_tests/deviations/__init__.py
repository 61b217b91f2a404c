"""The catalogue of deviations: wrong equations in a slot, many of them as people have shipped them.

A deviation is written like an equation, in the file of its topic: a function with the
arguments of the equation that it replaces, decorated with ``@deviation``. Its
docstring says in one line what it computes. Nothing else is needed: the suite runs it as
a subject to show that it is noticed, and a diagnosis compares encoders with it.

An equation that is right in one profile is wrong in another: a legitimate variant, or
another constant, stands in the catalogue under the equation that it is mistaken for.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import getdoc
from typing import Any, TypeVar

from encoder_spec.assembly import Encoder
from encoder_spec.equation import TOPICS, Equation, equations
from encoder_spec.notation import SpecificationError
from encoder_spec.profiles import Profile, constant_word

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Deviation:
    """A wrong choice for one slot, place or constant.

    Attributes:
        id: its name, in words.
        definition: what it computes, in one line.
        of: the equations that it is mistaken for, by id; all fill the same slot.
        noticed_by: requirements, at least one of which must fail in an encoder that has it.
        replaces: what it puts into a profile: an equation by slot or place, or numbers by constant, or several in turn.
        evidence: public threads, written ``owner/repository#number``, or where it is commonly seen.
        ranks: the number of processes over which an encoder is spread that may have it; 0 if any encoder may.
    """

    id: str
    definition: str
    of: tuple[str, ...]
    noticed_by: tuple[str, ...]
    replaces: Mapping[str, Any]
    evidence: tuple[str, ...] = field(default=())
    ranks: int = 0

    @property
    def slot(self) -> str:
        """The slot of the equations that it is mistaken for."""
        return equations()[self.of[0]].slot

    @property
    def page(self) -> str:
        """The place in the site that explains it: on the page of the topic of what it is mistaken for."""
        return f"wrong-{equations()[self.of[0]].topic}.html#{self.id}"

    @property
    def is_variant(self) -> bool:
        """True if it is right elsewhere: a legitimate variant, or other constants, where another was declared."""
        return all(not isinstance(e, Equation) or e in equations().values() for e in self.replaces.values())

    @property
    def is_seen_undeclared(self) -> bool:
        """True if an encoder that has it is wrong whatever it is meant to be."""
        return not self.is_variant

    @property
    def to_be_declared(self) -> tuple[Equation, ...]:
        """Its equations that are right where they are declared, and mistakes elsewhere."""
        return tuple(e for e in self.replaces.values() if isinstance(e, Equation) and e.to_be_declared)

    def applies(self, profile: Profile) -> bool:
        """Return whether a profile makes the choice that this deviation gets wrong."""
        places = [self.slot, *(place for place in self.replaces if place in profile.equations)]
        chosen = {e.id for place in places for e in profile.choice(place) if isinstance(e, Equation)}
        return not chosen.isdisjoint(self.of) and self.within(profile).choices() != profile.choices()

    def within(self, profile: Profile) -> Profile:
        """Return the profile with this deviation in it."""
        instead: dict[str, Any] = {key: self._instead(profile, key) for key in self.replaces}
        return profile.replace(**instead)

    def _instead(self, profile: Profile, key: str) -> Any:
        """Return what stands in a place: where layers take turns, in those that choose what it is taken for."""
        wrong = self.replaces[key]
        if key not in profile.in_turn or not isinstance(wrong, Equation):
            return wrong
        return [wrong if isinstance(e, Equation) and e.id in self.of else e for e in profile.choice(key)]


@dataclass(frozen=True, eq=False)
class LateTurns(Deviation):
    """Layers that take their choices in turn, all by the same number of layers too late."""

    late: int = 1

    @property
    def is_variant(self) -> bool:
        """False: they are the same choices, in other layers."""
        return False

    @property
    def is_seen_undeclared(self) -> bool:
        """See ``Deviation``: layers may take turns in this way on purpose."""
        return False

    def applies(self, profile: Profile) -> bool:
        """See ``Deviation``: only where layers take turns."""
        return bool(profile.in_turn) and super().applies(profile)

    def within(self, profile: Profile) -> Profile:
        """See ``Deviation``."""
        turns: dict[str, Any] = {
            constant_word(key) if key in profile.constants else key: [*taken[-self.late :], *taken[: -self.late]]
            for key, taken in profile.in_turn.items()
        }
        return profile.replace(**turns)


DEVIATIONS: dict[str, Deviation] = {}


def deviation(
    id: str,
    of: str | tuple[str, ...],
    noticed_by: str | tuple[str, ...],
    evidence: str | tuple[str, ...] = (),
    place: str = "",
    definition: str = "",
    ranks: int = 0,
) -> Callable[[F], F]:
    """Put a wrong equation into the catalogue.

    Args:
        id: its name, in words.
        of: the equation that it is mistaken for, or several in the same slot.
        noticed_by: requirements, at least one of which must fail.
        evidence: where it was seen.
        place: the one use of the slot that is wrong, such as ``norm_2``; by default every use.
        definition: what it computes, if the function's docstring is another equation's text.
        ranks: the number of processes over which an encoder is spread that may have it; 0 if any encoder may.
    """

    def register(function: F) -> F:
        known = tuple_of(of)
        slot = equations()[known[0]].slot
        legitimate = next((e for e in equations().values() if e.function is function), None)
        wrong = legitimate or Equation(f"deviation.{id}", slot, id, function)
        text = definition or (getdoc(function) or "").split("\n")[0]
        enter(Deviation(id, text, known, tuple_of(noticed_by), {place or slot: wrong}, tuple_of(evidence), ranks))
        return function

    return register


def wrong_constants(
    id: str,
    definition: str,
    of: str | tuple[str, ...],
    noticed_by: str | tuple[str, ...],
    evidence: str | tuple[str, ...] = (),
    **constants: float,
) -> None:
    """Put wrong constants of an equation into the catalogue."""
    enter(Deviation(id, definition, tuple_of(of), tuple_of(noticed_by), constants, tuple_of(evidence)))


def enter(new: Deviation) -> None:
    """Put a deviation into the catalogue.

    Raises:
        ValueError: if its id is taken or it has no definition.
    """
    if new.id in DEVIATIONS or not new.definition:
        raise ValueError(f"deviation {new.id} is defined twice, or not described")
    DEVIATIONS[new.id] = new


def tuple_of(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one or several as a tuple."""
    return (given,) if isinstance(given, str) else given


@cache
def deviations() -> dict[str, Deviation]:
    """Return the deviations by id, in the order of the topics."""
    for topic in TOPICS:
        importlib.import_module(f"{__name__}.{topic}")
    return DEVIATIONS


def deviation_named(id: str) -> Deviation:
    """Return the deviation with this id.

    Raises:
        SpecificationError: if there is none.
    """
    if id not in deviations():
        raise SpecificationError(f"there is no deviation {id!r}; `encoder-spec deviations` lists them")
    return DEVIATIONS[id]


NOT_DEFINED = (SpecificationError, RuntimeError, IndexError, ValueError, KeyError, TypeError)
"""What a wrong equation may raise where it has no value."""


def with_deviations(encoder: Encoder, wrong: Iterable[Deviation]) -> Encoder:
    """Return the specification's encoder with wrong equations in some slots."""
    profile = encoder.profile
    for d in wrong:
        profile = d.within(profile)
    return replace(encoder, profile=profile)
