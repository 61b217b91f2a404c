"""How an encoder is called: found out from its signature, and by experiment where that leaves a choice.

Which argument is the mask, in which form and polarity, is not a matter of names: a mask
works if other content at padded positions changes no valid output.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import ScriptMethod, Tensor

from conformance_tests.compare import Disagreement, Unsupported

MASK_WORDS = ("key_padding", "padding", "pad_mask", "attention_mask", "attn_mask", "src_mask", "mask", "keep", "valid")
NO_MASKS = ("head_mask", "encoder_attention_mask", "cross", "decoder", "is_causal", "bool_masked_pos", "mask_time")
STATED = {"src_key_padding_mask": "ignore"}
"""Arguments with a documented meaning: there another polarity is a defect, and no convention to learn."""

OTHER_WORDS = ("embeds", "position", "past", "label", "output", "return", "cache", "hidden", "ids", "kwargs")
"""What arguments are called that hold something else than a mask."""

SEGMENT_WORDS = ("token_type_ids", "segment_ids", "segments", "token_types", "segment_label")


@dataclass(frozen=True)
class MaskForm:
    """One way to hand a padding mask to an encoder."""

    argument: str
    values: str
    axes: str

    def render(self, keep: Tensor) -> Tensor:
        """The mask (B, n) with True = keep, as the encoder wants it.

        Raises:
            Unsupported: if lengths cannot say it, because padding does not stand at the end alone.
        """
        if self.values == LENGTHS:
            if not ends_in_padding(keep):
                raise Unsupported("lengths can hide nothing but the end of a sequence")
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
        """Whether it hands over lengths, under a name that says so."""
        return self.values == LENGTHS and "len" in self.argument

    def __str__(self) -> str:
        """In words, for the report."""
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
"""What the values of a mask say."""

STATEMENTS = {
    "keep": ("keep", "keep 0/1", "keep 0.0/1.0"),
    "ignore": ("ignore",),
    "additive": ("additive",),
    LENGTHS: (LENGTHS,),
}
"""What an author says of a mask, and the values that this leaves open."""

AXES = ("B n", "B 1 1 n", "B 1 n", "B n n", "B 1 n n")


def ends_in_padding(keep: Tensor) -> bool:
    """Whether in every sequence the valid positions come first."""
    return bool((keep[..., :-1] | ~keep[..., 1:]).all())


REQUIRED = Parameter.empty

Arguments = Mapping[str, Any]
"""The arguments of a call, in order, each with its default, or ``Parameter.empty`` where one must be given."""


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """The first argument of a function, and those that it can be given by name."""
    if isinstance(function, ScriptMethod):
        return {
            a.name: a.default_value if a.has_default_value() else Parameter.empty for a in function.schema.arguments[1:]
        }
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    stated = enumerate(signature(function).parameters.items())
    return {name: p.default for place, (name, p) in stated if place == 0 or p.kind in by_name}


def input_by_name(function: Callable[..., Any]) -> bool:
    """Whether even the first argument must be given by its name."""
    if isinstance(function, ScriptMethod):
        return False
    first = next(iter(signature(function).parameters.values()), None)
    return first is not None and first.kind is Parameter.KEYWORD_ONLY


def required(arguments: Arguments) -> list[str]:
    """The arguments without which the encoder cannot be called, the input itself left out."""
    return [name for name in list(arguments)[1:] if arguments[name] is Parameter.empty]


def mask_arguments(arguments: Arguments) -> list[str]:
    """The arguments that may take a padding mask, the likeliest first.

    A mask may be left out, or must be given: an argument with a number or a flag as its default is none.
    An only required argument that says nothing by its name may be the mask too.
    """
    may_be = [name for name in list(arguments)[1:] if arguments[name] in (None, Parameter.empty)]
    told = [name for word in MASK_WORDS for name in may_be if word in name and tells_of_a_mask(name)]
    asked = required(arguments)
    return list(dict.fromkeys([*told, *(asked if len(asked) == 1 else ())]))


def tells_of_a_mask(argument: str) -> bool:
    """Whether an argument is called as masks are."""
    return any(word in argument for word in MASK_WORDS) and not any(word in argument for word in NO_MASKS)


def mask_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """The ways in which an encoder may take a padding mask, the likeliest first."""
    for argument in mask_arguments(arguments):
        padding = "padding" in argument or "pad_" in argument
        values = ("ignore", "keep", "keep 0/1") if padding else ("keep", "keep 0/1", "ignore")
        if argument == "attention_mask":
            values = ("keep 0/1", "keep", "ignore")
        for axes in AXES:
            yield from (MaskForm(argument, value, axes) for value in (*values, "additive", "keep 0.0/1.0"))


def unforeseen_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Masks under names that do not tell of one; none is taken for a mask unless it hides padding."""
    for argument in unforeseen_arguments(arguments):
        for axes in AXES[:3]:
            yield from (MaskForm(argument, value, axes) for value in ("keep", "keep 0/1", "ignore", "additive"))


def length_forms(arguments: Arguments) -> Iterator[MaskForm]:
    """Lengths in place of a mask."""
    told = [argument for argument in mask_arguments(arguments) if "len" in argument or not tells_of_a_mask(argument)]
    for argument in dict.fromkeys([*unforeseen_arguments(arguments), *told]):
        yield MaskForm(argument, LENGTHS, "B")


