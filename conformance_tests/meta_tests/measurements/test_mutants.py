"""Of the slips that `make mutants` makes in the specification none goes unnoticed; and the hunt itself can fail."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance_tests.meta_tests.measurements.equivalent import EQUIVALENT
from conformance_tests.meta_tests.measurements.mutants import (
    CRASHED,
    SURVIVED,
    TIMED_OUT,
    Row,
    faults,
    files_of_tests,
    fingerprints,
    on_file,
)
from conformance_tests.meta_tests.measurements.mutation import MUTATED, all_mutants, mutants
from conformance_tests.meta_tests.spec.agreement import check_values
from encoder_spec.equation import equations

ROOT = Path(__file__).parents[3]
SOURCES, ROWS = on_file()


def texts(source: str) -> list[str]:
    """What becomes of the last statement of a function, one mutant after the other."""
    return [mutant.becomes for mutant in mutants("example", source)]


# What is changed -----------------------------------------------------------------------


def test_a_sum_of_two_arguments_has_six_mutants() -> None:
    """Its sign; the other operation; either term alone; and either argument in the place of the other."""
    assert texts("def f(x: A, y: A):\n    return x + y") == [
        "return -(x + y)",
        "return x - y",
        "return x",
        "return y",
        "return y + y",
        "return x + x",
    ]


def test_a_call_loses_itself_its_order_and_its_arguments() -> None:
    """Of a method what stands before the dot is left, of a function of torch its first argument."""
    assert texts("def f(x):\n    return x.mean(dim=-1)") == [
        "return -x.mean(dim=-1)",
        "return x",
        "return x.mean()",
        "return x.mean(dim=1)",
        "return x.mean(dim=-2)",
        "return x.mean(dim=-0)",
    ]
    assert texts("def f(c, x):\n    return torch.where(c, x)") == [
        "return -torch.where(c, x)",
        "return c",
        "return torch.where(x, c)",
    ]


def test_what_is_demanded_changes_and_its_message_does_not() -> None:
    """A condition with its boundary moved, turned round, and dropped; no letter of the words."""
    assert texts('def f(n):\n    demand(n <= 2, f"{n + 1} is too long")') == [
        "pass",
        "demand(n < 2, …)",
        "demand(n > 2, …)",
        "demand(n <= 3, …)",
        "demand(n <= 1, …)",
    ]


def test_every_equation_has_mutants() -> None:
    """Even one that returns what it is given: its sign may be wrong."""
    changed = {mutant.function for mutant in all_mutants()}
    assert {f"{e.topic}.{e.function.__name__}" for e in equations().values()} - changed == set()


def test_a_mutant_runs_wherever_the_function_is_used_and_goes_without_a_trace() -> None:
    """The registry, which has the function from before, computes x − y instead of x + y, and then x + y again."""
    residual = equations()["residual"]
    (minus,) = (
        m for m in all_mutants() if m.key == ("residual.residual", "return x + sublayer", "return x - sublayer")
    )
    with minus.planted(), pytest.raises(AssertionError):
        check_values(residual)
    check_values(residual)


# The outcome on file -------------------------------------------------------------------


def test_outcome_on_file_is_of_this_code() -> None:
    """`make mutants` finds it anew, and tries first what noticed a mutant the last time."""
    assert fingerprints() == SOURCES
    assert [row.key for row in ROWS] == [mutant.key for mutant in all_mutants()]


def test_no_mutant_survives_unless_it_is_equivalent() -> None:
    """Every other one is noticed by a test."""
    assert list(faults(ROWS)) == []


def test_what_notices_a_mutant_is_still_there() -> None:
    """A test that was renamed or taken away notices nothing any more."""
    kept = {f"{file.relative_to(ROOT)}::{name}" for file in files_of_tests() for name in names_of_tests(file)}
    named = {row.killed_by.partition("[")[0] for row in ROWS}
    assert named - kept - {SURVIVED, TIMED_OUT, CRASHED} == set()


def names_of_tests(file: Path) -> list[str]:
    """The tests that a file defines."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("def ").partition("(")[0] for line in lines if line.startswith("def test_")]


def test_a_survivor_and_an_equivalent_that_is_noticed_are_faults() -> None:
    """Of the rows on file one that is noticed becomes a survivor, and all that are equivalent become noticed."""
    noticed, *_ = (row for row in ROWS if row.killed_by != SURVIVED)
    rows = [replace(row, killed_by=SURVIVED) if row is noticed else row for row in ROWS]
    assert list(faults(rows)) == [
        f"{noticed.function}: nothing notices that {noticed.line!r} became {noticed.becomes!r}"
    ]
    told = list(faults([replace(row, killed_by="test_norm.py::test_x") for row in ROWS]))
    assert told == [
        f"{function}: that something became {becomes!r} is said to be equivalent, but no such mutant survives"
        for function, becomes in EQUIVALENT
    ]


# The hunt ------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from dataclasses import asdict
from conformance_tests.meta_tests.measurements.mutants import hunted
from conformance_tests.meta_tests.measurements.mutation import all_mutants
keys, every = json.loads(sys.argv[1])
mutants = [mutant for mutant in all_mutants() if [*mutant.key] in keys]
print(json.dumps([[asdict(row) for row in hunted(mutants, tests)] for tests in every]))
"""


def hunts(rows: Sequence[Row], *every: Sequence[str]) -> list[list[Row]]:
    """Hunt the mutants of these rows anew, with each choice of tests, in a process that has done nothing else."""
    asked = json.dumps([[row.key for row in rows], every])
    run = subprocess.run([sys.executable, "-c", PROGRAM, asked], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return [[Row(**entry) for entry in found] for found in json.loads(run.stdout.splitlines()[-1])]


SUMS = [row for row in ROWS if row.function == "residual.residual"]


def test_mutants_survive_tests_that_do_not_look(tmp_path: Path) -> None:
    """A sum of zeros is zero whatever becomes of x + y but a crash: all six mutants of the residual sum survive.

    1 + 0 = 1 notices −(x + y) = −1, y = 0, y + y = 0 and x + x = 2, but neither x − y nor x.
    """
    zeros, ones = tmp_path / "test_zeros.py", tmp_path / "test_ones.py"
    example = "import torch\nfrom encoder_spec.residual import residual\n\n\ndef test_sum():\n    "
    zeros.write_text(f"{example}assert (residual(torch.zeros(1), torch.zeros(1)) == 0).all()\n")
    ones.write_text(f"{example}assert (residual(torch.ones(1), torch.zeros(1)) == 1).all()\n")
    blind, half = hunts(SUMS, [str(zeros)], [str(zeros), str(ones)])
    assert [row.killed_by for row in blind] == [SURVIVED] * 6
    assert [row.becomes for row in half if row.killed_by == SURVIVED] == ["return x - sublayer", "return x"]


def test_what_noticed_a_mutant_notices_it_still() -> None:
    """One mutant of each module is hunted anew: that in the middle of its rows."""
    noticed = [row for row in ROWS if row.killed_by not in (SURVIVED, TIMED_OUT, CRASHED)]
    groups = [[row for row in noticed if row.function.startswith(f"{module}.")] for module in MUTATED]
    sample = [rows[len(rows) // 2] for rows in groups]
    (found,) = hunts(sample, list(dict.fromkeys(row.killed_by for row in sample)))
    assert [row for row in found if row.killed_by == SURVIVED] == []
