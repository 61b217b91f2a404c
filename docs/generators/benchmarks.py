"""The page of benchmarks: ratios with their targets, growth, counts, and how all of it came to be.

``benchmarks.jsonl`` is what ``make bench`` put on file; nothing here measures anything.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from generators.figures import INK, canvas, show
from generators.html import folded, heading, paragraphs, table

FILE = Path(__file__).parents[1] / "benchmarks.jsonl"

LEAD = (
    "How long does it take to judge an encoder, and how much memory? Times of one machine say little about another: "
    "each is divided by that of something that ran beside it."
)

MEASURED = (
    "The floor is a fresh process that imports torch, makes the encoder and runs it forwards and backwards once, in "
    "float64 on one thread. A check is a whole process too, on one thread and at full level. It judges without a "
    "worker, since the system states processor time and memory of single processes. The two run in turns. A round "
    "divides one by the other; the table shows the median of the rounds, and the least and the greatest beside it.",
    "Processor time is divided, since other work on the machine changes it least. The column of the clock shows the "
    "same ratio of the time that went by; where a benchmark runs several processes, the ratio is that of the clock. "
    "Peak memory is what the operating system states of the process.",
)

INCUMBENTS = (
    "What else people run, on the same machine and in the same turns. None of them answers the same question. A "
    "hand-written allclose compares outputs of one input without padding. PyTorch's classes compare gradients of its "
    "own layer with differences, at a width of 4.",
)

COUNTS = (
    "What one run of the check does, counted from outside. A pass repeats another if inputs, weights and mode are the "
    "same, bit for bit.",
)

KEPT = (
    "A change that makes a ratio more than a third larger than that of the version on file does not pass: both are "
    "measured in turns, in one run.",
)

FOLLOWED = (
    "check of 6×512 / floor",
    "check of BERT-base / floor",
    "wrong mask, 2×24 / right",
    "one more of 2×24 / import torch",
)
"""The ratios whose history is drawn: as many as there are lines that can be told apart."""


@dataclass(frozen=True)
class Figure:
    """A ratio as it was measured last, with the one before; ``values`` are the entries that hold it, oldest first."""

    name: str
    values: tuple[dict[str, Any], ...]
    commits: tuple[str, ...]

    @property
    def now(self) -> dict[str, Any]:
        """What was measured last."""
        return self.values[-1]

    @property
    def target(self) -> float | None:
        """What it should not exceed; None where nobody set one."""
        return self.now.get("target")


@cache
def entries() -> list[dict[str, Any]]:
    """The entries on file, oldest first."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@cache
def figures() -> dict[str, Figure]:
    """Every ratio on file, by name, in the order in which the newest entry lists them."""
    names = dict.fromkeys(name for entry in reversed(entries()) for name in entry["figures"])
    found = {}
    for name in names:
        holding = [entry for entry in entries() if name in entry["figures"]]
        found[name] = Figure(
            name, tuple(e["figures"][name] for e in holding), tuple(e["commit"].partition("-")[0][:7] for e in holding)
        )
    return found


def of(kind: str) -> list[Figure]:
    """The ratios of a kind that are measured today; points of curves are drawn elsewhere."""
    return [f for f in figures().values() if f.now.get("kind") == kind and not f.now.get("curve")]


def page() -> str:
    """The Markdown of the page."""
    sections = (
        ("Ratios", "ratios", f"{paragraphs(MEASURED)}\n\n{ratios(of('ratio'))}\n\n{missing()}"),
        ("Growth", "growth", growth()),
        ("Passes, draws and casts", "counts", f"{paragraphs(COUNTS)}\n\n{counts()}"),
        ("Beside it", "incumbents", f"{paragraphs(INCUMBENTS)}\n\n{ratios(of('incumbent'))}"),
        ("History", "history", f"{paragraphs(KEPT)}\n\n{history()}"),
    )
    parts = [heading(1, "Benchmarks", "benchmarks"), "", f'<p class="lead">{LEAD}</p>', ""]
    for title, anchor, text in sections:
        parts += [heading(2, title, anchor), "", text, ""]
    return "\n".join(parts)


def shown(value: float | None) -> str:
    """A ratio with two decimals; nothing where there is none."""
    return "" if value is None else f"{value:.2f}"


def outcome(figure: Figure) -> str:
    """Whether a ratio meets its target."""
    if figure.target is None:
        return ""
    return "met" if figure.now["ratio"] <= figure.target else "missed"