def stated_forms(argument: str, values: str) -> Iterator[MaskForm]:
    """What an author's word on the mask leaves open."""
    for axes in AXES if values != LENGTHS else ("B",):
        yield from (MaskForm(argument, value, axes) for value in STATEMENTS[values])


MOST_UNFORESEEN = 4
"""So many arguments with unforeseen names are tried for a mask."""


def unforeseen_arguments(arguments: Arguments) -> list[str]:
    """Arguments that may be left out, and whose names tell of neither a mask nor anything else."""
    return [
        name
        for name in list(arguments)[1:]
        if arguments[name] is None
        and not tells_of_a_mask(name)
        and not any(word in name for word in (*NO_MASKS, *SEGMENT_WORDS, *OTHER_WORDS))
    ][:MOST_UNFORESEEN]


def segment_argument(arguments: Arguments) -> str | None:
    """The argument that takes segment ids."""
    return next((word for word in SEGMENT_WORDS if word in arguments), None)


def working_mask(
    arguments: Arguments,
    call: Callable[[MaskForm | None, str], Tensor | None],
    keep: Tensor,
    forms: Iterable[MaskForm] | None = None,
) -> MaskForm | None:
    """The form of mask that hides padding, or the likeliest that is accepted; None if there is none.

    Args:
        arguments: those of the call.
        call: the output with a mask in this form, or without one: of the ``padded`` probe, of the same with
            ``other padding``, or with ``everything kept``. None if the encoder refuses, or has no such input.
        keep: the mask of the padded probe.
        forms: what to try; the forms under names that tell of a mask unless given.
    """
    for argument in arguments.keys() & STATED.keys() if forms is None else ():
        return MaskForm(argument, STATED[argument], "B n")
    accepted = None
    unmasked = call(None, "padded")
    for form in mask_forms(arguments) if forms is None else forms:
        output = call(form, "padded")
        if output is None or unmasked is None:
            continue
        accepted = accepted or (form if tells_of_a_mask(form.argument) or form.tells_lengths() else None)
        # Padding without content of its own, in an image, shows by what a mask that hides nothing changes alone.
        pairs = ((call(form, "other padding"), output), (call(form, "everything kept"), unmasked))
        known = [(a, b) for a, b in pairs if a is not None] or [(output, unmasked)]
        if any(x.shape[:2] != keep.shape for x in (output, *(a for a, _ in known))):
            continue
        hides = output[keep].isfinite().all() and all(
            torch.allclose(a[keep], b[keep], rtol=0, atol=1e-9) for a, b in known
        )
        if hides and not torch.allclose(output[keep], unmasked[keep], rtol=0, atol=1e-9):
            return form
    return accepted


def batch_comes_first(call: Callable[[Tensor], Tensor | None], x: Tensor, stated: bool | None) -> bool:
    """Whether the first axis is the batch: then a change in one sample leaves the others alone.

    Args:
        call: the output for an input whose first axis is handed over as it is.
        x: an input (B, n, …).
        stated: what the encoder says of itself, which is tried first.
    """
    changed = x.clone()
    changed[0] = x[0].flip(0) + 1 if x.is_floating_point() else x[0].flip(0)

    def independent(first: bool) -> bool:
        a, b = (call(v if first else v.transpose(0, 1)) for v in (x, changed))
        if a is None or b is None or a.ndim < 2 or a.shape[0 if first else 1] != len(x):
            return False
        a, b = (a, b) if first else (a.transpose(0, 1), b.transpose(0, 1))
        return torch.allclose(a[1:], b[1:], rtol=0, atol=1e-9) and not torch.allclose(a[0], b[0], rtol=0, atol=1e-9)

    order = (stated, not stated) if stated is not None else (True, False)
    return next((first for first in order if independent(first)), order[0])


def hidden_states(output: Any, width: int) -> Tensor:
    """The hidden states among what an encoder returns: what is called so, or the tensor (…, …, width).

    Of a list, which collects what layers return, it is the last; else the first.

    Raises:
        Disagreement: if there is no floating tensor among it.
    """
    if isinstance(output, Tensor):
        return output.to_padded_tensor(0.0) if output.is_nested else output
    named = output.get("last_hidden_state") if isinstance(output, Mapping) else None
    if named is None:
        named = getattr(output, "last_hidden_state", None)
    found = [named] if isinstance(named, Tensor) else tensors_in(output)
    if not found:
        raise Disagreement(
            f"the encoder returned {type(output).__name__}, but hidden states are a tensor (B, n, d_model)"
        )
    fitting = [t for t in found if t.ndim == 3 and t.shape[-1] == width] or found[:1]
    return fitting[-1 if isinstance(output, list) else 0]


def tensors_in(output: Any) -> list[Tensor]:
    """Every floating tensor that an encoder returns, however deep."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() and not output.is_nested else []
    if is_dataclass(output) and not isinstance(output, Mapping):
        output = vars(output)
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, tuple | list):
        return [t for value in output for t in tensors_in(value)]
    return []
