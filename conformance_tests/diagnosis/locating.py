"""The place where an encoder departs from the specification, from its values, its diagnosis and its failures.

The first value that is missing is the best sign. But it need not be that of the equation that is wrong: an encoder that
leaves out its last layer never forms the queries of that layer. A diagnosis that reproduces every output is better.
"""

from collections.abc import Sequence

from conformance_tests.diagnosis.explanations import Explanation
from conformance_tests.reports.report import Result
from encoder_spec.assembly import Encoder
from encoder_spec.equation import earliest, equations

AROUND = ("stack", "embedding_norm", "final_norm")
"""What is inside these says nothing about them: the stack holds everything, the others are a norm and nothing else."""

FAILING_WITH_OTHERS = ("DROP-1", "ENC-5")
"""Where equal calls differ, or samples are mixed, a mask seems to leak too: these failures are the better signs."""


def located(
    by_value: str | None,
    explanations: Sequence[Explanation],
    failed: Sequence[Result],
    encoder: Encoder,
    sublayer: str | None = None,
) -> str | None:
    """Return the id of the equation that is wrong; None if nothing failed.

    Args:
        by_value: the first equation whose value is wrong, if one is.
        explanations: what reproduces the subject, the likeliest first.
        failed: the requirements that fail.
        encoder: what the subject was judged against.
        sublayer: the equation of the sublayer inside of which its outputs depart.
    """
    exact = [e for e in explanations if e.residual is not None]
    slots = {d.slot for e in exact for d in e.deviations}
    if exact and not (by_value and any(is_seen_at(by_value, slot, encoder) for slot in slots)):
        return earliest(encoder.profile[d.slot].id for d in exact[0].defects)
    causes = [r for r in failed if r.id in FAILING_WITH_OTHERS]
    return by_value or (sublayer if failed and not causes else None) or earliest(r.equation for r in causes or failed)


def is_seen_at(by_value: str, slot: str, encoder: Encoder) -> bool:
    """Return whether a deviation in a slot may first be seen at this equation: one of them is the other, or a part."""
    seen_in = equations()[by_value].slot
    within = slot not in AROUND and by_value in parts(slot, encoder)
    return slot == seen_in or within or encoder.profile[slot].id in parts(seen_in, encoder)


def parts(slot: str, encoder: Encoder) -> set[str]:
    """Return the ids of the equation in a slot and of all that it uses."""
    return {place.equation.id for place in encoder.places(slot=slot)}
