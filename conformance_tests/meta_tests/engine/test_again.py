"""The line that repeats a run, for each way to ask; that it runs as it is pasted is shown in `test_reproduction`."""

import sys
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from conformance_tests.engine.reproduction import again, importable
from conformance_tests.harness.question import Question
from conformance_tests.targets.resolving import load_file
from encoder_spec.profiles import BERT


class Outer:
    class Inner:
        """A class within a class has a name that can be imported."""

    def method(self) -> None: ...


HERE = f"{__name__}:Outer"


@pytest.mark.parametrize(
    ("target", "question", "line"),
    [
        ("torch-post-ln", Question(), "encoder-spec check torch-post-ln --seed 0"),
        (Outer, Question(seed=3), f"encoder-spec check {HERE} --seed 3"),
        ("a.py:make", Question("bert", seed=2), "encoder-spec check a.py:make --profile bert --seed 2"),
        (
            "my file.py:make",
            Question("it's.toml"),
            """encoder-spec check 'my file.py:make' --profile 'it'"'"'s.toml' --seed 0""",
        ),
        ("a:b", Question(expected=Path("known.toml")), "encoder-spec check a:b --expected known.toml --seed 0"),
        ("a:b", Question(expected="known.toml"), "encoder-spec check a:b --expected known.toml --seed 0"),
        (
            "a:b",
            Question("auto", dtype="float32", device="cuda"),
            "encoder-spec check a:b --dtype float32 --device cuda --seed 0",
        ),
        ("a:b", Question(level="static", explain=False), "encoder-spec check a:b --level static --seed 0"),
    ],
)
def test_a_command_repeats_what_is_not_the_default_and_the_seed(target: Any, question: Question, line: str) -> None:
    """As a shell reads it. An explanation is wanted whatever was asked before."""
    assert again(target, question) == line


@pytest.mark.parametrize(
    ("target", "question", "call"),
    [
        ("a:b", Question(BERT), "'a:b', profile='bert', seed=0"),
        ("a:b", Question(BERT, level="trace"), "'a:b', profile='bert', seed=0, level='trace'"),
        (
            "a:b",
            Question(seed=3, expected={"ENC-5": "it's known"}),
            """'a:b', profile='auto', seed=3, expected={'ENC-5': "it's known"}""",
        ),
        ("a:b", Question(BERT, dtype="float32"), "'a:b', profile='bert', seed=0, dtype='float32'"),
        ("a:b", Question(BERT, expected=Path("known.toml")), "'a:b', profile='bert', seed=0, expected='known.toml'"),
        ("a:b", Question(BERT, device="cuda"), "'a:b', profile='bert', seed=0, device='cuda'"),
        (nn.Identity(), Question(seed=5), "encoder, profile='auto', seed=5"),
    ],
)
def test_a_call_repeats_what_no_command_can_say(target: Any, question: Question, call: str) -> None:
    """A profile or reasons as objects, and an encoder that has no name: of this one a comment says what it is."""
    lines = ["from conformance_tests import check", f"print(check({call}).to_json())"]
    named = isinstance(target, str)
    assert again(target, question).splitlines() == lines + (
        [] if named else ["# encoder is the object that was judged"]
    )


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Outer, HERE),
        (Outer.Inner, f"{HERE}.Inner"),
        (Outer.method, f"{HERE}.method"),
        (nn.TransformerEncoder, "torch.nn.modules.transformer:TransformerEncoder"),
        (lambda: None, ""),
        (Outer(), ""),
        (7, ""),
    ],
)
def test_what_can_be_imported_has_a_name(target: Any, name: str) -> None:
    """Functions and classes that stand in a module, however deep; no object, and nothing made on the way."""
    assert importable(target) == name


def test_a_function_of_a_lone_file_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is seen from where the process stands: its folder need not be on the path where the line is pasted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "_subject_lone", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "lone.py").write_text("def make(): ...\n")
    module = load_file(Path("code/lone.py"))
    assert importable(module.make) == "code/lone.py:make"
    assert again(module.make, Question()) == "encoder-spec check code/lone.py:make --seed 0"


def test_a_class_whose_name_another_one_has_taken_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Outer.Inner
    monkeypatch.setattr(Outer, "Inner", int)
    assert importable(before) == ""
