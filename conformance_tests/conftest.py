"""The checks under pytest: one item for each requirement and encoder."""

from pathlib import Path

import pytest

from conformance_tests.frontends.judged import Judged, JudgedByName
from conformance_tests.harness.checks import REGISTRY, Check
from conformance_tests.harness.question import Question
from conformance_tests.isolation.supervisor import Limits
from encoder_spec.notation import SpecificationError

DEFAULT_ENCODERS = ("reference", "torch-post-ln", "torch-pre-ln")

NOT_ITS_EQUATION = "no equation of this encoder has {}"
NOT_JUDGED = "the encoder could not be judged"


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
def run(request: pytest.FixtureRequest) -> Judged:
    """Provide the encoder that ``--encoder`` names, which is judged when a check asks for it."""
    option = request.config.getoption
    question = Question(option("--encoder-profile"), dtype=option("--encoder-dtype"), device=option("--encoder-device"))
    limits = Limits(option("--encoder-timeout"), option("--encoder-memory"))
    return JudgedByName(request.param, question, request.param, limits=limits)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Let a check end as the command line decided it.

    What is wrong with an encoder that could not be judged, or not as a whole, is told by one check, and the others are
    skipped.
    """
    __tracebackhide__ = True
    check = REGISTRY.checks.get(Check.name_of(pyfuncitem.function))
    judged = pyfuncitem.funcargs.get("run")
    if check is None or not isinstance(judged, Judged):
        return None
    try:
        decided = [r for r in judged.report.requirements if r.test == check.name]
    except SpecificationError as problem:
        pytest.fail(str(problem), pytrace=False)
    complaint = judged.complaint
    if complaint and judged.tells_first():
        pytest.fail(complaint, pytrace=False)
    if not decided:
        pytest.skip(NOT_JUDGED if complaint else NOT_ITS_EQUATION.format(" or ".join(check.requirements)))
    if failure := judged.failure_of(decided):
        pytest.fail(failure, pytrace=False)
    return True
