"""Padding masks: the argument that takes one, and the meaning of its values.

Names do not decide this: a mask works if other content at padded positions changes no valid output.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.subjects.calling import SEGMENTS, Arguments, is_open, is_random_key, required

MASK_WORDS = (
    "key_padding",
    "padding",
    "pad_mask",
    "pad",
    "attention_mask",
    "attn_mask",
    "src_mask",
    "mask",
    "keep",
    "valid",
)
NO_MASKS = ("head_mask", "encoder_attention_mask", "cross", "decoder", "is_causal", "bool_masked_pos", "mask_time")
DOCUMENTED: Mapping[str, tuple[str, ...]] = {"src_key_padding_mask": ("ignore",)}
"""Arguments with a documented meaning of their values, for which another polarity is a defect and not a convention."""

ESTABLISHED = {"attention_mask": "keep", "key_padding_mask": "ignore"}
"""Meaning of true, or 1, in the packages that made an argument's name known."""

OPPOSITE = {"keep": "ignore", "ignore": "keep"}

SAYS_TRUE_HIDES = re.compile(
    r"\b(true|1s?|ones?)\b((?!\bnot\b|\bnon|\bun)[^.,;\n]){0,40}?\b(pad|padding|padded|ignored?|hidden)\b",
    re.IGNORECASE,
)
"""Words of documentation for a mask that is true where it hides: "True marks padding", "1 = ignored"."""

FOR_QUERIES = ("attn_mask",)
"""Names that torch made known for masks of queries and keys: one that does nothing is not a mask of padding ignored."""

OTHER_WORDS = ("embeds", "position", "past", "label", "output", "return", "cache", "hidden", "ids", "kwargs", "weights")
"""Words in the names of arguments that hold something other than a mask."""


Call = Callable[["MaskForm | None", str], Tensor | None]
"""The output with a mask in some form, or without one, for the ``padded`` probe, for that probe with ``other padding``,
with ``everything kept``, or so with an ``other middle``, and for its first positions, ``fewer`` than there are
sequences. None if the encoder refuses, has no such input, or accepts no call without a mask."""


