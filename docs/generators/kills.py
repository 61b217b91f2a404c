"""The page of the mutation matrix: which requirement notices which deviation, as a table to explore."""

from conformance_tests.deviations import deviations
from conformance_tests.harness.checks import registry
from conformance_tests.quality import kills
from conformance_tests.quality.kill_matrix import AUTO, Row, on_file
from conformance_tests.reports.report import Level
from encoder_spec.equation import requirements, slots
from encoder_spec.profiles import PROFILES
from generators.filters import SCRIPT, Entry, filtered
from generators.html import deviation_link, heading, profile_link, prose, requirement_link

LEAD = (
    "Every deviation, put into a published encoder that makes the choice which it gets wrong, and the requirements "
    "that failed; the rows of one deviation differ in the equation that it stands in for. A deviation is "
    "<b>silent</b> when shapes are right and nothing in the outputs alone gives it away: such a model trains and runs, "
    "and only a comparison with the specification shows it. <code>encoder-spec deviations ID --matrix</code> "
    "prints what its own requirements find in each of the other profiles."
)

SHOWS = {
    Level.STATIC: "shapes and parameters",
    Level.BLACK_BOX: "outputs alone",
    Level.AGREEMENT: "comparison of outputs: silent",
    Level.TRACE: "comparison of intermediates: silent",
    Level.GRADIENT: "gradients: silent",
}
"""What gives a deviation away, by the weakest level at which it does."""

WITHOUT_PROFILE = {"conformant": "a variant", "nonconformant": "a defect"}
"""The judgement without a declared profile: what is legitimate in another encoder is identified as such."""

UNNOTICED = "nothing"
HEADER = ("Deviation", "Slot", "Run in", "Noticed by", "Shows in", "Without a declared profile")


def page() -> str:
    """The Markdown of the page."""
    rows = on_file()
    entries = [entry(row, rows) for row in rows if row.judged_as != AUTO]
    sound = {"yes": "silent", "no": "not silent"}
    choices = {
        "slot": ("Slot", {slot: slot for slot in slots()}),
        "silent": ("Silent", sound),
        "shows": ("Shows in", {text: text for text in (*SHOWS.values(), UNNOTICED)}),
        "requirement": ("Noticed by", {id: id for id in requirements()}),
        "profile": ("Run in", {name: name for name in {**PROFILES, **{row.within: None for row in rows}}}),
    }
    return "\n".join(
        [
            "---\nhide: [toc]\n---",
            heading(1, "Mutation matrix", "kill-matrix-page"),
            "",
            f'<p class="lead">{LEAD}</p>',
            "",
            filtered("kill-matrix", HEADER, entries, choices),
            SCRIPT,
            "",
        ]
    )


def entry(row: Row, rows: list[Row]) -> Entry:
    """One deviation in one profile."""
    found = deviations()[row.deviation]
    level = weakest(row)
    shows = UNNOTICED if level is None else SHOWS[level]
    silent = level is not None and level >= Level.AGREEMENT
    name = deviation_link(found.id)
    # The first row of a deviation speaks for all published profiles in which it was run.
    is_first = row == next(r for r in rows if r.deviation == row.deviation)
    others = [within for within in kills.on_file().get(row.deviation, {}) if within != row.within] if is_first else []
    free = next((r.verdict for r in rows if r.deviation == row.deviation and r.judged_as == AUTO), "nonconformant")
    return Entry(
        (
            f"{name}<br>{prose(found.definition)}",
            f"<code>{found.slot}</code>",
            profile_link(row.within) + (f"<br>and {len(others)} more" if others else ""),
            ", ".join(map(requirement_link, row.killed_by)) or UNNOTICED,
            shows,
            WITHOUT_PROFILE.get(free, free),
        ),
        {
            "slot": [found.slot],
            "silent": ["yes" if silent else "no"],
            "shows": [shows],
            "requirement": row.killed_by,
            "profile": [row.within, *others],
        },
    )


def weakest(row: Row) -> Level | None:
    """The weakest level at which a requirement fails; none if no requirement does."""
    levels = {id: check.level for check in registry().checks.values() for id in check.requirements}
    return min((levels[id] for id in row.killed_by), default=None)
