"""The architecture in one picture: the rooms of the suite, the parts of the specification, and the book.

Rooms, arrows and floors are read from the imports by grimp, which also stands behind ``make lint``. An arrow that
others imply is left out. Each box says what the docstring of its package says. Only the parts of the specification
and the pages that boxes lead to are written down here.

The drawing takes the usual three steps: every part gets a floor below all of its users; the parts of a floor are
ordered so that few arrows cross; places are then chosen so that arrows run straight. An arrow keeps a place of its own
on each floor that it passes, so that it never runs through a box.
"""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from html import escape
from itertools import pairwise
from textwrap import wrap

import grimp

from encoder_spec.equation import TOPICS
from generators.html import folded, link
from generators.kept import folder_of

BOOK, SUITE, SPECIFICATION = "generators", "conformance_tests", "encoder_spec"
UNDRAWN = {f"{SUITE}.{name}" for name in ("__main__", "conftest", "meta_tests")}
"""The entry points of the suite for Python and pytest, and the tests of the suite itself."""

GROUPS = {
    "equations": ("equation", "notation", "sources", *TOPICS),
    "profiles": ("profiles",),
    "assembly": ("assembly", "dimensions", "module"),
    "cost": ("cost", "primes", "steps"),
    "proof": ("proof",),
    "errata": ("errata",),
    "oracle": ("oracle",),
}
"""The parts of the specification, each with its modules; the first one says what the part is."""

PAGES = {
    "the book": "index.html",
    "frontends": "test-your-encoder.html",
    "quality": "kill-matrix.html",
    "diagnosis": "what-goes-wrong.html",
    "identification": "map.html",
    "checks": "equations-and-requirements.html",
    "subjects": "frameworks.html",
    "deviations": "what-goes-wrong.html",
    "numerics": "precision.html",
    "equations": "equations-and-requirements.html",
    "profiles": "profiles.html",
    "assembly": "diagrams.html",
    "cost": "cost.html",
    "errata": "errata.html",
    "oracle": "notation.html",
}
"""The page about a part, where there is one."""

BY_NAME = (("engine", "checks"), ("equations", "oracle"))
"""Parts that meet without an import: checks register themselves, and an oracle must not know its equation."""

WIDTH, LINE, PADDING, ACROSS, LANE, DOWN, MARGIN = 186, 15, 27, 22, 16, 34, 4
"""A box's width, a line of text, the height of its name, gaps between boxes and between lines, between floors."""
LETTERS, LONGEST = 28, 56
"""How many letters a line of a box holds, and how many it says at most."""


@dataclass(frozen=True)
class Part:
    """A box.

    Attributes:
        name: the room, or the part of the specification.
        package: the package that it belongs to.
        modules: the modules and packages in it.
        says: what it is, in one sentence.
    """

    name: str
    package: str
    modules: tuple[str, ...]
    says: str

    def holds(self, module: str) -> bool:
        """Say whether a module is in this box."""
        return any(module == own or module.startswith(f"{own}.") for own in self.modules)


# What is drawn -----------------------------------------------------------------------------


@cache
def imports() -> grimp.ImportGraph:
    """Return which module imports which, in the suite, the specification and the generators of the book."""
    return grimp.build_graph(BOOK, SUITE, SPECIFICATION, cache_dir=None)


@cache
def parts() -> dict[str, Part]:
    """Return every part by its name, in the order of the packages.

    Raises:
        LookupError: if a module of the specification is in no part, or in two.
    """
    found = [Part("the book", BOOK, (BOOK,), sentence(BOOK))]
    rooms = sorted(imports().find_children(SUITE) - UNDRAWN)
    checks = tuple(room for room in rooms if room.startswith(f"{SUITE}.test_"))
    found += [Part(room.rpartition(".")[2], SUITE, (room,), sentence(room)) for room in rooms if room not in checks]
    found.append(Part("checks", SUITE, checks, "A test for each requirement"))
    for name, modules in GROUPS.items():
        own = tuple(f"{SPECIFICATION}.{module}" for module in modules)
        found.append(Part(name, SPECIFICATION, own, sentence(own[0])))
    for module in sorted(imports().find_children(SPECIFICATION)):
        if sum(part.holds(module) for part in found) != 1:
            raise LookupError(f"the picture of the architecture must have one part with {module}: see GROUPS")
    return {part.name: part for part in found}