@dataclass(frozen=True)
class MaskForm:
    """One way to hand a padding mask, or lengths, to an encoder.

    Attributes:
        argument: the argument that takes it.
        values: a key of ``MEANINGS``.
        axes: the axes of the array: the batch ``B``, positions ``n``, of which the last are the keys, ``h`` heads;
            ``B*h`` for one axis with the heads of one sequence after the other.
        heads: the number of heads.
        id: the id that stands at padded positions, where that is how they are told.
        samples: where it has an entry for each sample of a sound, how many the first position reads, and how many lie
            between the beginnings of two.
        is_turned: whether the encoder takes these values, which its argument's name means elsewhere, the other way
            round.
        is_counted: whether the encoder counts positions among those that the mask keeps.
    """

    argument: str
    values: str
    axes: str
    heads: int = 1
    id: int = 0
    samples: tuple[int, int] = (0, 0)
    is_turned: bool = False
    is_counted: bool = False

    def render(self, keep: Tensor, count: int = 0) -> Tensor:
        """Convert the mask (B, n) with True = keep to the form that the encoder wants.

        Args:
            keep: the mask.
            count: how many samples there are, for a mask of these.

        Raises:
            Unsupported: if it cannot be expressed so: lengths hide only the end of a sequence, a mask without a batch
                hides the same positions in all sequences, one of the positions behind the first cannot hide that, and
                one of samples neither that nor what lies before others.
        """
        if self.is_of_samples:
            keep = self._of_samples(keep, count)
        if self.values in (LENGTHS, SHARES):
            if not ends_in_padding(keep):
                raise Unsupported("lengths can hide only the end of a sequence")
            lengths = keep.sum(dim=-1)
            return lengths if self.values == LENGTHS else lengths.double() / keep.shape[-1]
        if self.spared:
            if not bool(keep[:, : self.spared].all()):
                raise Unsupported(f"a mask of the positions behind the first {self.spared} cannot hide these")
            keep = keep[:, self.spared :]
        shaped = self._shaped(keep)
        if self.values == "keep":
            return shaped
        if self.values == "ignore":
            return ~shaped
        if self.values.endswith("0/1"):
            return (~shaped if self.values.startswith("ignore") else shaped).long()
        if self.values.endswith("0.0/1.0"):
            return (~shaped if self.values.startswith("ignore") else shaped).double()
        return torch.zeros(shaped.shape, dtype=torch.float64).masked_fill(~shaped, -torch.inf)

    def _shaped(self, keep: Tensor) -> Tensor:
        """Return the mask with these axes."""
        axes = self._separate_axes if not (self.spared or self.is_of_samples) else ["B", "n"]
        if "B" not in axes and not bool((keep == keep[:1]).all()):
            raise Unsupported("a mask without a batch hides the same positions in all sequences")
        B, n = keep.shape
        key = max(i for i, axis in enumerate(axes) if axis == "n")
        sizes = [{"B": B, "n": n, "h": self.heads}.get(axis, 1) for axis in axes]
        held = [size if axis == "B" or i == key else 1 for i, (axis, size) in enumerate(zip(axes, sizes, strict=True))]
        entries = keep[:1] if "B" not in axes else keep if axes.index("B") < key else keep.T
        shaped = entries.reshape(held).expand(sizes).clone()
        return shaped.flatten(0, 1) if self.axes.startswith("B*h") else shaped

    def _of_samples(self, keep: Tensor, count: int) -> Tensor:
        """Return which samples to keep: those that the positions read which are kept, or all of a whole sound."""
        if not ends_in_padding(keep) or not bool(keep[:, 0].all()):
            raise Unsupported("a mask of samples can hide only the end of a sound")
        first, step = self.samples
        lengths = keep.sum(dim=-1)
        kept = torch.where(lengths == keep.shape[1], count, first + (lengths - 1) * step)
        return torch.arange(count) < kept[:, None]

    @property
    def _separate_axes(self) -> list[str]:
        return self.axes.replace("*", " ").split()

    @property
    def is_by_sequence(self) -> bool:
        """True if each sequence has separate entries."""
        return "B" in self._separate_axes

    @property
    def tells_padding(self) -> bool:
        """True if it says which positions are padding: with one axis more, it is a mask of scores."""
        return len(self.axes.split()) <= len(("B", "n"))

    @property
    def spared(self) -> int:
        """The number of positions at the front without an entry: those of tokens that are never padding."""
        return int(self.axes.removeprefix(BEHIND_FIRST)) if self.axes.startswith(BEHIND_FIRST) else 0

    @property
    def is_at_the_end(self) -> bool:
        """True if it hides the end of a sequence alone: an id of padding may move the positions that are counted."""
        return self.is_counted or self.values in (LENGTHS, SHARES, PADDING_ID, TAKEN_OUT) or self.is_of_samples

    @property
    def is_of_samples(self) -> bool:
        """True if it has an entry for each sample of a sound, of which a position reads many."""
        return self.axes == OF_SAMPLES

    def tells_lengths(self) -> bool:
        """Return whether it hands over lengths, under a name that says so."""
        return self.values == LENGTHS and "len" in self.argument

    def is_against_its_name(self) -> bool:
        """Return whether its values mean the opposite of what its argument's name means elsewhere."""
        opposite = OPPOSITE.get(ESTABLISHED.get(self.argument, ""), "")
        return self.values in STATEMENTS.get(opposite, ())

    def is_customary(self) -> bool:
        """Return whether callers hand a mask over in this form, by the name of its argument."""
        return self.axes == "B n" and self.values in STATEMENTS.get(ESTABLISHED.get(self.argument, ""), ())

    def as_named(self) -> "MaskForm":
        """Return the form in which callers hand it over: with the values that its argument's name means elsewhere.

        Numbers stay numbers: some encoders take nothing else.
        """
        if not self.is_against_its_name():
            return self
        _, *numbers = self.values.split()
        return replace(self, values=" ".join([ESTABLISHED[self.argument], *numbers]), is_turned=True)

    def against_its_name(self) -> str:
        """Return a remark on a mask that means the opposite of what its argument's name means elsewhere."""
        if not (self.is_turned or self.is_against_its_name()):
            return ""
        hides = "where it is true" if ESTABLISHED[self.argument] == "keep" else "where it is false"
        return f"{self.argument} hides {hides}, the opposite of what that name means elsewhere"

    def of_one_sequence(self) -> "MaskForm":
        """Return the form that one sequence without a batch gets."""
        return replace(self, axes=self.axes.removeprefix("B").strip())

    def __str__(self) -> str:
        """Describe the form in words, for the report."""
        axes = self.axes.replace("*", "·").split()
        shape = f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"
        number = f" {self.id}" if self.values == PADDING_ID else ""
        counted = "; positions are counted among those that it keeps" if self.is_counted else ""
        return f"{self.argument}: {shape}, {MEANINGS[self.values]}{number}{counted}"


