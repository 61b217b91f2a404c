"""What a build keeps for the next: bound to its sources, so that no page can be stale."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests.meta_tests.site.site import ROOT, Site, need_site

need_site()

WORKED_OUT_BESIDES = re.compile(r'include: \["worked_example.py", "pictures/\*.py"\]')
"""The executed pages, of which one is enough here."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A tree of the sources that may be changed."""
    passed_over = shutil.ignore_patterns("__pycache__", ".*")
    for folder in ("encoder_spec", "conformance_tests", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=passed_over)
    settings, replaced = WORKED_OUT_BESIDES.subn(
        'include: ["pictures/activations.py"]', (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    )
    assert replaced == 1
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    for file in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    return tmp_path


def run(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={"PYTHONPATH": f"{tree}:{tree / 'docs'}", "PATH": "/usr/bin:/bin", "HOME": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def fingerprints(tree: Path) -> tuple[str, str]:
    """Of what executed pages and of what generated pages depend on."""
    computed, everything = run(
        tree, "-c", "from generators import kept; print(kept.computed(), kept.everything())"
    ).split()
    return computed, everything


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} has {old!r} {text.count(old)} times"
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_another_equation_makes_other_pages(copy: Path, site: Site) -> None:
    """A picture that is computed and a card that is generated follow the constant of tanh-GELU.

    The build of the repository is kept beside the copy, in which 0.044715 becomes 0.05: nothing of it is used.
    By the first derivative tanh-GELU moves by x/2 · sech²(u) · √(2/π) · 0.0053 x³, which at x = 1.5, where u = 1.3,
    is 2.7e-3: several times the 4.7e-4 by which it departs from GELU otherwise.
    """
    shutil.copytree(ROOT / ".cache", copy / ".cache", ignore=shutil.ignore_patterns("built*"))
    before = shown(site.folder.parent, site.folder.name)
    replace(copy / "encoder_spec" / "ffn.py", "+ 0.044715 * x**3))", "+ 0.05 * x**3))")
    said = run(copy, "-m", "mkdocs", "build")
    assert "Cache hit" not in said
    assert "IPKernelApp" not in said, "the process that executes a page has a complaint"
    caption, code = shown(copy)
    assert "0.05" in code
    assert "0.044715" in before[1]
    assert caption != before[0]
    assert largest(caption) > 2 * largest(before[0])


def shown(tree: Path, site: str = "site") -> tuple[str, str]:
    """What a built site says of tanh-GELU: the caption of the picture, the code of the card."""
    picture = (tree / site / "pictures" / "activations.html").read_text(encoding="utf-8")
    caption = re.search(r"<figcaption>(The largest difference is .*?)</figcaption>", picture)
    card = (tree / site / "ffn.html").read_text(encoding="utf-8").partition('id="ffn.gelu_tanh"')[2]
    code = re.search(r"<pre>.*?</pre>", card, re.DOTALL)
    assert caption
    assert code
    return caption[1], re.sub(r"<[^>]*>", "", code[0])


def largest(caption: str) -> float:
    number = re.search(r"is (\d\.\de[-+]\d+)", caption)
    assert number, caption
    return float(number[1])


@pytest.mark.parametrize(
    ("path", "old", "new", "executed"),
    [
        ("encoder_spec/oracle/norm.py", "\nimport numpy as np", "\nimport numpy as np  # again", True),
        ("conformance_tests/quality/kill_matrix.json", '"rows"', '"rows" ', True),
        ("docs/generators/figures.py", 'INK = "#010203"', 'INK = "#010204"', True),
        ("docs/chapters/norm.md", "## How it is tested", "## How it is tried", False),
        ("conformance_tests/meta_tests/__init__.py", "The tests", "All tests", False),
    ],
)
def test_whatever_a_page_is_made_of_counts(copy: Path, path: str, old: str, new: str, executed: bool) -> None:
    """The prose of a chapter and the suite's own tests make no executed page out of date; everything else makes all."""
    before = fingerprints(copy)
    assert fingerprints(copy) == before
    replace(copy / path, old, new)
    computed, everything = fingerprints(copy)
    assert (computed != before[0]) == executed
    assert everything != before[1]


def write_generators(tree: Path, word: str, page: str = "{'a.md': WORD}") -> None:
    """Instead of the whole book one page of one word, which stands in a module of its own."""
    generators = tree / "docs" / "generators"
    (generators / "word.py").write_text(f"WORD = {word!r}\n", encoding="utf-8")
    text = f"""
from generators.problems import GapError
from generators.word import WORD
def pages():
    return {page}
def scripts():
    return {{}}
"""
    (generators / "everything.py").write_text(text, encoding="utf-8")


def test_pages_are_made_of_the_sources_and_not_of_what_a_process_has_loaded(copy: Path) -> None:
    """As a site is served: the process has loaded a module, the file changes, and the page is asked for."""
    write_generators(copy, "old")
    program = """
from pathlib import Path
from generators import everything, kept
print(kept.pages()["a.md"], everything.WORD)
Path("docs/generators/word.py").write_text("WORD = 'new'")
kept.forget()
print(kept.pages()["a.md"], everything.WORD)
"""
    assert run(copy, "-c", program).split() == ["old", "old", "new", "old"]


def test_what_is_missing_stops_the_build_in_words_and_is_not_kept(copy: Path) -> None:
    write_generators(copy, "", "(_ for _ in ()).throw(GapError('ATT-0 has no test'))")
    asked = "from generators import kept\ntry: kept.pages()\nexcept kept.GapError as e: print(e)"
    assert run(copy, "-c", asked).strip() == "ATT-0 has no test"
    assert not list((copy / ".cache").rglob("pages.json"))


def test_the_version_of_any_package_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from generators import kept

    before = kept.packages()
    installed = tmp_path / "newcomer-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    kept.packages.cache_clear()
    assert kept.packages() != before
    kept.packages.cache_clear()


def test_what_was_made_of_other_sources_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from generators import kept

    monkeypatch.setattr(kept, "ROOT", tmp_path)
    old = kept.place("generated", "old")
    kept.once(old / "pages.json", lambda: {"norm.md": "old"})
    new = kept.place("generated", "new")
    assert not old.exists()
    assert kept.once(new / "pages.json", lambda: {"norm.md": "new"}) == {"norm.md": "new"}
    assert kept.once(new / "pages.json", dict) == {"norm.md": "new"}


def test_code_that_was_put_aside_comes_back_or_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from generators.aside import put_aside, put_back
    from generators.html import code

    written = r'y = r"\1"'  # what a replacement by a pattern would take for a group
    page = f"<p>One</p>{code('x = 1')}<p>Two</p>{code(written)}"
    text, blocks = put_aside(page)
    assert "highlight" not in text
    assert put_back(text, blocks) == page
    with pytest.raises(LookupError, match="2 blocks were put aside"):
        put_back(text.replace('data-block="1"', ""), blocks)
