"""The build that ``make docs`` and the tests share: never stale, never half done, and made once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance_tests.meta_tests.site.site import ROOT, need_site

need_site()

MKDOCS = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--site-dir") + 1])
out.mkdir()
text = "".join(pathlib.Path(name).read_text() for name in ("docs/index.md", "encoder_spec/norm.py", "mkdocs.yml"))
(out / "index.html").write_text(text)
with pathlib.Path("built.log").open("a") as log:
    log.write("strict\\n" if "--strict" in sys.argv else "lax\\n")
if "wait" in text:
    time.sleep(1)
if "edited meanwhile" in text:
    pathlib.Path("docs/index.md").write_text("edited")
if "broken" in text:
    sys.exit("a link leads nowhere")
"""
"""In the place of MkDocs: one page, made of three sources, and a line in a log for each build."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The smallest project with a site: a specification, a suite, a book and settings, of one line each."""
    generators = tmp_path / "docs" / "generators"
    generators.mkdir(parents=True)
    for name in ("__init__", "built", "kept", "problems"):
        shutil.copy(ROOT / "docs" / "generators" / f"{name}.py", generators)
    texts = {
        "mkdocs/__init__.py": "",
        "mkdocs/__main__.py": MKDOCS,
        "mkdocs.yml": "settings\n",
        "docs/index.md": "chapter\n",
        "encoder_spec/__init__.py": "",
        "encoder_spec/norm.py": "equation\n",
        "conformance_tests/__init__.py": "",
        "conformance_tests/meta_tests/test_norm.py": "test\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def asked(tree: Path, *arguments: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(tree), str(tree / "docs")])
    return subprocess.Popen(
        [sys.executable, "-m", "generators.built", *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def site(tree: Path, *arguments: str) -> Path:
    process = asked(tree, *arguments)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    return Path(said.strip())


def builds(tree: Path) -> int:
    log = (tree / "built.log").read_text(encoding="utf-8").splitlines()
    assert set(log) == {"strict"}
    return len(log)


def test_the_same_sources_are_built_once(tree: Path) -> None:
    """A second question, the copy for ``make docs`` and a question after that are all answered by the first build."""
    first = site(tree)
    assert (first / "index.html").read_text(encoding="utf-8") == "chapter\nequation\nsettings\n"
    (tree / "site").mkdir()
    (tree / "site" / "stale.html").write_text("of last year", encoding="utf-8")
    assert site(tree, "site") == tree / "site"
    assert [file.name for file in (tree / "site").iterdir()] == ["index.html"]
    assert site(tree) == first
    assert builds(tree) == 1


@pytest.mark.parametrize(
    "changed", ["docs/index.md", "encoder_spec/norm.py", "mkdocs.yml", "conformance_tests/meta_tests/test_norm.py"]
)
def test_another_text_of_any_source_is_built_anew_and_the_old_site_is_gone(tree: Path, changed: str) -> None:
    old = site(tree)
    (tree / changed).write_text("another\n", encoding="utf-8")
    new = site(tree)
    assert new != old
    assert not old.exists()
    assert ("another" in (new / "index.html").read_text(encoding="utf-8")) == ("test" not in changed)
    assert builds(tree) == 2


def test_an_edit_of_the_site_that_make_docs_wrote_does_not_reach_the_tests(tree: Path) -> None:
    shown = site(tree, "site")
    (shown / "index.html").write_text("edited by hand", encoding="utf-8")
    assert (site(tree) / "index.html").read_text(encoding="utf-8").startswith("chapter")


def test_a_build_that_fails_is_no_site_and_is_tried_again(tree: Path) -> None:
    """MkDocs wrote the page before it found the fault."""
    (tree / "docs" / "index.md").write_text("broken\n", encoding="utf-8")
    for attempt in (1, 2):
        process = asked(tree, "site")
        said, complaint = process.communicate(timeout=60)
        assert process.returncode == 1
        assert said == ""
        assert "a link leads nowhere" in complaint
        assert not (tree / "site").exists()
        assert builds(tree) == attempt


def test_sources_that_change_while_they_are_built_are_refused(tree: Path) -> None:
    (tree / "docs" / "index.md").write_text("edited meanwhile\n", encoding="utf-8")
    _, complaint = asked(tree).communicate(timeout=60)
    assert "the sources changed while the site was built" in complaint
    assert (site(tree) / "index.html").read_text(encoding="utf-8").startswith("edited" + "equation")


def test_two_that_ask_at_once_wait_for_one_build(tree: Path) -> None:
    (tree / "docs" / "index.md").write_text("wait\n", encoding="utf-8")
    both = [asked(tree), asked(tree)]
    answers = {process.communicate(timeout=60)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(answers) == 1
    assert builds(tree) == 1