LENGTHS = "lengths"
SHARES = "shares"
PADDING_ID = "padding id"
TAKEN_OUT = "taken out"

MEANINGS = {
    "keep": "boolean, True = keep",
    "ignore": "boolean, True = ignore",
    "keep 0/1": "0/1, 1 = keep",
    "keep 0.0/1.0": "0.0/1.0, 1.0 = keep",
    "ignore 0/1": "0/1, 1 = ignore",
    "ignore 0.0/1.0": "0.0/1.0, 1.0 = ignore",
    "additive": "added: 0 = keep, −∞ = ignore",
    LENGTHS: "the number of valid positions, which come first",
    SHARES: "the share of valid positions, which come first",
    PADDING_ID: "padded where the id is",
    TAKEN_OUT: "a list of sequences without padding",
}
"""Meanings of the values of a mask, in words."""

STATEMENTS = {
    "keep": ("keep", "keep 0/1", "keep 0.0/1.0"),
    "ignore": ("ignore", "ignore 0/1", "ignore 0.0/1.0"),
    "additive": ("additive",),
    LENGTHS: (LENGTHS, SHARES),
}
"""Statements of an author on a mask, and the values that each leaves open."""

FURTHER_VALUES = ("additive", "keep 0.0/1.0", "ignore 0/1", "ignore 0.0/1.0")
"""Values of masks that are tried behind booleans, and numbers that keep."""

BEHIND_FIRST = "B n-"
"""How the axes of a mask begin that has no entry for some positions at the front; their number follows."""

OF_SAMPLES = "B samples"
"""The axes of a mask with an entry for each sample of a sound."""

AXES = ("B n", "B 1 1 n", "B 1 n", "n B", "B n n", "B 1 n n", "1 n B", "n n B", "B h n n", "B*h n n", "B n 1")
"""The axes that masks have, the likeliest first."""

LIKELY_AXES = AXES[:6]
"""Those of masks (B, n), with further axes of length 1 or n, in either order of batch and positions."""


def ends_in_padding(keep: Tensor) -> bool:
    """Return whether the valid positions come first in every sequence."""
    return bool((keep[..., :-1] | ~keep[..., 1:]).all())


def mask_arguments(arguments: Arguments) -> list[str]:
    """Return the arguments that may take a padding mask, the likeliest first.

    A mask is optional without a value, or required: an argument with a number or a flag as its default is not one.
    A single required argument without a telling name may be the mask too.
    """
    may_be = [name for name in list(arguments)[1:] if is_open(arguments[name])]
    told = [name for word in MASK_WORDS for name in may_be if word in name and tells_of_a_mask(name)]
    asked = [name for name in required(arguments) if not is_random_key(name)]
    return list(dict.fromkeys([*told, *(asked if len(asked) == 1 else ())]))


def tells_of_a_mask(argument: str) -> bool:
    """Return whether the name of an argument suggests a mask, and not lengths: ``valid_length``."""
    return any(word in argument for word in MASK_WORDS) and not any(word in argument for word in (*NO_MASKS, "len"))


