"""The page of what goes wrong: every deviation beside the equation that it is mistaken for."""

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from itertools import groupby

from conformance_tests.deviations import Deviation, deviations
from conformance_tests.quality.kill_matrix import AUTO, Row, on_file
from encoder_spec.equation import TOPICS, Equation, equations, slots
from encoder_spec.profiles import PROFILES, Profile
from generators import effects, heatmaps, listing
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

MOST_PROFILES = 3
"""So many profiles that have a deviation by design are named."""

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
    return f'<a class="anchor" id="{d.id}" href="{d.page}">{d.id}</a>'


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
        ("Run in", ", ".join(profile_link(r.within) for r in rows if r.judged_as != AUTO)),
        ("Seen in", ", ".join(map(thread, d.evidence)) or "no thread that we know of"),
    ]
    right = equations()[d.of[0]]
    wrong = "".join(figure("Wrong", name, choice, right) for name, choice in d.replaces.items())
    instead = next((e for e in d.replaces.values() if isinstance(e, Equation)), right)
    mended = figure("Right", d.slot, right, instead)
    side_by_side = folded(
        "The lines that cause it, beside the right ones", f'<div class="columns">{wrong}{mended}</div>'
    )
    name = f"<h3>{anchor(d.id, d.id)}</h3>"
    told = f"<div>{name}<p>{prose(d.definition)}</p><p>{mend(d)}</p>{picture(d, rows)}</div>"
    told += f"<div>{table((), [fact for fact in facts if fact[1]], 'head')}</div>"
    return f'<div class="columns facts">{told}</div>{side_by_side}'


def mend(d: Deviation) -> str:
    """How to mend it: write the right lines, or declare a profile in which it is right."""
    right = equation_link(d.of[0])
    constants = [f"{name} = {value:g}" for name, value in d.replaces.items() if isinstance(value, int | float)]
    if constants:
        said = f"<b>Mend:</b> the declared profile has another constant than {', '.join(constants)}: set that one."
    else:
        said = f"<b>Mend:</b> write the marked lines of {right} in the place of yours."
    chosen_by = [p.name for p in PROFILES.values() if d.is_variant and holds(p, d)]
    if not chosen_by:
        return said
    more = f" and {len(chosen_by) - MOST_PROFILES} more" if len(chosen_by) > MOST_PROFILES else ""
    named = ", ".join(map(profile_link, chosen_by[:MOST_PROFILES]))
    return f"{said} If you mean what you compute, declare a profile that has it: {named}{more}."


def holds(profile: Profile, d: Deviation) -> bool:
    """Whether a profile makes the choice that is a deviation elsewhere."""
    choices = profile.choices()
    return all(
        choices.get(place) == (wrong.variant if isinstance(wrong, Equation) else wrong)
        for place, wrong in d.replaces.items()
    )


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


def figure(title: str, name: str, choice: Equation | float, other: Equation) -> str:
    """The code of an equation, or the number of a constant, under a caption; lines that ``other`` lacks are marked."""
    caption = f'<figcaption><span class="caption">{title}</span> {name}</figcaption>'
    if not isinstance(choice, Equation):
        return f'<figure class="source">{caption}{code(f"{name} = {choice:g}")}</figure>'
    text, against = (listing.implementation(e.function) for e in (choice, other))
    return f'<figure class="source {title.lower()}">{caption}{code(text, *differing(text, against))}</figure>'


def differing(text: str, other: str) -> list[int]:
    """The numbers of the lines in a body of code that another has not; signatures name what they take in both."""
    lines = text.splitlines()
    blocks = SequenceMatcher(None, lines, other.splitlines(), autojunk=False).get_matching_blocks()
    same = {block.a + offset for block in blocks for offset in range(block.size)}
    return [n + 1 for n, line in enumerate(lines) if n not in same and line.strip() and not line.startswith("def ")]


def thread(evidence: str) -> str:
    """A link to a public thread, or words."""
    repository, number, id = evidence.partition("#")
    return link(f"https://github.com/{repository}/issues/{id}", evidence) if number else evidence
