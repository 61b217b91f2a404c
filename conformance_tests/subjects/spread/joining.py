"""The places of the pieces of each array: stated by it or its author, seen by what differs, or found by experiment.

Tensors that are distributed by torch say it themselves. Plain ones, as in code in the manner of Megatron, are told by
three facts: a copy is the same in all processes; the axis that is cut is not that of the hidden states; and where a
piece is changed in one process, the processes still return the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from conformance_tests.errors import SubjectError, Undetermined
from conformance_tests.subjects.spread.part import Cut, Piece
from encoder_spec.notation import SpecificationError

WHOLE = -1
"""Stands in the place of an axis where an array is stated to be whole in each process."""

MOST_NAMES = 3
"""So many parameters are named in a message."""


class Held(NamedTuple):
    """An array as all processes hold it, in the order of their ranks."""

    pieces: tuple[Piece, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what rank 0 holds."""
        return self.pieces[0].shape

    @property
    def is_same(self) -> bool:
        """True if all processes hold the same numbers."""
        return len({piece.digest for piece in self.pieces}) == 1 and not self.uneven

    @property
    def uneven(self) -> list[int]:
        """The axes along which the processes hold different amounts."""
        shapes = [piece.shape for piece in self.pieces]
        if len({len(shape) for shape in shapes}) > 1:
            return []
        return [axis for axis, lengths in enumerate(zip(*shapes, strict=True)) if len(set(lengths)) > 1]

    def cut(self, axis: int) -> Cut | None:
        """Return the cut along an axis; none for ``WHOLE``."""
        return None if axis == WHOLE else Cut(axis, tuple(piece.shape[axis] for piece in self.pieces))


def held_by_all(told: Sequence[Mapping[str, Piece]]) -> dict[str, Held]:
    """Return what all processes say of each array.

    Raises:
        SubjectError: if they hold arrays of different names.
    """
    for rank, names in enumerate(told):
        if others := sorted(names.keys() ^ told[0].keys()):
            raise SubjectError(
                f"rank {rank} and rank 0 hold different parameters ({', '.join(others[:MOST_NAMES])}): only encoders "
                "are judged of which every process holds a piece of each array, or all of it"
            )
    return {name: Held(tuple(names[name] for names in told)) for name in told[0]}


def axes_stated(stated: Mapping[str, int], held: Mapping[str, Held]) -> dict[str, int]:
    """Return the axes that an author states, by the name of each array.

    Raises:
        SpecificationError: if a statement names no array, or an axis that it does not have.
    """
    found: dict[str, int] = {}
    for pattern, axis in stated.items():
        form = re.compile(re.escape(pattern).replace(r"\{l\}", r"\d+"))
        named = {name: each for name, each in held.items() if form.fullmatch(name)}
        if not named:
            raise SpecificationError(f"described: cut names {pattern!r}, but no parameter is called so")
        for name, each in named.items():
            if not WHOLE <= axis < len(each.shape):
                raise SpecificationError(f"described: cut gives {name} the axis {axis}, but its shape is {each.shape}")
            found[name] = axis
    return found


def cuts_of(
    held: Mapping[str, Held], stated: Mapping[str, int], is_piece: Callable[[str], bool]
) -> dict[str, Cut | None]:
    """Return how the pieces of each array lie; None where each process holds all of it, or it says so itself.

    Args:
        held: what all processes say of each array.
        stated: the axes that its author states, by name.
        is_piece: finds out by experiment whether an array that is the same everywhere is a piece all the same.

    Raises:
        Undetermined: if an array differs between the processes, and its shape does not tell where it is cut.
    """
    axes = dict(stated)
    for name, each in held.items():
        if each.pieces[0].is_placed:
            axes[name] = WHOLE
        elif each.pieces[0].stated is not None:
            axes.setdefault(name, each.pieces[0].stated)
    left = {name: each for name, each in held.items() if name not in axes}
    width = hidden_width(each.shape for each in held.values())
    axes |= {name: axis_cut(name, each, width) for name, each in left.items() if not each.is_same}
    alike = {name: each for name, each in left.items() if each.is_same}
    # A bias of zeros is the same everywhere: it is cut like the map whose results it is added to.
    lengths = {held[name].shape[axis] for name, axis in axes.items() if axis != WHOLE}
    known: dict[str, bool] = {}
    for name, each in alike.items():
        others = [axis for axis, length in enumerate(each.shape) if length != width]
        by_length = [axis for axis in others if each.shape[axis] in lengths]
        kind = re.sub(r"\d+", "#", name)
        if not others:
            axes[name] = WHOLE
        elif len(others) == len(by_length) == 1 and lengths:
            axes[name] = by_length[0]
        else:
            if kind not in known:
                known[kind] = is_piece(name)
            axes[name] = axis_cut(name, each, width) if known[kind] else WHOLE
    return {name: each.cut(axes[name]) for name, each in held.items()}


def hidden_width(shapes: Iterable[tuple[int, ...]]) -> int:
    """Return the size that most arrays have: each map of an encoder reads or gives the hidden states."""
    counts = Counter(length for shape in shapes for length in set(shape))
    return counts.most_common(1)[0][0] if counts else 0


def axis_cut(name: str, held: Held, width: int) -> int:
    """Return the axis along which an array is cut: where the processes hold different amounts, or not of that width.

    Raises:
        Undetermined: if it is not the only one.
    """
    shape = held.shape
    possible = held.uneven or [axis for axis, length in enumerate(shape) if length != width]
    possible = possible or list(range(len(shape)))
    if len(possible) != 1:
        raise Undetermined(
            f"{name} {shape} differs between the processes, and its shape does not tell along which axis it is cut: "
            f"state it, as in described(encoder, cut={{{name!r}: 0}}), or −1 for one that each process holds as a whole"
        )
    return possible[0]