def tells_of_padding(argument: str) -> bool:
    """Return whether the name of an argument suggests a mask that hides padding."""
    return tells_of_a_mask(argument) and argument not in FOR_QUERIES


def mask_forms(arguments: Arguments, heads: int = 1) -> Iterator[MaskForm]:
    """Yield the ways in which an encoder may take a padding mask, the likeliest first.

    Of two arguments that hide padding the one is to be judged that takes a mask (B, n), as callers have it.
    """
    masks = mask_arguments(arguments)
    for argument, axes in [*product(masks, AXES[:1]), *product(masks, AXES[1:])]:
        padding = "padding" in argument or "pad" in argument.split("_")
        values = ("ignore", "keep", "keep 0/1") if padding else ("keep", "keep 0/1", "ignore")
        if argument == "attention_mask":
            values = ("keep 0/1", "keep", "ignore")
        count = heads if "h" in axes else 1
        yield from (MaskForm(argument, value, axes, count) for value in (*values, *FURTHER_VALUES))


def likely_forms(argument: str) -> Iterator[MaskForm]:
    """Yield the likeliest masks of each sequence: every pair of axes and values costs calls beside another mask."""
    yield from (MaskForm(argument, value, axes) for axes in LIKELY_AXES for value in ("ignore", "keep", "keep 0/1"))


def unforeseen_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield masks under names that do not suggest one; each must hide padding to be taken for a mask."""
    for argument in unforeseen_arguments(arguments):
        for axes in AXES[:4]:
            yield from (MaskForm(argument, value, axes) for value in ("keep", "keep 0/1", "ignore", "additive"))


def forms_for_all(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield masks (n, n) that hide the same positions in every sequence."""
    for argument in mask_arguments(arguments):
        yield from (MaskForm(argument, value, "n n") for value in ("keep", "keep 0/1", "ignore", "additive"))


def forms_behind_first(arguments: Arguments, spared: int) -> Iterator[MaskForm]:
    """Yield masks of all positions but so many, where class tokens and registers are expected."""
    for argument in mask_arguments(arguments):
        yield from (MaskForm(argument, value, f"{BEHIND_FIRST}{spared}") for value in ("keep", "ignore"))


def forms_of_samples(arguments: Arguments, first: int, step: int) -> Iterator[MaskForm]:
    """Yield masks with an entry for each sample of a sound, which hide its end.

    Args:
        arguments: those of the call.
        first: how many samples the first position reads.
        step: how many lie between the beginnings of two.
    """
    for argument in mask_arguments(arguments):
        for values in ("keep 0/1", "keep", "ignore"):
            yield MaskForm(argument, values, OF_SAMPLES, samples=(first, step))


def length_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield lengths in place of a mask, and what is called so as shares of the longest one, as speech comes with."""
    told = [argument for argument in mask_arguments(arguments) if not tells_of_a_mask(argument)]
    told += [name for name, default in list(arguments.items())[1:] if "len" in name and is_open(default)]
    for argument in dict.fromkeys([*unforeseen_arguments(arguments), *told]):
        yield MaskForm(argument, LENGTHS, "B")
    yield from (MaskForm(argument, SHARES, "B") for argument in dict.fromkeys(told) if "len" in argument)


def stated_forms(argument: str, values: str) -> Iterator[MaskForm]:
    """Yield the forms that an author's statement on the mask leaves open."""
    for axes in AXES if values != LENGTHS else ("B",):
        yield from (MaskForm(argument, value, axes) for value in STATEMENTS[values])


MOST_UNFORESEEN = 4
"""Number of arguments with unforeseen names that are tried for a mask."""


def unforeseen_arguments(arguments: Arguments) -> list[str]:
    """Return the arguments that are tried for a mask though their names do not suggest one."""
    return telling_nothing(arguments)[:MOST_UNFORESEEN]


