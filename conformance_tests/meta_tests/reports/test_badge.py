"""Geometry and colour of the badge."""

from xml.etree import ElementTree

import pytest

from conformance_tests.reports.badge import COLOURS, Part, write
from conformance_tests.reports.report import Report, TargetReport

SVG = "{http://www.w3.org/2000/svg}"


def test_a_half_is_as_wide_as_its_letters_and_two_margins() -> None:
    """Five letters of 7 are 35, with 9 on either side 53; from 11 on its middle is 37.5."""
    part = Part("abcde", 11)
    assert (part.length, part.width, part.middle) == (35, 53, 37.5)


def test_the_right_half_begins_where_the_left_one_ends() -> None:
    """``encoder-spec``: 12 · 7 + 18 = 102; ``error``: 5 · 7 + 18 = 53; together 155."""
    root = ElementTree.fromstring(write(Report(0, [TargetReport("x", "error")])))
    left, right = root.findall(f"{SVG}g/{SVG}rect")
    assert (left.get("width"), right.get("x"), right.get("width"), root.get("width")) == ("102", "102", "53", "155")
    assert [t.get("x") for t in root.iter(f"{SVG}text")] == ["51.0", "128.5"]
    assert [t.get("textLength") for t in root.iter(f"{SVG}text")] == ["84", "35"]


@pytest.mark.parametrize("verdict", COLOURS)
def test_the_colour_is_that_of_the_verdict(verdict: str) -> None:
    """Green for a conformant run, red for one with a failure or an error, ochre for an open one."""
    root = ElementTree.fromstring(write(Report(0, [TargetReport("x", verdict), TargetReport("y", "conformant")])))
    assert root.findall(f"{SVG}g/{SVG}rect")[1].get("fill") == COLOURS[verdict]
    red, green, _ = (int(COLOURS[verdict][i : i + 2], 16) for i in (1, 3, 5))
    assert (red > green) == (verdict != "conformant")