def ratios(some: Sequence[Figure]) -> str:
    """A table of ratios, with what they were before and what they should be."""
    rows = [
        (
            escape(f.name),
            shown(f.values[-2]["ratio"]) if len(f.values) > 1 else "",
            shown(f.now["ratio"]),
            f"{shown(f.now['low'])}–{shown(f.now['high'])}" if "low" in f.now else "",
            shown(f.now.get("wall")),
            shown(f.target),
            outcome(f),
            f"<code>{f.commits[-1]}</code>",
        )
        for f in some
    ]
    header = ("ratio", "before", "now", "spread", "clock", "target", "", "commit")
    return table(header, rows, kind="numbers") if rows else "<p>Nothing is on file yet.</p>"


def missing() -> str:
    """What the last run could not measure, folded, each with its reason."""
    reasons = entries()[-1].get("not measured", {})
    if not reasons:
        return ""
    rows = [(escape(name), escape(reason)) for name, reason in reasons.items()]
    return folded(f"Not measured in the last run: {len(rows)}", table(("ratio", "reason"), rows))


def curve(name: str) -> tuple[list[float], list[float]]:
    """The points of a curve."""
    points = sorted((f.now["x"], f.now["ratio"]) for f in figures().values() if f.now.get("curve") == name)
    return [x for x, _ in points], [y for _, y in points]


def growth() -> str:
    """Time over layers and positions, and peak memory over layers."""
    if not curve("time")[0]:
        return "<p>Nothing is on file yet.</p>"
    figure, axes = canvas(3, height=2.6)
    for plot, name, label in ((axes[0], "time", "layers of width 256"), (axes[1], "positions", "positions")):
        xs, ys = curve(name)
        plot.plot(xs, ys, marker="o", markersize=3)
        plot.set(xlabel=label, title="time / import torch", ylim=(0, None), xticks=xs)
    for name, label in (("peak", "peak of the check"), ("weights", "weights in float64")):
        axes[2].plot(*curve(name), marker="o", markersize=3, label=label)
    axes[2].set(xlabel="layers of width 256", title="memory in GB", ylim=(0, None), xticks=curve("peak")[0])
    axes[2].legend(fontsize=8)
    by_layers, memory, weights = (curve(name) for name in ("time", "peak", "weights"))
    slope = steepness(*by_layers)
    beyond = steepness(*memory) / steepness(*weights)
    drawn = show(
        figure,
        "Three plots: the time of a check over the number of layers, the time over the number of positions, and peak "
        "memory over the number of layers beside the weights in float64.",
        f"One more layer takes {slope:.2f} imports of torch, and {beyond:.1f} times its weights in memory. The "
        "encoders of the middle plot have two layers of width 64 and read sequences of one length.",
    )
    return drawn.html


def steepness(xs: Sequence[float], ys: Sequence[float]) -> float:
    """How much y grows for each x, between the last two points: what is constant has no share in it."""
    return (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])


def counts() -> str:
    """What judging each encoder takes, as it was counted last and before."""
    holding = [entry["counts"] for entry in entries() if entry.get("counts")]
    if not holding:
        return "<p>Nothing is on file yet.</p>"
    now, before = holding[-1], holding[-2] if len(holding) > 1 else {}
    kinds = list(next(iter(now.values())))

    def cell(encoder: str, kind: str) -> str:
        was = before.get(encoder, {}).get(kind)
        changed = was is not None and was != now[encoder][kind]
        return f"{now[encoder][kind]:,}" + (f" <small>(before: {was:,})</small>" if changed else "")

    rows = [(escape(kind), *(cell(encoder, kind) for encoder in now)) for kind in kinds]
    return table(("", *(escape(encoder.replace("_", " ")) for encoder in now)), rows, kind="numbers")


def history() -> str:
    """Some ratios in units of their targets, from entry to entry."""
    followed = [figures()[name] for name in FOLLOWED if name in figures()]
    if not followed:
        return "<p>Nothing is on file yet.</p>"
    figure, (axes,) = canvas(height=2.8)
    labels = [entry["commit"].partition("-")[0][:7] for entry in entries()]
    for one in followed:
        places = [place for place, entry in enumerate(entries()) if one.name in entry["figures"]]
        axes.plot(
            places, [v["ratio"] / (one.target or 1) for v in one.values], marker="o", markersize=3, label=one.name
        )
    mark_target(axes)
    axes.set(xticks=range(len(labels)), xlabel="commit", ylabel="ratio / target", ylim=(0, None))
    axes.set_xticklabels(labels, fontsize=7)
    axes.legend(fontsize=8)
    drawn = show(
        figure,
        "Ratios divided by their targets, for each commit on file; a line at 1 marks the target.",
        "Below the line a target is met.",
    )
    return drawn.html


def mark_target(axes: Axes) -> None:
    """Draw the line at which a target is met."""
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
