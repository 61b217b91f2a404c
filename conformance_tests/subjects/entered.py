"""Subjects whose input may be another argument than the first one, or an entry of a structure."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from conformance_tests.computation.walking import is_even
from conformance_tests.numerics.probes import Sizes
from conformance_tests.subjects.called import CalledSubject
from conformance_tests.subjects.calling import Arguments, required, tensors_in
from conformance_tests.subjects.first_call import BATCHES, FEW_TRIALS, FirstCall, TryCall, reads
from conformance_tests.subjects.likely_inputs import LENGTH, MOST_WIDTHS, drawn, inputs_of
from conformance_tests.subjects.structured import Structure, structure_of


class EnteredSubject(CalledSubject):
    """An encoder that is entered wherever its code looks for the input.

    A framework supplies the arguments that code states, and calls code with something else than arrays.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._structure: Structure | None = None
        self._entry = ""

    @abstractmethod
    def stated_arguments(self) -> Arguments:
        """Return the arguments of the call as the code states them, in order, each with its default."""

    @abstractmethod
    def asked_of(self, argument: Any) -> Any:
        """Call the encoder with anything as its first argument."""

    @abstractmethod
    def handed_out(self, x: Tensor) -> Any:
        """Return an array as the encoder computes with it."""

    def arguments(self) -> Arguments:
        """See ``CalledSubject``: the input first, wherever it stands."""
        stated = self.stated_arguments()
        if self._structure is not None:
            stated = self._structure.arguments(stated)
        return {self._entry: stated[self._entry]} | dict(stated) if self._entry else stated

    def is_entered_by_name(self) -> bool:
        """Return whether the input stands behind another argument, or in a structure."""
        return bool(self._entry or self._structure)

    def arranged(self, positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments of a call where the code looks for them."""
        if not self.is_entered_by_name():
            return positional, named
        named = {**named, **dict(zip(self.arguments(), positional, strict=False))}
        if self._structure is None:
            return (), named
        structure, named = self._structure.made(named)
        return (structure,), named

    def conventions(self) -> dict[str, str]:
        """See ``CalledSubject``: the entries of a structure too."""
        learned = super().conventions()
        if self._structure is None:
            return learned
        return learned | {"input": "; ".join(filter(None, (str(self._structure), learned.get("input"))))}

    def tried_calls(self, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """See ``CalledSubject``: the input may be another argument than the first, or an entry of it."""
        structure = None if self._structure else self._looked_for()
        if structure is not None and structure.has_several_places:
            # An array with so many sequences would be taken apart, too, as if each were another input.
            found = self._entered_in(structure, call, sizes, trials)
            if found is not None:
                return found
            structure = None
        # No array has entries with names. Code that asks for one may take arrays as well, but then it takes them soon.
        is_named = structure is not None and structure.has_names
        found = self.tried_in_order(call, sizes, min(trials, FEW_TRIALS) if is_named else trials)
        if found is not None and structure is not None and not self._is_seen(reads_other_sequences, call, found):
            # What takes the first entry of a tuple takes the first sequence of an array, too.
            return self._entered_in(structure, call, sizes, trials) or found
        if found is not None:
            is_read = self._is_seen(reads_input, call, found)
            return found if is_read else self._entered_elsewhere(call, sizes, trials) or found
        found = None if is_named else self._entered_elsewhere(call, sizes, trials)
        return found if found or structure is None else self._entered_in(structure, call, sizes, trials)

    def tried_in_order(self, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """Return a call with the input in its place; None if none of so many goes through."""
        return super().tried_calls(call, sizes, trials)

    def _is_seen(self, shows: Callable[[TryCall, FirstCall], bool], call: TryCall, found: FirstCall) -> bool:
        """Return whether a call shows something with the weights with which the encoder came, or with noise on them.

        Zeros among them, as some begin to learn from, hide what they multiply.
        """
        if shows(call, found):
            return True
        with self.holding(self.noisy(self.fixed())):
            return shows(call, found)

    def _entered_in(self, structure: Structure, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """Return a call with the input in a structure."""
        self._structure = structure
        # Its entries have no order: any of them may be the input before much is tried with the first.
        few = self.tried_in_order(call, sizes, min(trials, FEW_TRIALS))
        found = few or self._entered_elsewhere(call, sizes, trials) or self.tried_in_order(call, sizes, trials)
        self._structure = structure if found else None
        return found

    def _entered_elsewhere(self, call: TryCall, sizes: Sizes, trials: int) -> FirstCall | None:
        """Return a call with the input in another place than the first."""
        for name in required(self.arguments()):
            self._entry = name
            found = self.tried_in_order(call, sizes, min(trials, FEW_TRIALS))
            if found is not None:
                return found
        self._entry = ""
        return None

    def _looked_for(self) -> Structure | None:
        """Return the structure that the code looks for in its first argument, if it does."""
        arguments = self.arguments()
        if required(arguments) or not arguments:
            return None  # it is called with nothing else
        likely = map(drawn, islice(inputs_of(self.held(), BATCHES[0], LENGTH), MOST_WIDTHS))
        return structure_of(next(iter(arguments)), self.asked_of, map(self.handed_out, likely))


def reads_other_sequences(call: TryCall, found: FirstCall) -> bool:
    """Return whether code reads more than the first sequence of its input: with others behind it something changes."""
    others = found.inputs.clone()
    others[1:] = found.inputs[:1]
    if torch.equal(others, found.inputs):
        return True
    returned, again = (tensors_in(call(x, found.named)) for x in (found.inputs, others))
    return not all(map(torch.equal, returned, again))


def reads_input(call: TryCall, found: FirstCall) -> bool:
    """Return whether another input gives another output: code may ignore its first argument, and read a later one.

    Where a mask hides everything, and all numbers are one, nothing can be seen of that.
    """
    if not found.named:
        return True
    returned = tensors_in(call(found.inputs, found.named))
    return all(map(is_even, returned)) or reads(call, found.inputs, found.named, returned)
