"""Encoders of which names and shapes alone are known, or asked for: nothing of them runs, and no number is read."""

from collections.abc import Collection, Mapping

from torch import Tensor

from conformance_tests.subjects.hints import Hints
from conformance_tests.subjects.subject import Subject


class ShapesSubject(Subject):
    """The names and shapes of an encoder's arrays, and what it states of itself.

    Args:
        shapes: its arrays on the device meta, by its own names; arrays with two names are one.
        hints: what it states.
        fixed: the names of those that are not to be learned.
        unregistered: the attributes whose parameters the framework does not know, and what each should have been.
        stored_once: the names of those that are kept as one array because they are equal.
        tells_constants: whether none of them is a constant.

    Attributes:
        left_over: what keeps it from being judged conformant, though no requirement fails.
    """

    takes_mask = False
    left_over = ""

    def __init__(
        self,
        shapes: Mapping[str, Tensor],
        hints: Hints,
        *,
        fixed: Collection[str] = (),
        unregistered: Mapping[str, str] | None = None,
        stored_once: Collection[str] = (),
        tells_constants: bool = True,
    ) -> None:
        self.hints = hints
        self._shapes = dict(shapes)
        self._fixed = set(fixed)
        self._unregistered = dict(unregistered or {})
        self._stored_once = set(stored_once)
        self._tells_constants = tells_constants

    @classmethod
    def of(cls, subject: Subject) -> "ShapesSubject":
        """Return what names and shapes tell of a subject."""
        return cls(
            subject.shapes(),
            subject.hints,
            fixed=subject.fixed(),
            unregistered=subject.unregistered(),
            stored_once=subject.stored_once(),
            tells_constants=subject.tells_constants(),
        )

    def shapes(self) -> dict[str, Tensor]:
        """See ``Subject``."""
        return self._shapes

    def weights(self) -> dict[str, Tensor]:
        """See ``Subject``: without numbers."""
        return self._shapes

    def fixed(self) -> set[str]:
        """See ``Subject``."""
        return self._fixed

    def unregistered(self) -> dict[str, str]:
        """See ``Subject``."""
        return self._unregistered

    def stored_once(self) -> set[str]:
        """See ``Subject``."""
        return self._stored_once

    def tells_constants(self) -> bool:
        """See ``Subject``."""
        return self._tells_constants

    def unknown(self) -> str:
        """See ``Subject``: what is left over."""
        return self.left_over