def sentence(module: str) -> str:
    """Return the first sentence of a module's docstring, without a heading before a colon and without emphasis."""
    package, *path = module.split(".")
    place = folder_of(package).joinpath(*path)
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first = docstring.partition("\n")[0].replace("*", "").partition(". ")[0].removesuffix(".")
    heading, colon, rest = first.partition(": ")
    says = rest if colon and len(heading.split()) <= 3 else first
    return says[:1].upper() + says[1:]


@cache
def uses() -> dict[str, set[str]]:
    """Return which parts each part uses: those of which it imports a module."""
    owner = {module: part.name for module in imports().modules for part in parts().values() if part.holds(module)}
    used: dict[str, set[str]] = {name: set() for name in parts()}
    for module, name in owner.items():
        wanted = imports().find_modules_directly_imported_by(module)
        used[name] |= {owner[other] for other in wanted if other in owner} - {name}
    return used


def arrows() -> list[tuple[str, str]]:
    """Return the uses that no others imply, from user to used.

    Raises:
        LookupError: if parts use each other in a circle.
    """
    reached: dict[str, set[str]] = {}
    for name in lowest_first(uses()):
        reached[name] = uses()[name].union(*(reached[used] for used in uses()[name]))
    return [
        (user, used)
        for user in uses()
        for used in sorted(uses()[user])
        if not any(used in reached[between] for between in uses()[user])
    ]


def lowest_first(used: dict[str, set[str]]) -> list[str]:
    """Return the parts in an order in which each follows all that it uses.

    Raises:
        LookupError: if parts use each other in a circle.
    """
    try:
        return list(TopologicalSorter(used).static_order())
    except CycleError as circle:
        raise LookupError(
            f"parts of the architecture use each other in a circle: {', '.join(circle.args[1])}"
        ) from circle


def floors() -> dict[str, int]:
    """Return the floor of each part, counted from below; what has more users than it uses stands close to them."""
    below: dict[str, set[str]] = {name: set() for name in parts()}
    above: dict[str, set[str]] = {name: set() for name in parts()}
    for user, used in (*arrows(), *BY_NAME):
        below[user].add(used)
        above[used].add(user)
    order = lowest_first(below)
    floor: dict[str, int] = {}
    for name in order:
        floor[name] = max((floor[used] + 1 for used in below[name]), default=0)
    for name in reversed(order):
        if len(above[name]) > len(below[name]):
            floor[name] = min(floor[user] - 1 for user in above[name])
    return floor


# Where it is drawn -------------------------------------------------------------------------

Stop = tuple[str, str, int]
"""What stands on a floor: a part (its name twice), or an arrow that passes it (from, to)."""


