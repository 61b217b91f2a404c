"""Ids of segments and of positions that are left out of a call, though an encoder can be given them.

A call without them should give what the published ids give, of the first segment and of the positions in order. Which
argument numbers positions shows in the calls: some numbers in order give what the call without it gives, and the same
numbers in another order do not.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from conformance_tests.computation.shown import Finding
from conformance_tests.numerics.probes import Probe
from conformance_tests.subjects.masks import is_same

NEAR = (0, 1, -1, 2, -2)
"""Numbers of the first position that are tried, besides the one that the encoder itself begins with."""


class Defaults(NamedTuple):
    """Facts on the values that an encoder takes for arguments that are left out.

    Attributes:
        findings: what is wrong with them.
        remarks: what is worth knowing of them.
        open: why it is not known whether they are right.
    """

    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    def __or__(self, other: "Defaults") -> "Defaults":
        """Return the facts of both."""
        return Defaults(self.findings + other.findings, self.remarks + other.remarks, self.open + other.open)


class Rows(NamedTuple):
    """Rows of the tables of an encoder that its defaults depend on.

    Attributes:
        segments: the number of segments.
        first_is_padding: whether the first row of their table is that of padding.
        offset: the row of the first position.
        padding: the ids that are known to stand for padding.
        place_alone: whether nothing but the rows of positions tells one token's place from another's.
    """

    segments: int = 0
    first_is_padding: bool = False
    offset: int = 0
    padding: Collection[int] = ()
    place_alone: bool = False


class NumberedCall(Protocol):
    """An encoder that is called with and without ids; see ``CalledSubject``."""

    def attempt(self, inputs: tuple[Tensor, ...], keep: Tensor | None) -> Tensor | None:
        """Return the output, or None if the encoder refuses."""

    def numbering(self, argument: str, plain: Probe, numbers: Tensor) -> Tensor | None:
        """Return the output where an argument gives each sequence its numbers, or all the same; None if refused."""


def segments_left_out(call: NumberedCall, argument: str, plain: Probe, rows: Rows) -> Defaults:
    """Return what is known of the segments where no ids are given.

    An encoder may then add no segment at all, or work them out of the tokens. One that puts all tokens into another
    segment than the first confuses them, unless the first row of its table is kept for padding.

    Args:
        call: calls the encoder.
        argument: the one that takes ids of segments.
        plain: what it is called with, the ids among it.
        rows: those of the table.
    """
    x, ids = plain.inputs
    left = call.attempt((x,), None)
    if left is None or agrees(call.attempt((x, torch.zeros_like(ids)), None), left):
        return Defaults()
    others = range(1, rows.segments)
    number = next((s for s in others if agrees(call.attempt((x, torch.full_like(ids, s)), None), left)), None)
    if number is None or rows.first_is_padding:
        instead = "something else than with zeros" if number is None else f"what it computes with {number} throughout"
        return Defaults(remarks=(f"where {argument} is left out, it computes {instead}: judged with ids of segments",))
    says = f"where {argument} is left out, every token is of segment {number}, and 0 belongs there"
    return Defaults((Finding("segment", says),))


def positions_left_out(call: NumberedCall, arguments: Iterable[str], plain: Probe, rows: Rows) -> Defaults:
    """Return what is known of the positions where an argument could number them.

    The numbers may be those of the rows of a table that keeps its first rows for padding, or count from 0 all the same.

    Args:
        call: calls the encoder.
        arguments: those that may take positions; the first that does is judged.
        plain: what it is called with.
        rows: those of the table.
    """
    left, known = call.attempt(plain.inputs, None), Defaults()
    for argument in arguments if left is not None else ():
        first = first_number(call, argument, plain, rows.offset, left)
        if first is None:
            known |= Defaults(remarks=tuple(ignored(call, argument, plain, left)))
            continue
        if mixes_sequences(call, argument, plain, first):
            says = f"where {argument} numbers the positions of each sequence, some get those of another one"
            known |= Defaults((Finding("position", says),))
        elif rows.place_alone and not moves_with_tokens(call, argument, plain, first, left):
            says = f"where {argument} numbers positions in another order, tokens do not get those of their numbers"
            known |= Defaults((Finding("position", says),))
        if first == 0 or (first == rows.offset and first - 1 in rows.padding):
            break
        where = f"where {argument} is left out, positions are what {first}, {first + 1}, … give there"
        if first < 0:
            return known | Defaults((Finding("position", f"{where}, and 0, 1, … belong there"),))
        return known | Defaults(
            open=(f"{where}, and no padding is known that the numbers before {first} are kept for",)
        )
    return known


def ignored(call: NumberedCall, argument: str, plain: Probe, left: Tensor | None) -> Iterator[str]:
    """Yield a remark on an argument that takes a number for each token, and does the same whatever these are."""
    count = torch.arange(plain.positions)
    # A mask is told by zeros, which hide or keep everything.
    if all(agrees(call.numbering(argument, plain, numbers), left) for numbers in (count.flip(0), count * 0)):
        yield f"{argument} takes a number for each token, and changes nothing"


def moves_with_tokens(call: NumberedCall, argument: str, plain: Probe, first: int, left: Tensor | None) -> bool:
    """Return whether tokens in another order give what they gave, in that order, where their numbers go with them."""
    turned = call.numbering(argument, plain.reversed(), torch.arange(plain.positions).flip(0) + first)
    return turned is None or left is None or agrees(turned.flip(1), left)


def mixes_sequences(call: NumberedCall, argument: str, plain: Probe, first: int) -> bool:
    """Return whether a sequence gets other positions where those of the others in its batch are numbered otherwise."""
    count = torch.arange(plain.positions)
    each = torch.stack([count.roll(b) for b in range(len(plain.inputs[0]))]) + first
    together, alone = call.numbering(argument, plain, each), [call.numbering(argument, plain, own) for own in each]
    if together is None or len(together) != len(each):
        return False
    return not all(one is None or agrees(together[b], one[b]) for b, one in enumerate(alone))


def first_number(call: NumberedCall, argument: str, plain: Probe, offset: int, left: Tensor | None) -> int | None:
    """Return from which number on an argument counts as the encoder does by itself; None if it numbers no positions."""
    count = torch.arange(plain.positions)
    for first in dict.fromkeys((0, offset, *NEAR)):
        if agrees(call.numbering(argument, plain, count + first), left):
            # In another order the same numbers change nothing where the argument is a mask, or is not read.
            turned = call.numbering(argument, plain, count.flip(0) + first)
            return None if turned is None or agrees(turned, left) else first
    return None


def agrees(output: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two calls went through, with one result up to rounding."""
    return output is not None and other is not None and is_same(output, other)