def telling_nothing(arguments: Arguments) -> list[str]:
    """Return the optional arguments whose names suggest neither a mask nor anything else."""
    return [
        name
        for name in list(arguments)[1:]
        if arguments[name] is None
        and not tells_of_a_mask(name)
        and not SEGMENTS.search(name)
        and not is_random_key(name)
        and not any(word in name for word in (*NO_MASKS, *OTHER_WORDS))
    ]


REFUSED, ACCEPTED, CHANGES, ACTS, HIDES = range(5)
"""Responses of an encoder to a mask: it refuses it, takes it, gives something else with it, does so as with a mask, or
hides padding by it."""


def response(form: MaskForm, call: Call, keep: Tensor, unmasked: Tensor | None, hides_nothing: bool = True) -> int:
    """Return how an encoder responds to a mask in this form, whose output without one is ``unmasked``.

    What hides padding is told by a mask that keeps everything where it is not sure that none ``hides_nothing``.
    A mask that keeps everything changes nothing, and one that does not changes something. An argument that behaves so
    is a mask, whatever its name, even if it does not hide padding.
    """
    output, kept = call(form, "padded"), call(form, "everything kept")
    is_told = unmasked is not None and hides_nothing
    bare = unmasked if is_told else kept
    if output is None or bare is None:
        return REFUSED
    # Padding without content, in an image, shows only in the change against a mask that hides nothing.
    pairs = ((call(form, "other padding"), output), (kept, bare))
    known = [(a, b) for a, b in pairs if a is not None] or [(output, bare)]
    if any(x.shape[:2] != keep.shape for pair in known for x in (output, *pair)):
        # What gives something else than hidden states though everything is kept selects, or pools.
        return REFUSED if unmasked is not None and unmasked.shape[:2] == keep.shape else ACCEPTED
    is_finite = bool(output[keep].isfinite().all())
    hides = is_finite and all(is_same(a[keep], b[keep]) for a, b in known)
    changes = is_finite and not is_same(output[keep], bare[keep])
    if hides and changes:
        is_mask = is_told or not hides_nearly_all(form, call, kept)
        return HIDES if is_mask and not is_cut_by_positions(form, call) else CHANGES
    if kept is None or (is_told and not is_same(kept, bare)):
        return CHANGES if changes else ACCEPTED
    # What shows at hidden positions alone hides the rows of queries; where keys are hidden the others change.
    hides_rows = is_finite and not changes and not is_same(output, kept)
    if hides_rows or (changes and is_told):
        return ACTS
    return CHANGES if changes else ACCEPTED


def says_that_true_hides(documentation: str, argument: str) -> bool:
    """Return whether documentation says of an argument that it is true where it hides."""
    _, *behind = re.split(rf"\b{re.escape(argument)}\b", documentation)
    return any(SAYS_TRUE_HIDES.search(NEXT_ENTRY.split(text)[0][:LONGEST_ENTRY]) for text in behind)


NEXT_ENTRY = re.compile(r"\n\s*\n|\n\s*\w+\s*[:(]")
"""Where the entry of an argument ends in a docstring."""

LONGEST_ENTRY = 200
"""So many characters of an entry are read: two or three lines, behind which it is about something else as a rule."""


def as_handed_over(form: MaskForm, call: Call, documentation: str = "") -> MaskForm:
    """Return the form in which callers hand over a mask that hides; its own form if the encoder refuses theirs.

    Tokenizers give numbers, 1 = keep. An encoder that refuses them, or documents the opposite, follows another
    convention: in torch, booleans are true where positions are ignored.
    """
    named = form.as_named()
    if named is form or (form.values == "ignore" and says_that_true_hides(documentation, form.argument)):
        return form
    given = replace(named, values="keep 0/1") if named.values == "keep" else named
    return named if call(given, "padded") is not None else form


def is_cut_by_positions(form: MaskForm, call: Call) -> bool:
    """Return whether an encoder refuses a mask of each sequence where there are more sequences than positions.

    A mask (n, n) for all sequences is often cut to size, ``mask[:n, :n]``, which leaves a smaller batch as it is.
    """
    return form.is_by_sequence and call(None, "fewer") is not None and call(form, "fewer") is None