class Layout:
    """Places for parts and arrows.

    Attributes:
        rows: what stands on each floor, from the lowest, from left to right.
        middle: where the middle of each stands.
        paths: the stops of each arrow, from the user down to the used.
    """

    def __init__(self, floor: dict[str, int], lines: Iterable[tuple[str, str]]) -> None:
        self.rows: list[list[Stop]] = [[] for _ in range(max(floor.values()) + 1)]
        self.paths: dict[tuple[str, str], list[Stop]] = {}
        for name, level in floor.items():
            self.rows[level].append((name, name, level))
        for user, used in lines:
            passed = [(user, used, level) for level in range(floor[user] - 1, floor[used], -1)]
            self.paths[user, used] = [(user, user, floor[user]), *passed, (used, used, floor[used])]
            for stop in passed:
                self.rows[stop[2]].append(stop)
        self.links = [link for path in self.paths.values() for link in pairwise(path)]
        self.up = neighbours((low, high) for high, low in self.links)
        self.down = neighbours(self.links)
        self.order()
        self.middle = self.place()

    def order(self, sweeps: int = 24) -> None:
        """Order every floor by the means of its neighbours, upwards and downwards, and keep the best order met."""
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(sweeps):
            beside, rows = (self.up, self.rows[::-1]) if sweep % 2 else (self.down, self.rows)
            for row in rows:
                at = {stop: (i + 0.5) / len(other) for other in self.rows for i, stop in enumerate(other)}
                row.sort(key=lambda stop: mean([at[other] for other in beside.get(stop, [stop])]))
            if (now := self.crossings()) < fewest:
                best, fewest = [list(row) for row in self.rows], now
        self.rows = best

    def crossings(self) -> int:
        """Return how many pairs of lines cross between two floors."""
        at = {stop: i for row in self.rows for i, stop in enumerate(row)}
        ends = [(high[2], at[high], at[low]) for high, low in self.links]
        return sum(a[0] == b[0] and a[1] < b[1] and a[2] > b[2] for a in ends for b in ends)

    def place(self, sweeps: int = 100) -> dict[Stop, float]:
        """Return middles that keep order and distance on each floor and are near those of the neighbours.

        An arrow is drawn to the same place on all floors that it passes, so that it runs straight.
        """
        middle = {stop: float(i * WIDTH) for row in self.rows for i, stop in enumerate(row)}
        for sweep in range(sweeps):
            for row in self.rows if sweep % 2 else self.rows[::-1]:
                beside = [
                    self.paths.get(stop[:2]) or [*self.up.get(stop, ()), *self.down.get(stop, ())] for stop in row
                ]
                wanted = [mean([middle[other] for other in others]) for others in beside]
                middle |= zip(row, spread(wanted, [gap(a, b) for a, b in pairwise(row)]), strict=True)
        left = min(middle[stop] - half(stop) for row in self.rows for stop in row)
        return {stop: x - left + MARGIN for stop, x in middle.items()}

    def beside(self, stop: Stop) -> list[Stop]:
        """Return what a part should stand near: both ends of its arrows; for a passing arrow its whole path."""
        return self.paths.get(stop[:2]) or [*self.up.get(stop, ()), *self.down.get(stop, ())] or [stop]


def neighbours(links: Iterable[tuple[Stop, Stop]]) -> dict[Stop, list[Stop]]:
    """Return the second ends of links by their first ends."""
    found: dict[Stop, list[Stop]] = {}
    for one, other in links:
        found.setdefault(one, []).append(other)
    return found


def mean(numbers: list[float]) -> float:
    """Return the mean of some numbers."""
    return sum(numbers) / len(numbers)


def half(stop: Stop) -> float:
    """Return half the width of what stands on a floor; an arrow has none."""
    return WIDTH / 2 if stop[0] == stop[1] else 0


def gap(a: Stop, b: Stop) -> float:
    """Return how far the middles of two neighbours must be apart."""
    return half(a) + half(b) + (ACROSS if half(a) and half(b) else LANE)


def spread(wanted: list[float], gaps: list[float]) -> list[float]:
    """Return the places that keep the gaps and are, by least squares, closest to those wanted.

    Neighbours that touch form a pool, which moves as one.
    """
    offsets = [0.0]
    for distance in gaps:
        offsets.append(offsets[-1] + distance)
    pools: list[list[float]] = []
    for x, offset in zip(wanted, offsets, strict=True):
        pools.append([x - offset])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    starts = [mean(pool) for pool in pools for _ in pool]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


# The drawing -------------------------------------------------------------------------------


