"""Diagrams of a layer and of an encoder, drawn by running their equations on boxes in place of tensors.

An equation calls the equations in its slots and adds; given boxes, it therefore says which box
reads which. What a slot leaves as it is gets no box. Each box leads to its equation's card.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from encoder_spec.equation import STACKS, Equation, slots
from encoder_spec.profiles import Profile, profile
from generators.html import equation_address, equation_link, heading, profile_link

LEFT, WIDTH, HEIGHT, PITCH, RADIUS, SIDE = 70, 210, 34, 58, 12, 160
"""The left edge and the size of a box, from one row to the next, the radius of a sum, the width of a box beside."""


@dataclass(eq=False)
class Box:
    """What stands for a tensor: the box that computes it.

    Attributes:
        title: what is written in it.
        drawing: the drawing that it belongs to.
        equation: what it computes; an input has none.
        reads: the boxes whose results it reads, the mask left out.
        masked: whether it reads the mask.
        kind: ``box``, ``sum``, ``stacked`` for several layers, or ``input``.
    """

    title: str
    drawing: "Drawing"
    equation: Equation | None = None
    reads: tuple["Box", ...] = ()
    masked: bool = False
    kind: str = "box"

    def __matmul__(self, matrix: str) -> "Box":
        return self.drawing.box(Box(f"Map by {matrix}", self.drawing, self.drawing.equation, (self,)))

    def __add__(self, other: "Box | str") -> "Box":
        if isinstance(other, str):
            return self  # a bias
        return self.drawing.box(Box("Sum", self.drawing, self.drawing.equation, (self, other), kind="sum"))


@dataclass
class Drawing:
    """The boxes of one equation, in the order in which they are computed."""

    equation: Equation
    chosen: Profile
    boxes: list[Box] = field(default_factory=list)

    def box(self, new: Box) -> Box:
        """Put a box into the drawing."""
        self.boxes.append(new)
        return new

    def given(self, title: str) -> Box:
        """An input."""
        return self.box(Box(title, self, kind="input"))

    def run(self, equation: Equation, mask: object, *inputs: Box) -> Box:
        """Evaluate an equation on boxes; its flowing arguments are the inputs, and the mask where it takes one."""
        supplied: dict[str, Any] = {name: name for name in equation.parameters}
        supplied |= {name: self.filler(name, mask) for name in equation.slots}
        supplied |= {name: [supplied[name]] for name in STACKS.keys() & supplied.keys()}
        flowing = iter(inputs)
        arguments = [mask if name == "keep" else next(flowing) for name in equation.flowing if name != "segment_ids"]
        result: Box = equation.function(*arguments, **supplied)
        return result

    def filler(self, argument: str, mask: object) -> Callable[..., Any]:
        """What stands for the equation in a slot: one box, none where it changes nothing, those of the input."""
        several = argument in STACKS
        slot = STACKS[argument] if several else argument if argument in slots() else argument.partition("_")[0]
        equation = self.chosen[slot]
        number = argument.rpartition("_")[2]
        title = f"{equation.title} {number}" if number.isdigit() else equation.title

        def compute(*flowing: Any) -> Box:
            reads = tuple(x for x in flowing if isinstance(x, Box))
            if equation.variant == "none":
                return reads[0]
            if slot == "input":
                return Drawing(equation, self.chosen, self.boxes).run(equation, mask, *reads)
            of_shape_alone = getattr(equation.returns, "dim_str", "").split()[:1] == ["n"]
            kind = "stacked" if several else "sum" if slot == "residual" else "box"
            own = Box(title, self, equation, () if of_shape_alone else reads, len(reads) < len(flowing), kind)
            return self.box(own)

        return compute


def layer(order: str) -> str:
    """The figure of a layer: ``order`` is ``post-ln`` or ``pre-ln``."""
    chosen = profile("torch-post-ln").replace(layer=order, dropout="inverted")
    drawing = Drawing(chosen["layer"], chosen)
    drawing.run(chosen["layer"], object(), drawing.given("x"))
    return figure(drawing, chosen["layer"].title, equation_link(chosen["layer"].id), f"diagram-{order}")


def stack(name: str = "vaswani-2017") -> str:
    """The figure of the encoder of a published profile, from its input to its output."""
    chosen = profile(name).replace(dropout="inverted")
    drawing = Drawing(chosen["stack"], chosen)
    given = "X" if chosen["input"].variant == "given" else next(iter(chosen["embedding"].flowing))
    drawing.run(chosen["stack"], object(), drawing.given(given))
    return figure(drawing, f"Encoder of the profile {name}", profile_link(name), f"diagram-{name}")


def page() -> str:
    """The Markdown of the page of diagrams."""
    lead = (
        '<p class="lead">What reads what, drawn by running the equations on boxes. Each box leads to the equation '
        "that it computes; slots in which nothing happens have none.</p>"
    )
    shown = ("vaswani-2017", "bert", "vit")
    encoders = "".join(map(stack, shown))
    layers = "".join(map(layer, ("post-ln", "pre-ln")))
    return "\n".join(
        [
            heading(1, "Diagrams", "diagrams"),
            "",
            lead,
            "",
            heading(2, "The layer in its two orders", "layers"),
            "",
            f'<div class="diagrams">{layers}</div>',
            "",
            heading(2, "The encoder of three profiles", "encoders"),
            "",
            f'<div class="diagrams">{encoders}</div>',
            "",
        ]
    )


# SVG ---------------------------------------------------------------------------------------


def figure(drawing: Drawing, title: str, caption: str, id: str) -> str:
    """A drawing as inline SVG, with a title and a description for those who do not see it; ``caption`` is HTML."""
    places = rows(drawing)
    last = drawing.boxes[-1]
    height = top(places[last] + 1)
    beside = any(is_beside(box) for box in drawing.boxes)
    width = LEFT + WIDTH + (SIDE + 34 if beside else 50)
    parts = [part for box in drawing.boxes for part in (*arrows(box, places, id), shape(box, places[box]))]
    parts.append(arrow(f"M{LEFT + WIDTH / 2} {below(last, places[last])}V{height - 1}", id))
    says = " ".join(sentence(box) for box in drawing.boxes if box.kind != "input")
    marker = (
        f'<marker id="{id}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    )
    return (
        f'<figure class="diagram"><svg viewBox="0 0 {width} {height}" width="{width}" role="group" '
        f'aria-labelledby="{id}-title" aria-describedby="{id}-says">'
        f'<title id="{id}-title">{escape(title)}</title><desc id="{id}-says">{escape(says)}</desc>'
        f'<defs>{marker}<path d="M0 0L8 4L0 8z"/></marker></defs>{"".join(parts)}</svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def rows(drawing: Drawing) -> dict[Box, int]:
    """The row of each box; one that reads nothing stands beside the box that reads it."""
    places: dict[Box, int] = {}
    for box in drawing.boxes:
        if not is_beside(box):
            places[box] = len(places)
    for box in drawing.boxes:
        places |= {read: places[box] for read in box.reads if is_beside(read)}
    return places


def is_beside(box: Box) -> bool:
    """Whether a box reads nothing, but is no input either."""
    return box.kind != "input" and not box.reads


def top(row: int) -> int:
    """The upper edge of the boxes of a row."""
    return row * PITCH


def below(box: Box, row: int) -> float:
    """Where the line from a box to the next one begins."""
    half = RADIUS if box.kind == "sum" else 10 if box.kind == "input" else HEIGHT / 2
    return top(row) + HEIGHT / 2 + half


def shape(box: Box, row: int) -> str:
    """A box with its title, as a link to its equation."""
    middle, y = LEFT + WIDTH / 2, top(row) + HEIGHT / 2
    if box.kind == "input":
        return f'<text class="input" x="{middle}" y="{y}">{escape(box.title)}</text>'
    if box.kind == "sum":
        drawn = f'<circle cx="{middle}" cy="{y}" r="{RADIUS}"/><path d="M{middle - 6} {y}h12m-6 -6v12"/>'
        return link(box, drawn)
    x, width = (LEFT + WIDTH + 26, SIDE) if is_beside(box) else (LEFT, WIDTH)
    behind = f'<rect x="{x + 5}" y="{top(row) - 5}" width="{width}" height="{HEIGHT}" rx="5"/>'
    drawn = f'<rect x="{x}" y="{top(row)}" width="{width}" height="{HEIGHT}" rx="5"/>'
    times = f'<text class="input" x="{x + width + 22}" y="{y}">× N</text>' if box.kind == "stacked" else ""
    text = f'<text x="{x + width / 2}" y="{y}">{escape(box.title)}</text>'
    return link(box, (behind if box.kind == "stacked" else "") + drawn + text) + times


def link(box: Box, drawn: str) -> str:
    """What is drawn, leading to the box's equation."""
    assert box.equation is not None
    return (
        f'<a href="{equation_address(box.equation.id)}" aria-label="{escape(box.title)}: {box.equation.id}">{drawn}</a>'
    )


