"""Segment ids: which argument of an encoder takes them, if any does.

An encoder may have a table of segments, and a call without a place for their ids, as a class around a published
model often has. Then every position is in the first segment.
"""

import re

from conformance_tests.subjects.calling import REQUIRED, SEGMENTS, Arguments
from conformance_tests.subjects.masks import NO_MASKS, tells_of_a_mask

OTHERS = re.compile(r"emb|pos|past|label|output|return|cache|hidden|len|kwargs")
"""What arguments are called that hold something else."""

FIRST_ALONE = "not taken: every position is in the first one"
"""What a report says of an encoder without a place for them."""


def segment_argument(arguments: Arguments, mask: str = "") -> str | None:
    """The argument that takes segment ids, by its name; else the second, if it does not say that it is another.

    Args:
        arguments: those of the call.
        mask: the argument that is stated to be the mask.

    Returns:
        Its name; the name of the first with its asterisk, if that takes all inputs; None if there is no place.
    """
    first, *others = arguments
    named = next((name for name in others if SEGMENTS.search(name)), None)
    if named is not None:
        return named
    if first.startswith("*"):
        return first
    second = others[0] if others else ""
    may_be = bool(second) and second != mask and arguments[second] in (None, REQUIRED)
    is_another = tells_of_a_mask(second) or any(word in second for word in NO_MASKS) or OTHERS.search(second)
    return second if may_be and not is_another else None
