"""Check how this repository is written, as far as patterns can: ``python -m conformance_tests.meta_tests.prose``.

The reader is *you*, the tool is the subject, the verb comes early. Each finding is one line: where, what, and how to
mend it. That docstrings of functions begin with a verb is asked of ruff (D401), in the files in scope.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from markdown_it import MarkdownIt

from conformance_tests.frontends.command_line import main

ROOT = Path(__file__).parents[2]

SUITE = "conformance_tests"
UPPER_ROOMS = ("diagnosis", "engine", "frontends", "harness", "identification", "isolation", "quality")
LOWER_ROOMS = ("computation", "numerics", "parameters", "reports", "subjects", "targets")
CODE = (
    "_encoder_spec_pytest.py",
    *(file.relative_to(ROOT).as_posix() for file in sorted((ROOT / SUITE).glob("*.py"))),
    *(f"{SUITE}/{room}" for room in (*UPPER_ROOMS, *LOWER_ROOMS)),
    *(f"{SUITE}/deviations/{file}.py" for file in ("__init__", "resolution")),  # definitions of deviations are data
    *(f"encoder_spec/{file}.py" for file in ("assembly", "equation", "notation", "profiles")),  # equations are cards
)
"""Files and rooms of code in scope."""

EXEMPT = ("meta_tests",)
"""Rooms out of scope until their words have been gone through."""

ON_FILE = (
    "each layer has a part of its own",  # the fingerprint of the mutation matrix holds the code of the checks
    "its outputs agree with no choice of equations",  # docs/frameworks.json holds notes of reports
    "no name tells which of its parameters is their table",  # a note in the same file
)
"""Messages that results on file hold: they stay as they are until these results are computed anew."""

PAGES = ("README.md", "CONTRIBUTING.md", "docs/index.md", "docs/test-your-encoder.md", "docs/chapters/contribute.md")
"""Reference pages, whose sentences are short. Chapters of the book may take their time, and READMEs of rooms list."""

PHRASES = {
    r"makes? of": "'turns … into', or 'does with'",
    r"(?<!there.)(?<!There.)(is|are) no(?!.(longer|more|less|larger|smaller|better|worse|wider|other))": "'is not a …'",
    r"at last": "'finally', or nothing",
    r"less 1": "the formula, such as γ − 1",
    r"of (its|their) own": "'its own …', or 'separate'",
    r"who(so)?ever": "'anyone who', or 'you'",
    r"acquits?|acquitted|acquittal": "'rules out'",
    r"laid at": "'attributed to'",
    r"unless (it is )?given": "'by default'",
    r"tells? (whether|which|what|how|if|most|together)": "'tells you …', 'shows' or 'returns'",
    r"judged freely": "'judged without a declared profile'",
    r"[Ss]everal heads": "'multi-head attention'",
    r"doors?": "'entry points', or their names: command line, pytest, Python",
    r"shows? in nothing but": "'leaves a trace only in'",
    r"agrees? with no": "'does not agree with any'",
    r"of which (something|nothing)": "two sentences",
    r"`encoder-spec[^`]*` (says|tells)": "'prints' or 'lists': a command does not speak",
    r"really": "nothing, or the number that backs it",
}
"""Banned phrases as patterns between the bounds of words, each with what to write instead."""

NAMES = {"behind", "outside", "told", "found"}
"""Names of modules and functions that name nothing."""

OPENINGS = r"(What|Which|Whether|How|The same)\b"
NO_VERBS = r"(Everything|Every|One|Where|Nothing|Text|Arguments|Names|Numbers|Arrays|By|In|True|False)\b"
"""First words that ruff takes for verbs."""

HELP_OPENINGS = r"(What|Which|Whether|How|Where|Of|For|By|With|From|To|As|Only)\b"
WORDS, SEMICOLONS = 25, 1


class Finding(NamedTuple):
    """A place, what is wrong there, and how to mend it."""

    line: int
    text: str


def phrases(text: str) -> Iterator[Finding]:
    """Find banned phrases, also where a line breaks within one."""
    for pattern, better in PHRASES.items():
        spread = pattern.replace(" ", r"[\s#]+")
        for match in re.finditer(rf"(?<![\w-])(?:{spread})(?![\w-])", text):
            words = " ".join(match[0].replace("#", " ").split())
            yield Finding(text.count("\n", 0, match.start()) + 1, f"'{words}': write {better}")


def first_words(tree: ast.Module) -> Iterator[Finding]:
    """Find docstrings that begin with a question or a comparison."""
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        said = (documented and ast.get_docstring(node)) or ""
        is_code = isinstance(node, ast.FunctionDef)
        acts = is_code and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        if opening := re.match(OPENINGS, said) or (acts and re.match(NO_VERBS, said)):
            better = "a verb, such as 'Return whether'" if is_code else "a noun"
            yield Finding(node.body[0].lineno, f"a docstring begins with '{opening[0]}': begin with {better}")


def names(tree: ast.Module) -> Iterator[Finding]:
    """Find functions with names that name nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.strip("_") in NAMES:
            yield Finding(node.lineno, f"a function is named '{node.name}': name what it returns")


