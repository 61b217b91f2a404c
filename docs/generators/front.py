"""The first screen: what the suite says of an encoder with one mistake, and how to get it."""

import ast
import re
import textwrap
import tomllib
from html import escape
from pathlib import Path

from mkdocs.utils import get_build_date

from conformance_tests import check
from conformance_tests.reports.printed import PrintedReport
from encoder_spec import __version__
from encoder_spec.equation import equations, requirements
from generators.examples import EXAMPLES
from generators.html import code, equation_address, folded, link, requirement_link

EXAMPLE = EXAMPLES / "first" / "my_encoder.py"
TARGET = f"{EXAMPLE.name}:MyEncoder"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

TELLING = ("Departs", "Diagnosis", "FAIL ATT")
"""How the lines of the report begin that say what is wrong; the whole of it is folded below them."""

NAME = re.compile(r"\b[A-Z]+-\d+\b|\b[a-z_]+\.[a-z_]+\b")


def repository() -> str:
    """The address of the repository, which ``pyproject.toml`` names once it is published; empty before."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", ""))


def install() -> str:
    """How to install the package, as a block of Markdown: it is on no index."""
    address = repository()
    command = f"pip install git+{address}" if address else "pip install .    # in a clone of the repository"
    return f"```sh\n{command}\nencoder-spec check path/to/file.py:make_encoder\n```"


def state() -> str:
    """Which version the site describes, of which day, and what changed in it."""
    home = [link(address, "Repository")] if (address := repository()) else []
    said = [
        f"Version {__version__}",
        get_build_date(),
        f"{len(equations())} equations",
        f"{len(requirements())} requirements",
        link("changelog.html", "Changelog"),
        *home,
    ]
    return f'<p class="state">{" · ".join(said)}</p>'


def first_report() -> str:
    """The lines of an encoder that are wrong, beside what the suite says of it: it runs while the site is built."""
    report = check(f"{EXAMPLE}:MyEncoder")
    assert isinstance(report, PrintedReport)
    text = str(report).replace(f"{EXAMPLE.parent}/", "").strip()
    header, *lines = map(str.rstrip, text.splitlines())
    telling = [line for line in lines if line.startswith(TELLING)]
    verdict = header.split("  ")[1]
    said = "\n".join([f'<b class="verdict {verdict}">{verdict}</b>', *map(linked, telling)])
    whole = folded("The whole report", f'<pre class="report whole" tabindex="0">{linked(text)}</pre>')
    return (
        '<figure class="first"><div>'
        f"<figcaption>{TARGET}</figcaption>{code(*wrong_lines(text))}</div><div>"
        f"<figcaption>$ encoder-spec check {TARGET}</figcaption>"
        f'<pre class="report" tabindex="0">{said}</pre>'
        f"{whole}</div></figure>"
    )


def wrong_lines(report: str) -> tuple[str, int]:
    """The function of the example in which the report finds the mistake, and the line of it that is wrong."""
    source = EXAMPLE.read_text(encoding="utf-8")
    found = re.search(rf"\({re.escape(EXAMPLE.name)}:(\d+)\)", report)
    assert found, report
    number = int(found[1])
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    around = next(f for f in functions if f.lineno <= number <= (f.end_lineno or f.lineno))
    lines = source.splitlines()[around.lineno - 1 : around.end_lineno]
    return textwrap.dedent("\n".join(lines)), number - around.lineno + 1


def linked(text: str) -> str:
    """A text of the terminal in which the ids lead to their places."""

    def place(match: re.Match[str]) -> str:
        id = match[0]
        if id in requirements():
            return requirement_link(id)
        return link(equation_address(id), id) if id in equations() else id

    return NAME.sub(place, escape(text, quote=False))
