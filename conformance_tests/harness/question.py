"""The question that a run answers: which profile, how strong the evidence, in which precision.

A question is asked in words that people write and that travel between processes. What they stand for is looked up
here, once, when it is first needed: frontends ask without loading torch.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance_tests.reports.report import Level
from encoder_spec.notation import demand

if TYPE_CHECKING:
    from conformance_tests.reports.expected import Expected, ExpectedFailure
    from conformance_tests.subjects.subject import Precision
    from encoder_spec.profiles import Profile

MOST_SEED = 2**31
"""The largest seed."""

AUTO = "auto"
"""In the place of a profile: any legitimate choice of equations will do."""


@dataclass(frozen=True)
class Question:
    """A question about an encoder.

    Attributes:
        profile: ``"auto"`` to identify the variant, or the profile that must hold exactly: a name, a ``.toml``
            file or a ``Profile``.
        level: the strongest evidence to look for.
        seed: seed for probes and weights; the same seed gives the same report.
        expected: the failures that are known: a ``.toml`` file, reasons by requirement, or entries.
        dtype: the precision to judge in: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``; None for
            the best that the encoder can.
        device: where to judge, as torch names it.
        explain: whether a failing encoder is compared with the catalogue of deviations, to name what is wrong.
        variant_alone: whether nothing but the variant is asked for, and no requirement is decided.
    """

    profile: "str | Profile" = AUTO
    level: str = "gradient"
    seed: int = 0
    expected: "Expected | None" = None
    dtype: str | None = None
    device: str = "cpu"
    explain: bool = True
    variant_alone: bool = False

    @cached_property
    def declared(self) -> "Profile | None":
        """The profile that must hold exactly; None if any legitimate choice will do.

        Raises:
            SpecificationError: if there is no such profile.
        """
        if self.profile == AUTO:
            return None
        from encoder_spec.profiles import Profile, profile

        if isinstance(self.profile, Profile):
            return self.profile
        demand(
            isinstance(self.profile, str), f"a profile is a name, a .toml file or a Profile, but not {self.profile!r}"
        )
        from conformance_tests.subjects.hints import demand_places

        found = profile(self.profile)
        demand_places(found.choices())
        return found

    @cached_property
    def strongest(self) -> Level:
        """The strongest evidence to look for.

        Raises:
            SpecificationError: if there is no such level.
        """
        return Level.named(self.level)

    @cached_property
    def precision(self) -> "Precision":
        """The dtype and device to judge in.

        Raises:
            SpecificationError: if there is no such dtype or device.
        """
        from conformance_tests.subjects.subject import Precision

        return Precision.named(self.dtype, self.device)

    @cached_property
    def known_failures(self) -> "tuple[ExpectedFailure, ...]":
        """The expected failures.

        Raises:
            SpecificationError: if their file or an entry cannot be used.
        """
        from conformance_tests.reports.expected import expected_failures

        return expected_failures(self.expected)

    def demand_usable(self) -> None:
        """Go on only with a question that can be asked.

        Raises:
            SpecificationError: if the profile, level, seed, dtype, device or an expected failure cannot be used.
        """
        _ = self.declared, self.strongest, self.precision, self.known_failures
        is_seed = isinstance(self.seed, int) and 0 <= self.seed <= MOST_SEED
        demand(is_seed, f"a seed is a whole number from 0 to {MOST_SEED}, but not {self.seed!r}")

    def in_words(self) -> dict[str, Any]:
        """Return its parts as JSON can hold them: a question that came from a command line has no others."""
        words = {f.name: getattr(self, f.name) for f in fields(self)}
        return words | {"expected": str(self.expected) if isinstance(self.expected, Path) else self.expected}
