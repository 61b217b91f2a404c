"""Matrices of a worked example as HTML: numbers, labels, and a tint by size."""

from collections.abc import Sequence
from html import escape

from torch import Tensor

from encoder_spec.equation import equations
from generators import mathml


class Shown:
    """HTML that a notebook shows as the result of a cell."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


def formula(id: str) -> str:
    """The formula of an equation, as on its card."""
    return f'<div class="formula" tabindex="0">{mathml.render(equations()[id].latex, display=True)}</div>'


def matrix(name: str, values: Tensor, rows: Sequence[str], columns: Sequence[str] = (), digits: int = 2) -> str:
    """A captioned matrix; ``name`` is LaTeX, and the tint of a cell grows with its magnitude."""
    largest = float(values.abs().max()) or 1.0
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(cell(float(v), largest, digits) for v in row)}</tr>'
        for label, row in zip(rows, values, strict=True)
    )
    labelled = f"<thead><tr><td></td>{head}</tr></thead>" if columns else ""
    return (
        f'<figure class="matrix"><figcaption>{mathml.render(name)}</figcaption>'
        f'<div class="scroll" tabindex="0"><table class="plain">{labelled}<tbody>{body}</tbody></table></div></figure>'
    )


def cell(value: float, largest: float, digits: int) -> str:
    """One number, tinted by its share of the largest; negative ones in another hue."""
    share = round(100 * abs(value) / largest)
    kind = "negative" if value < 0 else "positive"
    text = f"{value:.{digits}f}".replace("-", "−")
    return f'<td class="{kind}" style="--share: {share}%">{text}</td>'


def show(*parts: str) -> Shown:
    """Formulas and matrices, side by side where there is room."""
    return Shown(f'<div class="matrices">{"".join(parts)}</div>')
