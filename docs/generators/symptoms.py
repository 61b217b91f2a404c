"""Which bug do I have? From what you see to the equation, and from there to the deviations that do it.

The tree is the mutation matrix, read backwards: under each symptom stand the deviations that show in it and in nothing
weaker.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from itertools import groupby

from conformance_tests.deviations import deviations
from conformance_tests.harness.checks import registry
from conformance_tests.quality.kill_matrix import AUTO, on_file
from conformance_tests.reports.report import Level
from encoder_spec.equation import TOPICS, equations, requirements
from generators.html import deviation_link, equation_link, heading, link, prose, requirement_link
from generators.topics import TITLES

LEAD = (
    "Begin with what you see, from the top: the first line that fits is the most telling. Open it, choose the equation "
    "that you compute there, and compare your lines with the deviations below it. Each leads to its code, wrong and "
    "right. If you can run your encoder, <code>encoder-spec check</code> does this search for you."
)

SEEN = {
    Level.STATIC: (
        "A shape or a number of parameters is wrong",
        "Nothing needs to run: count the parameters, or load published weights.",
    ),
    Level.BLACK_BOX: (
        "The outputs alone look wrong",
        "Shapes fit, and a property of the outputs fails that you can try without any reference.",
    ),
    Level.AGREEMENT: (
        "Outputs differ from another implementation's",
        "The encoder trains and runs; with the same weights, its numbers differ from those of the published encoder. "
        "Compare the values on the way one after the other: the first that differs is that of the wrong equation.",
    ),
    Level.GRADIENT: (
        "Outputs agree, and training goes wrong",
        "The forward pass is right, and gradients are not: they are cut, missing or scaled.",
    ),
}
"""What is seen at each level of evidence, and how."""


def page() -> str:
    """The Markdown of the page."""
    parts = [heading(1, "Which bug do I have?", "which-bug"), "", f'<p class="lead">{LEAD}</p>', ""]
    for level, symptoms in tree().items():
        title, how = SEEN[level]
        parts += [heading(2, title, f"seen-{level}"), "", f"<p>{how}</p>", "<div>"]
        for topic, group in groupby(symptoms.items(), key=lambda pair: topic_of(pair[0])):
            parts += [f'<p class="caption">{TITLES[topic]}</p>', *(symptom(seen, of) for seen, of in group)]
        parts += ["</div>", ""]
    return "\n".join(parts)


def tree() -> dict[Level, dict[str, dict[str, list[str]]]]:
    """Deviations by the weakest level at which they show, what is seen there, and the equation.

    What is seen is the requirement that fails, or the equation whose value is the first that differs.
    """
    found: dict[Level, dict[str, dict[str, list[str]]]] = {level: defaultdict(dict) for level in SEEN}
    order = [*requirements()]
    for id, failing in noticed().items():
        weakest = min(map(level_of, failing))
        of = deviations()[id].of[0]
        # Where only a comparison shows it, the equation says more than that outputs differ.
        compared = Level.AGREEMENT <= weakest < Level.GRADIENT
        seen = of if compared else min((r for r in failing if level_of(r) == weakest), key=order.index)
        found[Level.AGREEMENT if compared else weakest][seen].setdefault(of, []).append(id)
    places = {**{id: (0, n) for n, id in enumerate(order)}, **{id: place(id) for id in equations()}}
    return {level: dict(sorted(seen.items(), key=lambda pair: places[pair[0]])) for level, seen in found.items()}


def noticed() -> dict[str, list[str]]:
    """The requirements that notice each deviation: in the profiles in which it was run, or else as it declares."""
    failing: dict[str, list[str]] = defaultdict(list)
    for row in on_file():
        if row.judged_as != AUTO:
            failing[row.deviation] += row.killed_by
    known = {id: list(dict.fromkeys(failing[id])) or list(d.noticed_by) for id, d in deviations().items()}
    return {id: [r for r in some if r in levels()] for id, some in known.items()}


@cache
def levels() -> Mapping[str, Level]:
    """The weakest level of the checks of each requirement."""
    found: dict[str, Level] = {}
    for check in registry().checks.values():
        for id in check.requirements:
            found[id] = min(found.get(id, check.level), check.level)
    return found


def level_of(requirement: str) -> Level:
    """The weakest level of the checks of a requirement."""
    return levels()[requirement]


def symptom(seen: str, of: Mapping[str, list[str]]) -> str:
    """One thing that can be seen, with the equations that may be wrong and their deviations."""
    number = sum(map(len, of.values()))
    if seen in requirements():
        said, more = f"Not so: {prose(requirements()[seen].statement)}", f"<p>{requirement_link(seen)}</p>"
    else:
        said, more = f"The first value that differs: {prose(equations()[seen].title)}", ""
    blocks = "".join(branch(equation, ids) for equation, ids in sorted(of.items(), key=lambda pair: place(pair[0])))
    counted = f"{number} deviation{'' if number == 1 else 's'}"
    summary = f'{said} <span class="quiet">{counted}</span>'
    return (
        f'<details class="fold symptom"><summary>{unlinked(summary)}</summary>\n'
        f"<div data-search-exclude>{more}{blocks}</div></details>"
    )


def branch(equation: str, ids: Iterable[str]) -> str:
    """The deviations that are mistaken for one equation."""
    items = "".join(f"<li>{deviation_link(id)} {escape(deviations()[id].definition, quote=False)}</li>" for id in ids)
    topic = equations()[equation].topic
    return f"<p>{equation_link(equation)}, in {link(f'{topic}.html', TITLES[topic])}</p><ul>{items}</ul>"


def topic_of(seen: str) -> str:
    """The topic of a requirement, or of an equation."""
    return equations()[requirements()[seen].equation if seen in requirements() else seen].topic


def place(equation: str) -> tuple[int, str]:
    """The order of the book."""
    return TOPICS.index(equations()[equation].topic), equation


def unlinked(html: str) -> str:
    """A summary without links, which would open and close it."""
    return re.sub(r"</?a\b[^>]*>", "", html)
