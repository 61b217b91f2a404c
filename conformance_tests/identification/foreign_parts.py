"""Parts of an encoder beside the slots of the specification: the reason why no choice of equations fits it.

Wrong outputs are a finding only where everything that makes them is understood. A relative bias, a gate,
rotary positions: an encoder with such a part computes other equations, and may do so rightly. A whole model,
with a head on top, has the encoder as a part of it.
"""

import re
from collections.abc import Sequence

from torch import Tensor

from conformance_tests.errors import Refused, Undetermined
from conformance_tests.parameters.mapping import ParameterMapping
from conformance_tests.parameters.names import common_owner, is_beside
from conformance_tests.subjects.hints import Hints
from encoder_spec.assembly import Encoder

MOST_NAMED = 6


def parts_outside(mapping: ParameterMapping, hints: Hints) -> list[str]:
    """Return the parameters that no slot has, and parts without parameters, but not what stands beside the encoder."""
    return [*(name for name in mapping.unmapped if not is_beside(name)), *hints.parts]


def listed(parts: Sequence[str]) -> str:
    """Return the first few parts, and how many more there are."""
    more = len(parts) - MOST_NAMED
    return ", ".join(parts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def encoder_inside(mapping: ParameterMapping) -> str:
    """Return the part of a whole model that holds its encoder, as code to follow the model: ``.bert``, ``[0].model``.

    Empty if the parameters of the encoder have no owner in common but the list of its layers, as in an encoder itself.
    """
    common = common_owner(name for source in mapping.sources.values() for name in source.names)
    if all(path.startswith("layers.") for path in mapping.sources):
        if common and common[-1].isdigit():
            common.pop()
        common = common[:-1]
    return "".join(f"[{part}]" if re.fullmatch(r"\d+", part) else f".{part}" for part in common)


def refused(refusal: str, mapping: ParameterMapping, hints: Hints) -> Refused:
    """Return the refusal of every call that was tried, with what in the encoder may explain it.

    Raises:
        Undetermined: if it has a decoder.
    """
    demand_no_decoder(mapping)
    parts, inside = parts_outside(mapping, hints), encoder_inside(mapping)
    if inside:
        return Refused(f"{refusal}; there is an encoder inside it: name its `{inside}`")
    if parts:
        return Refused(f"{refusal}; no slot of the specification has its {listed(parts)}")
    return Refused(f"{refusal}; no other call was found that it accepts")


def demand_hidden_states(output: Tensor, encoder: Encoder, mapping: ParameterMapping) -> None:
    """Go on only with hidden states (B, n, d_model), where a whole model returns something else.

    Raises:
        Undetermined: if it returns something else; the message names the encoder inside it, or what stands on it.
    """
    width = encoder.dimensions.d_model
    if output.ndim == 3 and output.shape[-1] == width:
        return
    found = f"it returns {tuple(output.shape)}, but hidden states are (B, n, {width})"
    inside, on_top = encoder_inside(mapping), [name for name in mapping.unmapped if is_beside(name)]
    if inside:
        raise Undetermined(f"{found}: name the encoder inside it, its `{inside}`")
    if output.ndim == 4 and output.shape[-1] == width:
        raise Undetermined(
            f"{found}: name a function that makes an encoder which returns those of its last layer alone"
        )
    if encoder.profile["head"].variant == "none" and (on_top or output.ndim == 2):
        made = f"what its {listed(on_top)} turns them into" if on_top else "one vector for each sequence"
        raise Undetermined(f"{found}, and this is {made}: name a function that makes an encoder which returns them")


def demand_nothing_outside(mapping: ParameterMapping, hints: Hints, reason: str) -> None:
    """Go on, where ``reason`` keeps an encoder from being judged, only if no part beside the parameters explains it.

    Raises:
        Undetermined: if it has such a part, or a decoder; the message names it.
    """
    demand_no_decoder(mapping)
    if hints.parts:
        others = (part for part in parts_outside(mapping, hints) if part not in hints.parts)
        raise Undetermined(f"{reason}, and no slot of the specification has its {listed([*hints.parts, *others])}")


def demand_no_decoder(mapping: ParameterMapping) -> None:
    """Go on only with an encoder by itself.

    Raises:
        Undetermined: if a decoder stands beside it.
    """
    if any(name.startswith("decoder.") for name in mapping.unmapped):
        raise Undetermined("it is an encoder with a decoder: name the encoder alone, its `.encoder`")
