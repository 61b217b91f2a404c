"""The conformance matrix of real encoders, and what was found out about each of them.

``frameworks.json`` is what ``make frameworks`` found; nothing here judges anything.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from encoder_spec.equation import requirements, slots, variants
from encoder_spec.profiles import PROFILES
from generators.filters import SCRIPT, Entry, filtered
from generators.html import (
    equation_link,
    heading,
    link,
    paragraphs,
    profile_link,
    prose,
    requirement_link,
    slug,
    table,
)

FILE = Path(__file__).parents[1] / "frameworks.json"

HANDED_OVER = (
    ("torch, transformers", "a module"),
    (
        "Keras, keras-hub",
        "a layer or a model, built or not; or layers one after the other: a function that returns a list of them. "
        "On the JAX or the torch backend",
    ),
    (
        "Flax",
        "a module of <code>nnx</code>; of <code>linen</code> what <code>module.bind(variables)</code> returns, or the "
        "pair <code>(module, variables)</code>",
    ),
    ("Paddle", "a layer"),
    ("ONNX", "the path of a file"),
)

LEAD = (
    "Encoders that nobody changed for the suite, judged without any adapter: what each one computes, how far the "
    "evidence goes, and how near its outputs are to those of the specification. The same as data: "
    '<a href="frameworks.json">frameworks.json</a>.'
)

HOW = (
    "Each framework is an extra of the package. In a clone of the repository: ``pip install .[keras]``, ``[flax]``, "
    "``[paddle]``, ``[onnx]``, ``[transformers]``.",
    "What is handed over is judged in float64 and in evaluation mode, and comes back as it was; an ONNX file is judged "
    "in its own precision, with a budget derived from it. Where a framework rounds on its own account, as the "
    "attention of JAX does in its softmax, that rounding is left out: it belongs to no equation, and the report "
    "says so.",
    "“Undetermined” is an encoder with parts that no slot of the specification has, such as the windows of Longformer: "
    "it is not wrong, it is another thing, and the report names the part.",
)

DECIDED = ("Requirement", "Outcome, evidence, largest error")

LONGEST_REASON = 140
"""So many letters of a reason stand in a row."""

MOST_DIFFERENCES = 2
"""So many differences to the nearest profile stand in a row."""

NEAREST = re.compile(r"no published profile; the nearest is (?P<profile>[\w-]+), which differs in (?P<differences>.+)")
DIFFERENCE = re.compile(r"(\S+) (.+?) \(there .+?\)(?:, |$)")
SIGNS = {"eps": "ε", "norm_final.eps": "ε of the final norm"}

HEADER = ("Encoder", "Verdict, level", "Profile", "Largest difference", "Layer", "Norm", "Activation")


@dataclass(frozen=True)
class Judged:
    """One encoder of ``frameworks.json``."""

    group: str
    row: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.row[name]

    @property
    def id(self) -> str:
        """The name of its page."""
        return f"encoder-{slug(self.group)}-{slug(self.subject)}"

    @property
    def difference(self) -> str:
        """The largest difference to the specification's outputs, over all probes."""
        return "" if self.error is None else f'<span class="number">{power_of_ten(self.error)}</span>'


def power_of_ten(x: float) -> str:
    """A number as a short decimal times a power of ten."""
    if x == 0:
        return "0"
    digits, power = f"{x:.1e}".split("e")
    return f"{digits} · 10<sup>{int(power)}</sup>".replace("-", "−")


@cache
def judged() -> list[Judged]:
    """Every encoder, in the order of the file."""
    groups = json.loads(FILE.read_text(encoding="utf-8"))
    return [Judged(group, row) for group, rows in groups.items() for row in rows]


def by_group() -> Iterator[tuple[str, list[Judged]]]:
    """The encoders of each framework."""
    for group, encoders in groupby(judged(), key=lambda e: e.group):
        yield group, list(encoders)


def pages() -> dict[str, str]:
    """The matrix, and a page for each encoder."""
    return {"frameworks.md": matrix(), **{f"{e.id}.md": one(e) for e in judged()}}


def matrix() -> str:
    """The Markdown of the matrix."""
    found = judged()
    choices = {
        "framework": ("Framework", {e.group: e.group for e in found}),
        "verdict": ("Verdict", {e.verdict: e.verdict for e in found}),
        "level": ("Level", {e.level: e.level for e in found}),
        "profile": ("Profile", {name: name for name in (*PROFILES, "unpublished")}),
        **{slot: (slot.capitalize(), {v: v for v in variants(slot)}) for slot in ("layer", "norm", "activation")},
    }
    ran = [(escape(group), encoders[0].versions, when(encoders), str(len(encoders))) for group, encoders in by_group()]
    return "\n".join(
        [
            "---\nhide: [toc]\n---",
            heading(1, "Conformance matrix", "frameworks"),
            "",
            f'<p class="lead">{LEAD}</p>',
            "",
            filtered("conformance-matrix", HEADER, list(map(entry, found)), choices),
            SCRIPT,
            "",
            heading(2, "What was run", "what-was-run"),
            "",
            table(("Framework", "Versions", "Judged on", "Encoders"), ran),
            "",
            heading(2, "What to hand over", "what-to-hand-over"),
            "",
            table(("Framework", "Target"), HANDED_OVER),
            "",
            paragraphs(HOW),
            "",
        ]
    )


