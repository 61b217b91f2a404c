"""Quick to start: what needs neither torch nor SymPy nor NumPy imports none of them."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "sympy", "numpy")

REPORT_IMPORTS = """
import atexit, sys
atexit.register(lambda: print("IMPORTED", *[m for m in ("torch", "sympy", "numpy") if m in sys.modules]))
"""
"""A ``sitecustomize``: every Python process that finds it says at its end what it has imported."""


def heavy_imports(folder: Path, *arguments: str, status: int = 0) -> list[str]:
    """The heavy modules that a Python process with these arguments imports, whatever it does besides."""
    (folder / "sitecustomize.py").write_text(REPORT_IMPORTS)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    said = done.stdout.splitlines()[-1].split()
    assert said[0] == "IMPORTED", done.stdout
    return [module for module in said[1:] if module in HEAVY]


def test_the_witness_sees_torch(tmp_path: Path) -> None:
    """Otherwise the tests below would pass whatever is imported."""
    assert heavy_imports(tmp_path, "-c", "import encoder_spec.attention") == ["torch", "numpy"]
    assert heavy_imports(tmp_path, "-c", "import sympy") == ["sympy"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("--help", 0),
        ("--version", 0),
        ("check --help", 0),
        ("count --help", 0),
        ("encoders", 0),
        ("equations", 0),
        ("equations norm.layer_norm", 0),
        ("equations attention.score", 2),
        ("requirements", 0),
        ("requirements ATT-3", 0),
        ("deviations", 0),
        ("deviations scores-scaled-by-d-model", 0),
        ("profiles", 0),
        ("profiles bert", 0),
        ("profiles nobody", 2),
        ("count", 0),
        ("count --profile vit --set d_model=60 --set h=4 --set n=7", 0),
        ("count --profile nobody", 2),
        ("count --set h=7", 2),
        ("nothing", 2),
        ("check --nothing", 2),
        ("check torch-post-ln --level strongest", 2),
        ("check nobody", 2),
        ("check absent.py:make", 2),
        ("check torch-post-ln --json absent/report.json", 2),
    ],
)
def test_help_lists_and_usage_errors_import_nothing_heavy(arguments: str, status: int, tmp_path: Path) -> None:
    """Torch alone takes a second, and several on a cold disk."""
    assert heavy_imports(tmp_path, "-m", "conformance_tests", *arguments.split(), status=status) == []


def test_completing_names_imports_nothing_heavy(tmp_path: Path) -> None:
    """Somebody who presses Tab does not wait."""
    code = (
        "from conformance_tests.frontends import command_line as cl; "
        "print(*map(len, map(list, (cl.known_targets(), cl.known_choices(), cl.known_equations(), "
        "cl.known_requirements(), cl.known_deviations(), cl.known_sizes()))))"
    )
    assert heavy_imports(tmp_path, "-c", code) == []


def test_importing_the_packages_imports_nothing_heavy(tmp_path: Path) -> None:
    """``check`` and ``Report`` come when they are asked for."""
    code = "import conformance_tests, encoder_spec; print(conformance_tests.__all__, encoder_spec.__version__)"
    assert heavy_imports(tmp_path, "-c", code) == []


def test_pytest_run_that_does_not_use_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    """The plugin is installed, hence loaded by every run of pytest in this environment. Others of them import NumPy."""
    (tmp_path / "test_unrelated.py").write_text(
        "def test_plugin_is_there(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('encoder-spec')\n"
        "    assert pytestconfig.getoption('--encoder') is None\n"
    )
    imported = heavy_imports(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_unrelated.py")
    assert {"torch", "sympy"}.isdisjoint(imported)


def test_names_of_the_reference_are_where_it_first_promised_them() -> None:
    """``conformance_tests.report`` and ``conformance_tests.subject`` hand on what has moved into rooms, and no more."""
    import conformance_tests
    from conformance_tests.report import Report, TargetReport  # type: ignore[import-not-found]
    from conformance_tests.subject import Subject  # type: ignore[import-not-found]

    assert (Report, TargetReport) == (conformance_tests.Report, conformance_tests.TargetReport)
    assert Subject is conformance_tests.Subject
    with pytest.raises(ImportError, match="cannot import name 'finite'"):
        from conformance_tests.report import finite  # noqa: F401
