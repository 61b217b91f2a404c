"""Conformance as tests of somebody's own suite: one item for each requirement.

::

    from conformance_tests import encoder_conformance

    @encoder_conformance(make_encoder)
    def test_encoder(requirement):
        requirement.check()

Importing that file runs nothing. When pytest collects it, the encoder is judged, since only then is it known which
equations it uses, and so which requirements it has: there are no items to skip because they concern other encoders.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from inspect import isfunction, signature
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from conformance_tests.errors import TargetError
from conformance_tests.frontends.judged import Judged
from conformance_tests.harness.question import Question
from encoder_spec.notation import SpecificationError

if TYPE_CHECKING:
    from conformance_tests.reports.expected import Expected

F = TypeVar("F", bound=Callable[..., Any])
WHOLE = "encoder"
"""The id of the item of an encoder that cannot be judged, or not as a whole."""


@dataclass(frozen=True)
class JudgedRequirement:
    """One requirement of an encoder, as a decorated test gets it."""

    id: str
    judged: Judged = field(repr=False)

    def check(self) -> None:
        """Pass, fail or skip, as this requirement did.

        Raises:
            AssertionError: if the encoder does not meet it, or could not be judged.
        """
        __tracebackhide__ = True
        own = [r for r in self.judged.report.requirements if r.id == self.id]
        failure = self.judged.complaint if self.id == WHOLE else self.judged.failure_of(own)
        if failure:
            raise AssertionError(failure)


@dataclass(frozen=True, eq=False)
class Items(Collection[Any]):
    """The items of one encoder, which is judged when pytest asks for them."""

    judged: Judged

    @property
    def ids(self) -> list[str]:
        """The requirements that apply to the encoder, in the order in which they are decided.

        Raises:
            CollectError: in one line, if the target's name, the profile or an expected failure cannot be used.
        """
        try:
            decided = [r.id for r in self.judged.report.requirements]
        except (TargetError, SpecificationError) as problem:
            raise pytest.Collector.CollectError(f"encoder_conformance: {problem}") from None
        return list(dict.fromkeys([*decided, *([WHOLE] if self.judged.complaint else [])]))

    def __iter__(self) -> Iterator[Any]:
        for id in self.ids:
            yield pytest.param(JudgedRequirement(id, self.judged), id=id)

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
    an expected failure as such. An encoder that cannot be judged has one item, which fails.

    Args:
        target: the encoder, a function that makes one, or a name as ``encoder-spec check`` takes it.
        profile: ``"auto"``, or what must hold exactly: a name, a ``.toml`` file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: seed for probes and weights.
        expected: the failures that are known: a ``.toml`` file, or reasons by requirement.
        dtype: the precision to judge in; by default the best that the encoder can.

    Raises:
        TypeError: if it decorates a test by itself, without the parentheses that name an encoder.
    """
    if isfunction(target) and "requirement" in signature(target).parameters:
        raise TypeError("name the encoder: @encoder_conformance(make_encoder)")
    question = Question(profile, level, seed, expected, dtype)

    def decorate(test: F) -> F:
        judged = Judged(target, question, f"{test.__module__}.{test.__qualname__}")
        marked: F = pytest.mark.parametrize("requirement", Items(judged))(test)
        return marked

    return decorate
