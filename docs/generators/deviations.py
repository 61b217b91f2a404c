"""The page of what goes wrong: every deviation beside the equation that it is mistaken for."""

from collections.abc import Iterable
from itertools import groupby

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.kill_matrix import AUTO, Row, on_file
from encoder_spec.equation import TOPICS, Equation, equations
from generators import listing
from generators.html import (
    anchor,
    code,
    equation_link,
    folded,
    heading,
    link,
    profile_link,
    prose,
    requirement_link,
    table,
)
from generators.topics import TITLES

LEAD = (
    "A conformance suite is worth what it catches. Each defect below is a wrong equation in one slot, as people have "
    "really shipped it. The suite runs every one of them as an encoder: what is listed under “noticed by” failed, "
    "and the diagnosis named it. All of it as a table to search: "
    '<a href="kill-matrix.html">the kill matrix</a>.'
)


def page() -> str:
    """The Markdown of the page."""
    rows = on_file()
    lead = f'<p class="lead">{LEAD}</p>'
    parts = [heading(1, "What goes wrong", "what-goes-wrong"), "", lead, "", summary(rows), ""]
    by_topic = sorted(deviations().values(), key=lambda d: TOPICS.index(topic_of(d)))
    for topic, group in groupby(by_topic, key=topic_of):
        parts += [heading(2, TITLES[topic], f"wrong-{topic}"), "", '<div class="equation">']
        parts += [card(d, [r for r in rows if r.deviation == d.id]) for d in group]
        parts += ["</div>", ""]
    return "\n".join(parts)


def topic_of(d: Deviation) -> str:
    """The topic of the equation that a deviation is mistaken for."""
    return equations()[d.of[0]].topic


def summary(rows: Iterable[Row]) -> str:
    """How many deviations were run, and how they ended."""
    declared = [r for r in rows if r.judged_as != AUTO]
    named = sum(r.diagnosis[:1] == (r.deviation,) for r in declared)
    killed = sum(r.verdict == "nonconformant" for r in declared)
    return table(
        (),
        [
            ("Deviations", str(len(deviations()))),
            ("Run in profiles", f"{len(declared)} times"),
            ("Noticed", f"{killed} times"),
            ("Named first by the diagnosis", f"{named} times"),
        ],
        kind="head",
    )


def card(d: Deviation, rows: list[Row]) -> str:
    """One deviation: what it computes, its code beside the right one, what notices it, where it was seen."""
    failing = list(dict.fromkeys(id for r in rows if r.judged_as != AUTO for id in r.killed_by)) or d.noticed_by
    facts = [
        ("Mistaken for", ", ".join(map(equation_link, d.of))),
        ("Noticed by", ", ".join(map(requirement_link, failing))),
        ("Judged freely", judged_freely(rows)),
        ("Run in", ", ".join(profile_link(r.within) for r in rows if r.judged_as != AUTO) or "no profile yet"),
        ("Seen in", ", ".join(map(thread, d.evidence)) or "no thread that we know of"),
    ]
    wrong = "".join(figure("Wrong", name, choice) for name, choice in d.replaces.items())
    right = figure("Right", d.slot, equations()[d.of[0]])
    side_by_side = folded("The wrong line beside the right one", f'<div class="columns">{wrong}{right}</div>')
    name = f'<p class="caption">{anchor(d.id, d.id)}</p>'
    return f"{name}<p>{prose(d.definition)}</p>{table((), facts, 'head')}{side_by_side}"


def judged_freely(rows: list[Row]) -> str:
    """What `auto` makes of it: a legitimate variant is identified as such."""
    free = next((r for r in rows if r.judged_as == AUTO), None)
    if free is None or free.verdict == "nonconformant":
        return "a defect as well"
    return "a legitimate variant, identified as such" if free.verdict == "conformant" else free.verdict


def figure(title: str, name: str, choice: Equation | float) -> str:
    """The code of an equation, or the number of a constant, under a caption."""
    caption = f'<figcaption><span class="caption">{title}</span> {name}</figcaption>'
    text = listing.implementation(choice.function) if isinstance(choice, Equation) else f"{name} = {choice:g}"
    return f'<figure class="source">{caption}{code(text)}</figure>'


def thread(evidence: str) -> str:
    """A link to a public thread, or words."""
    repository, number, id = evidence.partition("#")
    return link(f"https://github.com/{repository}/issues/{id}", evidence) if number else evidence
