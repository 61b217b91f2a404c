"""Padding masks: the argument that takes one, and the meaning of its values.

Names do not decide this: a mask works if other content at padded positions changes no valid output.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance_tests.errors import Unsupported
from conformance_tests.subjects.calling import REQUIRED, SEGMENTS, Arguments, required

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
STATED = {"src_key_padding_mask": "ignore"}
"""Arguments with a documented meaning, for which another polarity is a defect and not a convention."""

ESTABLISHED = {"attention_mask": "keep", "key_padding_mask": "ignore"}
"""Meaning of true, or 1, in the packages that made an argument's name known."""

OTHER_WORDS = ("embeds", "position", "past", "label", "output", "return", "cache", "hidden", "ids", "kwargs")
"""Words in the names of arguments that hold something other than a mask."""


@dataclass(frozen=True)
class MaskForm:
    """One way to hand a padding mask to an encoder."""

    argument: str
    values: str
    axes: str

    def render(self, keep: Tensor) -> Tensor:
        """Convert the mask (B, n) with True = keep to the form that the encoder wants.

        Raises:
            Unsupported: if lengths cannot express it, because padding does not stand only at the end.
        """
        if self.values == LENGTHS:
            if not ends_in_padding(keep):
                raise Unsupported("lengths can hide only the end of a sequence")
            return keep.sum(dim=-1)
        n = keep.shape[-1]
        shaped = {
            "B n": keep,
            "B 1 n": keep[:, None],
            "B 1 1 n": keep[:, None, None],
            "B n n": keep[:, None].expand(-1, n, -1),
            "B 1 n n": keep[:, None, None].expand(-1, -1, n, -1),
            "n B": keep.T,
        }[self.axes].clone()
        if self.values == "keep":
            return shaped
        if self.values == "ignore":
            return ~shaped
        if self.values == "keep 0/1":
            return shaped.long()
        if self.values == "keep 0.0/1.0":
            return shaped.double()
        return torch.zeros(shaped.shape, dtype=torch.float64).masked_fill(~shaped, -torch.inf)

    def tells_lengths(self) -> bool:
        """Return whether it hands over lengths, under a name that says so."""
        return self.values == LENGTHS and "len" in self.argument

    def against_its_name(self) -> str:
        """Return a remark on a mask that means the opposite of what its argument's name means elsewhere."""
        elsewhere = ESTABLISHED.get(self.argument)
        opposite = {"keep": "ignore", "ignore": "keep"}.get(elsewhere or "", "")
        if self.values not in STATEMENTS.get(opposite, ()):
            return ""
        hides = "where it is true" if opposite == "ignore" else "where it is false"
        return f"{self.argument} hides {hides}, the opposite of what that name means elsewhere"

    def __str__(self) -> str:
        """Describe the form in words, for the report."""
        shape = f"({self.axes.replace(' ', ', ')})"
        return f"{self.argument}: {shape if self.values != LENGTHS else '(B,)'}, {MEANINGS[self.values]}"


LENGTHS = "lengths"

MEANINGS = {
    "keep": "boolean, True = keep",
    "ignore": "boolean, True = ignore",
    "keep 0/1": "0/1, 1 = keep",
    "keep 0.0/1.0": "0.0/1.0, 1.0 = keep",
    "additive": "added: 0 = keep, −∞ = ignore",
    LENGTHS: "the number of valid positions, which come first",
}
"""Meanings of the values of a mask, in words."""

STATEMENTS = {
    "keep": ("keep", "keep 0/1", "keep 0.0/1.0"),
    "ignore": ("ignore",),
    "additive": ("additive",),
    LENGTHS: (LENGTHS,),
}
"""Statements of an author on a mask, and the values that each leaves open."""

AXES = ("B n", "B 1 1 n", "B 1 n", "n B", "B n n", "B 1 n n")


def ends_in_padding(keep: Tensor) -> bool:
    """Return whether the valid positions come first in every sequence."""
    return bool((keep[..., :-1] | ~keep[..., 1:]).all())


