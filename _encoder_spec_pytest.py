"""The pytest plugin: ``pytest --pyargs conformance_tests --encoder TARGET``.

It adds the options and refuses values that cannot be used; ``conformance_tests/conftest.py`` does the
rest when the checks are collected. A run without ``--encoder`` imports this file and nothing else of
encoder-spec. It stands outside the packages because pytest imports it in each project that has
encoder-spec installed, also in one with its own package ``conformance_tests`` in its place.
"""

import os
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import pytest

SHARED = "ENCODER_SPEC_SHARED"
"""The environment variable by which the processes of pytest-xdist know the folder of the reports that they share."""

FOLDER = pytest.StashKey[TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("encoder-spec", "conformance of Transformer encoders")
    group.addoption(
        "--encoder",
        action="append",
        metavar="TARGET",
        help="encoder to check: package.module:attribute, file.py:attribute, or a built-in name (repeatable)",
    )
    group.addoption(
        "--encoder-profile",
        default="auto",
        metavar="NAME",
        help="profile that must hold exactly; auto (the default) accepts any variant",
    )
    group.addoption(
        "--encoder-dtype",
        metavar="DTYPE",
        help="precision to judge in: float64 (where the encoder can, the default), float32, bfloat16, float16",
    )
    group.addoption(
        "--encoder-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time limit for each step: import, making, identification, and each check",
    )
    group.addoption("--encoder-memory", type=float, metavar="GIB", help="memory that an encoder may allocate, on Linux")
    group.addoption("--encoder-device", default="cpu", metavar="DEVICE", help="device to judge on, as torch names it")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each process of pytest-xdist the folder of the reports that they share: an encoder is judged once."""
    stash = node.config.stash
    if FOLDER not in stash:
        stash[FOLDER] = TemporaryDirectory(prefix="encoder-spec-", ignore_cleanup_errors=True)
    node.workerinput[SHARED] = stash[FOLDER].name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process of pytest-xdist whole encoders, where some are named: one that it has judged is its own."""
    if not config.getoption("--encoder") or config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByEncoder(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.rpartition("[")[2]

    return ByEncoder(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete that folder."""
    if FOLDER in config.stash:
        config.stash[FOLDER].cleanup()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a target or a profile that does not exist in one line, before anything is collected."""
    os.environ.pop(SHARED, None)  # that of a run in which this one is a test
    if shared := getattr(config, "workerinput", {}).get(SHARED):
        os.environ[SHARED] = shared
    targets, profile = config.getoption("--encoder"), config.getoption("--encoder-profile")
    if not targets:
        return
    demand_our_package()
    from conformance_tests.errors import TargetError
    from conformance_tests.isolation.supervisor import demand_usable
    from encoder_spec.notation import SpecificationError

    try:
        for target in targets:
            demand_usable(target)  # what shows when it is imported is for the checks to report
        dtype, device = config.getoption("--encoder-dtype"), config.getoption("--encoder-device")
        if (profile, dtype, device) != ("auto", None, "cpu"):
            from conformance_tests.harness.question import Question

            Question(profile, dtype=dtype, device=device).demand_usable()
    except (TargetError, SpecificationError) as reason:
        raise pytest.UsageError(str(reason)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a run that names an encoder and collects no check, before any is deselected: nothing would look at it."""
    if config.getoption("--encoder") and not any("conformance_tests" in item.path.parts for item in items):
        raise pytest.UsageError("--encoder is given, but no check was collected: add `--pyargs conformance_tests`")


def demand_our_package() -> None:
    """Go on only where ``conformance_tests`` is the suite.

    Raises:
        UsageError: if another package of that name stands before it on the path.
    """
    package = find_spec("conformance_tests")
    if package is None or find_spec("conformance_tests.errors") is None:
        there = package.origin or next(iter(package.submodule_search_locations or ()), "") if package else "nowhere"
        raise pytest.UsageError(
            f"--encoder: the package conformance_tests in {there} hides that of encoder-spec; run pytest from a folder "
            "without it, or use `encoder-spec check`"
        )