def arrows(box: Box, places: dict[Box, int], id: str) -> Iterator[str]:
    """The arrows into a box: from the box above, past others on the right, from beside, from the mask on the left."""
    middle, row = LEFT + WIDTH / 2, places[box]
    y = top(row) + HEIGHT / 2
    half = RADIUS if box.kind == "sum" else HEIGHT / 2
    for read in box.reads:
        if is_beside(read):
            yield arrow(f"M{LEFT + WIDTH + 26} {y}H{middle + half + 1}", id)
        elif places[read] == row - 1:
            edge = y - half - (6 if box.kind == "stacked" else 1)
            yield arrow(f"M{middle} {below(read, row - 1)}V{edge}", id)
        else:
            start, right = top(places[read]) + HEIGHT + 8, LEFT + WIDTH + 26
            bend = f"q8 0 8 8V{y - 8}q0 8 -8 8"
            yield arrow(f"M{middle} {start}H{right - 8}{bend}H{middle + half + 1}", id)
    if box.masked:
        yield f'<text class="input" x="24" y="{y}">mask</text>' + arrow(f"M46 {y}H{LEFT - 1}", id)


def arrow(path: str, id: str) -> str:
    """A line with a tip."""
    return f'<path class="arrow" d="{path}" marker-end="url(#{id}-tip)"/>'


def sentence(box: Box) -> str:
    """What a box reads, in words."""
    reads = [read.title for read in box.reads] + ["the mask"] * box.masked
    return f"{box.title} reads {' and '.join(reads) or 'the number of positions alone'}."
