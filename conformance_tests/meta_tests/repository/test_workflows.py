"""The workflows of the public forge run the repository's own commands, on what the package allows."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = ROOT / ".github" / "workflows"
if not WORKFLOWS.is_dir():
    pytest.skip("the workflows come with the repository, not with a source distribution", allow_module_level=True)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def jobs(name: str) -> dict[str, Any]:
    """The jobs of one workflow."""
    return dict(yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))["jobs"])


def commands(name: str) -> list[str]:
    """Return the lines that a workflow runs in a shell."""
    steps = [step for job in jobs(name).values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines()]


def cells() -> list[tuple[str, str]]:
    """Python and torch of each cell of the matrix, as the forge multiplies it out."""
    matrix = jobs("ci.yml")["test"]["strategy"]["matrix"]
    product = [{"python": p, "torch": t} for p in matrix["python"] for t in matrix["torch"]]
    chosen = [cell for cell in product if cell not in matrix["exclude"]] + matrix["include"]
    return [(cell["python"], cell["torch"]) for cell in chosen]


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_every_target_that_a_workflow_makes_exists(name: str) -> None:
    """With the variables that the Makefile reads, and no others."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    makes = [line.split(maxsplit=2) for line in commands(name) if line.startswith("make ")]
    assert makes
    assert {target for _, target, *_ in makes} <= targets
    variables = {v for _, _, *rest in makes for v in re.findall(r"\b([A-Z]+)=", " ".join(rest))}
    assert {v for v in variables if f"$({v})" not in makefile} == set()


def test_continuous_integration_makes_what_must_hold_before_a_change_lands() -> None:
    """At least what ``.ci/run`` makes."""
    calls = re.findall(r"^make (.+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    locally = [word for call in calls for word in call.split() if not word.startswith("-")]
    made = [line.split()[1] for line in commands("ci.yml") if line.startswith("make ")]
    assert len(locally) >= 3
    assert set(locally) <= set(made)


def test_the_matrix_has_the_oldest_of_both_that_the_package_allows() -> None:
    """Python from ``requires-python``, torch from the dependencies; the newest torch is tried with every Python."""
    (oldest_torch,) = [re.escape(d.partition(">=")[2]) for d in PROJECT["dependencies"] if d.startswith("torch>=")]
    oldest_python = PROJECT["requires-python"].removeprefix(">=")
    assert [c for c in cells() if c[0] == oldest_python and re.match(rf"{oldest_torch}(\.|$)", c[1])]
    pythons = {python for python, _ in cells()}
    assert {python for python, torch in cells() if torch == "newest"} == pythons
    assert {python for python, torch in cells() if torch != "newest"} == pythons
    assert len(cells()) == len(set(cells())) == 8


def test_the_shards_are_as_many_as_the_tests_are_split_into() -> None:
    """A shard that nobody runs would be tests that nobody runs."""
    job = jobs("ci.yml")["test-all"]
    (split,) = [re.search(r"--splits (\d+)", step.get("run", "")) for step in job["steps"] if "--splits" in str(step)]
    assert split is not None
    assert job["strategy"]["matrix"]["shard"] == list(range(1, int(split[1]) + 1))


def test_the_last_job_waits_for_all_others() -> None:
    """A branch rule requires that job alone."""
    every = jobs("ci.yml")
    assert set(every["passed"]["needs"]) == set(every) - {"passed"}


def test_no_job_of_a_release_may_do_more_than_its_part() -> None:
    """Who builds cannot publish a release, and who publishes cannot write to the repository."""
    allowed = {name: job["permissions"] for name, job in jobs("release.yml").items()}
    assert allowed == {
        "build": {"contents": "read", "id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
