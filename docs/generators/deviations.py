"""The page of what goes wrong: every deviation beside the equation that it is mistaken for."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.quality.kill_matrix import AUTO, Row, on_file
from encoder_spec.equation import TOPICS, Equation, equations, slots
from generators import effects, heatmaps, listing
from generators.html import (
    anchor,
    code,
    deviation_address,
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
    "A conformance suite is worth what it catches. Each defect below is a wrong equation in one slot: {threads} of "
    "{all} were seen in public threads, which their entries cite, {common} are known from tutorials and ports, and the "
    "others are near neighbours of these. The suite runs every one of them as an encoder: what is listed under "
    "“noticed by” failed, and the diagnosis named it. All of it as a table to search: "
    '<a href="kill-matrix.html">the mutation matrix</a>.'
)

ALL = '<a href="what-goes-wrong.html">All topics.</a>'

MAPS = (
    "The maps show what the slot gives for one sequence, a row for each position: blue is positive, red negative, and "
    "the stronger the larger, on one scale for both. Where there are heads it is the one that changes most; what is "
    "infinite stays empty. Where the output does not change, the maps show a gradient that does."
)

FRONT = '---\ntitle: "What goes wrong: {}"\n---'


def pages() -> dict[str, str]:
    """A page that lists all deviations, and one for each topic that shows them."""
    topics = {topic: list(group) for topic, group in groupby(by_topic(), key=topic_of)}
    return {"what-goes-wrong.md": index(topics)} | {f"wrong-{topic}.md": page(topic, d) for topic, d in topics.items()}


def lead() -> str:
    """What the defects are, and how many of them are known from where."""
    known = [d.evidence for d in deviations().values() if d.evidence]
    cited = sum(any("#" in evidence for evidence in some) for some in known)
    return LEAD.format(threads=cited, all=len(deviations()), common=len(known) - cited)


def by_topic() -> list[Deviation]:
    """All deviations, in the order of the book."""
    order = list(slots())
    return sorted(deviations().values(), key=lambda d: (TOPICS.index(topic_of(d)), order.index(d.slot)))


def index(topics: Mapping[str, list[Deviation]]) -> str:
    """The list of all deviations. Each keeps its address here, whatever becomes of the pages that show them."""
    parts = [heading(1, "What goes wrong", "what-goes-wrong"), "", f'<p class="lead">{lead()}</p>', ""]
    parts += [summary(on_file()), ""]
    for topic, listed in topics.items():
        rows = [(listing_link(d), prose(d.definition), f"<code>{d.slot}</code>") for d in listed]
        parts += [
            heading(2, TITLES[topic], f"wrong-{topic}"),
            "",
            f"<p>{link(f'wrong-{topic}.html', f'All {len(listed)}, with their code')}</p>",
            table(("Deviation", "What it computes", "Slot"), rows, kind="wrong"),
            "",
        ]
    return "\n".join(parts)


def listing_link(d: Deviation) -> str:
    """The name of a deviation, which stands here and leads to where it is shown."""
    return f'<a class="anchor" id="{d.id}" href="{deviation_address(d.id)}">{d.id}</a>'


def page(topic: str, listed: list[Deviation]) -> str:
    """The deviations of one topic; the search has a document for each of them."""
    rows = on_file()
    chapter = link(f"{topic}.html", f"the chapter {TITLES[topic]}")
    lead = f"Wrong equations in the slots of {chapter}. Each was put into an encoder and run. {MAPS} {ALL}"
    parts = [FRONT.format(TITLES[topic]), heading(1, f"What goes wrong: {TITLES[topic]}", f"wrong-{topic}"), ""]
    parts += [f'<p class="lead">{lead}</p>', ""]
    for slot, group in groupby(listed, key=lambda d: d.slot):
        parts += [heading(2, f"Slot {slot}", f"wrong-slot-{slot}"), ""]
        parts += [
            f'<div class="deviation" data-search-exclude>{card(d, [r for r in rows if r.deviation == d.id])}</div>'
            for d in group
        ]
        parts += [""]
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
        ("Without a declared profile", judged_without_profile(rows)),
        ("Run in", ", ".join(profile_link(r.within) for r in rows if r.judged_as != AUTO) or "no profile yet"),
        ("Seen in", ", ".join(map(thread, d.evidence)) or "no thread that we know of"),
    ]
    wrong = "".join(figure("Wrong", name, choice) for name, choice in d.replaces.items())
    right = figure("Right", d.slot, equations()[d.of[0]])
    side_by_side = folded("The wrong line beside the right one", f'<div class="columns">{wrong}{right}</div>')
    name = f"<h3>{anchor(d.id, d.id)}</h3>"
    told = f"<div>{name}<p>{prose(d.definition)}</p>{picture(d, rows)}</div><div>{table((), facts, 'head')}</div>"
    return f'<div class="columns facts">{told}</div>{side_by_side}'


def picture(d: Deviation, rows: list[Row]) -> str:
    """What the slot gives, right and wrong, and what becomes of the output."""
    found = next((effects.effect_of(d, r.within) for r in rows if r.judged_as != AUTO), None)
    if found is None:
        return ""
    maps = heatmaps.side_by_side(found.right, found.wrong, found.of) if found.shows else ""
    return f'<figure class="effect">{maps}<figcaption>{found.says}</figcaption></figure>'


def judged_without_profile(rows: list[Row]) -> str:
    """Say how it is judged without a declared profile: a legitimate variant is identified as such."""
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
