"""Symbolic shapes and letters, typeset."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from encoder_spec.equation import Equation
from encoder_spec.notation import SYMBOLS
from generators import mathml

# Axes that belong to one equation alone, and what stands for any number of axes.
LOCAL = {
    "hd": r"h\,d",
    "gd": r"g\,d",
    "d_head": "d",
    "pairs": r"\tfrac{r}{2}",
    "height": r"\text{height}",
    "width": r"\text{width}",
    "time": r"\text{time}",
    "samples": r"\text{samples}",
    "m": "m",
    "*axes": r"\dots",
}


def axis(name: str) -> str:
    """The LaTeX of one axis of a shape annotation."""
    name = name.removeprefix("#")
    if name in SYMBOLS:
        return SYMBOLS[name].latex
    if name in LOCAL or name.isdigit():
        return LOCAL.get(name, name)
    return " + ".join(axis(part) for part in name.split("+"))


def typeset(axes: Iterable[str]) -> str:
    """A shape as MathML."""
    return mathml.render(mathml.product(axis(name) for name in axes) or "1")


def shapes(hint: Any) -> Iterator[tuple[str, ...]]:
    """The shapes that an annotation describes: one, or those of a tuple's members."""
    for part in get_args(hint) or (hint,):
        if hasattr(part, "dim_str"):
            yield tuple(part.dim_str.split())


def letters(equation: Equation) -> list[str]:
    """The letters of ``SYMBOLS`` in an equation's shapes and constants, in the table's order."""
    hints = [*equation.flowing.values(), equation.returns]
    axes = [name for hint in hints for shape in shapes(hint) for name in shape]
    axes += [name for shape in equation.parameters.values() for name in shape]
    used = {part for name in axes for part in name.removeprefix("#").split("+")} | set(equation.constants)
    return [letter for letter in SYMBOLS if letter in used]
