"""How many slips in the rooms of the suite their fast tests notice is on file, and may not become fewer."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

import pytest

from conformance_tests.meta_tests.measurements.equivalent import EQUIVALENT_IN_ROOMS
from conformance_tests.meta_tests.measurements.mutants import SURVIVED, Row
from conformance_tests.meta_tests.measurements.mutation import Mutant, attribute, live, mutants
from conformance_tests.meta_tests.measurements.room_mutants import (
    FULL_TIER,
    LEFT_TO_THE_FULL_TIER,
    ROOMS,
    SIZE,
    RoomHunt,
    faults,
    in_full_tier,
    key_of,
    modules_of,
    on_file,
    sample,
    share,
)
from conformance_tests.numerics.rounding import search_budget

LEAST, OUTCOME = on_file()


def row(killed_by: str) -> Row:
    """What became of some mutant."""
    return Row("numerics.compare.f", "constant", "return 1", "return 2", killed_by)


# The outcome on file -------------------------------------------------------------------


def test_each_room_is_on_file_with_its_least_share() -> None:
    """`make room-mutants` measures them in this order."""
    assert list(OUTCOME) == list(LEAST) == list(ROOMS)
    assert [room for room, rows in OUTCOME.items() if len(rows) < SIZE] == []


@pytest.mark.parametrize("room", OUTCOME)
def test_what_is_on_file_is_of_modules_that_exist(room: str) -> None:
    """A module that has been renamed since is measured anew."""
    holders = {row.function.rpartition(".")[0] for row in OUTCOME[room]}
    modules = modules_of(room)
    assert [holder for holder in holders if holder not in modules and holder.rpartition(".")[0] not in modules] == []
    assert [module for module in modules if find_spec(f"conformance_tests.{module}") is None] == []


def test_no_room_falls_below_the_share_that_it_had_nor_below_the_full_tier() -> None:
    """The least share is the highest that was measured."""
    assert faults(OUTCOME, LEAST) == []


def test_what_is_said_to_be_equivalent_survives() -> None:
    """It is on file, and no test notices it."""
    survived = {key_of(row) for rows in OUTCOME.values() for row in rows if row.killed_by == SURVIVED}
    assert [key for key in EQUIVALENT_IN_ROOMS if key not in survived] == []


def test_a_room_that_falls_below_its_least_share_is_a_fault() -> None:
    """One of four mutants survives: 75 % is enough where 75 % were noticed before, and not where 76 % were."""
    rows = [row("test_compare.py::test_x")] * 3 + [row(SURVIVED)]
    assert share(rows) == 0.75
    assert faults({"numerics": rows}, {"numerics": 0.75}) == []
    assert faults({"numerics": rows}, {"numerics": 0.76}) == [
        "numerics: 75% of the mutants are noticed, 76% were before"
    ]


def test_what_only_the_full_tier_notices_is_a_fault_and_not_noticed() -> None:
    """But in modules that are left to it."""
    by_full_tier = in_full_tier(row("test_sample.py::test_x"))
    assert by_full_tier.killed_by == f"{FULL_TIER}test_sample.py::test_x"
    assert in_full_tier(row(SURVIVED)) == row(SURVIVED)
    assert share([by_full_tier, row("test_compare.py::test_x")]) == 0.5
    assert faults({"numerics": [by_full_tier]}, {}) == [
        "numerics.compare.f: no fast test notices that 'return 1' became 'return 2'; "
        f"{FULL_TIER}test_sample.py::test_x does"
    ]
    left = replace(by_full_tier, function=f"{LEFT_TO_THE_FULL_TIER[0]}.f")
    assert faults({"harness": [left]}, {}) == []


# The sample and what is planted --------------------------------------------------------


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    """What was found with ten mutants is not found anew with twenty."""
    assert sample("deviations", 20)[:10] == sample("deviations", 10)
    assert len({mutant.key for mutant in sample("deviations", 20)}) == 20


def test_what_noticed_a_mutant_is_tried_first_then_the_tests_of_its_module(request: pytest.FixtureRequest) -> None:
    """This test before the rest of its file, and the others in their order."""
    mutant = Mutant("measurements.room_mutants.f", "constant", "return 1", "return 2", "", "measurements.room_mutants")
    items = [item for item in request.session.items if item.path == request.node.path]
    hunt = RoomHunt([mutant], {mutant.key: request.node.nodeid})
    assert hunt.ordered(mutant, items) == [request.node, *(item for item in items if item is not request.node)]


class Base:
    def doubled(self, x: int) -> int:
        return 2 * x


class Derived(Base):
    def doubled(self, x: int) -> int:
        return super().doubled(x) + 1

    @property
    def half(self) -> float:
        return 0.5

    @staticmethod
    def third() -> int:
        return 3


@pytest.mark.parametrize(
    ("name", "text", "was", "becomes"),
    [
        ("doubled", "def doubled(self, x):\n    return super().doubled(x) - 1", 11, 9),
        ("doubled", "def doubled(self, x):\n    return x", 11, 5),
        ("half", "def half(self):\n    return 1.0", 0.5, 1.0),
        ("third", "def third():\n    return 4", 3, 4),
    ],
)
def test_a_mutant_is_planted_in_methods_and_properties(name: str, text: str, was: float, becomes: float) -> None:
    """2 · 5 + 1 = 11 becomes 2 · 5 − 1 = 9, and 11 again afterwards."""
    package, _, module = __name__.rpartition(".")
    mutant = Mutant(f"{module}.Derived.{name}", "example", "", "", text, module, package)

    def value() -> float:
        derived = Derived()
        return {"doubled": lambda: derived.doubled(5), "half": lambda: derived.half, "third": derived.third}[name]()

    assert value() == was
    with mutant.planted():
        assert value() == becomes
    assert value() == was


def adding(x: int) -> Callable[[int], int]:
    def add(y: int) -> int:
        return x + y

    return add


ADD_TWO = adding(2)


def test_a_mutant_is_planted_in_functions_that_were_made_before() -> None:
    """2 + 5 becomes 2 − 5 where the function has been handed out already, and is 7 again afterwards."""
    package, _, module = __name__.rpartition(".")
    text = "def adding(x):\n    def add(y):\n        return x - y\n    return add"
    mutant = Mutant(f"{module}.adding", "example", "", "", text, module, package)
    assert ADD_TWO(5) == 7
    with mutant.planted():
        assert (ADD_TWO(5), adding(3)(5)) == (-3, -2)
    assert (ADD_TWO(5), adding(3)(5)) == (7, 8)


def test_mutants_of_a_room_bear_the_module_and_its_package() -> None:
    """A function of a module in a folder is planted where it is."""
    mutant, *_ = mutants("numerics.rounding", "def search_budget(dtype):\n    return 1", "conformance_tests")
    assert (mutant.function, mutant.module) == ("numerics.rounding.search_budget", "numerics.rounding")
    assert live(attribute(mutant.package, mutant.module, "search_budget")) is search_budget
