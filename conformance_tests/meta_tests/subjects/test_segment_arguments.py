"""Which argument of a call takes segment ids."""

from typing import Any

import numpy as np
import pytest

from conformance_tests.subjects.calling import REQUIRED
from conformance_tests.subjects.segments import segment_argument


@pytest.mark.parametrize(
    ("arguments", "mask", "found"),
    [
        ({"ids": REQUIRED, "mask": None, "token_type_ids": None}, "", "token_type_ids"),
        ({"ids": REQUIRED, "which": None, "segments": 3}, "", "segments"),
        ({"segment_ids": REQUIRED, "which": None}, "", "which"),
        ({"*inputs": REQUIRED, "mask": None}, "", "*inputs"),
        ({"*inputs": REQUIRED, "segments": None}, "", "segments"),
        ({"ids": REQUIRED, "which": None}, "", "which"),
        ({"ids": REQUIRED, "which": REQUIRED}, "", "which"),
        ({"ids": REQUIRED, "which": 0}, "", None),
        ({"ids": REQUIRED, "which": False}, "", None),
        ({"ids": REQUIRED, "which": None}, "which", None),
        ({"ids": REQUIRED, "mask": None, "which": None}, "", None),
        ({"ids": REQUIRED, "head_mask": None}, "", None),
        ({"ids": REQUIRED, "position_ids": None}, "", None),
        ({"ids": REQUIRED, "lengths": None}, "", None),
        ({"ids": REQUIRED, "inputs_embeds": None}, "", None),
        ({"ids": REQUIRED, "W": np.ones(2)}, "", None),
        ({"ids": REQUIRED}, "", None),
    ],
)
def test_segments_go_to_a_telling_name_else_to_the_second_argument_if_it_tells_of_nothing_else(
    arguments: dict[str, Any], mask: str, found: str | None
) -> None:
    """Behind the input; a mask, stated or told, is none, nor is a number or flag; all inputs may come as one."""
    assert segment_argument(arguments, {mask}) == found
