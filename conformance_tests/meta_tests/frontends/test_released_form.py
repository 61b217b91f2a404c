"""The released form: the wheel, installed alone into an empty environment, with no checkout in sight."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def call(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command where nothing points to this checkout or this environment."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "COV_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout with the build backend at hand."""
    folder = tmp_path_factory.mktemp("wheel")
    built = call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, REPOSITORY, cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("encoder_spec-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment with the wheel and what it requires, no extras; a skip without any index."""
    environment = tmp_path_factory.mktemp("environment")
    made = call(sys.executable, "-m", "venv", environment, cwd=environment)
    assert made.returncode == 0, made.stderr
    bin = environment / ("Scripts" if os.name == "nt" else "bin")
    constraints = REPOSITORY / "constraints.txt"
    quiet = ("--quiet", "--disable-pip-version-check")
    reachable = call(bin / "python", "-m", "pip", "download", "iniconfig", "--no-deps", *quiet, cwd=environment)
    if reachable.returncode:
        pytest.skip(f"pip reaches no index: {reachable.stderr.strip().splitlines()[-1]}")
    # What is imported is compiled then: most of torch never is.
    given = ("--no-compile", "--constraint", constraints, wheel)
    done = call(bin / "python", "-m", "pip", "install", *quiet, *given, cwd=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return bin


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    return tmp_path


def test_wheel_holds_both_packages_and_not_the_suites_own_tests(wheel: Path) -> None:
    """Types and licence are in; whatever needs the checkout is out."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {"encoder_spec/py.typed", "conformance_tests/py.typed"} <= set(names)
    assert {"encoder_spec/attention.py", "encoder_spec/oracle/attention.py"} <= set(names)
    assert "conformance_tests/frontends/catalogue.json" in names
    assert {"conformance_tests/test_attention.py", "conformance_tests/conftest.py"} <= set(names)
    assert [n for n in names if n.endswith("/licenses/LICENSE")]
    assert [n for n in names if n.startswith("conformance_tests/meta_tests")] == []
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"encoder_spec", "conformance_tests", "_encoder_spec_pytest.py"}


def test_installed_command_judges_torchs_encoder(installed: Path, empty: Path) -> None:
    """``encoder-spec check torch-post-ln``: conformant, at the strongest level of evidence."""
    done = call(installed / "encoder-spec", "check", "torch-post-ln", cwd=empty)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.startswith("torch-post-ln  conformant  evidence: gradient")
    assert list(empty.iterdir()) == []


def test_installed_plugin_judges_torchs_encoder(installed: Path, empty: Path) -> None:
    """``pytest --pyargs conformance_tests --encoder torch-post-ln`` passes, and does pass something."""
    done = call(
        installed / "python", "-m", "pytest", "--pyargs", "conformance_tests", "--encoder", "torch-post-ln", cwd=empty
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "deselected" not in done.stdout, "the suite's own tests are installed"


def test_installed_specification_is_readable(installed: Path, empty: Path) -> None:
    """An equation with its code; a base layer's 3,152,384 parameters; a gate that needs no test of the suite's own."""
    scores = call(installed / "encoder-spec", "equations", "attention.scores", cwd=empty)
    assert (scores.returncode, "Q @ K.mT" in scores.stdout) == (0, True), scores.stderr
    current = "from conformance_tests.frontends import catalogue; print(bool(catalogue.on_file()))"
    assert call(installed / "python", "-c", current, cwd=empty).stdout == "True\n", "lists are derived with torch"
    cost = call(installed / "encoder-spec", "count", "--profile", "torch-post-ln", cwd=empty)
    assert (cost.returncode, "3,152,384" in cost.stdout) == (0, True), cost.stderr
    table = call(installed / "encoder-spec", "traceability", cwd=empty)
    assert (table.returncode, ", 0 holes" in table.stdout) == (0, True), table.stdout + table.stderr


def test_extras_are_not_needed(installed: Path, empty: Path) -> None:
    """Nothing of the development environment came along."""
    listed = call(installed / "python", "-m", "pip", "list", "--format", "freeze", cwd=empty)
    names = {line.split("==")[0].lower() for line in listed.stdout.splitlines()}
    assert {"encoder-spec", "torch", "sympy", "pytest"} <= {name.replace("_", "-") for name in names}
    assert names & {"hypothesis", "beartype", "mypy", "ruff", "mkdocs", "transformers"} == set()
