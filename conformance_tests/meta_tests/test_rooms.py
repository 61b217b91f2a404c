"""Each room of the suite says in its README what comes in, what goes out, what it may import and where to look."""

import re
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest

SUITE = Path(__file__).parents[1]
ROOMS = sorted(folder.name for folder in SUITE.iterdir() if (folder / "__init__.py").exists())
ENTRIES = ("Takes", "Gives", "May import", "Files")


def floors() -> list[set[str]]:
    """Return the rooms of every floor, from the top, as import-linter holds them."""
    settings = tomllib.loads((SUITE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == "floors")
    return [rooms for layer in layers if (rooms := {*layer.split(" | ")} & {*ROOMS, "errors"})]


def rooms_below(room: str) -> set[str]:
    """Return the rooms on the floors below a room, and the specification."""
    return {"encoder_spec"}.union(*takewhile(lambda floor: room not in floor, reversed(floors())))


def entries(readme: str) -> dict[str, str]:
    """Split a README into its entries, by what stands in bold at their beginning."""
    return dict(re.findall(r"^- \*\*(.+?):\*\* (.+)$", readme, re.MULTILINE))


def named(entry: str) -> list[str]:
    """Return what an entry sets as code, in order."""
    return re.findall(r"`([^`]+)`", entry)


def readme(room: str) -> str:
    """Return the README of a room."""
    return (SUITE / room / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("room", ROOMS)
def test_room_has_a_readme_of_about_ten_lines(room: str) -> None:
    """It has a title and the four entries, in this order."""
    lines = readme(room).splitlines()
    assert lines[0].startswith("# ")
    assert tuple(entries(readme(room))) == ENTRIES
    assert len(lines) <= 15


@pytest.mark.parametrize("room", ROOMS)
def test_readme_names_the_rooms_on_lower_floors(room: str) -> None:
    """The entry agrees with the contract ``floors`` of pyproject.toml, neither more nor less."""
    assert set(named(entries(readme(room))["May import"])) == rooms_below(room)


@pytest.mark.parametrize("room", ROOMS)
def test_files_named_in_a_readme_exist(room: str) -> None:
    """An entry without any file would help nobody; a name without a dot or a slash is one of Python's."""
    files = [name for name in named(entries(readme(room))["Files"]) if "." in name or name.endswith("/")]
    assert files
    assert [name for name in files if not (SUITE / room / name).exists()] == []


def test_readme_of_the_suite_lists_the_floors_in_order() -> None:
    """Each numbered line is one floor of the contract; the tests of the suite stand outside of the house."""
    text = (SUITE / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\d+\. (.+?): ", text, re.MULTILINE)
    assert [{name.removesuffix(".py") for name in named(line)} for line in lines] == [
        floor for floor in floors() if floor != {"meta_tests"}
    ]


def test_a_room_is_on_no_floor_below_itself() -> None:
    """Floors from the top: a, then b and c, then d. What b may import is d, not c beside it."""
    assert rooms_below("frontends") >= {"engine", "quality", "errors"}
    assert rooms_below("engine").isdisjoint({"engine", "frontends", "quality"})
    assert rooms_below("reports") == {"computation", "errors", "encoder_spec"}
