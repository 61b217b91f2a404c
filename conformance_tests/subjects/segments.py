"""Segment ids, and the argument of an encoder that takes them.

An encoder may have a table of segments, and a call without a place for their ids, as a class around a published
model often has. Then every position is in the first segment.
"""

import re
from collections.abc import Collection

from conformance_tests.subjects.calling import SEGMENTS, Arguments, is_open
from conformance_tests.subjects.masks import NO_MASKS, tells_of_a_mask

OTHERS = re.compile(r"emb|pos|past|label|output|return|cache|hidden|len|kwargs")
"""Words in the names of arguments that hold something else."""

FIRST_ALONE = "not taken: every position is in the first one"
"""Statement of a report on an encoder without a place for them."""


def segment_argument(arguments: Arguments, no_ids: Collection[str] = ()) -> str | None:
    """Return the argument for segment ids, by its name; else the second, unless its name says otherwise.

    Args:
        arguments: those of the call.
        no_ids: arguments that are known to take something else.

    Returns:
        Its name; the name of the first with its asterisk, if that takes all inputs; None if there is no place.
    """
    if not arguments:
        return None
    first, *others = arguments
    named = next((name for name in others if SEGMENTS.search(name) and not tells_of_a_mask(name)), None)
    if named is not None:
        return named
    if first.startswith("*"):
        return first
    second = others[0] if others else ""
    may_be = bool(second) and second not in no_ids and is_open(arguments[second])
    is_another = tells_of_a_mask(second) or any(word in second for word in NO_MASKS) or OTHERS.search(second)
    return second if may_be and not is_another else None