def sentences(page: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a page in Markdown, with their lines; a cell is a sentence, code within a line a word."""
    line = 0
    for token in MarkdownIt().enable("table").parse(page):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            words = {"softbreak": "\n", "code_inline": "`code`"}
            text = "".join(words.get(child.type, child.content) for child in token.children or ())
            for sentence in re.finditer(r"\S.*?(?:[.!?]+[)\"]*(?=\s)|$(?!\n))", text, re.S):
                yield line + text.count("\n", 0, sentence.start()), sentence[0]


def long_sentences(page: str) -> Iterator[Finding]:
    """Find sentences with too many words or semicolons."""
    for line, sentence in sentences(page):
        count = len(re.findall(r"\w+(?:[^\w\s]+\w+)*", sentence))
        beginning = " ".join(sentence.split()[:4])
        if count > WORDS:
            yield Finding(line, f"'{beginning} …' has {count} words: end a sentence before the {WORDS}th")
        if sentence.count(";") > SEMICOLONS:
            yield Finding(line, f"'{beginning} …' has {sentence.count(';')} semicolons: make sentences of its parts")


def help_text(text: str) -> Iterator[str]:
    """Find what keeps a help text from being a whole phrase that makes sense alone."""
    if opening := re.match(HELP_OPENINGS, text):
        yield f"a help text begins with '{opening[0]}': say what it is, such as 'Seed for probes and weights'"
    yield from (found.text for found in (*phrases(text), *long_sentences(text)))


def help_texts(command: click.Command, path: str) -> Iterator[str]:
    """Find what is wrong with the help of a command, its options and its own commands."""
    yield from (f"{path}: {text}" for text in help_text(command.help or ""))
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (f"{path} {option.opts[-1]}: {text}" for text in help_text(option.help or ""))
    for name, below in getattr(command, "commands", {}).items():
        yield from help_texts(below, f"{path} {name}")


def of_code(path: Path) -> Iterator[Finding]:
    """Find what is wrong with the words of a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.stem in NAMES:
        yield Finding(1, f"a module is named '{path.stem}': name what it holds")
    tree = ast.parse(text)
    for message in ON_FILE:
        text = text.replace(message, "")
    yield from (*phrases(text), *first_words(tree), *names(tree))


def of_page(path: Path) -> Iterator[Finding]:
    """Find what is wrong with the words of a page; reports that it quotes are not its own words."""
    text = path.read_text(encoding="utf-8")
    yield from phrases(re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S))
    if path.relative_to(ROOT).as_posix() in PAGES:
        yield from long_sentences(text)


def missing_verbs() -> Iterator[str]:
    """Find docstrings of functions that do not begin with a verb in the imperative, as ruff sees it."""
    asked = ("check", "--isolated", "--select=D401", "--output-format=concise", "--quiet")
    answer = subprocess.run((sys.executable, "-m", "ruff", *asked, *CODE), cwd=ROOT, capture_output=True, text=True)
    if answer.returncode > 1:
        raise OSError(answer.stderr)
    for path, line, _, text in (line.split(":", 3) for line in answer.stdout.splitlines()):
        yield f"{path}:{line}:{text.removeprefix(' D401')}: begin with a verb, such as 'Return'"


def findings() -> Iterator[str]:
    """Find everything that is wrong in scope, one line each."""
    yield from missing_verbs()
    code = [file for place in CODE for file in (sorted((ROOT / place).rglob("*.py")) or [ROOT / place])]
    pages = [*(ROOT / page for page in PAGES), *sorted((ROOT / SUITE).rglob("README.md"))]
    for path in (*code, *pages):
        found = of_code(path) if path.suffix == ".py" else of_page(path)
        yield from (f"{path.relative_to(ROOT)}:{line}: {text}" for line, text in sorted(found))
    yield from help_texts(main, "encoder-spec")


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) or "prose: nothing to mend")
    sys.exit(bool(found))