def picture() -> str:
    """Return the architecture as SVG, and as a list for those who do not see it or have a narrow screen."""
    solid = arrows()
    layout = Layout(floors(), [*solid, *BY_NAME])
    lines = {name: wrap(short(part.says), LETTERS) for name, part in parts().items()}
    height = PADDING + LINE * max(map(len, lines.values())) + 6
    floor_height = height + DOWN

    def top(level: int) -> float:
        return MARGIN + (len(layout.rows) - 1 - level) * floor_height

    drawn = [line(path, layout.middle, top, height, ends not in solid) for ends, path in layout.paths.items()]
    for name, part in parts().items():
        stop = next(stop for row in layout.rows for stop in row if stop[:2] == (name, name))
        drawn.append(box(part, lines[name], layout.middle[stop], top(stop[2]), height))
    right = max(x + half(stop) for stop, x in layout.middle.items()) + MARGIN
    size = f"0 0 {right:.0f} {top(0) + height + MARGIN:.0f}"
    words = f"<ul>{''.join(in_words(part, solid) for part in parts().values())}</ul>"
    drawing = (
        f'<figure class="architecture"><svg viewBox="{size}" role="group" aria-label="Parts of encoder-spec">'
        f"{ARROW_HEAD}{''.join(drawn)}</svg><figcaption>{KEY}</figcaption></figure>"
    )
    wide = f'<div class="where-wide">{drawing}\n{folded("The same in words", words)}</div>'
    return f'{wide}\n<div class="where-narrow">{words}</div>'


ARROW_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker></defs>'
)
KEY = " ".join(
    f'<span class="{package}">{escape(words)}</span>'
    for package, words in ((SUITE, SUITE), (SPECIFICATION, SPECIFICATION), (BOOK, "docs"))
)


def short(says: str) -> str:
    """Leave out the last clauses of a sentence until a box holds it."""
    while len(says) > LONGEST and ", " in says:
        says = says.rpartition(", ")[0]
    return says


def in_words(part: Part, solid: list[tuple[str, str]]) -> str:
    """Return a part as an item of a list, with those that it uses."""
    used = ", ".join(escape(used) for user, used in solid if user == part.name)
    return f"<li>{linked(part, escape(part.name))}: {escape(part.says)}{f'; uses {used}' if used else ''}</li>"


def linked(part: Part, content: str) -> str:
    """Return HTML as a link to the page about a part, where there is one."""
    return link(PAGES[part.name], content) if part.name in PAGES else content


def box(part: Part, lines: list[str], middle: float, top: float, height: float) -> str:
    """Return the box of a part: its name, and what it is in a few words."""
    left = middle - WIDTH / 2
    texts = "".join(
        f'<text x="{middle:.1f}" y="{top + PADDING + LINE * (i + 0.8):.1f}">{escape(text)}</text>'
        for i, text in enumerate(lines)
    )
    content = (
        f'<rect class="{part.package}" x="{left:.1f}" y="{top:.1f}" width="{WIDTH}" height="{height}" rx="5"/>'
        f'<text class="name" x="{middle:.1f}" y="{top + 20:.1f}">{escape(part.name)}</text>{texts}'
    )
    return linked(part, content)


def line(path: list[Stop], middle: dict[Stop, float], top: Callable[[int], float], height: float, named: bool) -> str:
    """Return an arrow down from box to box: straight past a floor, bent between floors."""
    drawn = f"M{middle[path[0]]:.1f} {top(path[0][2]) + height:.1f}"
    for high, low in pairwise(path):
        x_1, y_1, x_2, y_2 = middle[high], top(high[2]) + height, middle[low], top(low[2])
        bend = (y_1 + y_2) / 2
        drawn += f"C{x_1:.1f} {bend:.1f} {x_2:.1f} {bend:.1f} {x_2:.1f} {y_2:.1f}"
        drawn += f"V{y_2 + height:.1f}" if low != path[-1] else ""
    return f'<path class="{"named" if named else "uses"}" d="{drawn}" marker-end="url(#arrow)"/>'
