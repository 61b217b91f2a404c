"""Plots as inline SVG that follow the theme: ink takes the colour of the text, series take those of the style sheet.

Matplotlib draws with fixed colours, which stand for the style sheet's variables and are
replaced by them. Heat maps are transparent where a value is small, so that they suit a
light and a dark page alike.
"""

import hashlib
import io
import re
from collections.abc import Sequence
from html import escape

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from generators.matrices import Shown

INK = "#010203"
SERIES = ("#010101", "#020202", "#030303", "#040404")
"""The colours that stand for ``--series-1`` … ``--series-4`` of the style sheet."""

HUES = {"positive": (0.25, 0.32, 0.71), "negative": (0.78, 0.16, 0.16)}

mpl.use("svg")
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "encoder-spec",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.prop_cycle": mpl.cycler(color=SERIES, linestyle=["-", "--", "-.", ":"]),
        "legend.frameon": False,
        "lines.linewidth": 1.6,
    }
)


def canvas(columns: int = 1, height: float = 2.6, width: float = 7.2) -> tuple[Figure, Sequence[mpl.axes.Axes]]:
    """An empty figure with plots side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def tint(values: np.ndarray, largest: float) -> np.ndarray:
    """The colour of each number: blue for positive ones, red for negative ones, the more opaque the larger."""
    rgba = np.empty((*values.shape, 4))
    for sign, hue in ((values >= 0, HUES["positive"]), (values < 0, HUES["negative"])):
        rgba[sign, :3] = hue
    rgba[..., 3] = np.abs(values) / largest
    return rgba


def heat(axes: mpl.axes.Axes, values: np.ndarray, title: str = "") -> None:
    """A heat map of a matrix."""
    axes.imshow(tint(values, float(np.abs(values).max()) or 1.0), aspect="auto", interpolation="nearest")
    axes.set_title(title, fontsize=9)


def show(figure: Figure, says: str, caption: str = "") -> Shown:
    """The figure as HTML.

    Args:
        figure: what is drawn.
        says: what it shows, for those who do not see it.
        caption: a line below it.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    for place, colour in enumerate(SERIES, start=1):
        svg = svg.replace(colour, f"var(--series-{place})")
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--md-text-font-family)", svg)
    svg = re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>',
        rf'<svg viewBox="\1" role="img" aria-label="{escape(says)}">',
        svg,
        count=1,
    )
    svg = own_ids(re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL))
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Shown(f'<figure class="plot"><div class="scroll" tabindex="0">{svg}</div>{below}</figure>')


def own_ids(svg: str) -> str:
    """The same figure with ids that no other figure of a page has, and those alone that something refers to."""
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    own = f"plot-{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    svg = re.sub(r' id="([^"]+)"', lambda found: f' id="{own}{found[1]}"' if found[1] in used else "", svg)
    return re.sub(r'(url\(|href=")#', rf"\1#{own}", svg)