def when(encoders: list[Judged]) -> str:
    """The days on which encoders were judged."""
    return ", ".join(sorted({e.judged for e in encoders}))


def entry(e: Judged) -> Entry:
    """One encoder as a row of the matrix."""
    chosen = {slot: str(e.choices[slot]) for slot in ("layer", "norm", "activation") if slot in e.choices}
    failed = "".join(f", {requirement_link(id)}" for id in e.failed)
    return Entry(
        (
            f"{link(f'{e.id}.html', escape(e.subject))}<br><small>{escape(e.group)}</small>",
            f"{verdict(e)}{failed}<br><small>{e.level}</small>{reason(e)}",
            profile_of(e),
            e.difference,
            *(chosen.get(slot, "") for slot in ("layer", "norm", "activation")),
        ),
        {
            "framework": [e.group],
            "verdict": [e.verdict],
            "level": [e.level],
            "profile": [e.profile],
            **{slot: [chosen.get(slot, "")] for slot in ("layer", "norm", "activation")},
        },
    )


def reason(e: Judged) -> str:
    """Why an encoder is not conformant, in short: its page has the whole sentence."""
    if e.verdict == "conformant":
        return ""
    said = e.reason.partition(" [input ")[0]
    cut = said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON].rsplit(' ', 1)[0]} …"
    return f'<br><small class="reason">{escape(cut)}</small>'


def nearest(e: Judged) -> str:
    """The nearest published profile and what differs, of an encoder that computes another choice."""
    note = next((found for note in e.notes if (found := NEAREST.fullmatch(note))), None)
    if note is None:
        return ""
    differences = DIFFERENCE.findall(note["differences"])
    shown = [f"{SIGNS.get(what, what)} = {mine}" for what, mine in differences[:MOST_DIFFERENCES]]
    more = len(differences) - len(shown)
    said = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"{profile_link(note['profile'])}, but {escape(said)}"


def verdict(e: Judged) -> str:
    """The verdict, marked."""
    return f'<span class="verdict {e.verdict}">{e.verdict}</span>'


def profile_of(e: Judged) -> str:
    """The published profile, or the nearest one and the difference."""
    return profile_link(e.profile) if e.profile in PROFILES else nearest(e) or e.profile


# One by one --------------------------------------------------------------------------------


def one(e: Judged) -> str:
    """The Markdown of an encoder's own page."""
    facts = [
        ("Verdict", verdict(e)),
        ("Level", e.level),
        ("Profile", profile_of(e)),
        ("Agreement", f"largest difference {e.difference} in {e.dtype}" if e.difference else ""),
        ("Failed", ", ".join(map(requirement_link, e.failed))),
        ("Calling convention", "; ".join(f"{escape(key)}: {escape(text)}" for key, text in e.conventions.items())),
        ("Judged", f"{e.judged} with {escape(e.versions)}, in {e.seconds:.1f} s"),
    ]
    said = [f"<p><code>{escape(e.reason)}</code></p>" if e.failed else ""]
    said += [f"<p>{escape(note[:1].upper() + note[1:])}</p>" for note in e.notes]
    parts = [
        "---\nhide: [toc]\n---",
        heading(1, e.subject, "encoder"),
        "",
        f'<p class="lead">{escape(e.group)}. One of the encoders of <a href="frameworks.html">the matrix</a>.</p>',
        "",
        table((), [fact for fact in facts if fact[1]], kind="head"),
        "".join(said),
        "",
    ]
    if e.choices:
        chosen = [(escape(slot), choice(slot, value)) for slot, value in e.choices.items()]
        parts += [heading(2, "Its choice of equations", "choices"), "", table((), chosen, kind="choices head"), ""]
    if e.requirements:
        rows = [decided(id, found) for id, found in e.requirements.items()]
        parts += [heading(2, "Requirements", "requirements"), "", table(DECIDED, rows, kind="results"), ""]
    return "\n".join(parts)


def decided(id: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """What became of one requirement."""
    stated = requirements()[id]
    outcome = f'<span class="outcome {found["outcome"]}">{found["outcome"]}</span>'
    error, budget = found["error"], found["budget"]
    relation = "" if error is None or budget is None else "≤" if error <= budget else ">"
    numbers = f"{power_of_ten(error)} {relation} {power_of_ten(budget)}" if relation else ""
    return (
        f"{requirement_link(id)} {prose(stated.statement)}",
        f'{outcome}<br><small>{found["level"]} <span class="number">{numbers}</span></small>',
    )


def choice(slot: str, value: object) -> str:
    """A variant, leading to its equation; constants and sizes as they are."""
    place = slot if slot in slots() else slot.partition("_")[0]
    if place in slots() and value in variants(place):
        return equation_link(variants(place)[str(value)].id)
    return escape(f"{value:g}" if isinstance(value, float) else str(value))
