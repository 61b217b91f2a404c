"""The picture of the architecture: its boxes are the rooms, its arrows the imports, and nothing covers anything."""

import re
from itertools import pairwise

import pytest

from conformance_tests.meta_tests.site.site import ROOT, need_site

need_site()
pytestmark = pytest.mark.usefixtures("generators_on_path")

SUITE = ROOT / "conformance_tests"


def test_every_room_of_the_suite_has_a_box_with_the_words_of_its_docstring() -> None:
    from generators.architecture import parts

    rooms = {file.parent.name for file in SUITE.glob("*/__init__.py")} - {"meta_tests"}
    drawn = {name: part for name, part in parts().items() if part.package == "conformance_tests"}
    assert drawn.keys() == rooms | {"errors", "checks"}
    assert len(drawn["checks"].modules) == len(list(SUITE.glob("test_*.py")))
    for room in rooms:
        said = (SUITE / room / "__init__.py").read_text(encoding="utf-8").partition("\n")[0]
        assert drawn[room].says[1:] in said, room


def test_the_picture_shows_that_the_specification_knows_nothing_of_the_suite() -> None:
    """Oracles stand apart, and a floor of the suite rests on the one below it."""
    from generators.architecture import SPECIFICATION, arrows, parts

    drawn = arrows()
    assert {parts()[used].package for user, used in drawn if parts()[user].package == SPECIFICATION} == {SPECIFICATION}
    assert "oracle" in parts()
    assert [arrow for arrow in drawn if "oracle" in arrow] == []
    assert {("profiles", "equations"), ("engine", "diagnosis"), ("checks", "harness")} <= set(drawn)


def test_an_arrow_that_others_imply_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from generators import architecture

    used = {"engine": {"harness", "errors"}, "harness": {"subjects"}, "subjects": {"errors"}, "errors": set()}
    monkeypatch.setattr(architecture, "uses", lambda: used)
    assert architecture.arrows() == [("engine", "harness"), ("harness", "subjects"), ("subjects", "errors")]


def test_parts_that_use_each_other_in_a_circle_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from generators import architecture

    circle = {"cost": {"assembly"}, "assembly": {"profiles"}, "profiles": {"cost"}}
    monkeypatch.setattr(architecture, "uses", lambda: circle)
    with pytest.raises(LookupError, match=r"in a circle: (?=.*cost)(?=.*assembly)(?=.*profiles)"):
        architecture.arrows()


def test_a_module_of_the_specification_in_no_part_or_in_two_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from generators import architecture

    for primes in ((), ("primes", "profiles")):
        monkeypatch.setitem(architecture.GROUPS, "cost", ("cost", "steps", *primes))
        with pytest.raises(LookupError, match=r"one part with encoder_spec\.pr"):
            architecture.parts.__wrapped__()


def test_every_arrow_leads_down_and_past_the_boxes_of_the_floors_between() -> None:
    """On a floor an arrow has a place of its own: no box and no other arrow is closer than the gap."""
    from generators import architecture

    floor = architecture.floors()
    layout = architecture.Layout(floor, [*architecture.arrows(), *architecture.BY_NAME])
    assert len({stop[:2] for row in layout.rows for stop in row if stop[0] == stop[1]}) == len(architecture.parts())
    for (user, used), path in layout.paths.items():
        assert [stop[2] for stop in path] == list(range(floor[user], floor[used] - 1, -1)), (user, used)
        assert len(path) > 1, (user, used)
    for row in layout.rows:
        for left, right in pairwise(row):
            apart = layout.middle[right] - layout.middle[left]
            assert apart >= architecture.gap(left, right) - 1e-6, (left, right)


def test_arrows_that_need_not_cross_do_not_cross() -> None:
    """Given in the wrong order, the users of two parts change places."""
    from generators.architecture import Layout

    floor = {"left": 1, "right": 1, "of right": 0, "of left": 0}
    layout = Layout(floor, [("left", "of left"), ("right", "of right")])
    assert layout.crossings() == 0
    assert layout.middle["left", "left", 1] == pytest.approx(layout.middle["of left", "of left", 0])


@pytest.mark.parametrize(
    ("wanted", "gaps", "places"),
    [
        ([0, 30], [10], [0, 30]),
        ([5, 5], [10], [0, 10]),
        ([0, 20, 20, 50], [10, 10, 10], [0, 15, 25, 50]),
        ([40, 0], [10], [15, 25]),
    ],
)
def test_places_that_are_too_close_are_moved_apart_alike(
    wanted: list[float], gaps: list[float], places: list[float]
) -> None:
    """Least squares: the mean of those that touch stays where it was."""
    from generators.architecture import spread

    assert spread(wanted, gaps) == pytest.approx(places)


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        ("A sentence that a box holds", "A sentence that a box holds"),
        (
            "JSON, JUnit XML, Markdown, one HTML page and a badge, made from one report",
            "JSON, JUnit XML, Markdown, one HTML page and a badge",
        ),
        ("Words " * 12, "Words " * 12),
    ],
)
def test_a_box_leaves_out_the_last_clauses_of_a_long_sentence(says: str, shown: str) -> None:
    from generators.architecture import short

    assert short(says) == shown


def test_the_same_stands_in_words_beside_the_picture() -> None:
    from generators.architecture import arrows, parts, picture

    drawn = picture()
    items = re.findall(r"<li>(.*?)</li>", drawn.partition('class="where-narrow"')[2])
    assert len(items) == len(parts()) == drawn.count("<rect")
    assert drawn.count('class="uses"') == len(arrows())
    (harness,) = (item for item in items if item.startswith("harness: "))
    assert harness.endswith("; uses " + ", ".join(used for user, used in arrows() if user == "harness"))
