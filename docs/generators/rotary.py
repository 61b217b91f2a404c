"""The picture of the two conventions of rotary positions, which ``rotary.js`` turns for the reader.

All that depends on the convention is read off the equations here: the script is told which features make a pair.
What the picture shows at first is computed from the equations, too, and stands there without scripts.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape

import torch
from torch import Tensor

from encoder_spec.rotation import angles, halves, pairs
from generators import mathml
from generators.html import link, table

Q = torch.tensor([0.9, -0.4, 0.7, 0.3, 0.5, 1.0, -0.6, 0.8], dtype=torch.float64)
K = torch.tensor([0.8, 0.6, -0.3, 0.9, -0.5, 0.7, 0.4, -0.8], dtype=torch.float64)
"""A query and a key, with as many pairs of features as there are colours of series."""

M, N, LAST = 5, 2, 63
"""The positions of the query and the key at first, and the last one that either can take."""

BASE, BASES = 10_000, (100, 1_000, 10_000, 160_000)
"""The base θ at first, and those to choose from: of DINOv3, Nomic, RoFormer, and ModernBERT's global layers."""

SHIFTS = ((0, 0), (1, 1), (1, 0))
"""By how much query and key move on in each row of the products: not at all, both alike, the query alone."""

Rotation = Callable[..., Tensor]


def turned(rotation: Rotation, x: Tensor, m: int, theta: float = BASE) -> Tensor:
    """Return the vector ``x`` as an equation of the slot ``rotation`` turns it at position ``m``."""
    everywhere = x.expand(1, 1, m + 1, len(x))
    return rotation(everywhere, angles=partial(angles, theta=theta, fraction=1.0))[0, 0, m]


def partners(rotation: Rotation) -> list[tuple[int, ...]]:
    """Read off which features an equation turns as one pair: those between which it moves a unit vector."""
    reached = [tuple(turned(rotation, one, 1).nonzero().flatten().tolist()) for one in torch.eye(len(Q)).double()]
    return sorted(set(reached))


def permutation() -> list[int]:
    """Return the order of the columns of W_Q and W_K in which neighbours are what halves turn as one pair."""
    return [feature for pair in partners(halves) for feature in pair]


@dataclass(frozen=True)
class Panel:
    """One reading of the same weights.

    Attributes:
        name: its name, in the head of a table.
        title: its name with the equation, as HTML.
        rotation: the equation.
        columns: the order of the columns of W_Q and W_K, and so of the features of a query and a key.
    """

    name: str
    title: str
    rotation: Rotation
    columns: list[int]

    @property
    def query(self) -> Tensor:
        """The query."""
        return Q[self.columns]

    @property
    def key(self) -> Tensor:
        """The key."""
        return K[self.columns]

    def product(self, m: int, n: int) -> float:
        """Return the product of the query at position m and the key at position n."""
        return float(turned(self.rotation, self.query, m) @ turned(self.rotation, self.key, n))


def panels() -> list[Panel]:
    """Return what the picture compares."""
    as_they_are = [*range(len(Q))]
    of_halves, of_pairs = link("#rotation.halves", "Halves"), link("#rotation.pairs", "Pairs")
    return [
        Panel("halves", of_halves, halves, as_they_are),
        Panel("pairs", f"{of_pairs}, the same weights", pairs, as_they_are),
        Panel("pairs, permuted", f"{of_pairs}, columns permuted", pairs, permutation()),
    ]


def picture() -> str:
    """The picture, the form that moves it, and its script."""
    drawn = "\n".join([*map(panel, panels()), products()])
    return (
        f'<figure class="rotary" id="two-conventions">\n{form()}\n<div class="panels">\n{drawn}\n</div>\n'
        f"<figcaption>{CAPTION}</figcaption>\n</figure>\n"
        '<script src="javascripts/rotary.js" defer></script>'
    )


CAPTION = (
    f"One head with {len(Q)} features. Features of one colour are one pair, and each pair is a point that turns on its "
    "circle. The filled point is the query, the hollow one the key; the faint ones show where they are at position 0. "
    "Below each circle stands the angle by which it turns from one position to the next. "
    f'<span class="still">The picture stands at m = {M}, n = {N} and θ = {BASE:,}; scripts would move it.</span>'
)


def form() -> str:
    """The positions and the base; hidden until a script runs."""
    sliders = "".join(
        f'<label><span>{what} at {letter} = <b data-shown="{letter}">{at}</b></span>'
        f'<input type="range" name="{letter}" min="0" max="{LAST}" value="{at}"></label>'
        for what, letter, at in (("Query", "m", M), ("Key", "n", N))
    )
    bases = "".join(f'<option value="{b}"{" selected" * (b == BASE)}>{b:,}</option>' for b in BASES)
    return (
        f'<form class="fields" hidden>{sliders}'
        f'<label><span>Base θ</span><select name="theta">{bases}</select></label></form>'
    )


