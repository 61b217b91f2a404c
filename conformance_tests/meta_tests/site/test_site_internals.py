"""The guide to the internals names rooms, files and functions that exist, and the steps of a check in their order."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "chapters" / "internals.md"
if not PAGE.is_file():
    pytest.skip("the chapters come with the repository, not with a wheel", allow_module_level=True)

TEXT = PAGE.read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`([\w/]+/(?:\w+\.py)?|errors\.py|conftest\.py)`", TEXT)))
NAMED = sorted(set(re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", TEXT)))


def place(path: str) -> Path:
    """Find a path of the page: one of the specification, or else one of the suite."""
    return ROOT / path if path.startswith("encoder_spec") else ROOT / "conformance_tests" / path


def calls(path: str, function: str) -> list[str]:
    """List the names that a function calls, in the order of the text."""
    tree = ast.parse(place(path).read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    names = [n for n in ast.walk(found) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return [n.func.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset)) if isinstance(n.func, ast.Name)]


def test_the_guide_names_enough_to_find_the_way() -> None:
    """At least a file from each room that takes part in a check."""
    rooms = {path.partition("/")[0] for path in PATHS}
    parts = "frontends isolation engine diagnosis identification harness targets subjects parameters numerics reports"
    assert set(parts.split()) <= rooms
    assert len(NAMED) >= 20


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_guide_exists(path: str) -> None:
    assert place(path).exists()


@pytest.mark.parametrize(("name", "path"), NAMED)
def test_a_name_of_the_guide_is_defined_where_it_says(name: str, path: str) -> None:
    """A class or a function of the module itself."""
    tree = ast.parse(place(path).read_text(encoding="utf-8"))
    assert name in {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}


def test_the_steps_stand_in_the_order_in_which_they_are_taken() -> None:
    """The functions of the engine call each other in the order of the headings 3 to 7."""
    judging = ["loaded", "opened", "verify", "verdict_of"]
    assert [name for name in calls("engine/judging.py", "judge") if name in judging] == judging
    assert calls("engine/judging.py", "judge")[-1] == "explain"
    explained = calls("engine/judging.py", "explain")
    steps = ["smallest_failing_input", "explanations", "located"]
    assert [name for name in explained if name in steps] == steps
    assert [TEXT.index(f"`{name}`") for name in steps] == sorted(TEXT.index(f"`{name}`") for name in steps)


def test_the_outcomes_of_a_check_are_those_of_the_guide() -> None:
    """Each outcome that ``decide`` gives has its row."""
    source = place("harness/deciding.py").read_text(encoding="utf-8")
    given = set(re.findall(r'"(pass|fail|blocked|unsupported|error)"', source))
    rows = set(re.findall(r"^\|[^|]*\| `(\w+)`", TEXT, re.MULTILINE))
    assert given == rows == {"pass", "fail", "blocked", "unsupported", "error"}


def test_the_floors_are_held_where_the_guide_says() -> None:
    """A reader who follows the last row of the table finds the contracts."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "floors" in [contract["id"] for contract in settings["tool"]["importlinter"]["contracts"]]
