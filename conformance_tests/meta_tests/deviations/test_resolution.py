"""Which deviations a precision cannot tell from rounding."""

import math

import pytest

from conformance_tests.deviations import deviations
from conformance_tests.deviations.resolution import Resolved, on_file, unresolved


def measured(deviation: str, within: str = "bert", **effect: float) -> Resolved:
    return Resolved(deviation, within, effect)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ([measured("a", float64=1e9, float32=0.5)], ["a"]),
        ([measured("a", float64=1e9, float32=1)], []),
        ([measured("a", float64=1, float32=0.99)], ["a"]),
        ([measured("a", float64=0.99, float32=0.5)], []),
        ([measured("a", float32=0.5)], []),
        ([measured("a", float64=math.inf)], ["a"]),
        ([measured("a", float64=math.inf, float32=math.inf)], []),
        ([measured("a", float64=9, float16=7)], ["a"]),
        ([measured("a", float64=9, float32=0.5), measured("a", "vit", float64=9, float32=2)], []),
        ([measured("a", float64=9, float32=2), measured("a", "vit", float64=9, float32=0.5)], []),
        ([measured("a", float64=9, float32=0.5), measured("a", "vit", float64=9, float32=0.7)], ["a"]),
        ([measured("a", float64=0.5, float32=2), measured("a", "vit", float64=9, float32=0.7)], []),
        ([measured("b", float64=9), measured("a", float64=9), measured("c", float32=9)], ["b", "a"]),
        ([], []),
    ],
)
def test_a_deviation_is_unresolved_if_float64_tells_it_and_the_precision_in_no_profile(
    found: list[Resolved], left: list[str]
) -> None:
    """Told is what moves an output by one budget or more; what float64 does not tell changes no output at all."""
    assert unresolved(found, "float32") == left


def test_what_is_on_file_is_of_deviations_that_exist() -> None:
    """With effects for float64 and below, none negative."""
    entries = on_file()
    assert {one.deviation for one in entries} <= set(deviations())
    assert {dtype for one in entries for dtype in one.effect} == {"float64", "float32", "bfloat16", "float16"}
    assert min(effect for one in entries for effect in one.effect.values()) >= 0