def mask_arguments(arguments: Arguments) -> list[str]:
    """Return the arguments that may take a padding mask, the likeliest first.

    A mask is optional without a value, or required: an argument with a number or a flag as its default is not one.
    A single required argument without a telling name may be the mask too.
    """
    may_be = [name for name in list(arguments)[1:] if arguments[name] in (None, REQUIRED)]
    told = [name for word in MASK_WORDS for name in may_be if word in name and tells_of_a_mask(name)]
    asked = required(arguments)
    return list(dict.fromkeys([*told, *(asked if len(asked) == 1 else ())]))


def tells_of_a_mask(argument: str) -> bool:
    """Return whether the name of an argument suggests a mask."""
    return any(word in argument for word in MASK_WORDS) and not any(word in argument for word in NO_MASKS)


def mask_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield the ways in which an encoder may take a padding mask, the likeliest first."""
    for argument in mask_arguments(arguments):
        padding = "padding" in argument or "pad" in argument.split("_")
        values = ("ignore", "keep", "keep 0/1") if padding else ("keep", "keep 0/1", "ignore")
        if argument == "attention_mask":
            values = ("keep 0/1", "keep", "ignore")
        for axes in AXES:
            yield from (MaskForm(argument, value, axes) for value in (*values, "additive", "keep 0.0/1.0"))


def unforeseen_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield masks under names that do not suggest one; each must hide padding to be taken for a mask."""
    for argument in unforeseen_arguments(arguments):
        for axes in AXES[:4]:
            yield from (MaskForm(argument, value, axes) for value in ("keep", "keep 0/1", "ignore", "additive"))


def length_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Yield lengths in place of a mask."""
    told = [argument for argument in mask_arguments(arguments) if "len" in argument or not tells_of_a_mask(argument)]
    for argument in dict.fromkeys([*unforeseen_arguments(arguments), *told]):
        yield MaskForm(argument, LENGTHS, "B")


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
        and not any(word in name for word in (*NO_MASKS, *OTHER_WORDS))
    ]


def working_mask(
    arguments: Arguments,
    call: Callable[[MaskForm | None, str], Tensor | None],
    keep: Tensor,
    forms: Iterable[MaskForm] | None = None,
) -> MaskForm | None:
    """Return the form of ``tried_masks``, whether it hides padding or not."""
    return tried_masks(arguments, call, keep, forms)[0]


def tried_masks(
    arguments: Arguments,
    call: Callable[[MaskForm | None, str], Tensor | None],
    keep: Tensor,
    forms: Iterable[MaskForm] | None = None,
) -> tuple[MaskForm | None, bool]:
    """Return the form that hides padding, else one that acts as masks do, else the likeliest that is accepted.

    A mask that keeps everything changes nothing, and one that does not changes something. An argument that behaves so
    is a mask, whatever its name, even if it does not hide padding. None if there is no such argument. With it comes
    whether it hides padding, which says that the form is right.

    Args:
        arguments: those of the call.
        call: the output with a mask in this form, or without one, for the ``padded`` probe, for that probe with
            ``other padding``, or with ``everything kept``. None if the encoder refuses, has no such input, or
            accepts no call without a mask.
        keep: the mask of the padded probe.
        forms: the forms to try; by default those under names that suggest a mask.
    """
    for argument in arguments.keys() & STATED.keys() if forms is None else ():
        return MaskForm(argument, STATED[argument], "B n"), True
    accepted, acting = None, None
    unmasked = call(None, "padded")
    for form in mask_forms(arguments) if forms is None else forms:
        output = call(form, "padded")
        kept = call(form, "everything kept")
        bare = kept if unmasked is None else unmasked
        if output is None or bare is None:
            continue
        accepted = accepted or (form if tells_of_a_mask(form.argument) or form.tells_lengths() else None)
        # Padding without content, in an image, shows only in the change against a mask that hides nothing.
        pairs = ((call(form, "other padding"), output), (kept, bare))
        known = [(a, b) for a, b in pairs if a is not None] or [(output, bare)]
        if any(x.shape[:2] != keep.shape for x in (output, *(a for a, _ in known))):
            continue
        hides = output[keep].isfinite().all() and all(
            torch.allclose(a[keep], b[keep], rtol=0, atol=1e-9) for a, b in known
        )
        changes = not torch.allclose(output[keep], bare[keep], rtol=0, atol=1e-9)
        if hides and changes:
            return form, True
        if changes and kept is not None and unmasked is not None and torch.allclose(kept, unmasked, rtol=0, atol=1e-9):
            acting = acting or form
    return acting or accepted, False
