"""Wrong uses of the public API: mypy must report each line that ends in a comment, with that kind of error."""

from conformance_tests import Report, check, described, encoder_conformance
from conformance_tests import judge as judge  # E: attr-defined
from conformance_tests.frontends.decorator import JudgedRequirement
from conformance_tests.subjects.subject import ArraySubject


class WithoutWeights:
    """Lacks ``weights``."""

    def encode(self, x: object, mask: object) -> object:
        """Return what came."""
        return x


def two_arguments(what: str, done: int) -> None:
    """Lack the argument ``of``."""


def make() -> object:
    """Make something."""
    return WithoutWeights()


check()  # E: call-arg
check(make, profile=3)  # E: arg-type
check(make, level=4)  # E: arg-type
check(make, seed="0")  # E: arg-type
check(make, dtype=32)  # E: arg-type
check(make, tolerance=1e-3)  # E: call-arg
check(make, expected=7)  # E: arg-type
check(make, progress=two_arguments)  # E: arg-type
number: int = check(make).verdict  # E: assignment
verdict: str = check(make).verdicts  # E: attr-defined
check(make).targets[0].departs_at.upper()  # E: union-attr
report: Report = check(make).to_json()  # E: assignment

described(make, 4)  # E: call-arg
described(make, heads="4")  # E: arg-type
described(make, mask="padding")  # E: arg-type
described(make, choices={"activation": None})  # E: dict-item

encoder_conformance(make, "bert")  # E: call-arg
encoder_conformance(make, level=4)(make)  # E: arg-type
encoder_conformance(make)(7)  # E: type-var
arrays: ArraySubject = WithoutWeights()  # E: assignment


@encoder_conformance(make)
def test_encoder(requirement: JudgedRequirement) -> None:
    """Keep its type under the decorator."""


test_encoder("ATT-3")  # E: arg-type
