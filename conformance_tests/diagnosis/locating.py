"""Where an encoder departs from the specification, as its values, its diagnosis and its failures tell together.

The first value that is missing tells most. But it need not be that of the equation that is wrong: an encoder that
leaves out its last layer never forms the queries of that layer. A diagnosis that reproduces every output knows better.
"""

from collections.abc import Iterable, Sequence

from conformance_tests.diagnosis.explanations import Explanation
from conformance_tests.reports.report import Result
from encoder_spec.assembly import Encoder
from encoder_spec.equation import TOPICS, equations

AROUND = ("stack", "embedding_norm", "final_norm")
"""What is inside these says nothing about them: the stack holds everything, the others are a norm and nothing else."""

FAILING_WITH_OTHERS = ("DROP-1", "ENC-5")
"""Where equal calls differ, or samples are mixed, a mask seems to leak as well: these tell more than what is first."""


def located(
    by_value: str | None, explanations: Sequence[Explanation], failed: Sequence[Result], encoder: Encoder
) -> str | None:
    """The equation that is wrong, by id; None if nothing failed.

    Args:
        by_value: the first equation whose value is wrong, if one is.
        explanations: what reproduces the subject, the likeliest first.
        failed: the requirements that fail.
        encoder: what the subject was judged against.
    """
    exact = [e for e in explanations if e.residual is not None]
    slots = {d.slot for e in exact for d in e.deviations}
    if exact and not (by_value and any(speaks_of(slot, by_value, encoder) for slot in slots)):
        return first(encoder.profile[d.slot].id for d in exact[0].defects)
    telling = [r for r in failed if r.id in FAILING_WITH_OTHERS]
    return by_value or first(r.equation for r in telling or failed)


def speaks_of(slot: str, by_value: str, encoder: Encoder) -> bool:
    """Whether a deviation in a slot may well first be seen in this equation: one of them is the other, or a part."""
    seen_in = equations()[by_value].slot
    within = slot not in AROUND and by_value in parts(slot, encoder)
    return slot == seen_in or within or encoder.profile[slot].id in parts(seen_in, encoder)


def parts(slot: str, encoder: Encoder) -> set[str]:
    """The equation in a slot and all that it uses, by id."""
    return {place.equation.id for place in encoder.places(slot=slot)}


def first(ids: Iterable[str]) -> str | None:
    """The equation, of some, that the specification evaluates first."""
    known = list(equations())

    def place(equation: str) -> tuple[int, int]:
        return TOPICS.index(equation.partition(".")[0]), known.index(equation)

    return min(ids, key=place, default=None)
