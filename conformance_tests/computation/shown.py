"""An encoder as its computation shows it: its parts, and departures and facts for any value and in any place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isinf
from typing import NamedTuple

import torch
from torch import Tensor

from conformance_tests.computation.graph import Codes, Graph
from conformance_tests.computation.images import ImageAxes
from encoder_spec.equation import variants

READ_AS_REALS = ("vectors", "features", "features-without-bias")
"""Variants of the embedding that read numbers at every position, where an encoder may do without positions."""


Kept = float | Tensor | list[Tensor]
"""A constant as an encoder keeps it: a number, several, or those of each layer."""


class Finding(NamedTuple):
    """Something that is computed otherwise than in any equation of its slot, or in one that has to be declared.

    ``variant`` is that one: elsewhere it is a mistake.
    """

    slot: str
    says: str
    variant: str = ""


class Ending(NamedTuple):
    """The part of a model that returns the hidden states, and what is read behind it alone: parameters, arguments."""

    part: str
    behind: frozenset[str]
    arguments: frozenset[str] = frozenset()


class Kind(NamedTuple):
    """A table of which rows are added to tokens or vectors, for segments or another kind of ids.

    Attributes:
        order: the place of the argument that numbers the rows; infinite where none does.
        factor: by what the rows are multiplied.
        table: its codes.
        rows: the numbers of those that are added.
        unlearned: the row that is not learned, if there is one.
        where: the line of the look-up.
    """

    order: float
    factor: float
    table: Tensor
    rows: list[int]
    unlearned: int | None = None
    where: str = ""


@dataclass(frozen=True)
class Facts:
    """Facts of a computation that a judgement needs.

    Attributes:
        findings: departures that the computation shows by itself.
        unlearned: by canonical path, the row of a table that is not learned: torch's ``padding_idx``.
        unread: what no slot explains, in words. With it wrong outputs alone do not show a departure.
        turned: how vectors are turned by angles, as rotary positions do, if they are. A deviation that reproduces it is
            not a mistake then.
        kept: by slot, its constant as the encoder keeps it, where that is the one that belongs there, but rounded.
    """

    findings: tuple[Finding, ...] = ()
    unlearned: Mapping[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    turned: str = ""
    kept: Mapping[str, Kept] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class Remarks:
    """Words about a part of an encoder, beside what it is.

    Attributes:
        findings: what departs from every equation of its slot.
        unread: what could not be explained, in words.
        foreign: parts that no slot has, in words: with them an encoder computes other equations, and may do so rightly.
    """

    findings: list[Finding] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def take(self, others: "Remarks") -> None:
        """Add what is said of another part, each remark once."""
        self.findings = list(dict.fromkeys([*self.findings, *others.findings]))
        self.unread = list(dict.fromkeys([*self.unread, *others.unread]))
        self.foreign = list(dict.fromkeys([*self.foreign, *others.foreign]))


@dataclass(eq=False)
class EncoderReading(Remarks):
    """An encoder, as far as its computation shows it.

    Attributes:
        graph: the computation.
        codes: the codes of each canonical parameter, by path.
        widths: the width of a network that is narrower than that of another layer, by the paths filled up with zeros.
        numbers: the numbers of canonical parameters that the encoder does not keep as parameters, by path.
        choices: the variant by slot, and constants by name, as ``Profile.replace`` takes them.
        sizes: sizes by letter.
        kept: by slot, its constant as the encoder keeps it, where that is the one that belongs there, but rounded.
        unlearned: by path, the row of a table that is not learned.
        norms_are_read: whether each norm is one of a variant, with an ε that stands in the computation.
        departing: the names of the parameters of norms that depart: they may have shapes that no path has.
        within_attention: the names of the parameters between what attentions read and what they give.
        foreign_input: what no slot has of what enters the first layer: the layers behind it can be judged all the same.
        unread_input: what of ``unread`` is said of what enters the first layer.
        made_for: for how many positions a table is known that the call makes; 0 if it makes none.
        interleaved: whether the columns of a head do not stand side by side in the array that holds all maps.
        placed: the numbers of the positions that are added to the call's.
        position_axis: the shape of the sum of tokens and positions, and along which of its axes positions are added.
        is_part: whether it is one sublayer alone, and no encoder.
        images: the axes of the images, or signals, whose patches it maps, and the shape of an array of them.
        is_masked_by_ids: whether the ids decide which scores are hidden.
        kinds: the tables of segments, and of other kinds of ids beside the tokens.
        is_rounded: whether it reads constants that it keeps in less than float64, other than a single one.
        registers_are_placed: whether what is added to the tokens is added to the registers, too.
        filled: the positions at which zeros stand beside the tokens; none without such.
        stages: widths and strides of the stages that the samples of a sound pass.
        tail: the finding that the stream passes through operations behind the last sublayer, if it does.
    """

    graph: Graph
    codes: Codes[str] = field(default_factory=Codes)
    widths: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, Tensor] = field(default_factory=dict)
    choices: dict[str, str | float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    unlearned: dict[str, int] = field(default_factory=dict)
    norms_are_read: bool = False
    departing: set[str] = field(default_factory=set)
    within_attention: set[str] = field(default_factory=set)
    foreign_input: list[str] = field(default_factory=list)
    unread_input: list[str] = field(default_factory=list)
    made_for: int = 0
    interleaved: bool = False
    placed: Tensor | None = None
    position_axis: tuple[torch.Size, int] | None = None
    is_part: bool = False
    images: tuple[ImageAxes, tuple[int, ...]] | None = None
    is_masked_by_ids: bool = False
    kinds: list[Kind] = field(default_factory=list)
    is_rounded: bool = False
    registers_are_placed: bool = False
    tail: Finding | None = None
    filled: frozenset[int] = frozenset()
    stages: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def is_entered(self) -> bool:
        """Return whether it is read what enters the first layer."""
        given = self.choices.get("input") == "given"
        embedded = bool({"E", "W_patch", "W_conv"} & self.codes.keys()) or bool(self.stages) or self.places_vectors
        return "N" in self.sizes and (given or embedded)

    @property
    def leaves_segments_open(self) -> bool:
        """Return whether several tables give one row to every token, and no argument shows which has the segments."""
        return len(self.kinds) > 1 and all(isinf(kind.order) for kind in self.kinds)

    @property
    def fits_slots(self) -> bool:
        """Return whether it is read from the input on, and has no part in its layers that no slot covers."""
        return self.is_entered and not self.foreign

    @property
    def layers_are_read(self) -> bool:
        """Return whether nothing is left open in its layers, whatever enters the first one."""
        return "N" in self.sizes and not self.foreign and set(self.unread) <= set(self.unread_input)

    @property
    def places_vectors(self) -> bool:
        """Return whether it adds positions to vectors, or to mapped features; a set of those needs none."""
        return self.choices.get("embedding") in READ_AS_REALS and "position" in self.choices

    def equation(self, slot: str) -> str:
        """Return the equation in a slot; the first one of it where none is read."""
        known = variants(slot)
        return known.get(str(self.choices.get(slot)), next(iter(known.values()))).id

    def learned(self) -> set[str]:
        """Return the names of the parameters that are not frozen and from which the output is computed."""
        reached = self.graph.ancestors(self.graph.output)
        return {v.name for v in reached if v.operation == "parameter" and v.learned}

    def reached(self, kind: str = "parameter") -> set[str]:
        """Return the names of the parameters from which the output is computed, or of leaves of another kind."""
        return {v.name for v in self.graph.ancestors(self.graph.output) if v.operation == kind}