def panel(shown: Panel) -> str:
    """One convention: its pairs, the vectors before and after, and a dial for each pair."""
    together = partners(shown.rotation)
    data = {"pairs": together, "query": shown.query.tolist(), "key": shown.key.tolist()}
    told = "".join(f' data-{name}="{escape(json.dumps(value))}"' for name, value in data.items())
    return (
        f'<section{told}>\n<p class="caption">{shown.title}</p>\n{vectors(shown, together)}\n'
        f'<div class="dials">{"".join(dial(shown, i, pair) for i, pair in enumerate(together))}</div>\n</section>'
    )


def vectors(shown: Panel, together: list[tuple[int, ...]]) -> str:
    """The features as a table, with an arc above the two of each pair."""
    of = {feature: i for i, pair in enumerate(together) for feature in pair}
    cells = {
        ("column", ""): map(str, shown.columns),
        ("q", ""): (f"{x:.1f}" for x in shown.query),
        ("R_m q", "query"): map(entry, turned(shown.rotation, shown.query, M)),
        ("k", ""): (f"{x:.1f}" for x in shown.key),
        ("R_n k", "key"): map(entry, turned(shown.rotation, shown.key, N)),
    }
    rows = [
        f"<tr{f' data-turned={vector!r}' * bool(vector)}>"
        f'<th scope="row">{name if name == "column" else mathml.render(name)}</th>'
        + "".join(f'<td class="pair-{of[c]}">{signed(text)}</td>' for c, text in enumerate(texts))
        + "</tr>"
        for (name, vector), texts in cells.items()
    ]
    arcs = "".join(arc(i, *pair) for i, pair in enumerate(together))
    svg = f'<svg viewBox="0 0 {len(Q)} 1" preserveAspectRatio="none" aria-hidden="true">{arcs}</svg>'
    arched = f'<tr><td></td><td colspan="{len(Q)}" class="arcs">{svg}</td></tr>'
    return f'<table class="plain vectors"><tbody>{arched}{"".join(rows)}</tbody></table>'


def entry(value: Tensor) -> str:
    """A number of a turned vector, as the script writes it."""
    return f"{float(value):.2f}"


def signed(text: str) -> str:
    """A number with the sign of typography."""
    return text.replace("-", "−")


def arc(i: int, one: int, other: int) -> str:
    """An arc between two features of a row, the higher the farther they are apart."""
    apex = 1 - (other - one) ** 0.5
    return f'<path class="pair-{i}" d="M{one + 0.5} 1Q{(one + other + 1) / 2} {apex:g} {other + 0.5} 1"></path>'


def dial(shown: Panel, i: int, pair: tuple[int, ...]) -> str:
    """One pair as points of the plane: the query and the key, where they begin and where they have turned to."""
    speed = float(angles(Q.expand(1, 1, 2, len(Q)), theta=BASE, fraction=1.0)[1, i])
    hands = hand("query", shown.query[[*pair]], M * speed) + hand("key", shown.key[[*pair]], N * speed)
    columns = ", ".join(str(shown.columns[feature]) for feature in pair)
    return (
        f'<div class="pair-{i}"><svg viewBox="-1.4 -1.4 2.8 2.8" aria-hidden="true">'
        f'<path class="axes" d="M-1.4 0H1.4M0 -1.4V1.4"></path>{hands}</svg>'
        f"<b>{columns}</b> <span data-speed>{speed:.3g}</span> rad</div>"
    )


def hand(vector: str, point: Tensor, angle: float) -> str:
    """A point at position 0, its circle, and the point turned: y points down in SVG, and so angles are negative."""
    x, y = point[0].item(), -point[1].item()
    dot = f'<circle class="point" cx="{x:g}" cy="{y:g}" r=".14"></circle>'
    return (
        f'<g class="{vector}"><circle class="orbit" r="{point.norm():.4f}"></circle><g class="start">{dot}</g>'
        f'<g class="hand" style="transform: rotate({-angle:g}rad)"><path d="M0 0L{x:g} {y:g}"></path>{dot}</g></g>'
    )


def products() -> str:
    """The product of query and key in every panel, and after moves of both and of one."""
    rows = [
        (
            f'<span data-shift="[{shift[0]}, {shift[1]}]">{at}</span>',
            *(signed(f"{p.product(m, n):.4f}") for p in panels()),
        )
        for shift in SHIFTS
        for m, n in [(M + shift[0], N + shift[1])]
        for at in [f"m = {m}, n = {n}"]
    ]
    head = mathml.render(r"\langle R_m q,\ R_n k \rangle")
    return table((head, *(p.name for p in panels())), rows, kind="numbers products")
