"""The exceptions of the suite carry what a report needs, and become one line."""

import pytest

from conformance_tests.errors import (
    Blocked,
    Disagreement,
    Lost,
    SubjectError,
    TargetError,
    Undetermined,
    Unsupported,
    WorkerFault,
    one_line,
)


class Silent(Exception):
    """Raised without a message."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise LookupError


class Padded(Exception):
    def __str__(self) -> str:
        return "  between  "


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (ValueError("bad mask"), "ValueError: bad mask"),
        (ValueError("first\nsecond\nthird"), "ValueError: first"),
        (ValueError("a: b:"), "ValueError: a: b"),
        (ValueError("missing:\n\tone, \n\ttwo"), "ValueError: missing: one, two"),
        (ValueError("missing:\n" + 400 * "x"), f"ValueError: missing: {300 * 'x'}…"),
        (Unprintable(), "Unprintable: making its message raised LookupError"),
        (Silent(), "Silent"),
        (Padded(), "Padded:   between"),
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("\nbelow"), "ValueError: "),
    ],
)
def test_an_exception_becomes_its_name_and_the_first_line_of_its_message(fault: BaseException, line: str) -> None:
    """Without a colon at the end, so that a name without a message stands alone."""
    assert one_line(fault) == line


def test_a_disagreement_carries_the_error_and_the_budget() -> None:
    """Both are None where nothing could be measured, as with shapes."""
    measured, unmeasured = Disagreement("off", 0.5, 0.25), Disagreement("shapes")
    assert (str(measured), measured.error, measured.budget) == ("off", 0.5, 0.25)
    assert (str(unmeasured), unmeasured.error, unmeasured.budget) == ("shapes", None, None)


def test_only_a_disagreement_is_a_failed_assertion() -> None:
    """Pytest reports it as a failure, the others as errors or skips; none is caught as one of another kind."""
    kinds = (Disagreement, Unsupported, Blocked, Undetermined, TargetError, SubjectError, Lost, WorkerFault)
    assert [kind for kind in kinds if issubclass(kind, AssertionError)] == [Disagreement]
    assert [(a, b) for a in kinds for b in kinds if a is not b and issubclass(a, b)] == []
