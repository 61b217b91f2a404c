"""The page on precision: what each dtype can tell from rounding, and how near correct encoders come to an alarm."""

from collections.abc import Sequence
from itertools import groupby

from conformance_tests.deviations import deviations
from conformance_tests.deviations.resolution import Resolved, on_file, unresolved
from conformance_tests.meta_tests.measurements import seeds
from conformance_tests.numerics.rounding import MARGIN, WAYS
from conformance_tests.subjects.subject import DTYPES
from generators.html import deviation_link, folded, heading, prose, table

LEAD = (
    "Meaning is judged in float64. Of the wrong equations that change an output there, the one that changes it least "
    "does so by {least:,.0f} times what rounding is allowed. Below float64 the question has a second half: how far may "
    "a correct encoder be off?"
)

BUDGETS = (
    f"No sum in an encoder has a fixed order. So the suite evaluates the specification itself in the precision at "
    f"hand, in its own way and in {WAYS} others: the features, the heads and the hidden units are permuted throughout, "
    f"and the queries are multiplied by a number by which the keys are divided, as code that scales the queries first "
    f"rounds them once more. None of it changes anything on paper. The largest distance from float64, times {MARGIN}, "
    f"is the budget. Every comparison of a report prints its error and its budget."
)

RESOLUTION = (
    "The effect of a wrong equation is a number of the mathematics; the budget is one of the precision. Each deviation "
    "of the catalogue was put into a profile that it gets wrong, and the largest change of an output measured over all "
    "probes. Where it stays below the budget, nobody can tell it from rounding in that precision. A pass at that "
    "precision does not rule these deviations out."
)

SEEDS = (
    "A suite that raises false alarms is soon ignored. Correct encoders were judged with many seeds, each of which "
    "makes other weights and other probes. The last column is the largest error that passed, in units of its budget: "
    "1 would be an alarm."
)


def page() -> str:
    """The Markdown of the page."""
    least = min(effect for one in on_file() if (effect := one.effect.get("float64", 0.0)) >= 1)
    sections = (
        ("The budget", "budget", prose(BUDGETS)),
        ("What each precision can tell", "resolution", f"{prose(RESOLUTION)}\n\n{resolution(on_file())}"),
        ("Many seeds", "seeds", f"{prose(SEEDS)}\n\n{swept(seeds.on_file())}"),
    )
    parts = [heading(1, "Precision and seeds", "precision"), "", f'<p class="lead">{LEAD.format(least=least)}</p>', ""]
    for title, anchor, text in sections:
        parts += [heading(2, title, anchor), "", text, ""]
    return "\n".join(parts)


def resolution(found: Sequence[Resolved]) -> str:
    """How many deviations each precision can tell from rounding, and which it cannot."""
    told = {one.deviation for one in found if one.effect.get("float64", 0.0) >= 1}
    rows = []
    for dtype in DTYPES:
        below = unresolved(found, dtype)
        names = folded(str(len(below)), ", ".join(map(deviation_link, below))) if below else "none"
        rows.append((dtype, str(len(told) - len(below)), names))
    other = len(deviations().keys() - told)
    note = f"{other} further deviations change no output: they show in gradients, parameters or behaviour."
    return f"{table(('precision', 'told from rounding', 'below its resolution'), rows, 'precision')}\n\n{prose(note)}"


def swept(found: Sequence[seeds.Sweep]) -> str:
    """The sweeps by kind of encoder and precision."""

    def kind(one: seeds.Sweep) -> tuple[str, str, int]:
        return one.encoder.partition(" ")[0].rstrip(","), one.dtype, one.seeds

    rows = []
    for (group, dtype, number), some in groupby(sorted(found, key=kind), key=kind):
        listed = list(some)
        alarms = sum(len(one.alarms) for one in listed)
        largest = max(one.largest for one in listed)
        rows.append((group, dtype, str(len(listed)), str(number), str(alarms), f"{largest:.3f}"))
    return table(("encoders", "precision", "how many", "seeds each", "alarms", "largest error"), rows, kind="numbers")
