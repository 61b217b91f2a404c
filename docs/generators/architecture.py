"""The architecture in one picture: parts of the packages, and which uses which, read from the imports.

What is drawn by hand is where the boxes stand and which modules are in each. The arrows are
what these modules import; one that others imply is left out.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from html import escape
from pathlib import Path

from encoder_spec.equation import TOPICS
from generators.html import folded, link

ROOT = Path(__file__).parents[2]
FOLDERS = ("encoder_spec", "conformance_tests", "docs/generators")
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 160, 58, 34, 46, 6


@dataclass(frozen=True)
class Part:
    """A box: its name, what it is in a few words, the modules in it, its page, its place."""

    name: str
    says: str
    modules: tuple[str, ...]
    page: str
    row: int
    column: int

    @property
    def left(self) -> int:
        """The left edge."""
        return MARGIN + self.column * (WIDTH + ACROSS)

    @property
    def top(self) -> int:
        """The upper edge."""
        return MARGIN + self.row * (HEIGHT + DOWN)

    def holds(self, module: str) -> bool:
        """Whether a module is in this box."""
        return any(fnmatch(module, pattern) for pattern in self.modules)


def suite(*names: str) -> tuple[str, ...]:
    """Modules of the suite."""
    return tuple(f"conformance_tests.{name}" for name in names)


def spec(*names: str) -> tuple[str, ...]:
    """Modules of the specification."""
    return tuple(f"encoder_spec.{name}" for name in names)


PARTS = (
    Part("Doors", "command line, pytest", suite("cli", "conftest", "decorator"), "test-your-encoder.html", 0, 1),
    Part("Kill matrix", "deviations as subjects", suite("kill_matrix", "kills"), "what-goes-wrong.html", 0, 2),
    Part("The book", "these pages", ("docs.generators.*",), "index.html", 0, 3),
    Part("Check", "one function for all", suite("suite"), "test-your-encoder.html", 1, 1),
    Part("Diagnosis", "which deviation is it?", suite("diagnosis"), "what-goes-wrong.html", 1, 2),
    Part("Errata", "of the sources", spec("errata", "errata.*"), "errata.html", 1, 3),
    Part("Proofs", "SymPy", spec("proof", "proof.*"), "equations-and-requirements.html", 1, 4),
    Part("Identification", "which variant is it?", suite("settling", "trial", "identify", "search"), "map.html", 2, 0),
    Part("Checks", "a test per requirement", suite("test_*"), "equations-and-requirements.html", 2, 1),
    Part("Deviations", "wrong equations", suite("deviations", "deviations.*"), "what-goes-wrong.html", 2, 3),
    Part("Cost", "parameters, FLOPs", spec("cost", "primes"), "cost.html", 2, 4),
    Part("Run", "traces and budgets", suite("run", "computed", "deciding"), "test-your-encoder.html", 3, 2),
    Part("Subjects", "any framework", suite("subject", "called", "torch_subject"), "frameworks.html", 4, 1),
    Part("Encoder", "a tree of equations", spec("assembly", "module"), "map.html", 5, 2),
    Part("Profiles", "one equation per slot", spec("profiles"), "profiles.html", 6, 3),
    Part("Equations", "torch", spec("equation", *TOPICS), "equations-and-requirements.html", 7, 3),
    Part("Oracles", "NumPy, by another hand", spec("oracle.*"), "notation.html", 7, 4),
)
WITHOUT_IMPORT = (("Check", "Checks"), ("Equations", "Oracles"))
"""Parts that meet by name alone: checks register themselves, and an oracle must not know its equation."""

ARROW_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker></defs>'
)


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports."""
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "own" not in file.parts:
                name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                found[name] = set(imported(ast.parse(file.read_text(encoding="utf-8"))))
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules, and what might be one, that a source imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def uses() -> dict[str, set[str]]:
    """Which parts each part uses: those of which a module imports one.

    Raises:
        LookupError: if a part has no module.
    """
    used: dict[str, set[str]] = {}
    for part in PARTS:
        own = [module for module in imports() if part.holds(module)]
        if not own:
            raise LookupError(f"the picture of the architecture has a part without modules: {part.name}")
        wanted = set().union(*(imports()[module] for module in own))
        used[part.name] = {o.name for o in PARTS if o is not part and any(o.holds(m) for m in wanted & set(imports()))}
    return used


@cache
def reach(name: str) -> set[str]:
    """Every part that a part uses, directly or not."""
    found: set[str] = set()
    ahead = set(uses()[name])
    while ahead:
        found |= ahead
        ahead = set().union(*(uses()[part] for part in ahead)) - found
    return found


def arrows() -> list[tuple[str, str]]:
    """The uses that no others imply, from user to used.

    Raises:
        LookupError: if parts use each other in a circle.
    """
    if circles := [name for name in uses() if name in reach(name)]:
        raise LookupError(f"parts of the architecture use each other in a circle: {', '.join(circles)}")
    return [
        (user, used)
        for user in uses()
        for used in sorted(uses()[user])
        if not any(used in reach(between) for between in uses()[user])
    ]


def picture() -> str:
    """The architecture as SVG, each box a link; and as a list, for those who do not see it or have a narrow screen."""
    at = {part.name: part for part in PARTS}
    lines = [line(at[user], at[used]) for user, used in arrows()]
    lines += [line(at[a], at[b], "named") for a, b in WITHOUT_IMPORT]
    width = MARGIN + max(part.left for part in PARTS) + WIDTH
    height = MARGIN + max(part.top for part in PARTS) + HEIGHT
    drawn = "".join([*lines, *map(box, PARTS)])
    opening = f'<svg viewBox="0 0 {width} {height}" role="group" aria-label="Parts of encoder-spec">'
    words = f"<ul>{''.join(map(in_words, PARTS))}</ul>"
    drawing = f'<figure class="architecture">{opening}{ARROW_HEAD}{drawn}</svg></figure>'
    wide = f'<div class="where-wide">{drawing}\n{folded("The same in words", words)}</div>'
    return f'{wide}\n<div class="where-narrow">{words}</div>'


def in_words(part: Part) -> str:
    """A part as an item of a list, with those that it uses."""
    used = ", ".join(escape(used) for user, used in arrows() if user == part.name)
    return f"<li>{link(part.page, escape(part.name))}: {escape(part.says)}{f'; uses {used}' if used else ''}</li>"


def box(part: Part) -> str:
    """A part: its name, what it is, linked with its page."""
    middle = part.left + WIDTH / 2
    return (
        f'<a href="{part.page}"><rect x="{part.left}" y="{part.top}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text class="name" x="{middle}" y="{part.top + 25}">{escape(part.name)}</text>'
        f'<text x="{middle}" y="{part.top + 44}">{escape(part.says)}</text></a>'
    )


def line(user: Part, used: Part, kind: str = "uses") -> str:
    """An arrow from a box to one below it, or beside it."""
    if user.row == used.row:
        x_1, x_2 = (user.left + WIDTH, used.left) if user.column < used.column else (user.left, used.left + WIDTH)
        y_1 = y_2 = user.top + HEIGHT / 2
    else:
        x_1, x_2 = user.left + WIDTH / 2, used.left + WIDTH / 2
        y_1, y_2 = user.top + HEIGHT, used.top
    return f'<line class="{kind}" x1="{x_1}" y1="{y_1}" x2="{x_2}" y2="{y_2}" marker-end="url(#arrow)"/>'
