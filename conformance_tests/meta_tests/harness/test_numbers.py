"""Cases for which the specification has numbers in a subject's precision."""

from typing import Any

import pytest

from conformance_tests.errors import Unsupported
from conformance_tests.harness.computed import FAST, PADDED, Case
from conformance_tests.harness.run import Run


class Overflowing:
    """Stands for a run: it leaves out the cases without gradients, and has no budget for some of the others."""

    def __init__(self, *overflowing: Case) -> None:
        self.overflowing = overflowing

    def cases(self, *cases: Case) -> list[Case]:
        return [case for case in cases if case.gradients]

    def budget(self, case: Case) -> float:
        if case in self.overflowing:
            raise Unsupported(f"{case.probe} overflows")
        return 1e-3


def test_cases_that_overflow_are_left_out() -> None:
    """As are those that the subject does not take."""
    run: Any = Overflowing(PADDED[0])
    assert Run.with_numbers(run, Case(), *PADDED, *FAST) == [Case(), PADDED[1]]


def test_without_any_numbers_the_last_reason_is_given() -> None:
    run: Any = Overflowing(*PADDED)
    with pytest.raises(Unsupported, match="right overflows"):
        Run.with_numbers(run, *PADDED)


def test_without_any_case_no_mask_is_taken() -> None:
    run: Any = Overflowing()
    with pytest.raises(Unsupported, match="does not take any of these masks"):
        Run.with_numbers(run, *FAST)
