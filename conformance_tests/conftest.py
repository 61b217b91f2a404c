"""The checks under pytest: one item for each requirement and encoder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance_tests.harness.checks import REGISTRY, Check
from conformance_tests.reports.report import Result

DEFAULT_ENCODERS = ("reference", "torch-post-ln", "torch-pre-ln")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every check for every encoder, once for each requirement that applies."""
    if "run" in metafunc.fixturenames:
        encoders = metafunc.config.getoption("--encoder") or DEFAULT_ENCODERS
        metafunc.parametrize("run", encoders, indirect=True, scope="session")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the suite's own tests unread with ``--encoder``: they say nothing about that encoder."""
    own = Path(__file__).parent / "meta_tests"
    return True if config.getoption("--encoder") and collection_path == own else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the checks with ``--encoder``, for that encoder."""
    if config.getoption("--encoder"):
        ours = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
        others = [item for item in ours if "run" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Provide the run over the encoder that ``--encoder`` names."""
    from conformance_tests.errors import SubjectError, TargetError, Undetermined
    from conformance_tests.harness.question import Question
    from conformance_tests.identification.opening import opened
    from conformance_tests.targets.resolving import make, resolve
    from encoder_spec.notation import SpecificationError

    option = request.config.getoption
    question = Question(option("--encoder-profile"), dtype=option("--encoder-dtype"), device=option("--encoder-device"))
    try:
        with opened(make(resolve(request.param)()), question) as run:
            yield run
    except (TargetError, SubjectError, SpecificationError, Undetermined) as reason:
        pytest.fail(f"{request.param}: {reason}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Decide a check as the command line does, and turn its outcome into pytest's."""
    check = REGISTRY.checks.get(Check.name_of(pyfuncitem.function))
    if check is None or "run" not in pyfuncitem.funcargs:
        return None
    from conformance_tests.harness.deciding import applicable_requirements, decide

    run: Any = pyfuncitem.funcargs["run"]
    ids = applicable_requirements(run, check)
    if not ids:
        pytest.skip(f"no equation of this encoder has {' or '.join(check.requirements)}")
    for id in ids:
        settle(decide(run, check, id))
    return True


def settle(result: Result) -> None:
    """Fail or skip, as the result did."""
    if result.outcome == "fail":
        pytest.fail(f"{result.id}: {result.message}", pytrace=False)
    if result.outcome in ("unsupported", "blocked"):
        pytest.skip(f"{result.id} {result.outcome}: {result.message}")
