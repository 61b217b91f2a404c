"""The catalogue on file is what the sources declare, and a list shows the same whether it is read or derived."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance_tests.frontends import catalogue
from conformance_tests.frontends.command_line import main
from conformance_tests.quality import fingerprint

COMMANDS = (
    "equations",
    "equations attention.scores",
    "equations norm.layer_norm",
    "equations ffn.relu",
    "equations attention.score",
    "requirements",
    "requirements ATT-3",
    "requirements att-4",
    "requirements ENC-1",
    "deviations",
    "deviations norm-eps-1e-05",
    "deviations scores-scaled-by-d-model",
    "deviations position-subtracted",
    "profiles",
    "profiles bert",
    "profiles vaswani-2017",
    "profiles nobody",
    "count",
    "count --profile bert --set n=64",
    "count --profile albert --set B=8 --set N=3",
    "count --profile vit --set h=3 --set d_k=5 --set d_v=7 --set n=197",
    "count --profile nobody",
)

PRINTED = """
import json, sys
from click.testing import CliRunner
from conformance_tests.frontends import catalogue
from conformance_tests.frontends.command_line import main

if sys.argv[1] == "derived":
    catalogue.on_file = dict
found = [CliRunner().invoke(main, command.split(), env={"COLUMNS": "200"}) for command in sys.argv[2:]]
print(json.dumps([[r.exit_code, r.stdout, r.stderr] for r in found] + ["torch" in sys.modules]))
"""


def python(code: str, *arguments: str) -> str:
    """Return what a fresh process prints, in which nothing was imported in another order than a command does."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_catalogue_on_file_is_what_the_sources_declare() -> None:
    """Otherwise `make catalogue` writes it anew."""
    declared = python("from conformance_tests.frontends import catalogue; print(catalogue.text(), end='')")
    assert catalogue.FILE.read_text(encoding="utf-8") == declared, "run `make catalogue`"


def test_a_list_is_the_same_whether_read_or_derived() -> None:
    """Torch shows that they came different ways; what cannot be used is answered alike."""
    *read, with_torch = json.loads(python(PRINTED, "read", *COMMANDS))
    *derived, with_torch_derived = json.loads(python(PRINTED, "derived", *COMMANDS))
    assert (with_torch, with_torch_derived) == (False, True)
    for command, one, other in zip(COMMANDS, read, derived, strict=True):
        assert one == other, command
        assert bool(one[1]) == (one[0] == 0), command


def test_a_file_of_a_profile_is_shown_like_the_published_one(tmp_path: Path) -> None:
    """One that differs in nothing; then one with ReLU, which BERT has not."""
    file = tmp_path / "own.toml"
    for command in ("profiles", "count --profile"):
        file.write_text(
            'base = "bert"\nname = "bert"\nsource = "Devlin et al. 2018, §3; ε and activation as released"\n'
        )
        published, own = (CliRunner().invoke(main, [*command.split(), name]) for name in ("bert", str(file)))
        assert (own.exit_code, own.stdout) == (0, published.stdout)
    file.write_text('base = "bert"\nactivation = "relu"\n')
    shown = CliRunner().invoke(main, ["profiles", str(file)]).stdout
    assert shown.startswith(f"own  {file}")
    assert ["activation", "relu"] in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize("change", ["# A comment.\n", '"""A docstring."""\n', "a = 2\n"])
def test_a_change_of_a_source_leaves_nothing_on_file(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docstrings are shown; what is derived from comments is not worth telling apart."""
    source = tmp_path / "source.py"
    source.write_text("a = 1\n")
    monkeypatch.setattr(catalogue, "SOURCES", ((tmp_path, "*.py"),))
    monkeypatch.setattr(catalogue, "FILE", tmp_path / "catalogue.json")
    hash = fingerprint.hash_of(catalogue.SOURCES, str.splitlines)
    catalogue.FILE.write_text(json.dumps({"sources": hash, "Check": []}))
    on_file = catalogue.on_file.__wrapped__
    assert on_file() == {"sources": hash, "Check": []}
    source.write_text(change)
    assert on_file() == {}
    source.write_text("a = 1\n")
    assert on_file() != {}
    (tmp_path / "another.py").write_text("")
    assert on_file() == {}


@pytest.mark.parametrize("content", ["", "<<<<<<< HEAD\n{}\n=======", None])
def test_a_file_that_cannot_be_read_is_none(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a merge the lists are derived, and `make catalogue` mends the file."""
    monkeypatch.setattr(catalogue, "FILE", tmp_path / "catalogue.json")
    if content is not None:
        catalogue.FILE.write_text(content)
    assert catalogue.on_file.__wrapped__() == {}


def test_the_sources_are_the_equations_the_checks_and_the_deviations() -> None:
    """And the module that gives the file its form."""
    files = {file.relative_to(catalogue.ROOT).as_posix() for at, names in catalogue.SOURCES for file in at.glob(names)}
    assert {
        "encoder_spec/attention.py",
        "encoder_spec/profiles.py",
        "encoder_spec/cost.py",
        "conformance_tests/test_attention.py",
        "conformance_tests/deviations/attention.py",
        "conformance_tests/frontends/catalogue.py",
    } <= files
    places = {c.code for c in catalogue.listed(catalogue.Check)} | {
        e.code for e in catalogue.listed(catalogue.Equation)
    }
    places |= {w for d in catalogue.listed(catalogue.Deviation) for w in d.replaces.values() if isinstance(w, str)}
    assert {place.partition("::")[0] for place in places} <= files
