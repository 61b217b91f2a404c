"""Effects of the deviations on the outputs, in units of each precision's budget, as measured last.

``quality.resolution`` measures them. Reports in a precision below float64 give the number of deviations that cannot be
distinguished from rounding in it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("resolution.json")


@dataclass(frozen=True)
class Resolved:
    """One deviation in one profile, and how far it moves the outputs.

    Attributes:
        deviation: its id.
        within: the profile.
        effect: by precision, the largest change of an output over all probes, in units of its budget;
            infinite where the outputs are not numbers, empty where they cannot be compared at all.
    """

    deviation: str
    within: str
    effect: Mapping[str, float]


def on_file() -> list[Resolved]:
    """Read the effects that were measured last."""
    return [Resolved(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]


def unresolved(found: Sequence[Resolved], dtype: str) -> list[str]:
    """Return the deviations that change outputs by no more than rounding may in this precision, in any profile."""
    reached = {one.deviation: False for one in found if one.effect.get("float64", 0.0) >= 1}
    for one in found:
        if one.deviation in reached and one.effect.get(dtype, 0.0) >= 1:
            reached[one.deviation] = True
    return [deviation for deviation, is_told in reached.items() if not is_told]