def hides_nearly_all(form: MaskForm, call: Call, kept: Tensor | None) -> bool:
    """Return whether, under a mask that keeps everything, the position in the middle shows at one position at most.

    Lengths of 1 do that, and they hide padding.
    """
    other = call(form, "other middle")
    if other is None or kept is None or other.shape != kept.shape:
        return False
    return sum(not is_same(a, b) for a, b in zip(other.unbind(1), kept.unbind(1), strict=True)) <= 1


def is_same(one: Tensor, other: Tensor) -> bool:
    """Return whether two results of order 1 differ by rounding alone; those of different shapes do not."""
    near = max(SAME, UNITS * torch.finfo(one.dtype).eps)
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=near)


SAME, UNITS = 1e-9, 1000
"""Rounding is below the first number in float64, and below so many units in any precision, of results of order 1."""


def tried_masks(
    arguments: Arguments,
    call: Call,
    keep: Tensor,
    forms: Iterable[MaskForm] | None = None,
    *,
    heads: int = 1,
    documented: Mapping[str, tuple[str, ...]] = DOCUMENTED,
    is_customary: bool = False,
    hides_nothing: bool = True,
    documentation: str = "",
) -> tuple[MaskForm | None, bool]:
    """Return the form that hides padding, else one that acts as masks do, else the likeliest that is accepted.

    With it comes whether it hides padding, which says that the form is right. None if there is no mask. An argument
    that takes an array (B, n), and in no meaning of its values hides padding by it, or does nothing with it, is not
    asked for other arrays: callers hand it the customary one.

    Args:
        arguments: those of the call.
        call: calls the encoder.
        keep: the mask of the padded probe.
        forms: the forms to try; by default those under names that suggest a mask.
        heads: the number of heads.
        documented: by argument, what the values of an array (B, n) may be, as the encoder's class documents them.
        is_customary: whether an encoder that accepts an array (B, n) takes it for values of B sequences of n positions:
            not if these sizes are also those of other axes.
        hides_nothing: whether the call without a mask hides nothing for sure: an argument that it needs may be one.
        documentation: what the author says of the arguments.
    """
    for argument in arguments.keys() & DOCUMENTED.keys() if forms is None else ():
        return MaskForm(argument, DOCUMENTED[argument][0], "B n"), True
    unmasked = call(None, "padded")
    for argument in arguments.keys() & documented.keys() if forms is None else ():
        said = [MaskForm(argument, values, "B n") for values in documented[argument]]
        found, _, form = max((response(f, call, keep, unmasked, hides_nothing), -i, f) for i, f in enumerate(said))
        if found >= CHANGES:
            return form, True
    accepted, acting = None, None
    by_sequence: dict[str, int] = {}
    as_customary: dict[str, MaskForm] = {}
    for form in mask_forms(arguments, heads) if forms is None else forms:
        if is_customary and form.axes != "B n" and by_sequence.get(form.argument) in (ACCEPTED, ACTS):
            continue
        found = response(form, call, keep, unmasked, hides_nothing)
        if form.axes == "B n":
            by_sequence[form.argument] = max(found, by_sequence.get(form.argument, REFUSED))
        if found == HIDES and forms is not None:
            return form, True
        if found == HIDES:
            # One that adds its mask adds the customary one as well, which it takes and which hides nothing then.
            added = as_customary.get(form.argument) if form.values == "additive" else None
            return added or as_handed_over(form, call, documentation), True
        if found in (CHANGES, ACTS) and form.is_customary():
            as_customary.setdefault(form.argument, form)
        if found == ACTS and (forms is not None or tells_of_a_mask(form.argument)):
            # What is added to all features at a padded position is seen by no norm, and shows there alone.
            acting = acting or form
        elif found != REFUSED and (tells_of_padding(form.argument) or form.tells_lengths()):
            accepted = accepted or form
    return acting or accepted, False
