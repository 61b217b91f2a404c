"""Conformance as tests of somebody's own suite: one item for each requirement.

::

    from conformance_tests import encoder_conformance

    @encoder_conformance(make_encoder)
    def test_encoder(requirement):
        requirement.check()

Importing that file runs nothing. When pytest collects it, the encoder is opened once, since only
then is it known which equations it uses, and so which requirements it has: there are no items to
skip because they concern other encoders. The first item that runs judges the encoder; the others
look up their outcomes.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from conformance_tests.errors import Disagreement, SubjectError, TargetError, Undetermined
from conformance_tests.harness.question import Question
from conformance_tests.reports.report import Result, TargetReport

if TYPE_CHECKING:
    from conformance_tests.reports.expected import Expected

F = TypeVar("F", bound=Callable[..., Any])
NOT_OPENED = "encoder"
"""The id of the only item of an encoder that could not be opened."""


@dataclass(frozen=True)
class JudgedRequirement:
    """One requirement of an encoder, as a decorated test gets it."""

    id: str
    judged: "Judged" = field(repr=False)

    def check(self) -> None:
        """Pass, fail or skip, as this requirement did.

        Raises:
            AssertionError: if the encoder does not meet it, or could not be judged.
        """
        __tracebackhide__ = True
        target = self.judged.report
        result = next((r for r in target.requirements if r.id == self.id), None)
        if result is None:
            raise AssertionError("; ".join([f"{target.target}: {target.verdict}", *target.notes]))
        if result.counts_against:
            raise AssertionError(failure_text(result))
        if result.outcome == "xfail":
            pytest.xfail(" ".join(filter(None, (result.reason, result.link))))
        if result.outcome != "pass":
            pytest.skip(f"{result.outcome}: {result.message}")


def failure_text(result: Result) -> str:
    """Return a failure in full: the message, the statement of the requirement, and what repeats the run."""
    from encoder_spec.equation import requirements

    parts = [f"{result.id}: {result.message}", requirements()[result.id].statement]
    return "\n".join([*parts, *([f"Again: {result.repro}"] if result.repro else [])])


@dataclass(frozen=True, eq=False)
class Judged(Collection[Any]):
    """One encoder under a decorated test: the parameters of its items, found out when pytest asks for them."""

    target: Any
    question: Question

    @cached_property
    def report(self) -> TargetReport:
        """The encoder's report, made when the first item runs."""
        from conformance_tests.engine.judging import check_all

        return check_all([self.target], self.question).targets[0]

    @cached_property
    def ids(self) -> list[str]:
        """The requirements that apply to the encoder, in the order in which they are decided.

        Raises:
            CollectError: in one line, if the target's name, the profile or an expected failure cannot be used.
        """
        from conformance_tests.engine.judging import requirements_of
        from encoder_spec.notation import SpecificationError

        try:
            self.question.demand_usable()
            return requirements_of(self.target, self.question)
        except (TargetError, SpecificationError) as problem:
            raise pytest.Collector.CollectError(f"encoder_conformance: {problem}") from None
        except (Undetermined, SubjectError, Disagreement):
            return [NOT_OPENED]

    def __iter__(self) -> Iterator[Any]:
        for id in self.ids:
            yield pytest.param(JudgedRequirement(id, self), id=id)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in list(self)


def encoder_conformance(
    target: Any,
    *,
    profile: Any = "auto",
    level: str = "gradient",
    seed: int = 0,
    expected: "Expected | None" = None,
    dtype: str | None = None,
) -> Callable[[F], F]:
    """Turn a test with the argument ``requirement`` into one item for each requirement of an encoder.

    An item is named by its requirement: ``test_encoder[ATT-3]``. ``requirement.check()`` fails
    with the message of a failure, skips with the reason what could not be decided, and marks
    an expected failure as such. An encoder that cannot be opened has one item, which fails.

    Args:
        target: the encoder, a function that makes one, or a name as ``encoder-spec check`` takes it.
        profile: ``"auto"``, or what must hold exactly: a name, a ``.toml`` file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: seed for probes and weights.
        expected: the failures that are known: a ``.toml`` file, or reasons by requirement.
        dtype: the precision to judge in; by default the best that the encoder can.
    """
    question = Question(profile, level, seed, expected, dtype)
    return pytest.mark.parametrize("requirement", Judged(target, question))
