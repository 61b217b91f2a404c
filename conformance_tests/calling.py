"""How a module is called: found out from its signature, and by experiment where that leaves a choice.

Which argument is the mask, in which form and polarity, is not a matter of names: a mask
works if other content at padded positions changes no valid output.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from conformance_tests.compare import Disagreement

MASK_WORDS = ("key_padding", "padding", "pad_mask", "attention_mask", "attn_mask", "src_mask", "mask", "keep", "valid")
NO_MASKS = ("head_mask", "encoder_attention_mask", "cross", "decoder", "is_causal", "bool_masked_pos", "mask_time")
STATED = {"src_key_padding_mask": "ignore"}
"""Arguments with a documented meaning: there another polarity is a defect, and no convention to learn."""

SEGMENT_WORDS = ("token_type_ids", "segment_ids", "segments", "token_types", "segment_label")


@dataclass(frozen=True)
class MaskForm:
    """One way to hand a padding mask to a module."""

    argument: str
    values: str
    axes: str

    def render(self, keep: Tensor) -> Tensor:
        """The mask (B, n) with True = keep, as the module wants it."""
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


def mask_forms(module: nn.Module) -> Iterator[MaskForm]:
    """The ways in which a module may take a padding mask, the likeliest first."""
    names = [name for name in parameters(module) if not any(word in name for word in NO_MASKS)]
    named = [name for word in MASK_WORDS for name in names if word in name]
    for argument in dict.fromkeys(named):
        padding = "padding" in argument or "pad_" in argument
        values = ("ignore", "keep", "keep 0/1") if padding else ("keep", "keep 0/1", "ignore")
        if argument == "attention_mask":
            values = ("keep 0/1", "keep", "ignore")
        for axes in ("B n", "B 1 1 n", "B 1 n", "B n n", "B 1 n n"):
            yield from (MaskForm(argument, value, axes) for value in (*values, "additive", "keep 0.0/1.0"))


def parameters(module: nn.Module) -> Mapping[str, Parameter]:
    """The arguments of a module's forward method."""
    return signature(module.forward).parameters


def segment_argument(module: nn.Module) -> str | None:
    """The argument that takes segment ids."""
    return next((word for word in SEGMENT_WORDS if word in parameters(module)), None)


def working_mask(
    module: nn.Module, call: Callable[[MaskForm | None, bool], Tensor | None], keep: Tensor
) -> MaskForm | None:
    """The form of mask that hides padding, or the likeliest that is accepted; None if there is none.

    Args:
        module: whose signature names the arguments.
        call: the output of the padded probe with a mask in this form, or without one; with the content
            at padded positions changed or not. None if the module refuses.
        keep: the mask of the probe.
    """
    for argument in parameters(module).keys() & STATED.keys():
        return MaskForm(argument, STATED[argument], "B n")
    accepted = None
    unmasked = call(None, False)
    for form in mask_forms(module):
        output, changed = call(form, False), call(form, True)
        if output is None or changed is None or unmasked is None:
            continue
        accepted = accepted or form
        if output.shape[:2] != keep.shape or changed.shape[:2] != keep.shape:
            continue
        valid = output[keep].isfinite().all() and torch.allclose(output[keep], changed[keep], rtol=0, atol=1e-9)
        if valid and not torch.allclose(output[keep], unmasked[keep], rtol=0, atol=1e-9):
            return form
    return accepted


def batch_comes_first(call: Callable[[Tensor], Tensor | None], x: Tensor, stated: bool | None) -> bool:
    """Whether the first axis is the batch: then a change in one sample leaves the others alone.

    Args:
        call: the output for an input whose first axis is handed over as it is.
        x: an input (B, n, …).
        stated: what the module says of itself, which is tried first.
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


def hidden_states(output: Any) -> Tensor:
    """The hidden states among what a module returns.

    Raises:
        Disagreement: if there is no floating tensor among it.
    """
    found = output
    if isinstance(found, Mapping):
        found = found.get("last_hidden_state", next(iter(found.values()), None))
    if hasattr(found, "last_hidden_state"):
        found = found.last_hidden_state
    if isinstance(found, tuple | list) and found:
        found = found[0]
    if not isinstance(found, Tensor):
        raise Disagreement(
            f"the encoder returned {type(output).__name__}, but hidden states are a tensor (B, n, d_model)"
        )
    return found.to_padded_tensor(0.0) if found.is_nested else found


def tensors_in(output: Any) -> list[Tensor]:
    """Every floating tensor that a module returns, however deep."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        return [t for value in output.values() for t in tensors_in(value)]
    if isinstance(output, tuple | list):
        return [t for value in output for t in tensors_in(value)]
    return []
